#!/usr/bin/env bash
# Runs the Python tests below tests/python, one folder at a time, with the interpreter given.
# usage: run.sh PYTHON [FOLDER...]
set -euo pipefail
cd "$(dirname "$0")/../.."
python=$1
shift
export PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH=sdk/worker:plugins/evaluator_simulator/python:plugins/evaluator_gpu/python:plugins/provider_offline/python
folders=("$@")
((${#folders[@]})) || mapfile -t folders < <(find tests/python -name 'test_*.py' -printf '%h\n' | sort -u)
for folder in "${folders[@]}"; do
  begin=$SECONDS
  "$python" -W error::SyntaxWarning -m unittest discover -b -s "$folder" -p 'test_*.py' ||
    { printf 'Python tests in %s failed\n' "$folder" >&2; exit 1; }
  printf '%s: %d s\n' "$folder" $((SECONDS - begin))
done
