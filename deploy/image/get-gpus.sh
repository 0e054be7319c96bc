#!/bin/sh
# Says which GPUs the pod has, as Spark wants to read it: name this file in
# spark.executor.resource.gpu.discoveryScript.
set -eu

indices=$(nvidia-smi --query-gpu=index --format=csv,noheader)
addresses=
for index in $indices; do
  addresses=$addresses${addresses:+, }\"$index\"
done
echo "{\"name\": \"gpu\", \"addresses\": [$addresses]}"
