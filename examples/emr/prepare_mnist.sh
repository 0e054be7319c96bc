#!/usr/bin/env bash
# prepare_mnist.sh [OPTION of mnist_data_setup.py]...
#
# Puts ~/mnist/mnist.zip on HDFS, as text and as TFRecords: mnist/csv and mnist/tfr in the user's directory, with train
# and test below them. `--verify` reads it back and compares.
set -euo pipefail
. "$(dirname "$(readlink -f "$0")")/conf/functions.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$PYTHON" -m zipfile -e "$LOCAL_DIR/mnist.zip" "$work"
for format in csv tfr; do
  submit mnist_data_setup.py --mnist "$work" -f "$format" -n "$PARTITIONS" -o "$HDFS_DIR/mnist/$format" "$@"
done
