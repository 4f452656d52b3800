#!/usr/bin/env bash
# Waits until an artifact is complete in the bucket, then brings it onto local disk.
# usage: fetch-artifact.sh PREFIX DIRECTORY    environment: BUCKET, AWS_REGION
set -euo pipefail

prefix=$1 directory=$2

# Listed, not headed: without the right to list the whole bucket, a missing object is "forbidden".
# A failed listing is shown, and tried again.
complete() {
  local marker=${1}_COMPLETE
  [[ $marker == $(aws s3api list-objects-v2 --bucket "$BUCKET" --prefix "$marker" \
    --query 'Contents[].Key' --output text) ]]
}

# The marker is written last; without it the prefix holds half an artifact.
until complete "$prefix"; do
  echo "waiting for s3://$BUCKET/$prefix"
  sleep "${POLL_SECONDS:-30}"
done

# Shards of gigabytes over a 100 Gbps path: the CLI's default of 10 requests leaves it idle.
aws configure set default.s3.max_concurrent_requests 64
aws configure set default.s3.multipart_chunksize 64MB
aws s3 sync "s3://$BUCKET/$prefix" "$directory" --no-progress --exclude _COMPLETE
echo "artifact is in $directory"
