#!/bin/sh
# mnist_download.sh
#
# Leaves MNIST's four .gz files and mnist.zip, which holds them, in ~/mnist. They come from the internet or, with
# MNIST=DIRECTORY, from there. Where the internet can't be reached: scikit-learn's digits, in the same form.
set -eu
component=$(dirname "$(readlink -f "$0")")
. "$component/conf/functions.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

download() {
  for name in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do
    file=$work/$name-ubyte.gz
    curl --fail --silent --show-error --location --connect-timeout 10 --max-time 600 \
      --output "$file" "$MNIST_URL/$name-ubyte.gz" && gzip --test "$file" || return 1
  done
}

if [ -n "$MNIST" ]; then
  cp "$MNIST"/*-ubyte.gz "$work"
  what="MNIST from $MNIST"
elif download; then
  what="MNIST from $MNIST_URL"
else
  rm -f "$work"/*
  "$PYTHON" "$component/programs/digits.py" "$work"
  what="scikit-learn's digits (8x8), NOT MNIST: $MNIST_URL could not be reached (MNIST=DIRECTORY takes MNIST's files)"
fi
mkdir -p "$LOCAL_DIR"
(cd "$work" && "$PYTHON" -m zipfile -c mnist.zip ./*-ubyte.gz)
mv "$work"/*-ubyte.gz "$work/mnist.zip" "$LOCAL_DIR"
echo "$LOCAL_DIR/mnist.zip: $what"
