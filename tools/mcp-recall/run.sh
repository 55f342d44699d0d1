#!/usr/bin/env bash
# Tests `plimsoll mcp` with the official TypeScript SDK and with Claude Code, Codex and OpenCode: `just mcp-recall`, also in
# CI. Skipped with a message if npm or its registry is not available. No other network is used.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=${PLIMSOLL_ROUNDTRIPS:-$root/target/roundtrips}
place=$folder/mcp-recall
# Takes a minute. A client that waits for an answer that never arrives must not block CI.
most_seconds=300

"$root/tools/npm-install.sh" "$place" "@modelcontextprotocol/sdk@1.32.2" || exit 0
# The same binaries as for the round trips. They have hundreds of megabytes and are downloaded once for both.
binaries=()
for tool in claude-code codex opencode; do
    binary=$("$root/tools/roundtrips/binary.sh" "$tool") || { echo "$binary"; exit 0; }
    binaries+=("$binary")
done
cd "$root"
cargo build -q -p plimsoll-cli
cargo build -q -p plimsoll-testkit --features server --bin scripted-model
target=${CARGO_TARGET_DIR:-$root/target}/debug
# Its servers are in its process group, so they are killed with it.
exec timeout --kill-after=10 "$most_seconds" node tools/mcp-recall/client.mjs "$place" "$target" "$place/work" "${binaries[@]}"
