#!/usr/bin/env bash
# Opens the Neuron devices of the pod's claim, as the user that will serve with them. It takes seconds,
# before this pod waits for a graph or compiles one. Where CPU nodes compile, the Trainium nodes start after
# that, and this is too late to save the compile: `make start` tries the devices before.
# Another try would find the same: EX_UNAVAILABLE.
# usage: devices.sh COUNT DIRECTORY    COUNT: the devices of the claim; DIRECTORY: /dev
set -uo pipefail
shopt -s nullglob
PATH=$PATH:/opt/aws/neuron/bin

count=$1
devices=("$2"/neuron[0-9]*)
# Its table has the numbers of the cores as this pod sees them. A driver that hangs would hold the node.
timeout 30 neuron-ls || echo "neuron-ls ended with status $?"
refused=0
for device in "${devices[@]}"; do
  # For reading and writing, as the runtime does.
  reason=$( (exec 3<>"$device") 2>&1) || refused=$((refused + 1))
  echo "$(ls -dln "$device")  ${reason##*: }"
done
if ((refused)); then
  echo "user $(id -u) cannot open $refused of ${#devices[@]} devices: see docs/assumptions.md," \
    "\"A user without privileges may open Neuron devices\""
  exit 69
fi
if ((${#devices[@]} < count)); then
  echo "the claim is of $count devices, and the pod has ${#devices[@]}: see docs/assumptions.md," \
    "\"The claim is the Neuron driver's\""
  exit 69
fi
echo "user $(id -u) opened ${#devices[@]} devices"
