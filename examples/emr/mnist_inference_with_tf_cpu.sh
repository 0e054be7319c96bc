#!/bin/sh
# mnist_inference_with_tf_cpu.sh [OPTION of mnist_tf.py]...
#
# Recognises the digits in mnist/tfr/test, which the nodes read from HDFS themselves, with mnist_model/train. Leaves
# lines of label and prediction in mnist_model/inference/part-00000 ...:
#   9 4
set -eu
component=$(dirname "$(readlink -f "$0")")
. "$component/conf/functions.sh"

submit mnist_tf.py -X inference -n "$NODES" -f tfr -i "$HDFS_DIR/mnist/tfr/test" -m "$HDFS_DIR/mnist_model/train" \
  -o "$HDFS_DIR/mnist_model/inference" "$@"
