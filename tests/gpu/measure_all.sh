#!/usr/bin/env bash
# Measures the candidates in a folder (<task>.py, each defining ModelNew) beside eager and
# torch.compile on this machine's GPU.
# usage: measure_all.sh FOLDER [OUT]     OUT: where <task>.json goes; default: FOLDER
set -u
cd "$(dirname "$0")/../.."
folder=$1
out=${2:-$1}
failed=0
for candidate in "$folder"/*.py; do
  name=$(basename "$candidate" .py)
  if python3 tests/gpu/measure.py "examples/tasks/$name.py" "$candidate" >"$out/$name.json" 2>"$out/$name.err"; then
    python3 - "$name" "$out/$name.json" <<'PY'
import json
import sys

r = json.load(open(sys.argv[2]))
print(f"{sys.argv[1]:18s} eager {r['eager']['median_ms']:.4f} ms  compile {r['compile']['median_ms']:.4f} ms  "
      f"candidate {r['candidate']['median_ms']:.4f} ms  ratio {r['measured_speedup']:.2f} "
      f"({r['measured_speedup_over_compile']:.2f} over compile)  error {r['max_error_relative_to_max']:.1e}")
PY
  else
    failed=1
    printf '%-18s failed: %s\n' "$name" "$(tail -n 1 "$out/$name.err")"
  fi
done
exit $failed
