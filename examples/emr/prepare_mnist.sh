#!/bin/sh
# prepare_mnist.sh [OPTION of mnist_data_setup.py]...
#
# Puts mnist.zip on HDFS, as text and as TFRecords: mnist/csv and mnist/tfr in the user's directory, with train and
# test below them. Reads ~/mnist/mnist.zip; on a host without that file /mnist/tools/mnist.zip on HDFS. `--verify` reads
# the result back and compares.
set -eu
component=$(dirname "$(readlink -f "$0")")
. "$component/conf/functions.sh"

case $LOCAL_DIR in
/*) ;;
*) LOCAL_DIR=$PWD/$LOCAL_DIR ;; # In file://mnist/mnist.zip, mnist would be a host.
esac
zip=file://$LOCAL_DIR/mnist.zip
if [ ! -e "$LOCAL_DIR/mnist.zip" ]; then
  zip=$HDFS_ZIP
fi
for format in csv tfr; do
  submit mnist_data_setup.py --mnist "$zip" -f "$format" -n "$PARTITIONS" -o "$HDFS_DIR/mnist/$format" "$@"
done
