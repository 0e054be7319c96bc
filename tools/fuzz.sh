#!/usr/bin/env bash
# Runs each fuzz target of build/asan-ubsan, beginning with what fuzz/corpus holds:
#   tools/fuzz.sh SECONDS
# What they try is kept in build/fuzz. An input that one fails on is left there, too: once mended it
# belongs into fuzz/corpus/TARGET, where a test replays it.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:?usage: tools/fuzz.sh SECONDS}
found=0
for corpus in fuzz/corpus/*/; do
  target=$(basename "$corpus")
  tried=build/fuzz/$target
  mkdir -p "$tried"
  echo "$target ..."
  log=$tried.log
  if ! "build/asan-ubsan/fuzz/$target" -max_total_time="$seconds" -rss_limit_mb=4096 -timeout=30 \
    -artifact_prefix="$tried-" "$tried" "$corpus" >"$log" 2>&1; then
    tail -n 60 "$log"
    echo "$target FAILED; its whole output is in $log" >&2
    found=1
    continue
  fi
  grep -E '^Done ' "$log"
done
exit "$found"
