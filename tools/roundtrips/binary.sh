#!/usr/bin/env bash
# Downloads a tool from npm and prints the path of its binary. If that is not possible, fails and prints the reason.
#
#   tools/roundtrips/binary.sh opencode|claude-code|codex
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
tool=${1:?opencode, claude-code or codex}
case $tool in
opencode) package=opencode-ai@1.18.33 binary=opencode-linux-x64/bin/opencode ;;
claude-code) package=@anthropic-ai/claude-code@2.1.197 binary=@anthropic-ai/claude-code-linux-x64/claude ;;
codex) package=@openai/codex@0.166.0 binary=@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex ;;
*) echo "unknown tool \`$tool\`"; exit 2 ;;
esac
place=${PLIMSOLL_ROUNDTRIPS:-$root/target/roundtrips}/$tool

[ "$(uname -sm)" = "Linux x86_64" ] || { echo "skipped: the binaries are for Linux x86_64"; exit 1; }
"$root/tools/npm-install.sh" "$place" "$package"
# The binary is an optional dependency, so npm succeeds even if it cannot be downloaded.
[ -x "$place/node_modules/$binary" ] || { rm -f "$place/package"; echo "skipped: npm did not install \`$binary\`"; exit 1; }
echo "$place/node_modules/$binary"
