#!/usr/bin/env bash
# Makes a virtual environment with what programs import, except tfos itself:
#   tools/make_venv.sh [FOLDER [LIST]]
# By default that is .venv with everything the demo, the examples and the tests import. LIST names
# the files of tools/locked: `environment`, the default, or `component`, only what programs need.
# Does nothing when FOLDER already holds what this script and the locked requirements ask for, and
# touches no environment that it has not made.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=${1:-.venv}
list=${2:-environment}
python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "Python 3.11 or newer is needed; $python is $("$python" --version 2>&1). Set PYTHON." >&2
  exit 1
}

# The same TensorFlow with and without CUDA: the latter is a third of the download. For Arm there is
# one alone, without.
tensorflow=tensorflow-cpu
if [[ -e /dev/nvidia0 || $(uname -m) == aarch64 ]]; then
  tensorflow=tensorflow
fi

stamp=$folder/made-from
# Made by tools/locked/lock.sh: each file that pip takes has its hash there.
locked=tools/locked/$list-$tensorflow.txt
wanted=$("$python" --version; sha256sum tools/make_venv.sh "$locked" tools/locked/legacy-keras.txt)
if [[ -e $stamp && $(<"$stamp") == "$wanted" ]]; then
  echo "$folder is up to date."
  exit 0
fi

mkdir -p "$folder"
if [[ ! -e $stamp && -n $(ls -A "$folder") ]]; then
  echo "$folder was not made by this script, which would clear it. Move it away, or delete it." >&2
  exit 1
fi
find "$folder/" -mindepth 1 -delete
: >"$stamp"  # First, as what comes may fail.
"$python" -m venv "$folder"
pip=("$folder"/bin/python -m pip --disable-pip-version-check install --progress-bar off --require-hashes)
echo "Installing Python packages ($tensorflow, pyspark and what they need) ..."
log=$(basename "$folder").log
tools/logged.sh "build/${log#.}" "${pip[@]}" -r "$locked"
# Its dependency on `tensorflow` would pull that over tensorflow-cpu.
"${pip[@]}" --no-deps --quiet -r tools/locked/legacy-keras.txt
printf '%s' "$wanted" >"$stamp"
