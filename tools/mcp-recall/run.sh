#!/usr/bin/env bash
# Drives `plimsoll mcp` with the official TypeScript SDK and with Claude Code: `just mcp-recall`, and in CI. Where npm or its
# registry is missing it is skipped, and says so. No other network is used.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=${PLIMSOLL_ROUNDTRIPS:-$root/target/roundtrips}
place=$folder/mcp-recall
# The same folder and version as for `just claude-resume`: the binary has 350 MB, and is fetched once for both.
claude=$folder/claude-code/node_modules/@anthropic-ai/claude-code-linux-x64/claude
# All of it takes seconds. A client that waits for an answer which does not come must not hold up CI.
most_seconds=300

[ "$(uname -sm)" = "Linux x86_64" ] || { echo "skipped: the binaries are those of Linux x86_64"; exit 0; }
"$root/tools/npm-install.sh" "$place" "@modelcontextprotocol/sdk@1.32.2" || exit 0
"$root/tools/npm-install.sh" "$folder/claude-code" "@anthropic-ai/claude-code@2.1.197" || exit 0
[ -x "$claude" ] || { rm -f "$folder/claude-code/package"; echo "skipped: npm did not bring \`$claude\`"; exit 0; }
cd "$root"
cargo build -q -p plimsoll-cli
cargo build -q -p plimsoll-testkit --features server --bin scripted-model
target=${CARGO_TARGET_DIR:-$root/target}/debug
# Its own servers are in its process group, so that they end with it.
exec timeout --kill-after=10 "$most_seconds" node tools/mcp-recall/client.mjs "$place" "$claude" "$target" "$place/work"
