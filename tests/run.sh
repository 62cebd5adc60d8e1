#!/usr/bin/env bash
# Runs the tests: installs what they need, builds and runs every test, then says how many passed.
#   tests/run.sh          one build, all tests
#   tests/run.sh --full   as CI: also the sanitizer builds and clang-tidy on changed files
# Needs no GPU, no key and, once the packages are there, no network. Each stage prints its seconds.
set -euo pipefail
cd "$(dirname "$0")/.."

full=false
case ${1:-} in
  '') ;;
  --full) full=true ;;
  *) printf 'tests/run.sh: unknown argument %s; the only one is --full\n' "$1" >&2; exit 2 ;;
esac

stage() {
  local name=$1 begin=$SECONDS
  shift
  printf '\n==> %s\n' "$name"
  "$@" || { printf '==> %s FAILED after %d s\n' "$name" $((SECONDS - begin)); exit 1; }
  printf '==> %s: %d s\n' "$name" $((SECONDS - begin))
}

build() {  # preset, targets...
  local preset=$1
  shift
  cmake --preset "$preset" >/dev/null && cmake --build --preset "$preset" "$@"
}

python_tests() {
  local python=${KERNEL_EVOLVE_PYTHON:-${KERNEL_EVOLVE_VENV:-${XDG_DATA_HOME:-$HOME/.local/share}/kernel-evolve/venv}/bin/python}
  bash tests/python/run.sh "$python"
}

if $full; then
  stage "Packages" bash examples/setup.sh build tests analysis
else
  stage "Packages" bash examples/setup.sh build tests
fi
stage "Build (gcc)" build dev
stage "Python tests" python_tests
stage "Official model clients" bash tests/clients/run.sh
if $full; then
  stage "Build (clang, address and undefined)" build asan
  stage "Tests (address and undefined)" ctest --preset asan
  stage "Build (clang, thread)" build tsan --target test_engine test_llm test_worker
  stage "Tests (thread)" ctest --preset tsan
  stage "clang-tidy on changed files" bash tests/tidy.sh
fi
# Last, so that the closing lines are ctest's.
stage "Tests (gcc)" ctest --preset dev
