#!/usr/bin/env bash
# What a user types on a machine with a GPU: a run of the default strategy with the offline author and
# the measuring evaluator, a verdict on its best candidate through two workers on one device, and the self-test.
# usage: cli.sh PREFIX [PYTHON]     PREFIX: where kernel-evolve is installed, or a build folder
set -euo pipefail
cd "$(dirname "$0")/../.."
prefix=$(realpath "$1")
export KERNEL_EVOLVE_PYTHON=${2:-$(command -v python3)}
folder=$(mktemp -d "$PWD/ke-cli-XXXXXX")
trap 'rm -rf "$folder"' EXIT
cat >"$folder/gpu.yaml" <<'YAML'
kernel_evolve_profile: 1
models: {author: {provider: offline}}
evaluator: {use: gpu, with: {compile_baseline: false}}
YAML
cat >"$folder/two.yaml" <<'YAML'
kernel_evolve_profile: 1
evaluator:
  use: gpu
  with: {compile_baseline: false}
  launch: [[env, CUDA_VISIBLE_DEVICES=0], [env, CUDA_VISIBLE_DEVICES=0]]
YAML
"$prefix/bin/kernel-evolve" evolve examples/tasks/softmax_rows.py --profile "$folder/gpu.yaml" \
  --out "$folder/run" --budget evaluations=3
"$prefix/bin/kernel-evolve" evaluate examples/tasks/softmax_rows.py "$folder/run/best.py" \
  --profile "$folder/two.yaml"
# Can it be fooled? Every candidate that cheats, and the honest twins.
"$prefix/bin/kernel-evolve" doctor --evaluator --profile "$folder/gpu.yaml" | tail -n "${LINES:-12}"
