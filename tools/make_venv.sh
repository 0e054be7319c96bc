#!/usr/bin/env bash
# Makes .venv with everything the demo, the examples and the tests import, except tfos itself.
# Does nothing when .venv already holds what this script and the locked requirements ask for.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "Python 3.11 or newer is needed; $python is $("$python" --version 2>&1). Set PYTHON." >&2
  exit 1
}

# The same TensorFlow with and without CUDA: the latter is a third of the download.
tensorflow=tensorflow-cpu
if [[ -e /dev/nvidia0 ]]; then
  tensorflow=tensorflow
fi

stamp=.venv/made-from
# Made of tools/requirements.txt by tools/locked/lock.sh: each file that pip takes has its hash there.
locked=tools/locked/environment-$tensorflow.txt
wanted=$("$python" --version; sha256sum tools/make_venv.sh "$locked" tools/locked/legacy-keras.txt)
if [[ -e $stamp && $(<"$stamp") == "$wanted" ]]; then
  echo ".venv is up to date."
  exit 0
fi

"$python" -m venv --clear .venv
pip=(.venv/bin/python -m pip --disable-pip-version-check install --progress-bar off --require-hashes)
echo "Installing Python packages ($tensorflow, pyspark and what they need) ..."
"${pip[@]}" -r "$locked" |
  sed -un 's/^\(Collecting [^ ]*\).*/\1/p; s/^\(Installing\) .*/\1 all of them/p'
# Its dependency on `tensorflow` would pull that over tensorflow-cpu.
"${pip[@]}" --no-deps --quiet -r tools/locked/legacy-keras.txt
printf '%s' "$wanted" >"$stamp"
