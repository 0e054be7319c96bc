#!/bin/sh
# mnist_train_with_spark_cpu.sh [OPTION of mnist_spark.py]...
#
# Trains with the text in mnist/csv/train, which Spark reads and feeds to the nodes (InputMode.SPARK). Leaves
# checkpoints and event files in mnist_model; where there are some already, training goes on from them.
set -eu
component=$(dirname "$(readlink -f "$0")")
. "$component/conf/functions.sh"

submit mnist_spark.py -X train -n "$NODES" -f csv -i "$HDFS_DIR/mnist/csv/train/images" \
  -l "$HDFS_DIR/mnist/csv/train/labels" -m "$HDFS_DIR/mnist_model" -e "$EPOCHS" -b "$BATCH_SIZE" -s "$STEPS" "$@"
