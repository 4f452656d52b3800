#!/usr/bin/env bash
# Runs inference_demo's own benchmark of an index's variant. Its report and its log go to the
# variant's results. Ends with EX_UNAVAILABLE where the image has no such program, or one that
# refuses these arguments: another try would end so, too.
# usage: generate.sh CONFIG ARTIFACT RESULTS    environment: JOB_COMPLETION_INDEX, RUN_ID
set -euo pipefail

index=$1/$JOB_COMPLETION_INDEX artifact=$2
results=$3/$RUN_ID/variants/$(<"$index.folder")

if [[ -e $artifact/nothing-to-do ]]; then
  echo "nothing to generate"
  exit
fi
mkdir -p "$results"
mapfile -t command <"$index.generate"
command+=(--benchmark-report-path "$results/inference_demo.json")
echo "${command[*]}"
status=0
"${command[@]}" 2>&1 | tee "$results/inference_demo.log" || status=$?
case $status in
  # argparse refused; not executable; not there
  2 | 126 | 127) exit 69 ;;
esac
exit "$status"
