#!/usr/bin/env bash
# Drives `plimsoll serve` with npm's `@opencode-ai/sdk` and with the stock terminal UI of OpenCode in tmux, against the
# scripted model: `just compat`, and in CI. Skipped with a message if npm, its registry or tmux is missing. No other network
# is used.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
place=${PLIMSOLL_ROUNDTRIPS:-$root/target/roundtrips}/compat
# All of it takes a minute. A client that waits for an answer which does not come must not hold up CI.
most_seconds=300

command -v tmux >/dev/null 2>&1 || { echo "skipped: tmux is not installed"; exit 0; }
"$root/tools/npm-install.sh" "$place" "@opencode-ai/sdk@1.19.3" || exit 0
# The same binary as for the round trips: it has hundreds of megabytes.
opencode=$("$root/tools/roundtrips/binary.sh" opencode) || { echo "$opencode"; exit 0; }
cd "$root"
cargo build -q -p plimsoll-cli
cargo build -q -p plimsoll-testkit --features server --bin scripted-model
target=${CARGO_TARGET_DIR:-$root/target}/debug
timeout --kill-after=10 "$most_seconds" node tools/compat/sdk.mjs "$place" "$target" "$place/sdk-work"
timeout --kill-after=10 "$most_seconds" node tools/compat/tui.mjs "$target" "$place/tui-work" "$opencode"
timeout --kill-after=10 "$most_seconds" node tools/compat/attach.mjs "$target" "$place/attach-work" "$opencode"
timeout --kill-after=10 "$most_seconds" node tools/compat/reconnect.mjs "$target" "$place/reconnect-work" "$opencode"
