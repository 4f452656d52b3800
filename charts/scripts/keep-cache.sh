#!/usr/bin/env bash
# Uploads what vLLM compiled at a first start, once vLLM is healthy and has answered a request: below
# a prefix of this pod alone, and last the marker that names the pod. Of two pods that do so, the
# later marker counts. Only then the pod is ready, so that nothing is uploaded beside what is
# measured, nor lost when the nodes are ended after it. From then on it does nothing until it is
# told to end: a container that ended would make its pod unready.
# usage: keep-cache.sh PREFIX DIRECTORY NOTES PORT MODEL
# environment: BUCKET, AWS_REGION, POD_UID; KEY_FILE, if vLLM asks for a key
set -uo pipefail

prefix=$1 directory=$2 notes=$3 port=$4 model=$5

# DIRECTORY/vllm is VLLM_CACHE_ROOT. A graph has a folder, whose last file says that it is finished.
# Sources: vllm_neuron/compile/cache.py (_is_cache_complete, _store_local) and nki/nki_cache.py of
# version 0.21; the page "Compilation Cache" of aws-neuron-sdk, folder vllm-neuron, of 2.32.
graphs=$directory/vllm/neuron/compile_cache

asleep=
trap '[[ -z $asleep ]] || kill "$asleep" 2>/dev/null; exit 0' TERM
pause() {
  sleep "$1" &
  asleep=$!
  wait "$asleep"
}

idle() {
  # A pod is ready once this sends no request of its own any more: it would be counted as measured.
  touch "$notes/settled"
  echo "$1"
  pause infinity
}

# Whether vLLM answers METHOD PATH BODY with 200 within so many SECONDS. The image has no curl. In a
# shell of its own, which a closed connection may end.
asks() (
  {
    printf '%s %s HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n' "$1" "$2" >&3
    [[ -z ${KEY_FILE-} ]] || printf 'Authorization: Bearer %s\r\n' "$(<"$KEY_FILE")" >&3
    printf 'Content-Length: %d\r\n\r\n%s' "${#3}" "$3" >&3
    read -r -t "$4" _ status _ <&3 && [[ $status == 200 ]]
  } 3<>"/dev/tcp/127.0.0.1/$port"
) 2>/dev/null

answers() {
  local request='{"model": "%s", "prompt": "one two three", "max_tokens": 16, "temperature": 0}'
  asks GET /health '' 5 || return
  # shellcheck disable=SC2059  # the format is the request
  asks POST /v1/completions "$(printf "$request" "$model")" 240 && return
  echo "vLLM is healthy, but does not answer a request: its cache is not complete yet" >&2
  return 1
}

keep() {
  # Left out: who compiles or reads a graph here. A process that is gone would invalidate it there.
  aws s3 sync "$directory" "s3://$BUCKET/$prefix$POD_UID" --no-progress \
    --exclude '*.lock' --exclude '*.tmp.*' --exclude '*.trash.*' \
    --exclude '*.compilation_metadata' --exclude '*.cache_accessed' || return
  echo "$POD_UID" >"$notes/marker"
  aws s3api put-object --bucket "$BUCKET" --key "${prefix}_COMPLETE" --body "$notes/marker" \
    >/dev/null || return
  touch "$notes/complete"
}

[[ ! -e $notes/complete ]] || idle "the cache was complete: nothing to keep"
# A container that is started again asks nothing of a pod that is ready.
until [[ -e $notes/settled ]] || answers; do
  pause "${POLL_SECONDS:-30}"
done
compgen -G "$graphs/*/.compilation_complete" >/dev/null ||
  idle "vLLM answers, but left no graph below $graphs: the next start compiles again"
until keep; do
  # What is measured does not need the bucket.
  touch "$notes/settled"
  pause "${POLL_SECONDS:-30}"
done
idle "s3://$BUCKET/$prefix is complete"
