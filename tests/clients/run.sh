#!/usr/bin/env bash
# Runs the checks against the official clients and over HTTP/2, in an environment that is made once.
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=${KERNEL_EVOLVE_CLIENTS_VENV:-${XDG_DATA_HOME:-$HOME/.local/share}/kernel-evolve/clients-venv}
packages='openai anthropic h2'
if [[ $(cat "$venv/.complete" 2>/dev/null) != "$packages" ]]; then
  PATH=/usr/sbin:/usr/bin:/sbin:/bin python3 -m venv "$venv"
  # shellcheck disable=SC2086  # several words
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check $packages
  echo "$packages" > "$venv/.complete"
fi
export PYTHONDONTWRITEBYTECODE=1 no_proxy=127.0.0.1 NO_PROXY=127.0.0.1
exec "$venv/bin/python" -m unittest discover -b -s tests/clients -p 'test_*.py'
