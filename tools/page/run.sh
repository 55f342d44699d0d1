#!/usr/bin/env bash
# Clicks through the page of `plimsoll serve` in headless Chromium, against the scripted model: `just page`. Screenshots are
# written to target/page. Skipped with a message if Chromium, npm or its registry is missing. No other network is used.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
place=${PLIMSOLL_ROUNDTRIPS:-$root/target/roundtrips}/page
most_seconds=300

chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$chromium" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    # Without a network, or with a slow one, the tests are skipped rather than late.
    timeout --kill-after=10 "$most_seconds" sh -c 'apt-get update -qq && apt-get install -y -qq chromium' >/dev/null 2>&1 || true
    chromium=$(command -v chromium || true)
fi
[ -n "$chromium" ] || { echo "skipped: chromium is not installed, and could not be installed"; exit 0; }
"$root/tools/npm-install.sh" "$place" "puppeteer-core@24.43.1" "axe-core@4.14.0" || exit 0
cd "$root"
cargo build -q -p plimsoll-cli
cargo build -q -p plimsoll-testkit --features server --bin scripted-model
target=${CARGO_TARGET_DIR:-$root/target}/debug
mkdir -p "$root/target/page"
timeout --kill-after=10 "$most_seconds" node tools/page/page.mjs "$place" "$target" "$place/work" "$chromium" "$root/target/page"
