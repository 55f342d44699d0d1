#!/usr/bin/env bash
# Runs the agent with npm's `@modelcontextprotocol/server-everything`, over standard input and output and over HTTP:
# `just mcp-everything`. Skipped with a message if npm or its registry is not available.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
place=$root/target/mcp-everything
version=2026.8.31
server=$place/node_modules/@modelcontextprotocol/server-everything

"$root/tools/npm-install.sh" "$place" "@modelcontextprotocol/server-everything@$version" || exit 0
cd "$root"
PLIMSOLL_MCP_EVERYTHING=$server/dist/index.js cargo test -p plimsoll-agent --test it mcp::everything -- --nocapture
