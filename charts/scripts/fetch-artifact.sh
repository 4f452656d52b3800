#!/usr/bin/env bash
# Waits until an artifact is complete in the bucket, then brings it onto local disk.
# usage: fetch-artifact.sh PREFIX DIRECTORY    environment: BUCKET, AWS_REGION
set -euo pipefail
source "$(dirname "$0")/complete.sh"

prefix=$1 directory=$2

until complete "$prefix"; do
  echo "waiting for s3://$BUCKET/$prefix"
  sleep "${POLL_SECONDS:-30}"
done

# Shards of gigabytes over a 100 Gbps path: the CLI's default of 10 requests leaves it idle.
aws configure set default.s3.max_concurrent_requests 64
aws configure set default.s3.multipart_chunksize 64MB
aws s3 sync "s3://$BUCKET/$prefix" "$directory" --no-progress --exclude _COMPLETE
echo "artifact is in $directory"
