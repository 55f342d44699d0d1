#!/usr/bin/env bash
# Sends generated requests to `plimsoll serve` by its own OpenAPI document, with schemathesis from PyPI: `just schemathesis`. Checks
# that no answer is a server error, and that statuses, content types and bodies are those that the document states. Skipped with a
# message if Python or PyPI is missing. No other network is used.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
place=$root/target/schemathesis
# The same requests each time; other ones with another seed.
seed=${1:-1} examples=${2:-25} most_seconds=300

command -v python3 >/dev/null 2>&1 || { echo "skipped: python3 is not installed"; exit 0; }
cd "$root"
python3 -m venv "$place"
"$place/bin/pip" install -q --retries 1 -r tools/schemathesis/requirements.txt ||
    { echo "skipped: PyPI cannot be reached"; exit 0; }
cargo build -q -p plimsoll-cli
cargo build -q -p plimsoll-testkit --features server --bin scripted-model
target=${CARGO_TARGET_DIR:-$root/target}/debug
work=$(mktemp -d)
children=()
cleanup() {
    for child in "${children[@]}"; do kill "$child" 2>/dev/null || true; done
    rm -rf "$work"
}
trap cleanup EXIT

# Prints the address in the first line of a log that has one.
address() {
    for _ in $(seq 100); do
        if url=$(grep -o 'http://[0-9.:]*[0-9a-z/]*' "$1" | head -1) && [ -n "$url" ]; then
            echo "$url"
            return
        fi
        sleep 0.1
    done
    cat "$1" >&2
    return 1
}

"$target/scripted-model" --lenient >"$work/model.log" 2>&1 &
children+=($!)
model=$(address "$work/model.log")
mkdir "$work/project"
cd "$work/project"
env -i PATH="$PATH" HOME="$work" OPENAI_BASE_URL="$model" OPENAI_API_KEY=x \
    "$target/plimsoll" serve --port 0 --model openai-chat/scripted >"$work/server.log" 2>&1 &
children+=($!)
url=$(address "$work/server.log")
# Requests about a session that exists get further than the check of its id.
session=$(curl -sf -X POST "$url/session" | grep -o 'ses_[0-9A-Za-z]*' | head -1)
curl -sf -X POST "$url/session/$session/message" -H 'content-type: application/json' \
    -d '{"parts":[{"type":"text","text":"How deep is the harbour?"}]}' >/dev/null
cat >"$work/schemathesis.toml" <<TOML
[parameters]
"path.id" = "$session"
TOML
checks=not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,unsupported_method
for config in "" "--config-file=$work/schemathesis.toml"; do
    # shellcheck disable=SC2086
    timeout --kill-after=10 "$most_seconds" "$place/bin/schemathesis" --no-color $config run "$url/plimsoll/openapi.json" \
        --url "$url" --checks "$checks" --phases examples,coverage,fuzzing --max-examples "$examples" --seed "$seed" \
        --request-timeout 20 --workers 1
done
