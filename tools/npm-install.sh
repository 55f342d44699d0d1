#!/usr/bin/env bash
# Installs packages of npm into a folder, once: the versions that are there are noted beside them.
#
#   tools/npm-install.sh FOLDER PACKAGE@VERSION...
#
# Where npm or its registry is missing it says so, and fails: a caller skips what needs the packages.
set -euo pipefail

folder=$1
shift
command -v npm >/dev/null 2>&1 || { echo "skipped: npm is not installed"; exit 1; }
mkdir -p "$folder"
[ "$(cat "$folder/package" 2>/dev/null)" = "$*" ] && exit 0
# By default npm tries for more than a minute to reach a registry that is not there.
npm install --silent --no-fund --no-audit --fetch-retries=1 --fetch-retry-mintimeout=1000 --prefix "$folder" "$@" ||
    { echo "skipped: npm's registry cannot be reached"; exit 1; }
echo "$*" >"$folder/package"
