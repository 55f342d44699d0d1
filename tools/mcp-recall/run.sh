#!/usr/bin/env bash
# Drives `plimsoll mcp` with the official TypeScript SDK and with Claude Code, Codex and OpenCode: `just mcp-recall`, and in
# CI. Where npm or its registry is missing it is skipped, and says so. No other network is used.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=${PLIMSOLL_ROUNDTRIPS:-$root/target/roundtrips}
place=$folder/mcp-recall
# All of it takes a minute. A client that waits for an answer which does not come must not hold up CI.
most_seconds=300

"$root/tools/npm-install.sh" "$place" "@modelcontextprotocol/sdk@1.32.2" || exit 0
# The same binaries as for the round trips: they have hundreds of megabytes, and are fetched once for both.
binaries=()
for tool in claude-code codex opencode; do
    binary=$("$root/tools/roundtrips/binary.sh" "$tool") || { echo "$binary"; exit 0; }
    binaries+=("$binary")
done
cd "$root"
cargo build -q -p plimsoll-cli
cargo build -q -p plimsoll-testkit --features server --bin scripted-model
target=${CARGO_TARGET_DIR:-$root/target}/debug
# Its own servers are in its process group, so that they end with it.
exec timeout --kill-after=10 "$most_seconds" node tools/mcp-recall/client.mjs "$place" "$target" "$place/work" "${binaries[@]}"
