#!/usr/bin/env bash
# Checks that `rust-version` is true: no dependency needs a newer compiler, and the code builds with that one. A toolchain of
# that version is used if it is installed. Otherwise clippy's `incompatible_msrv`, which CI runs as an error, finds newer parts
# of the standard library.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
host=$(rustc -vV | sed -n 's/^host: //p')
newest=$(cargo metadata --format-version 1 --filter-platform "$host" | grep -o '"rust_version":"[0-9.]*"' | cut -d'"' -f4 |
  sed 's/^\([0-9]*\.[0-9]*\)\.0$/\1/' | sort -uV | tail -n 1)
[ "$(printf '%s\n' "$newest" "$version" | sort -V | tail -n 1)" = "$version" ] || {
  echo "rust-version is $version, but a dependency needs $newest" >&2
  exit 1
}
grep -q "Rust toolchain ($version or newer)" README.md || { echo "README.md does not name Rust $version" >&2; exit 1; }
case $(rustc --version) in
"rustc $version."*) echo "rust-version $version is this toolchain's" ;;
*)
  if cargo "+$version" --version >/dev/null 2>&1; then
    cargo "+$version" check --workspace --all-targets
  else
    echo "SKIPPED: the build with Rust $version, which is not installed"
  fi
  ;;
esac
