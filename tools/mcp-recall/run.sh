#!/usr/bin/env bash
# Drives `plimsoll mcp` with the official TypeScript SDK and with Claude Code: `just mcp-recall`. Where npm or its registry
# is missing it is skipped, and says so. No other network is used.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
place=${PLIMSOLL_ROUNDTRIPS:-$root/target/roundtrips}/mcp-recall
packages="@modelcontextprotocol/sdk@1 @anthropic-ai/claude-code@2.1.197"

[ "$(uname -sm)" = "Linux x86_64" ] || { echo "skipped: the binaries are those of Linux x86_64"; exit 0; }
command -v npm >/dev/null 2>&1 || { echo "skipped: npm is not installed"; exit 0; }
mkdir -p "$place"
if [ "$(cat "$place/package" 2>/dev/null)" != "$packages" ]; then
    # shellcheck disable=SC2086 # they are two words
    npm install --silent --no-fund --no-audit --prefix "$place" $packages ||
        { echo "skipped: npm's registry cannot be reached"; exit 0; }
    echo "$packages" >"$place/package"
fi
cd "$root"
cargo build -q -p plimsoll-cli
cargo build -q -p plimsoll-testkit --features server --bin scripted-model
target=${CARGO_TARGET_DIR:-$root/target}/debug
exec node tools/mcp-recall/client.mjs "$place" "$target" "$place/work"
