#!/usr/bin/env bash
# Runs each fuzz target of build/asan-ubsan, beginning with what fuzz/corpus holds, one on each core:
#   tools/fuzz.sh SECONDS
# What they try is kept in build/fuzz. An input that one fails on is left there, too: once mended it
# belongs into fuzz/corpus/TARGET, where a test replays it.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:?usage: tools/fuzz.sh SECONDS}

run_target() {
  local target=$1 seconds=$2
  local tried=build/fuzz/$target log=build/fuzz/$target.log
  mkdir -p "$tried"
  if ! "build/asan-ubsan/fuzz/$target" -max_total_time="$seconds" -rss_limit_mb=4096 -timeout=30 \
    -artifact_prefix="$tried-" "$tried" "fuzz/corpus/$target" >"$log" 2>&1; then
    tail -n 60 "$log"
    echo "$target FAILED; its whole output is in $log" >&2
    return 1
  fi
  echo "$target: $(grep -E '^Done ' "$log")"
}
export -f run_target

# It goes on after a target that fails, and fails at its end.
find fuzz/corpus -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | sort |
  xargs -P "$(nproc)" -I '{}' bash -c 'run_target "$@"' bash '{}' "$seconds"
