#!/usr/bin/env bash
# Installs npm packages into a directory, once: the file `package` in it records the installed versions.
#
#   tools/npm-install.sh FOLDER PACKAGE@VERSION...
#
# Fails with a message if npm or its registry is not available, so that the caller can skip its work.
set -euo pipefail

folder=$1
shift
command -v npm >/dev/null 2>&1 || { echo "skipped: npm is not installed"; exit 1; }
mkdir -p "$folder"
[ "$(cat "$folder/package" 2>/dev/null)" = "$*" ] && exit 0
# By default npm retries for more than a minute if the registry cannot be reached.
npm install --silent --no-fund --no-audit --fetch-retries=1 --fetch-retry-mintimeout=1000 --prefix "$folder" "$@" ||
    { echo "skipped: npm's registry cannot be reached"; exit 1; }
echo "$*" >"$folder/package"
