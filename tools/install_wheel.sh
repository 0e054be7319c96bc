#!/usr/bin/env bash
# Builds the wheel and installs it into .venv. Does nothing when no source has changed since.
set -euo pipefail
cd "$(dirname "$0")/.."

stamp=.venv/tfos-built-from
wanted=$(find CMakeLists.txt pyproject.toml cmake include jvm src python -type f \
  -not -name '*.pyc' -not -name '*_test.cc' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum)
if [[ -e $stamp && $(<"$stamp") == "$wanted" ]]; then
  echo "The installed tfos is up to date."
  exit 0
fi

export CMAKE_CXX_COMPILER_LAUNCHER=ccache
mkdir -p build
log=build/wheel.log
# Without isolation: what the build needs is in .venv already. The build folder stays, so the next
# build compiles only what changed.
if ! .venv/bin/python -m pip --disable-pip-version-check install --no-build-isolation --no-deps \
  --force-reinstall --verbose -C build-dir=build/wheel . 2>&1 | tee "$log" |
  sed -un 's/^ *\(\[[0-9]*\/[0-9]*\] .*\)/\1/p; s/^ *\(\*\*\* .*\)/\1/p; /^Successfully/p'; then
  tail -n 40 "$log" >&2
  echo "Building the wheel failed; the whole output is in $log" >&2
  exit 1
fi
printf '%s' "$wanted" >"$stamp"
