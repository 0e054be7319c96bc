#!/bin/sh
# mnist_download.sh
#
# Leaves MNIST's four .gz files and mnist.zip, which holds them, in ~/mnist. They come from the internet or, with
# MNIST=DIRECTORY, from there. Where the internet can't be reached: scikit-learn's digits, in the same form. What comes
# from the internet must have the hashes of MNIST's files.
set -eu
component=$(dirname "$(readlink -f "$0")")
. "$component/conf/functions.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

hashes='440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609  train-images-idx3-ubyte.gz
3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c  train-labels-idx1-ubyte.gz
8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6  t10k-images-idx3-ubyte.gz
f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6  t10k-labels-idx1-ubyte.gz'

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
  if ! (cd "$work" && echo "$hashes" | sha256sum --check --quiet -); then
    echo "$MNIST_URL has other files than MNIST's: set MNIST_URL to another place, or MNIST to a directory" >&2
    exit 1
  fi
  what="MNIST from $MNIST_URL"
else
  rm -f "$work"/*
  "$PYTHON" -P -m tfos.examples.digits "$work"
  what="scikit-learn's digits (8x8), NOT MNIST: $MNIST_URL could not be reached (MNIST=DIRECTORY takes MNIST's files)"
fi
mkdir -p "$LOCAL_DIR"
(cd "$work" && "$PYTHON" -m zipfile -c mnist.zip ./*-ubyte.gz)
mv "$work"/*-ubyte.gz "$work/mnist.zip" "$LOCAL_DIR"
echo "$LOCAL_DIR/mnist.zip: $what"
