#!/usr/bin/env bash
# Runs the GPU scripts one after the other; each one's output goes to OUT/<name>.log, its last lines
# are printed. Exits with 1 if one fails.
# usage: all.sh BUILD OUT [NAME...]     NAME: scripts without .py; default: those below
#   BUILD: a build folder, or where kernel-evolve is installed.  PYTHON: has torch and triton.
#   LINES: how many lines of each are printed (6).
set -u
cd "$(dirname "$0")/../.."
build=$1
out=$2
shift 2
python=${PYTHON:-python3}
[ $# -gt 0 ] || set -- descriptors operators replay exploits survive rate evaluate same
mkdir -p "$out"
failed=0
for name in "$@"; do
  argument=$build
  [ "$name" != replay ] || argument=$(find "$build" -name ke_replay -type f | head -n 1)
  begin=$SECONDS
  "$python" "tests/gpu/$name.py" "$argument" >"$out/$name.log" 2>&1
  code=$?
  [ $code -eq 0 ] || failed=1
  echo "== $name: exit $code, $((SECONDS - begin)) s"
  tail -n "${LINES:-6}" "$out/$name.log"
done
exit $failed
