#!/usr/bin/env bash
# Makes a virtual environment with what programs import, except tfos itself:
#   tools/make_venv.sh [FOLDER [REQUIREMENTS]]
# By default that is .venv with everything the demo, the examples and the tests import
# (tools/requirements.txt); with tools/requirements-run.txt there is only what programs need.
# Does nothing when FOLDER already holds what this script and the requirements ask for.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=${1:-.venv}
requirements=${2:-tools/requirements.txt}
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

stamp=$folder/made-from
wanted=$("$python" --version; echo "$tensorflow $requirements"; sha256sum tools/make_venv.sh tools/requirements*.txt)
if [[ -e $stamp && $(<"$stamp") == "$wanted" ]]; then
  echo "$folder is up to date."
  exit 0
fi

"$python" -m venv --clear "$folder"
pip=("$folder"/bin/python -m pip --disable-pip-version-check install --progress-bar off)
echo "Installing Python packages ($tensorflow, pyspark and what they need) ..."
"${pip[@]}" -r "$requirements" "$tensorflow==2.21.*" |
  sed -un 's/^\(Collecting [^ ]*\).*/\1/p; s/^\(Installing\) .*/\1 all of them/p'
# Its dependency on `tensorflow` would pull that over tensorflow-cpu.
"${pip[@]}" --no-deps --quiet 'tf_keras==2.21.*'
printf '%s' "$wanted" >"$stamp"
