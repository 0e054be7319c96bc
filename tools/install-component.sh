#!/usr/bin/env bash
# Installs the MNIST walk-through as a component of a cluster: one directory with Python, programs and scripts.
#   tools/install-component.sh [--python PYTHON] [--wheel FILE] [--tensorflow PACKAGE] [DIRECTORY]
#
# DIRECTORY           default: /usr/local/service/tensorflowonspark
# --python PYTHON     uses this Python, with all it needs, instead of making an environment in DIRECTORY/python
# --wheel FILE        of tfos; default: one is built from these sources
# --tensorflow PACKAGE  default: tensorflow-cpu==2.21.*, on Arm tensorflow==2.21.*
#
# PYTHON in the environment names the Python, 3.11 or newer, that the environment is made with; default: python3
#
# Into a directory that has it already it puts the new version; conf/tfos-env.sh stays as it is. examples/emr/README.md
# says what to do with it.
set -euo pipefail

directory=/usr/local/service/tensorflowonspark
python=
wheel=
tensorflow=
while (($# > 0)); do
  case $1 in
    -h | --help)
      sed -n '2,${/^#/!q;s/^# \{0,1\}//p}' "$0"
      exit 0
      ;;
    --python | --wheel | --tensorflow)
      [[ -n ${2:-} ]] || { echo "$1 needs a value" >&2; exit 2; }
      declare "${1#--}=$2"
      shift 2
      ;;
    -*) echo "$1 is not an option; see --help" >&2; exit 2 ;;
    *) directory=$1; shift ;;
  esac
done

if [[ -n $python && -n $wheel$tensorflow ]]; then
  echo "--python takes what it needs from there: leave --wheel and --tensorflow away" >&2
  exit 2
fi
if [[ -z $tensorflow ]]; then
  tensorflow='tensorflow-cpu==2.21.*'
  if [[ $(uname -m) == aarch64 ]]; then tensorflow='tensorflow==2.21.*'; fi
fi

# What was given relative to the caller's directory; a program's name alone is looked for on PATH.
directory=$(realpath -ms -- "$directory")
if [[ $python == */* ]]; then python=$(realpath -ms -- "$python"); fi
if [[ -n $wheel ]]; then wheel=$(realpath -ms -- "$wheel"); fi
cd "$(dirname "$(realpath "$0")")/.."
mkdir -p "$directory"

if [[ -z $python ]]; then
  base=${PYTHON:-python3}
  "$base" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "Python 3.11 or newer is needed; $base is $("$base" --version 2>&1). Set PYTHON." >&2
    exit 2
  }
  python=$directory/python/bin/python
  clear=()  # An environment keeps the Python that it was made with.
  if [[ -e $python && $("$python" --version 2>&1) != $("$base" --version) ]]; then clear=(--clear); fi
  "$base" -m venv "${clear[@]}" "$directory/python"
  pip=("$python" -m pip --disable-pip-version-check --quiet)
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  if [[ -z $wheel ]]; then
    echo "Building the wheel of tfos ..."
    "${pip[@]}" wheel --no-deps --wheel-dir "$work" .
    wheel=$(echo "$work"/tfos-*.whl)
  fi
  echo "Installing Python packages into $directory/python ..."
  if [[ $tensorflow == tensorflow@(|-cpu)==2.21.\* ]]; then
    "${pip[@]}" install --require-hashes -r "tools/locked/component-${tensorflow%%=*}.txt"
  else
    "${pip[@]}" install -r tools/requirements-run.txt "$tensorflow"  # As it was asked for.
  fi
  "${pip[@]}" install --no-deps --force-reinstall "$wheel"
else
  python=$(command -v "$python") || { echo "--python $python: there is no such program" >&2; exit 2; }
fi
# Looked for, not imported: that takes TensorFlow seconds.
"$python" - <<'CHECK'
import importlib.util
import sys

missing = [name for name in ("tfos", "tensorflow", "pyspark", "pyarrow", "pandas", "sklearn")
           if importlib.util.find_spec(name) is None]
if missing:
    sys.exit(f"{sys.executable} has no {', '.join(missing)}: install it, or leave --python away")
CHECK

install -d "$directory/programs" "$directory/conf" "$directory/TensorFlowOnSpark"
# Under the name that guides put to HDFS and give to --jars: it has the classes of that jar.
if jar=$("$python" -c 'import tfos; print(tfos.jar_path())'); then
  ln -sfn "$jar" "$directory/TensorFlowOnSpark/tensorflow-hadoop-1.10.0.jar"
else
  echo "This tfos has no jar, so $directory/TensorFlowOnSpark stays empty"
fi
install -m 644 examples/standalone/*.py "$directory/programs"
install -m 755 examples/emr/*mnist*.sh "$directory"
install -m 644 examples/emr/functions.sh "$directory/conf"
install -m 644 examples/emr/README.md "$directory"
if [[ -e $directory/conf/tfos-env.sh ]]; then
  echo "$directory/conf/tfos-env.sh stays as it is"
else
  # In what sed puts there, these three have a meaning.
  escaped=$(printf '%s' "$python" | sed 's/[&|\\]/\\&/g')
  sed "s|@PYTHON@|$escaped|" examples/emr/tfos-env.sh >"$directory/conf/tfos-env.sh.new"
  mv "$directory/conf/tfos-env.sh.new" "$directory/conf/tfos-env.sh"
fi
echo "Installed into $directory, with $("$python" --version) at $python"
