#!/usr/bin/env bash
# Brings the artifact of an index of a sweep onto local disk. Leaves a note instead if that index is
# measured already. Gives up after a few minutes, with EX_TEMPFAIL, if the artifact is not there yet:
# then the index gives its devices to another, and the Job makes it again.
# usage: fetch-index.sh CONFIG DIRECTORY
# environment: JOB_COMPLETION_INDEX, RUN_ID, BUCKET, AWS_REGION
set -euo pipefail
scripts=$(dirname "$0")
source "$scripts/complete.sh"

index=$1/$JOB_COMPLETION_INDEX directory=$2
variant=$(<"$index.variant")
artifact=$(<"$index.artifact")
results=results/$RUN_ID/variants/$(<"$index.folder")/

echo "index $JOB_COMPLETION_INDEX: $variant"
if complete "$results"; then
  echo "s3://$BUCKET/$results is complete: nothing to do"
  touch "$directory/nothing-to-do"
  exit
fi
until complete "$artifact"; do
  if ((SECONDS >= ${PATIENCE_SECONDS:-180})); then
    echo "s3://$BUCKET/$artifact is not there yet: another index may have the devices meanwhile"
    exit 75
  fi
  echo "waiting for s3://$BUCKET/$artifact"
  sleep "${POLL_SECONDS:-30}"
done
exec bash "$scripts/fetch-artifact.sh" "$artifact" "$directory"
