#!/usr/bin/env bash
# Checks the Python sources: ruff's rules and its format, and mypy over python/tfos. They are in an
# environment of their own, .venv-lint.
#   tools/checks/lint.sh          says what is wrong
#   tools/checks/lint.sh --fix    mends and formats what ruff can, and says what is left
set -euo pipefail
cd "$(dirname "$0")/../.."

python=${PYTHON:-python3}
venv=.venv-lint
stamp=$venv/made-from
wanted=$("$python" --version; sha256sum tools/locked/lint.txt)
if [[ ! -e $stamp || $(<"$stamp") != "$wanted" ]]; then
  "$python" -m venv --clear "$venv"
  "$venv/bin/pip" --disable-pip-version-check install --quiet --require-hashes \
    -r tools/locked/lint.txt
  printf '%s' "$wanted" >"$stamp"
fi

if [[ ${1:-} == --fix ]]; then
  # What is too long now may fit when it is formatted; what does not is said below.
  "$venv/bin/ruff" check --fix --exit-zero >/dev/null
  "$venv/bin/ruff" format --quiet
fi
"$venv/bin/ruff" check --quiet
"$venv/bin/ruff" format --quiet --check
exec "$venv/bin/mypy"
