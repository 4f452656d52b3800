#!/usr/bin/env bash
# Uploads what vLLM compiles at a first start, graph by graph as each is finished, and renews the
# lock. Once vLLM is healthy and has answered a request, uploads the rest, and last the marker that
# makes the cache complete. Only then the pod is ready, so that nothing is uploaded beside what is
# measured, nor lost when the nodes are ended after it. From then on, or if it has lost the lock, it
# does nothing until it is told to end: a container that ended would make its pod unready.
# usage: keep-cache.sh PREFIX DIRECTORY NOTES PORT MODEL
# environment: BUCKET, AWS_REGION, POD; KEY_FILE, if vLLM asks for a key
set -uo pipefail
scripts=$(dirname "$0")
source "$scripts/lock.sh"
source "$scripts/cache.sh"

prefix=$1 directory=$2 notes=$3 port=$4 model=$5
lock=${prefix}_FILLING
declare -A kept=()

# Ends at once if it is told to; the lock is then another's to take.
asleep=
trap '[[ -z $asleep ]] || kill "$asleep" 2>/dev/null; release; exit 0' TERM
pause() {
  sleep "$1" &
  asleep=$!
  wait "$asleep"
}

idle() {
  trap '[[ -z $asleep ]] || kill "$asleep" 2>/dev/null; exit 0' TERM
  # A pod is ready once this sends no request of its own any more: it would be counted as measured.
  touch "$notes/settled"
  echo "$1"
  pause infinity
}

upload() {
  [[ -d $directory/$1 ]] || return 0
  aws s3 sync "$directory/$1" "s3://$BUCKET/$prefix$1" --no-progress "${@:2}" \
    --exclude '*.lock' --exclude '*.tmp.*' --exclude '*.trash.*' --exclude '*.cache_accessed'
}

# Uploads each graph that is finished by now. What it refers to goes first, and its sentinel last.
keep_finished() {
  local sentinel graph record finished=() records=(--exclude '*')
  for sentinel in "$directory/$GRAPHS"/*/"$SENTINEL"; do
    [[ ${kept[$sentinel]-} ]] || finished+=("$sentinel")
  done
  ((${#finished[@]})) || return 0
  # Before the kernels are uploaded: a record that comes meanwhile may name half a kernel.
  for record in "$directory/$GRAPHS/$RECORDS"/*.json; do
    records+=(--include "${record##*/}")
  done
  upload "$KERNELS" && upload "$GRAPHS/$RECORDS" "${records[@]}" || return
  for sentinel in "${finished[@]}"; do
    graph=${sentinel%/*}
    graph=$GRAPHS/${graph##*/}
    renew || return
    upload "$graph" --exclude "$SENTINEL" || return
    aws s3 cp "$sentinel" "s3://$BUCKET/$prefix$graph/$SENTINEL" --no-progress || return
    kept[$sentinel]=1
  done
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

complete_it() {
  keep_finished && upload vllm --exclude "${GRAPHS#vllm/}/*" || return
  renew || return
  date --utc --iso-8601=seconds >"$notes/marker"
  aws s3api put-object --bucket "$BUCKET" --key "${prefix}_COMPLETE" --body "$notes/marker" \
    >/dev/null || return 2
  touch "$notes/complete"
  release
}

if [[ -e $notes/complete ]]; then
  idle "the cache was complete: nothing to keep"
fi
echo "uploads to s3://$BUCKET/$prefix what vLLM compiles"
# Of a container that is started again: a pod that is ready is asked nothing more.
answered=$([[ ! -e $notes/settled ]] || echo before)
while true; do
  pause "${POLL_SECONDS:-30}"
  status=0
  renew || status=$?
  if ((status == 1)); then
    idle "another pod has taken $lock: this one uploads nothing more"
  fi
  if [[ ! $answered ]] && answers; then
    answered=now
  fi
  if ((status == 0)) && keep_finished && [[ $answered ]]; then
    if ((!${#kept[@]})); then
      release
      idle "vLLM answers, but left no graph below $directory/$GRAPHS: the next start compiles again"
    fi
    complete_it && idle "s3://$BUCKET/$prefix is complete"
  fi
  # Even if the bucket refuses: what is measured does not need it.
  [[ ! $answered ]] || touch "$notes/settled"
done
