#!/usr/bin/env bash
# Holds `plimsoll serve` against its own OpenAPI document with PyPI's `schemathesis`: `just openapi`. Skipped with a message if
# Python, Node or the package index is missing. No other network is used.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
place=${PLIMSOLL_ROUNDTRIPS:-$root/target/roundtrips}/openapi
package=schemathesis==4.32.5
most_seconds=300

command -v node >/dev/null 2>&1 || { echo "skipped: node is not installed"; exit 0; }
if [ "$(cat "$place/package" 2>/dev/null)" != "$package" ]; then
    mkdir -p "$place"
    python3 -m venv "$place/venv" 2>/dev/null || { echo "skipped: python3 has no venv"; exit 0; }
    "$place/venv/bin/pip" install -q "$package" || { echo "skipped: the package index cannot be reached"; exit 0; }
    echo "$package" >"$place/package"
fi
cd "$root"
cargo build -q -p plimsoll-cli
cargo build -q -p plimsoll-testkit --features server --bin scripted-model
target=${CARGO_TARGET_DIR:-$root/target}/debug
timeout --kill-after=10 "$most_seconds" node tools/openapi/openapi.mjs "$target" "$place/work" "$place/venv/bin/schemathesis"
