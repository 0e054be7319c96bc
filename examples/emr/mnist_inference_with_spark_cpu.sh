#!/bin/sh
# mnist_inference_with_spark_cpu.sh [OPTION of mnist_spark.py]...
#
# Recognises the digits in mnist/csv/test with mnist_model. Leaves lines of time, label and prediction in
# predictions/part-00000 ..., which must not be there yet:
#   2020-05-21T11:49:56.561506 Label: 7, Prediction: 7
set -eu
component=$(dirname "$(readlink -f "$0")")
. "$component/conf/functions.sh"

submit mnist_spark.py -X inference -n "$NODES" -f csv -i "$HDFS_DIR/mnist/csv/test/images" \
  -l "$HDFS_DIR/mnist/csv/test/labels" -m "$HDFS_DIR/mnist_model" -o "$HDFS_DIR/predictions" "$@"
