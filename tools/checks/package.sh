#!/usr/bin/env bash
# Packages every library and the command as for crates.io, without publishing. By default this only shows that the packages are
# complete; `--verify` also builds each from its package, which takes as long as a full build.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-target}
verify=--no-verify
[ "${1:-}" = --verify ] && verify=
log=$(mktemp) && trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2086
cargo package --workspace --exclude plimsoll-testkit --exclude structure --allow-dirty $verify >"$log" 2>&1 || {
  cat "$log" >&2
  exit 1
}
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)
for crate in crates/*/; do
  name=$(basename "$crate")
  [ "$name" = plimsoll-testkit ] && continue
  # Listed to a variable: `tar … | grep -q` fails under `pipefail`, because grep exits at the first match and tar dies of SIGPIPE.
  files=$(tar -tzf "$target/package/$name-$version.crate")
  grep -q "/src/" <<<"$files" || { echo "$name: the package has no code" >&2; exit 1; }
  grep -q "/README.md$" <<<"$files" || { echo "$name: the package has no README.md" >&2; exit 1; }
  echo "ok: $name"
done
