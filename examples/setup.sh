#!/usr/bin/env bash
# Installs what KernelEvolve needs on Debian 12 or Ubuntu 24.04, by package name, once.
#
#   setup.sh [build] [tests] [analysis]
#     build     compiler, libraries and the Python of the evaluation worker (always)
#     tests     GoogleTest and what else the tests use
#     analysis  clang and its tools, for the sanitizer builds
#
# Packages come from the system's package manager; PyTorch and Triton come from PyPI into a virtual
# environment outside the checkout:
#   $KERNEL_EVOLVE_VENV, else ${XDG_DATA_HOME:-~/.local/share}/kernel-evolve/venv (5.4 GB).
# With KERNEL_EVOLVE_PYTHON set to a Python that has torch and triton, no environment is made.
set -euo pipefail

say() { printf '\n==> %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 3; }

packages=(ca-certificates git g++ cmake ninja-build ccache pkg-config
  python3 python3-venv python3-dev libboost-dev libyaml-cpp-dev nlohmann-json3-dev libcli11-dev
  libspdlog-dev libfmt-dev libkainjow-mustache-dev libsqlite3-dev libcurl4-openssl-dev)
for part in "$@"; do
  case $part in
    build) ;;
    tests) packages+=(libgtest-dev libgmock-dev libbenchmark-dev libcpp-httplib-dev binutils) ;;
    analysis) packages+=(clang clang-tidy clang-format libclang-rt-14-dev) ;;
    *) die "unknown part '$part'; the parts are build, tests, analysis" ;;
  esac
done

installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }

command -v dpkg-query >/dev/null ||
  die "this script knows Debian and Ubuntu; elsewhere install the packages listed in it by hand"
if [[ " ${packages[*]} " == *" libclang-rt-14-dev "* ]] && ! apt-cache show libclang-rt-14-dev >/dev/null 2>&1 \
    && ! installed libclang-rt-14-dev; then
  # Ubuntu 24.04 numbers it after its own clang; `clang` recommends the right one.
  packages=("${packages[@]/libclang-rt-14-dev/}")
fi
missing=()
for package in "${packages[@]}"; do
  [[ -z $package ]] || installed "$package" || missing+=("$package")
done
if ((${#missing[@]})); then
  say "Installing ${#missing[@]} packages: ${missing[*]}"
  as_root=()
  if [[ $(id -u) != 0 ]]; then
    command -v sudo >/dev/null ||
      die "packages are missing and there is no sudo; as root run: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  export DEBIAN_FRONTEND=noninteractive
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

if [[ -n ${KERNEL_EVOLVE_PYTHON:-} ]]; then
  "$KERNEL_EVOLVE_PYTHON" -c 'import torch, triton' ||
    die "KERNEL_EVOLVE_PYTHON=$KERNEL_EVOLVE_PYTHON cannot import torch and triton"
else
  venv=${KERNEL_EVOLVE_VENV:-${XDG_DATA_HOME:-$HOME/.local/share}/kernel-evolve/venv}
  if [[ ! -e $venv/.complete ]]; then
    if ! "$venv/bin/python" -c 'import torch, triton, numpy' 2>/dev/null; then
      say "Installing PyTorch and Triton into $venv (some minutes, 5.4 GB)"
      # Debian's own interpreter: one from a version manager may vanish under the environment.
      PATH=/usr/sbin:/usr/bin:/sbin:/bin python3 -m venv "$venv"
      "$venv/bin/python" -m pip install --quiet --disable-pip-version-check torch numpy
    fi
    "$venv/bin/python" -c 'import torch, triton, numpy' || die "$venv is broken; remove it and run again"
    touch "$venv/.complete"
  fi
fi
