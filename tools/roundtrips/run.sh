#!/usr/bin/env bash
# Hands reduced sessions over to a real tool, continues them for two turns with the scripted model, and checks the tool's
# requests and the resulting sessions: `just opencode-import`, `just claude-resume`, `just codex-resume`.
#
#   tools/roundtrips/run.sh opencode|claude-code|codex [--short | --only=FORMAT] [FILE...]
#
# `--short` uses three sessions instead of one of every format, `--only` those of one format. FILEs are additional
# transcripts. Skipped with a message if npm or its registry is not available. No other network is used.
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
