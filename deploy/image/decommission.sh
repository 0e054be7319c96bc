#!/bin/sh
# Kubernetes calls this before it ends an executor's pod (Spark looks for it in /opt/decom.sh).
# SIGPWR is how Spark's executor hears that it must leave. The pod ends when this script does, or
# when its grace period is over: so this waits until the executor has ended.
set -eu

executor=$(pgrep --newest --full org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend)
kill -PWR "$executor"
exec tail --pid="$executor" --follow /dev/null
