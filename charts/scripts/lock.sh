# To be sourced: the lock of a key in the bucket, so that one pod at a time fills it.
#
# Its object names its holder, and is empty while nobody holds it. Each write has another content
# and so another ETag, and is made on the condition that the ETag is still the one last seen: of two
# writers S3 lets one through. No clocks are compared. A holder is dead if PATIENCE looks in a row,
# by default 20, have found the ETag of the look before.
# Wants the variables lock, the object's key, and notes, a folder that outlives a container.
# environment: BUCKET, AWS_REGION; POD, the holder's name; PATIENCE
etag='' holder='' seen='' unchanged=0

# Sets etag (empty: there is no object) and holder (empty: nobody). Answers with 2 where the bucket
# could not be asked; the AWS CLI says why. Lists first, as complete does and for its reason.
look() {
  local found
  etag='' holder=''
  found=$(aws s3api list-objects-v2 --bucket "$BUCKET" --prefix "$lock" \
    --query 'Contents[].Key' --output text) || return 2
  [[ $found == "$lock" ]] || return 0
  etag=$(aws s3api get-object --bucket "$BUCKET" --key "$lock" "$notes/seen" \
    --query ETag --output text) || return 2
  read -r holder _ <"$notes/seen" || true
}

# Writes the object on a condition. Answers with 1 where another was faster, and with 2 where it
# could not be written.
put() {
  if aws s3api put-object --bucket "$BUCKET" --key "$lock" "$@" --query ETag --output text \
    >"$notes/put" 2>"$notes/refusal"; then
    etag=$(<"$notes/put")
    cp "$notes/put" "$notes/etag"
    return
  fi
  [[ $(<"$notes/refusal") != *@(PreconditionFailed|ConditionalRequestConflict|NoSuchKey)* ]] ||
    return 1
  cat "$notes/refusal" >&2
  return 2
}

hold() {
  printf '%s %s\n' "$POD" "$EPOCHREALTIME" >"$notes/holder"
  put --body "$notes/holder" "$@"
}

# Takes the lock if nobody holds it or its holder is dead. Answers with 1 where another holds it,
# and with 2 where the bucket refuses.
take() {
  look || return
  if [[ -z $etag ]]; then
    hold --if-none-match '*'
    return
  fi
  if [[ $etag == "$seen" ]]; then
    unchanged=$((unchanged + 1))
  else
    seen=$etag unchanged=0
  fi
  [[ -z $holder || $holder == "$POD" ]] || ((unchanged >= ${PATIENCE:-20})) || return 1
  hold --if-match "$etag"
}

# Shows that the holder is alive. Answers with 1 where another pod has taken the lock, and with 2
# where nobody knows.
renew() {
  local status=0
  hold --if-match "$(<"$notes/etag")" || status=$?
  ((status == 1)) || return "$status"
  # Perhaps it was written, and the answer got lost.
  look || return
  [[ $holder == "$POD" ]] || return 1
  hold --if-match "$etag"
}

release() {
  put --if-match "$(<"$notes/etag")"
}
