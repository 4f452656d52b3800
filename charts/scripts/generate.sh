#!/usr/bin/env bash
# Generates with the variant of an index, and leaves its exit status in generate.ended of the
# variant's results. Whoever waits for that file sees by generate.lock whether it can still come:
# the lock is there before it is seen, and ends with the last process of this container, however
# that ends.
# usage: generate.sh CONFIG ARTIFACT RESULTS    environment: JOB_COMPLETION_INDEX, RUN_ID
set -uo pipefail

index=$1/$JOB_COMPLETION_INDEX artifact=$2
results=$3/$RUN_ID/variants/$(<"$index.folder")

# The status is all that is left of a container that could not write.
mkdir -p "$results" && exec {lock}>"$results/generate.lock.draft" && flock "$lock" &&
  mv "$results/generate.lock.draft" "$results/generate.lock" || exit 1

status=0
if [[ -e $artifact/nothing-to-do ]]; then
  echo "nothing to generate"
else
  mapfile -t command <"$index.generate"
  echo "${command[*]}"
  python3 "$(dirname "$0")/generate.py" "$results" -- "${command[@]}" &
  # The first process of a container gets no signal that it does not ask for, and hands none on.
  trap 'kill $! 2>/dev/null' TERM
  wait $! || status=$?
  # A trapped signal ends the wait, and not the child.
  while kill -0 $! 2>/dev/null; do
    status=0
    wait $! || status=$?
  done
fi
echo "$status" >"$results/generate.ended.draft" &&
  mv "$results/generate.ended.draft" "$results/generate.ended" || exit 1
exit "$status"
