# To be sourced: whether a prefix of the bucket is complete. The marker is written last.
#
# This lists instead of heading: without the right to list the whole bucket, a missing object is
# "forbidden". Answers with 0 or 1, and with 2 where the bucket could not be asked; the AWS CLI says
# why. Who waits asks again then.
complete() {
  local marker=${1}_COMPLETE found
  found=$(aws s3api list-objects-v2 --bucket "$BUCKET" --prefix "$marker" \
    --query 'Contents[].Key' --output text) || return 2
  [[ $found == "$marker" ]]
}
