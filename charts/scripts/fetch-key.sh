#!/usr/bin/env bash
# Brings the key that a service asks its clients for into a file, which its owner alone may read.
# usage: fetch-key.sh SECRET FILE    environment: AWS_REGION
set -euo pipefail
umask 077

export AWS_RETRY_MODE=standard AWS_MAX_ATTEMPTS=10
aws secretsmanager get-secret-value --secret-id "$1" --query SecretString --output text >"$2"
echo "the key of $1 is in $2"
