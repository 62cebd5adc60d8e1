#!/usr/bin/env bash
# Runs the checks against the official clients, in an environment of their own that is made once.
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=${KERNEL_EVOLVE_CLIENTS_VENV:-${XDG_DATA_HOME:-$HOME/.local/share}/kernel-evolve/clients-venv}
if [[ ! -e $venv/.complete ]]; then
  PATH=/usr/sbin:/usr/bin:/sbin:/bin python3 -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check openai anthropic
  touch "$venv/.complete"
fi
export PYTHONDONTWRITEBYTECODE=1 no_proxy=127.0.0.1 NO_PROXY=127.0.0.1
exec "$venv/bin/python" -m unittest discover -b -s tests/clients -p 'test_*.py'
