#!/usr/bin/env bash
# Packages the crates, installs the packages of a release from their files, each in an empty directory and without a network
# where the tool allows it, and runs the command from there.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# -eq 1 ] || { echo "usage: tools/release/check.sh VERSION" >&2; exit 2; }
tools/checks/package.sh
version=$1 out=$PWD/target/release-$1 sample=$PWD/examples/session.json
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
cd "$work"; mkdir home
run() { env -i PATH=/usr/bin:/bin HOME="$work/home" TERM=dumb "$@"; }
runs() { # NAME COMMAND...: the version and an inspection of the sample
  local name=$1; shift
  [ "$(run "$@" --version)" = "plimsoll $version" ] || { echo "$name: wrong version" >&2; exit 1; }
  run "$@" inspect --json "$sample" | grep -q '"window"' || { echo "$name: inspect failed" >&2; exit 1; }
  echo "ok: $name"
}

(cd "$out" && sha256sum --quiet -c SHA256SUMS) && echo "ok: checksums"

mkdir tar && tar -xzf "$out"/plimsoll-"$version"-*.tar.gz -C tar --strip-components=1
runs tarball tar/plimsoll
test -s tar/man/plimsoll.1 && test -s tar/completions/plimsoll.bash && test -s tar/completions/_plimsoll

mkdir deb && dpkg-deb -x "$out"/plimsoll_"$version"_*.deb deb
runs "debian package, unpacked" deb/usr/bin/plimsoll
if [ "$(id -u)" = 0 ] && command -v dpkg >/dev/null; then
  # A separate package database, so that the machine is not changed. `--force-depends`: the C library is not in it.
  mkdir -p root/var/lib/dpkg/info root/var/lib/dpkg/updates && : > root/var/lib/dpkg/status
  dpkg --root="$work/root" --force-depends --force-script-chrootless -i "$out"/plimsoll_"$version"_*.deb >/dev/null 2>&1
  dpkg --root="$work/root" -s plimsoll | grep -q '^Status: install ok installed'
  runs "debian package, installed" root/usr/bin/plimsoll
fi

npm_bin=$(dirname "$(command -v npm)")
runs "npx from the packed file" env PATH="$npm_bin:$PATH" npm_config_update_notifier=false \
  npx --offline --yes --package "$(echo "$out"/plimsoll-"$version"-npm-*.tgz)" plimsoll
