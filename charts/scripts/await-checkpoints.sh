#!/usr/bin/env bash
# Ends at once if an artifact is already in the bucket, and leaves a note for the next containers;
# otherwise waits until the checkpoints it is compiled from are there.
# usage: await-checkpoints.sh ARTIFACT CHECKPOINT... SCRATCH    environment: BUCKET, AWS_REGION
set -euo pipefail

artifact=$1
scratch=${*: -1}
checkpoints=("${@:2:$#-2}")

# Listed, not headed: without the right to list the whole bucket, a missing object is "forbidden".
# A failed listing is shown, and tried again.
complete() {
  local marker=${1}_COMPLETE
  [[ $marker == $(aws s3api list-objects-v2 --bucket "$BUCKET" --prefix "$marker" \
    --query 'Contents[].Key' --output text) ]]
}

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
