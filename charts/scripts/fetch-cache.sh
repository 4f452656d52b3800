#!/usr/bin/env bash
# Brings the cache of a runtime that compiles at a first start onto local disk, as far as the bucket
# has it. A complete one is noted, for the containers that follow. Of one that is not, this brings
# the finished graphs, and takes the lock: this pod's vLLM compiles the rest, and keep-cache.sh
# uploads it. While another pod holds the lock, this waits.
# usage: fetch-cache.sh PREFIX DIRECTORY NOTES CHECKPOINT...
# environment: BUCKET, AWS_REGION, POD
set -euo pipefail
scripts=$(dirname "$0")
source "$scripts/complete.sh"
source "$scripts/lock.sh"
source "$scripts/cache.sh"

prefix=$1 directory=$2 notes=$3
lock=${prefix}_FILLING
held=

# A deleted pod need not be waited for.
trap '[[ -z $held ]] || release; exit 143' TERM

fetch() {
  aws s3 sync "s3://$BUCKET/$prefix" "$directory" --no-progress \
    --exclude _COMPLETE --exclude _FILLING "$@"
}

fetch_finished() {
  fetch --exclude '*' --include "$GRAPHS/*" --include "$KERNELS/*"
  local graph count=0
  for graph in "$directory/$GRAPHS"/*/; do
    if [[ -e $graph/$SENTINEL ]]; then
      count=$((count + 1))
    elif [[ $graph != */"$RECORDS"/ ]]; then
      rm -rf "$graph"
    fi
  done
  echo "$count finished graphs are in $directory; vLLM compiles the others"
}

mkdir -p "$notes" "$directory/$KERNELS"
rm -f "$notes/complete" "$notes/settled"
for checkpoint in "${@:4}"; do
  until complete "$checkpoint"; do
    echo "waiting for s3://$BUCKET/$checkpoint"
    sleep "${POLL_SECONDS:-30}"
  done
done
aws configure set default.s3.max_concurrent_requests 64
aws configure set default.s3.multipart_chunksize 64MB
until complete "$prefix"; do
  if take; then
    held=yes
    # It may have been completed since.
    if complete "$prefix"; then
      release && held=
      continue
    fi
    echo "this pod fills s3://$BUCKET/$prefix"
    fetch_finished
    renew && exit
    continue
  fi
  echo "waiting for s3://$BUCKET/$prefix${holder:+, which pod $holder fills}"
  sleep "${POLL_SECONDS:-30}"
done
fetch
touch "$notes/complete"
echo "the complete cache is in $directory"
