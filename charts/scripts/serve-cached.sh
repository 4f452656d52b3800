#!/usr/bin/env bash
# Serves with the cache that fetch-cache.sh has brought. The SETTINGS are for one that was complete.
# usage: serve-cached.sh NOTES [SETTING=VALUE...] COMMAND...
set -euo pipefail

notes=$1
shift
while [[ $1 == *=* ]]; do
  if [[ -e $notes/complete ]]; then
    export "${1?}"
  fi
  shift
done
if [[ -e $notes/complete ]]; then
  echo "the cache is complete: to miss a graph ends this start"
fi
# A hard error of vllm-neuron's workers, whoever has set it: the driver of the devices may.
unset NEURON_RT_VISIBLE_CORES
echo "$*"
exec "$@"
