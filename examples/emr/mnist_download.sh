#!/usr/bin/env bash
# mnist_download.sh
#
# Makes ~/mnist/mnist.zip of MNIST's four .gz files, from the internet or, with MNIST=DIRECTORY, from there. Where the
# internet can't be reached: scikit-learn's digits, in the same form.
set -euo pipefail
. "$(dirname "$(readlink -f "$0")")/conf/functions.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

download() {
  local name
  for name in {train,t10k}-{images-idx3,labels-idx1}-ubyte.gz; do
    curl --fail --silent --show-error --location --connect-timeout 10 --max-time 600 \
      --output "$work/$name" "$MNIST_URL/$name" && gzip --test "$work/$name" || return 1
  done
}

if [[ -n $MNIST ]]; then
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
mv "$work/mnist.zip" "$LOCAL_DIR/mnist.zip"
echo "$LOCAL_DIR/mnist.zip: $what"
