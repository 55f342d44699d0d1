#!/usr/bin/env bash
# Measures `plimsoll serve` next to the `opencode-ai` binary from npm: `just bench-server`. `--write` puts the table into
# docs/BENCHMARKS.md. Skipped with a message if npm or its registry is missing.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
opencode=$("$root/tools/roundtrips/binary.sh" opencode) || { echo "$opencode"; exit 0; }
cd "$root"
cargo build -q --release -p plimsoll-cli
cargo build -q --release -p plimsoll-testkit --features server --bin scripted-model
target=${CARGO_TARGET_DIR:-$root/target}
exec node tools/bench-server/bench.mjs "$target/release" "$target/bench-server" "$opencode" "$@"
