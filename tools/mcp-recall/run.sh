#!/usr/bin/env bash
# Drives `plimsoll mcp` with the official TypeScript SDK and with Claude Code: `just mcp-recall`. Where npm or its registry
# is missing it is skipped, and says so. No other network is used.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
place=${PLIMSOLL_ROUNDTRIPS:-$root/target/roundtrips}/mcp-recall
packages="@modelcontextprotocol/sdk@1 @anthropic-ai/claude-code@2.1.197"
claude=@anthropic-ai/claude-code-linux-x64/claude

[ "$(uname -sm)" = "Linux x86_64" ] || { echo "skipped: the binaries are those of Linux x86_64"; exit 0; }
# shellcheck disable=SC2086 # they are two words
"$root/tools/npm-install.sh" "$place" $packages || exit 0
[ -x "$place/node_modules/$claude" ] || { rm -f "$place/package"; echo "skipped: npm did not bring \`$claude\`"; exit 0; }
cd "$root"
cargo build -q -p plimsoll-cli
cargo build -q -p plimsoll-testkit --features server --bin scripted-model
target=${CARGO_TARGET_DIR:-$root/target}/debug
exec node tools/mcp-recall/client.mjs "$place" "$target" "$place/work"
