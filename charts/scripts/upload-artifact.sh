#!/usr/bin/env bash
# Uploads a compiled artifact, then the marker that makes it usable.
# usage: upload-artifact.sh PREFIX PART... SCRATCH    environment: BUCKET, AWS_REGION
set -euo pipefail

prefix=$1
scratch=${*: -1}
parts=("${@:2:$#-2}")

if [[ -e $scratch/nothing-to-do ]]; then
  echo "nothing to upload"
  exit
fi
# A service fails on an incomplete artifact with an error that does not name the missing part.
for part in "${parts[@]}"; do
  if [[ ! -e $scratch/artifact/$part ]]; then
    echo "the compiler left no $part in $scratch/artifact" >&2
    exit 1
  fi
done
aws s3 sync "$scratch/artifact" "s3://$BUCKET/$prefix" --no-progress
date --utc --iso-8601=seconds >/tmp/marker
aws s3api put-object --bucket "$BUCKET" --key "${prefix}_COMPLETE" --body /tmp/marker >/dev/null
echo "s3://$BUCKET/$prefix is complete"
