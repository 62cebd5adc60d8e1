#!/usr/bin/env bash
# The main job on a fresh machine, without a GPU and without a key: installs what is needed, builds,
# and evolves examples/tasks/diag_matmul.py with the offline author under the simulator.
# Arguments are passed on to `kernel-evolve evolve`, for example: --budget evaluations=4
set -euo pipefail
cd "$(dirname "$0")/.."

start=$SECONDS
bash examples/setup.sh build
printf '\n==> Building (first time: some minutes)\n'
cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF >/dev/null
cmake --build build
printf '\n==> Ready after %d s. Evolving examples/tasks/diag_matmul.py\n' $((SECONDS - start))
exec build/bin/kernel-evolve evolve examples/tasks/diag_matmul.py "$@"
