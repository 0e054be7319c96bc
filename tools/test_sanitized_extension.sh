#!/usr/bin/env bash
# Runs the tests of the extension that need nothing but it, with the extension of a sanitized build:
#   tools/test_sanitized_extension.sh PRESET [ARGUMENT OF PYTEST]...     PRESET: asan-ubsan or tsan
set -euo pipefail
cd "$(dirname "$0")/.."

preset=${1:?usage: tools/test_sanitized_extension.sh PRESET [ARGUMENT]...}
shift
case $preset in
  asan-ubsan) runtime=asan ;;
  tsan) runtime=tsan ;;
  *) echo "$preset is neither asan-ubsan nor tsan" >&2; exit 2 ;;
esac

extension=$(echo "$PWD/build/$preset/src/python/"_native*.so)
if [[ $(nm --dynamic "$extension") != *"__${runtime}_init"* ]]; then
  echo "$extension is missing or is not built with the sanitizer" >&2
  exit 1
fi

# The package with this build's extension in it; Python's own files as they are in the tree.
site=build/$preset/site
rm -rf "$site"
mkdir -p "$site"
cp -rs "$PWD/python/tfos" "$site/tfos"
ln -s "$extension" "$site/tfos/"

# The runtime comes first, as Python itself has none. Python keeps what it has made until it ends, so
# leaks are looked for in the C++ tests alone. What is not ours is not instrumented: libraries with
# threads of their own would be blamed, so one thread it is for NumPy.
export LD_PRELOAD
LD_PRELOAD=$(clang++-16 -print-file-name="libclang_rt.$runtime-x86_64.so")
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=1
export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:ignore_noninstrumented_modules=1
export OPENBLAS_NUM_THREADS=1
PYTHONPATH=$site exec .venv/bin/python -m pytest -p no:xdist -p no:cacheprovider -m quick "$@" \
  tests/python/feed/native tests/python/feed/test_pickle_columns.py \
  tests/python/feed/test_row_codec.py
