# To be sourced: whether a prefix of the bucket is complete. The marker is written last.
#
# This lists instead of heading: without the right to list the whole bucket, a missing object is
# "forbidden". A failed listing is shown and counts as not complete.
complete() {
  local marker=${1}_COMPLETE
  [[ $marker == $(aws s3api list-objects-v2 --bucket "$BUCKET" --prefix "$marker" \
    --query 'Contents[].Key' --output text) ]]
}
