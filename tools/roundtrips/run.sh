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
binary=$("$root/tools/roundtrips/binary.sh" "$tool") || { status=$?; echo "$binary"; [ $status -eq 1 ] && exit 0; exit $status; }
place=${PLIMSOLL_ROUNDTRIPS:-$root/target/roundtrips}/$tool
cd "$root"
cargo build -q -p plimsoll-cli
cargo build -q -p plimsoll-testkit --features server --bin scripted-model
target=${CARGO_TARGET_DIR:-$root/target}/debug
exec node tools/roundtrips/trip.mjs "$tool" "$binary" "$target" "$place/work" "$@"
