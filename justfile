# `just` without arguments lists the recipes.

default:
    @just --list

# What CI runs.
ci:
    ./.ci/run

# The ordinary tests.
test:
    cargo test --workspace

# Format and lint.
lint:
    cargo fmt --all
    cargo clippy --workspace --all-targets -- -D warnings

# Check that dependencies between crates follow the map, and that modules of a crate do not depend on each other in a circle.
structure:
    cargo run -q -p structure

# Check spelling.
typos:
    tools/checks/typos.sh

# Check licences, sources and banned crates of all dependencies.
deny:
    tools/checks/deny.sh

# Print the figures by which the code is compared with other projects.
measure:
    tools/checks/measure.py

# Check that `rust-version` is true: no dependency needs more, and the code builds with that compiler if it is installed.
msrv:
    tools/checks/msrv.sh

# Package every library and the command as for crates.io, without publishing; `just package --verify` also builds each from its package.
package *args:
    tools/checks/package.sh {{args}}

# Documentation, opened.
docs:
    cargo doc --workspace --no-deps --open

# The embedder's loop on made-up data.
demo:
    cargo run --example turn

# Write the sample session of `examples/` anew.
sample:
    cargo run -q -p plimsoll-replay --example sample > examples/session.json

# Take the picture of a replay's page that README shows (needs Chromium).
picture:
    cargo run -q -p plimsoll-cli -- replay --context 200000 --html target/replay.html --force examples/session.json > /dev/null
    chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir=target/chromium --window-size=1000,1850 --screenshot=docs/replay.png target/replay.html

# Break production lines one at a time: each must be noticed by a test of its requirement. Takes hours; `just mutations R104` takes one.
mutations filter="":
    tools/mutations/run.py {{filter}}

# The properties over many generated histories, other ones each time; the ordinary tests run the same few of each.
properties cases="20000" seed=`date +%s`:
    @echo "seed {{seed}}: just properties {{cases}} {{seed}}"
    PROPTEST_RNG_SEED={{seed}} PROPTEST_CASES={{cases}} cargo test --release --workspace properties_

# Random sessions through a lane and without it, compared with an independent bill: none may be more expensive at any moment. One in
# 10,000 is: the known exception in docs/POLICY.md. The ordinary tests run 150.
never-dearer sessions="100000":
    PLIMSOLL_LANE_SESSIONS={{sessions}} cargo test --release -p plimsoll --test it lane:: -- --nocapture

# Kill a process that writes to the store, again and again; the ordinary tests do it a dozen times.
torture kills="1000" seed="1":
    PLIMSOLL_TORTURE_KILLS={{kills}} PLIMSOLL_TORTURE_SEED={{seed}} cargo test --release -p plimsoll-store --test it crash -- --nocapture

# Kill an agent at every event of a turn, and go on in both ways; the ordinary tests do it in one of them.
kills:
    PLIMSOLL_KILLS_ALL=1 cargo test --release -p plimsoll-agent --test it kills:: -- --nocapture

# Turns of an agent with random faults of its provider and random kills; the ordinary tests make about forty.
soak turns="2000" seed="1":
    PLIMSOLL_SOAK_TURNS={{turns}} PLIMSOLL_SOAK_SEED={{seed}} cargo test --release -p plimsoll-agent --test it soak:: -- --nocapture

# Background tasks over a few slots with random faults, cancels, resumes and kills; the ordinary tests make 24.
tasks-chaos tasks="200" kills="20" seed="1":
    PLIMSOLL_CHAOS_SEED={{seed}} PLIMSOLL_CHAOS_TASKS={{tasks}} PLIMSOLL_CHAOS_KILLS={{kills}} cargo test --release -p plimsoll-agent --test it tasks::chaos -- --nocapture

# Attack Plimsoll, as root and as user 1000 if this runs as root: probe the sandbox from inside, change code of hooks and servers, swap
# paths for links, and run hostile checkouts and a hostile model against the agent, the command and the server.
attack:
    cargo test -p plimsoll-sandbox -p plimsoll-agent -p plimsoll-cli -p plimsoll-server --no-fail-fast --test it -- --include-ignored --nocapture --test-threads=1 attack hostile:: extremes:: confined_programs:: closed:: swaps:: descriptors:: network:: processes:: reads:: writes:: user::

# What commands of an agent cost: memory for 2 GB of output, time to end and to begin.
commands:
    cargo test --release -p plimsoll-agent --test it measures:: -- --ignored --nocapture --test-threads=1
    cargo test --release -p plimsoll-cli --test it measures:: -- --ignored --nocapture --test-threads=1

# Benchmarks, each beside its yardstick.
bench *args:
    cargo bench --workspace -- {{args}}

# `plimsoll serve` next to the `opencode-ai` binary from npm, in one run; `--write` puts the table into docs/BENCHMARKS.md. Skipped where
# npm is missing.
bench-server *args:
    tools/bench-server/run.sh {{args}}

# Write the JSON Schema of policies and the table of their fields for users into the tree.
schema:
    PLIMSOLL_BLESS=1 cargo test -p plimsoll --features schema --test it schema
    PLIMSOLL_BLESS=1 cargo test -p plimsoll --test it the_table_of_fields_for_users_is_current
    PLIMSOLL_BLESS=1 cargo test -p plimsoll-config --features schema --test it schema

# Write the tables that tokens are counted with, from `bpe-openai` and the Unicode classes of `regex`.
tables:
    cargo run -q -p plimsoll-tokens --example tables

# Write the output of README.md's marked commands into it.
readme:
    PLIMSOLL_BLESS=1 cargo test -p plimsoll-cli --test it the_readme_shows

# Write the command reference, `docs/CLI.md`.
reference:
    PLIMSOLL_BLESS=1 cargo test -p plimsoll-cli --bin plimsoll the_command_reference_is_current

# Read and write back real sessions, and calibrate on them; PLIMSOLL_CORPUS names their folder.
corpus:
    cargo test --release -p plimsoll --test it corpus -- --nocapture --include-ignored

# Hold windows rebuilt from real sessions against the usage they record; PLIMSOLL_CORPUS names their folder.
rebuilt *files:
    cargo run -q --release -p plimsoll-tokens --example rebuilt -- {{files}}

# Hold replays against the bills and compactions that real sessions record; `just validate FILE…`.
validate *files:
    cargo run -q --release -p plimsoll-replay --example validate -- {{files}}

# Fuzz one target for a while (needs `cargo install cargo-fuzz`).
fuzz target="messages" seconds="60":
    mkdir -p fuzz/corpus/{{target}}
    RUSTC_BOOTSTRAP=1 cargo fuzz run {{target}} --sanitizer none fuzz/corpus/{{target}} fuzz/seeds -- -max_total_time={{seconds}} -max_len=20000

# Hold requests and the scripted model against the types and clients of the official SDKs.
referee count="300":
    python3 -m venv target/referee
    target/referee/bin/pip install -q -r tools/referee/requirements.txt
    cargo build -q -p plimsoll-testkit --features server --example requests --bin scripted-model
    target/debug/examples/requests {{count}} > target/referee/requests.jsonl
    target/referee/bin/python tools/referee/referee.py target/referee/requests.jsonl target/debug/scripted-model

# Sessions of many turns with a real model on this machine (the first time it builds the model's server).
real-model *args:
    tools/real-model/run.sh {{args}}

# The agent against npm's `@modelcontextprotocol/server-everything`, over both transports; skipped where npm is missing.
mcp-everything:
    tools/mcp-everything/run.sh

# Reduced sessions of every format through the real `opencode import`, and two turns there; skipped where npm is missing.
opencode-import *args:
    tools/roundtrips/run.sh opencode {{args}}

# Reduced sessions of every format continued by the real `claude --resume`; skipped where npm is missing.
claude-resume *args:
    tools/roundtrips/run.sh claude-code {{args}}

# Reduced sessions of every format continued by the real `codex resume`; skipped where npm is missing.
codex-resume *args:
    tools/roundtrips/run.sh codex {{args}}

# `plimsoll mcp` driven by the official TypeScript SDK, and by Claude Code, Codex and OpenCode against the scripted model; skipped where npm
# is missing.
mcp-recall:
    tools/mcp-recall/run.sh

# `plimsoll serve` driven by OpenCode's SDK and by its stock terminal UI in tmux, against the scripted model; skipped where npm or tmux
# is missing.
compat:
    tools/compat/run.sh

# The page of `plimsoll serve` in headless Chromium: clicks through each function; skipped where Chromium or npm is missing.
page:
    tools/page/run.sh

# `plimsoll serve` against generated requests by its own OpenAPI document, with schemathesis; skipped where PyPI is missing.
schemathesis *args:
    tools/schemathesis/run.sh {{args}}

# Build the tarball, the Debian package, the npm package and their checksums into `target/release-VERSION`. Publishes nothing.
release version *args:
    tools/release/build.sh {{version}} {{args}}

# Install the packages of `just release VERSION` from their files, and run them.
release-check version:
    tools/release/check.sh {{version}}
