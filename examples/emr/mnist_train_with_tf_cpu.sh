#!/bin/sh
# mnist_train_with_tf_cpu.sh [OPTION of mnist_tf.py]...
#
# Trains with the TFRecords in mnist/tfr/train, which the nodes read from HDFS themselves (InputMode.TENSORFLOW). Leaves
# checkpoints and event files in mnist_model/train; where there are some already, training goes on from them.
set -eu
component=$(dirname "$(readlink -f "$0")")
. "$component/conf/functions.sh"

submit mnist_tf.py -X train -n "$NODES" -f tfr -i "$HDFS_DIR/mnist/tfr/train" -m "$HDFS_DIR/mnist_model/train" \
  -e "$EPOCHS" -b "$BATCH_SIZE" -s "$STEPS" "$@"
