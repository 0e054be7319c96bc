#!/usr/bin/env bash
# Builds the wheel and installs it into .venv:
#   tools/install_wheel.sh [--tests]
# Does nothing when no source has changed since. With --tests the C++ tests are built, too, by the
# same build: they test the objects that the wheel is made of.
set -euo pipefail
cd "$(dirname "$0")/.."

tests=OFF
if [[ ${1:-} == --tests ]]; then
  tests=ON
fi

stamp=.venv/tfos-built-from
wanted=$(find CMakeLists.txt pyproject.toml cmake examples fuzz include jvm src python -type f -not -name '*.pyc' -print0 | LC_ALL=C sort -z |
  xargs -0 sha256sum | sha256sum)
if [[ -e $stamp && ($(<"$stamp") == "$tests $wanted" || $(<"$stamp") == "ON $wanted") ]] &&
  [[ $tests == OFF || -e build/dev/CTestTestfile.cmake ]]; then
  echo "The installed tfos is up to date."
  exit 0
fi

# A compiler that we don't know may warn of correct code.
werror=OFF
if [[ $tests == ON || $(${CXX:-g++} -dumpversion) == 12* ]]; then
  werror=ON
fi

export CMAKE_CXX_COMPILER_LAUNCHER=ccache
export CMAKE_BUILD_PARALLEL_LEVEL=${JOBS:-$(nproc)}
# Without isolation: what the build needs is in .venv already. The build folder stays, so the next
# build compiles only what changed; it is the one of the preset `dev`.
tools/logged.sh build/wheel.log .venv/bin/python -m pip --disable-pip-version-check install --no-build-isolation --no-deps \
  --force-reinstall --verbose --config-settings=build-dir=build/dev \
  --config-settings=cmake.define.TFOS_BUILD_TESTS="$tests" \
  --config-settings=cmake.define.TFOS_WERROR="$werror" .
printf '%s' "$tests $wanted" >"$stamp"
