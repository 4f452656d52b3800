#!/usr/bin/env bash
# Brings the artifact of an index, of a sweep or of jobs, onto local disk. Leaves a note instead if
# that index is measured already. Ends at once, with EX_TEMPFAIL, if the artifact is not there yet:
# then the index gives its devices and its node back, and the Job makes it again. Ends with
# EX_UNAVAILABLE if it has looked in vain too often, and with 1 if the bucket cannot be asked.
# usage: fetch-index.sh CONFIG DIRECTORY
# environment: JOB_COMPLETION_INDEX, RUN_ID, BUCKET, AWS_REGION; LOOKS, how often it may look, and
# LOOKED, how often it has (empty: never)
set -euo pipefail
scripts=$(dirname "$0")
source "$scripts/complete.sh"

# As complete does, but ends if the bucket cannot be asked: that is no "not yet".
there() {
  local status=0
  complete "$1" || status=$?
  if ((status > 1)); then
    echo "s3://$BUCKET could not be listed" >&2
    exit 1
  fi
  return "$status"
}

index=$1/$JOB_COMPLETION_INDEX directory=$2
variant=$(<"$index.variant")
artifact=$(<"$index.artifact")
results=results/$RUN_ID/variants/$(<"$index.folder")/

echo "index $JOB_COMPLETION_INDEX: $variant"
if there "$results"; then
  echo "s3://$BUCKET/$results is complete: nothing to do"
  touch "$directory/nothing-to-do"
  exit
fi
if ! there "$artifact"; then
  if ((${LOOKED:-0} + 1 >= LOOKS)); then
    echo "s3://$BUCKET/$artifact is not there after $LOOKS looks: see its compile Job" >&2
    exit 69
  fi
  echo "s3://$BUCKET/$artifact is not there yet: others may have the node meanwhile"
  exit 75
fi
exec bash "$scripts/fetch-artifact.sh" "$artifact" "$directory"
