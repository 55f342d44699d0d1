#!/usr/bin/env bash
# Hands reduced sessions over to a real tool, lets it go on for two turns against the scripted model, and checks what it sends
# and what comes back: `just opencode-import`, `just claude-resume`, `just codex-resume`.
#
#   tools/roundtrips/run.sh opencode|claude-code|codex [--short | --only=FORMAT] [FILE...]
#
# `--short` takes three sessions instead of one of every format, `--only` those of one format; FILEs are transcripts to try
# besides. Where npm or its registry is missing it is skipped, and says so. No other network is used.
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
"$root/tools/npm-install.sh" "$place" "$package" || exit 0
# The binary is an optional dependency: npm goes on without it where it cannot be had.
[ -x "$place/node_modules/$binary" ] || { rm -f "$place/package"; echo "skipped: npm did not bring \`$binary\`"; exit 0; }
cd "$root"
cargo build -q -p plimsoll-cli
cargo build -q -p plimsoll-testkit --features server --bin scripted-model
target=${CARGO_TARGET_DIR:-$root/target}/debug
exec node tools/roundtrips/trip.mjs "$tool" "$place/node_modules/$binary" "$target" "$place/work" "$@"
