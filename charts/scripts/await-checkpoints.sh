#!/usr/bin/env bash
# Ends at once if an artifact is already in the bucket, and leaves a note for the next containers;
# otherwise waits until the checkpoints it is compiled from are there.
# usage: await-checkpoints.sh ARTIFACT CHECKPOINT... SCRATCH    environment: BUCKET, AWS_REGION
set -euo pipefail
source "$(dirname "$0")/complete.sh"

artifact=$1
scratch=${*: -1}
checkpoints=("${@:2:$#-2}")

if complete "$artifact"; then
  echo "s3://$BUCKET/$artifact is complete: nothing to do"
  touch "$scratch/nothing-to-do"
  exit
fi
for checkpoint in "${checkpoints[@]}"; do
  until complete "$checkpoint"; do
    echo "waiting for s3://$BUCKET/$checkpoint"
    sleep "${POLL_SECONDS:-30}"
  done
done
