#!/usr/bin/env bash
# Runs a server with the key of a file: in its environment, since all may read a command line.
# usage: with-key.sh FILE COMMAND...
set -euo pipefail

VLLM_API_KEY=$(<"$1")
export VLLM_API_KEY
shift
exec "$@"
