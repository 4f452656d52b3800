#!/usr/bin/env bash
# Serves the variant of an index of a sweep, until it is told to end.
# usage: serve-index.sh CONFIG ARTIFACT    environment: JOB_COMPLETION_INDEX
set -euo pipefail

if [[ -e $2/nothing-to-do ]]; then
  sleep infinity &
  # The first process of a container gets no signal that it does not ask for.
  trap 'kill $!; exit 0' TERM
  echo "nothing to serve"
  wait
fi
mapfile -t command <"$1/$JOB_COMPLETION_INDEX.serve"
echo "${command[*]}"
exec "${command[@]}"
