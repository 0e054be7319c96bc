#!/usr/bin/env bash
# Builds with Clang and sanitizers, and runs the C++ tests and those of the extension:
#   tools/sanitize.sh SANITIZER [PART]
# SANITIZER: address (with UndefinedBehaviorSanitizer) or thread. PART: a name of
# tools/checks/sanitizer_parts.py; without one, all there is.
set -euo pipefail
cd "$(dirname "$0")/.."

usage="usage: tools/sanitize.sh address|thread [PART]"
sanitizer=${1:?$usage}
part=${2:-}
case $sanitizer in
  address) preset=asan-ubsan with="AddressSanitizer and UndefinedBehaviorSanitizer" ;;
  thread) preset=tsan with=ThreadSanitizer ;;
  *) echo "$usage" >&2; exit 2 ;;
esac
targets=$(tools/checks/sanitizer_parts.py targets $part)
labels=$(tools/checks/sanitizer_parts.py labels $part)

jobs=${JOBS:-$(nproc)}
results=build/test-results
name=$preset${part:+-$part}
mkdir -p "$results"
steps=(
  'Installing missing Debian packages' 'tools/install_packages.sh build test analyse'
  'Making the Python environment .venv' 'tools/make_venv.sh'
  "Building with Clang and $with" "cmake --preset $preset && cmake --build --preset $preset -j $jobs --target $targets"
)
if [[ -n $labels ]]; then
  steps+=('Running the C++ tests'
    "ctest --preset $preset -j $jobs --no-tests=error --label-regex '$labels' --output-junit '$PWD/$results/$name.xml'")
fi
if [[ -z $part || $part == extension ]]; then
  steps+=('Running tests of the extension'
    "tools/test_sanitized_extension.sh $preset --junitxml $results/$preset-python.xml")
fi
exec tools/steps.sh "${steps[@]}"
