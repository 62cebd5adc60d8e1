#!/usr/bin/env bash
# clang-tidy on the C++ sources that changed since the last commit of the main branch that CI knows
# (or, with no such commit, in the newest commit).
set -euo pipefail
cd "$(dirname "$0")/.."
base=${KERNEL_EVOLVE_TIDY_BASE:-}
if [[ -z $base ]]; then
  base=$(git merge-base HEAD origin/main 2>/dev/null || true)
  [[ -n $base && $base != $(git rev-parse HEAD) ]] || base=$(git rev-parse HEAD~1 2>/dev/null || true)
fi
[[ -n $base ]] || { echo "one commit only: nothing to compare with"; exit 0; }
mapfile -t files < <(git diff --name-only --diff-filter=AM "$base" -- 'core/*.cpp' 'plugins/*.cpp' 'sdk/*.cpp')
((${#files[@]})) || { echo "no C++ source changed"; exit 0; }
# The compile commands of the clang build: clang-tidy knows all of its flags.
printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 4 clang-tidy --quiet -p build-asan
