#!/usr/bin/env bash
# Runs the agent against npm's `@modelcontextprotocol/server-everything`, over standard input and output and over HTTP:
# `just mcp-everything`. Where npm or its registry is missing it is skipped, and says so.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
place=$root/target/mcp-everything
version=2026.8.31
server=$place/node_modules/@modelcontextprotocol/server-everything

command -v npm >/dev/null 2>&1 || { echo "skipped: npm is not installed"; exit 0; }
if ! grep -qs "\"version\": \"$version\"" "$server/package.json"; then
    mkdir -p "$place"
    npm install --silent --no-fund --no-audit --prefix "$place" "@modelcontextprotocol/server-everything@$version" ||
        { echo "skipped: npm's registry cannot be reached"; exit 0; }
fi
cd "$root"
PLIMSOLL_MCP_EVERYTHING=$server/dist/index.js cargo test -p plimsoll-agent --test it mcp::everything -- --nocapture
