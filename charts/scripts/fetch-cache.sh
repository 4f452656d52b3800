#!/usr/bin/env bash
# Brings the cache of a runtime that compiles at a first start onto local disk, and notes for the
# containers that follow that it is complete. If the bucket has none, this pod's vLLM compiles, and
# keep-cache.sh uploads it.
# usage: fetch-cache.sh PREFIX DIRECTORY NOTES CHECKPOINT...    environment: BUCKET, AWS_REGION
set -euo pipefail
source "$(dirname "$0")/complete.sh"

prefix=$1 directory=$2 notes=$3

mkdir -p "$notes"
rm -f "$notes/complete" "$notes/settled"
for checkpoint in "${@:4}"; do
  until complete "$checkpoint"; do
    echo "waiting for s3://$BUCKET/$checkpoint"
    sleep "${POLL_SECONDS:-30}"
  done
done
aws configure set default.s3.max_concurrent_requests 64
aws configure set default.s3.multipart_chunksize 64MB
if complete "$prefix"; then
  # The marker names the pod that alone has written below a prefix of its own.
  pod=$(aws s3 cp "s3://$BUCKET/${prefix}_COMPLETE" -)
  # Left by an earlier attempt: sync may take another pod's file of the same size for the same.
  rm -rf "${directory:?}"/*
  aws s3 sync "s3://$BUCKET/$prefix$pod" "$directory" --no-progress
  touch "$notes/complete"
  echo "the complete cache is in $directory"
elif (($? == 1)); then
  echo "s3://$BUCKET/$prefix is not complete: vLLM compiles"
else
  exit 2 # nobody knows, and compiling takes longer than to ask again
fi
# Mounted into vLLM's container.
mkdir -p "$directory/nki"
