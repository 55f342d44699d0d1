#!/usr/bin/env bash
# Builds the files of a release in target/release-VERSION: a tarball, a Debian package, an npm package and checksums.
# Publishes nothing. `--binary FILE` packages an existing binary instead of building one.
set -euo pipefail
cd "$(dirname "$0")/../.."

die() { printf 'error: %s\n' "$1" >&2; [ $# -gt 1 ] && printf 'hint: %s\n' "$2" >&2; exit 2; }
need() { command -v "$1" >/dev/null 2>&1 || die "\`$1\` is missing" "$2"; }

[ $# -ge 1 ] || die "no version given" "tools/release/build.sh VERSION [--binary FILE]"
version=$1; shift
binary=
while [ $# -gt 0 ]; do
  case $1 in
    --binary) [ $# -ge 2 ] || die "\`--binary\` needs a file"; binary=$2; shift 2 ;;
    *) die "unknown argument \`$1\`" "tools/release/build.sh VERSION [--binary FILE]" ;;
  esac
done

manifest=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
[ "$version" = "$manifest" ] || die "Cargo.toml says version $manifest, not $version" "change the version in Cargo.toml and CHANGELOG.md first"
grep -q "^## $version" CHANGELOG.md || die "CHANGELOG.md has no section \`## $version\`"
need dpkg-deb "install the Debian package dpkg"
need npm "install Node.js"
need objdump "install the Debian package binutils"

if [ -z "$binary" ]; then
  cargo build --release --locked -p plimsoll-cli
  binary=${CARGO_TARGET_DIR:-target}/release/plimsoll
fi
case $(uname -m) in
  x86_64) arch=x86_64 deb_arch=amd64 npm_cpu=x64 ;;
  aarch64) arch=aarch64 deb_arch=arm64 npm_cpu=arm64 ;;
  *) die "no packages are made for $(uname -m)" ;;
esac
[ "$(uname -s)" = Linux ] || die "packages are made on Linux only"

out=target/release-$version
rm -rf "$out"; mkdir -p "$out"
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
# Files get the time of the commit, so that the same commit produces the same archive.
stamp=$(git log -1 --format=%ct 2>/dev/null || date +%s)

install -m 755 "$binary" "$work/plimsoll"
mkdir "$work/completions" "$work/man"
"$work/plimsoll" completions bash > "$work/completions/plimsoll.bash"
"$work/plimsoll" completions zsh > "$work/completions/_plimsoll"
"$work/plimsoll" completions fish > "$work/completions/plimsoll.fish"
"$work/plimsoll" man "$work/man" 2>/dev/null

# The tarball.
name=plimsoll-$version-$arch-unknown-linux-gnu
mkdir -p "$work/tar/$name"
cp -r "$work/plimsoll" "$work/completions" "$work/man" README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE "$work/tar/$name/"
tar -C "$work/tar" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$stamp" -cf - "$name" | gzip -n9 > "$out/$name.tar.gz"

# The Debian package. Its only dependency is the C library, at the newest version that a symbol of the binary requires.
glibc=$(objdump -T "$work/plimsoll" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1 | cut -d_ -f2)
[ -n "$glibc" ] || die "the binary names no version of the C library"
deb=$work/deb
install -Dm 755 "$work/plimsoll" "$deb/usr/bin/plimsoll"
install -Dm 644 "$work/completions/plimsoll.bash" "$deb/usr/share/bash-completion/completions/plimsoll"
install -Dm 644 "$work/completions/_plimsoll" "$deb/usr/share/zsh/vendor-completions/_plimsoll"
install -Dm 644 "$work/completions/plimsoll.fish" "$deb/usr/share/fish/vendor_completions.d/plimsoll.fish"
mkdir -p "$deb/usr/share/man/man1" "$deb/DEBIAN"
for page in "$work"/man/*.1; do gzip -n9 < "$page" > "$deb/usr/share/man/man1/$(basename "$page").gz"; done
install -Dm 644 LICENSE-MIT "$deb/usr/share/doc/plimsoll/copyright"
printf '\n\nAlternatively, under the Apache License 2.0:\n\n' >> "$deb/usr/share/doc/plimsoll/copyright"
cat LICENSE-APACHE >> "$deb/usr/share/doc/plimsoll/copyright"
gzip -n9 < CHANGELOG.md > "$deb/usr/share/doc/plimsoll/changelog.gz"
size=$(du -sk "$deb/usr" | cut -f1)
cat > "$deb/DEBIAN/control" <<CONTROL
Package: plimsoll
Version: $version
Architecture: $deb_arch
Maintainer: The Plimsoll authors <plimsoll@localhost>
Installed-Size: $size
Depends: libc6 (>= $glibc)
Section: devel
Priority: optional
Description: context engine and session runtime for LLM agents
 Keeps an agent's context window under its limit and loses nothing: it
 truncates, prunes and compacts with receipts, undo and recall, and shows what
 fills the window of Claude Code, Codex and OpenCode sessions.
CONTROL
SOURCE_DATE_EPOCH=$stamp dpkg-deb --root-owner-group --build "$deb" "$out/plimsoll_${version}_$deb_arch.deb" >/dev/null

# The npm package contains the binary, so nothing is downloaded during installation.
npm=$work/npm
install -Dm 755 "$work/plimsoll" "$npm/bin/plimsoll"
cp README.md LICENSE-MIT LICENSE-APACHE "$npm/"
sed -e "s/@VERSION@/$version/" -e "s/@CPU@/$npm_cpu/" tools/release/package.json > "$npm/package.json"
(cd "$npm" && npm pack --silent --pack-destination "$work" >/dev/null)
mv "$work/plimsoll-$version.tgz" "$out/plimsoll-$version-npm-linux-$npm_cpu.tgz"

(cd "$out" && sha256sum -- * > SHA256SUMS)
ls -l "$out"
