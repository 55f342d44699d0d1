#!/usr/bin/env bash
# Checks the spelling of the tree with `typos`, installed from PyPI into target/ if it is not on the PATH.
set -euo pipefail
cd "$(dirname "$0")/../.."
if command -v typos >/dev/null 2>&1; then exec typos; fi
venv=target/typos
[ -x $venv/bin/typos ] || { python3 -m venv $venv && $venv/bin/pip install -q typos==1.51.1; }
exec $venv/bin/typos
