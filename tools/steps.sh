#!/usr/bin/env bash
# Runs numbered steps, each a title and a command, and says before and after each one where it is:
#   tools/steps.sh TITLE COMMAND [TITLE COMMAND]...
# Stops at the first step that fails, with its exit status. At the end a table says what each took;
# TFOS_STEPS names a file to which each line is added when its step has ended, for runs of several.
set -euo pipefail

if (($# == 0 || $# % 2 != 0)); then
  echo "usage: $0 TITLE COMMAND [TITLE COMMAND]..." >&2
  exit 2
fi

total=$(($# / 2))
number=0
begin=$SECONDS
table=

show() {
  printf '\n%s%6d s  %s\n' "$table" "$((SECONDS - begin))" "$1"
}

while (($# > 0)); do
  number=$((number + 1))
  title=$1
  command=$2
  shift 2
  printf '\n[%d/%d] %s ...\n' "$number" "$total" "$title"
  step_begin=$SECONDS
  status=0
  bash -o pipefail -c "$command" || status=$?
  elapsed=$((SECONDS - step_begin))
  line=$(printf '%6d s  %s' "$elapsed" "$title")$'\n'
  table+=$line
  if [[ -n ${TFOS_STEPS:-} ]]; then
    printf '%s' "$line" >>"$TFOS_STEPS"
  fi
  if ((status != 0)); then
    printf '[%d/%d] %s FAILED with exit status %d after %d s\n' \
      "$number" "$total" "$title" "$status" "$elapsed" >&2
    show "all until then"
    exit "$status"
  fi
  printf '[%d/%d] %s: done in %d s\n' "$number" "$total" "$title" "$elapsed"
done
show "all $total steps"
printf '\nAll %d steps done in %d s\n' "$total" "$((SECONDS - begin))"
