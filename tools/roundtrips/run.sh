#!/usr/bin/env bash
# Hands reduced sessions over to a real tool, lets it go on for two turns against the scripted model, and checks what it sends
# and what comes back: `just opencode-import`, `just claude-resume`, `just codex-resume`.
#
#   tools/roundtrips/run.sh opencode|claude-code|codex [--short] [FILE...]
#
# `--short` takes two sessions instead of one of every format; FILEs are transcripts to try besides. Where npm or its registry
# is missing it is skipped, and says so. No other network is used.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
tool=${1:?opencode, claude-code or codex}
shift
case $tool in
opencode) package=opencode-ai@1.18.33 binary=opencode-linux-x64/bin/opencode ;;
claude-code) package=@anthropic-ai/claude-code@2.1.197 binary=@anthropic-ai/claude-code-linux-x64/claude ;;
codex) package=@openai/codex@0.166.0 binary=@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex ;;
*) echo "unknown tool \`$tool\`" >&2; exit 2 ;;
esac
place=${PLIMSOLL_ROUNDTRIPS:-$root/target/roundtrips}/$tool

[ "$(uname -sm)" = "Linux x86_64" ] || { echo "skipped: the binaries are those of Linux x86_64"; exit 0; }
command -v npm >/dev/null 2>&1 || { echo "skipped: npm is not installed"; exit 0; }
mkdir -p "$place"
if [ "$(cat "$place/package" 2>/dev/null)" != "$package" ]; then
    npm install --silent --no-fund --no-audit --prefix "$place" "$package" ||
        { echo "skipped: npm's registry cannot be reached"; exit 0; }
    echo "$package" >"$place/package"
fi
cd "$root"
cargo build -q -p plimsoll-cli
cargo build -q -p plimsoll-testkit --features server --bin scripted-model
target=${CARGO_TARGET_DIR:-$root/target}/debug
exec node tools/roundtrips/trip.mjs "$tool" "$place/node_modules/$binary" "$target" "$place/work" "$@"
