#!/usr/bin/env bash
# Runs a command whose output is long, and that nobody reads unless it fails:
#   tools/logged.sh LOG COMMAND...
# All of the output goes to the file LOG. The seconds and its latest line say how far the command is:
# in place on a terminal, elsewhere every 20 s (TFOS_LOG_SECONDS). When the command fails, LOG is
# named, its lines about errors and its last 40 lines are shown, or all of it where TFOS_WHOLE_LOGS is
# set, and the exit status is the command's.
set -uo pipefail

if (($# < 2)); then
  echo "usage: $0 LOG COMMAND..." >&2
  exit 2
fi
log=$1
shift
mkdir -p "$(dirname "$log")"

last_lines=40
interval=${TFOS_LOG_SECONDS:-20}
on_terminal=no
columns=100
if [[ -t 1 ]]; then
  on_terminal=yes
  columns=$(tput cols 2>/dev/null || echo 80)
fi

# What it reads, as far as it comes. A line that is longer than the terminal would not stay in place.
show() {
  local latest="" line now status shown=$SECONDS
  while true; do
    status=0
    IFS= read -r -t 1 line || status=$?
    # Above 128, nothing came in time; otherwise it is the end.
    ((status == 0 || status > 128)) || break
    if ((status == 0)) && [[ $line =~ [^[:space:]].* ]]; then
      latest=${BASH_REMATCH[0]//[[:cntrl:]]/ }
    fi
    # The seconds go on where one step is long, such as the last one of pip.
    if [[ $on_terminal == yes && -n $latest ]]; then
      now="$SECONDS s: $latest"
      printf '\r%s\e[K' "${now:0:columns - 1}"
    elif [[ $on_terminal == no ]] && ((SECONDS - shown >= interval)); then
      printf '%s\n' "after $SECONDS s: ${latest:0:columns}"
      shown=$SECONDS
    fi
  done
  if [[ $on_terminal == yes ]]; then
    printf '\r\e[K'
  fi
}

"$@" 2>&1 | tee "$log" | show
status=${PIPESTATUS[0]}
if ((status != 0)); then
  {
    if [[ -n ${TFOS_WHOLE_LOGS:-} ]]; then
      cat "$log"
    else
      grep -nE 'error:|ERROR\b|^E: ' "$log" | head -n "$last_lines"
      tail -n "$last_lines" "$log"
    fi
    echo "This failed with exit status $status; the whole output is in $log: $*"
  } >&2
fi
exit "$status"
