#!/usr/bin/env bash
# Compiles onto local disk, unless the artifact is already in the bucket.
# usage: compile.sh SCRATCH COMMAND...
set -euo pipefail

scratch=$1
shift

if [[ -e $scratch/nothing-to-do ]]; then
  echo "nothing to compile"
  exit
fi
# What an earlier, interrupted attempt left would be taken for a result.
rm -rf "$scratch/artifact" "$scratch/work"
mkdir -p "$scratch/artifact" "$scratch/work"
echo "$*"
"$@"
# A service reads the configuration of a prepared draft, and finds its weights in the graph's shards.
if [[ -e $scratch/draft/config.json ]]; then
  mkdir -p "$scratch/artifact/draft"
  cp "$scratch/draft/"*.json "$scratch/artifact/draft/"
fi
