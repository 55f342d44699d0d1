#!/usr/bin/env bash
# Checks licences, banned crates and sources of all dependencies by deny.toml. Installs `cargo-deny` into target/ if it is
# missing, as a debug build: it takes a minute and a half instead of five, and the check itself takes seconds either way.
set -euo pipefail
cd "$(dirname "$0")/../.."
deny=cargo-deny
if ! command -v cargo-deny >/dev/null 2>&1; then
  deny=target/deny/bin/cargo-deny
  [ -x $deny ] || cargo install -q cargo-deny --version 0.20.2 --locked --debug --root target/deny --target-dir target/deny/build
fi
exec $deny check licenses bans sources
