// For each session: store it, reduce it, hand it over, continue it for two turns in the real tool, and compare the tool's
// requests with the window, and the resulting session with both. See `run.sh`.

import { execFileSync, spawn } from "node:child_process";
import * as fs from "node:fs";
import * as path from "node:path";

const [tool, binary, target, work, ...rest] = process.argv.slice(2);
const short = rest.includes("--short");
const only = rest.find((each) => each.startsWith("--only="))?.slice("--only=".length);
const files = rest.filter((each) => !each.startsWith("--")).map((file) => path.resolve(file));
const PROMPTS = ["What is still to be done?", "Then go on with it, please."];

fs.rmSync(work, { recursive: true, force: true });
const home = path.join(work, "home");
const project = path.join(work, "project");
fs.mkdirSync(home, { recursive: true });
fs.mkdirSync(project, { recursive: true });
execFileSync("git", ["init", "-q", project]);

const log = path.join(work, "requests.jsonl");
const server = spawn(path.join(target, "scripted-model"), ["--lenient", "--log", log], { stdio: ["ignore", "pipe", "ignore"] });
process.on("exit", () => server.kill());
const url = await new Promise((resolve) => server.stdout.once("data", (data) => resolve(String(data).trim())));
const base = url.replace(/\/v1$/, "");

const store = path.join(work, "plimsoll.db");
const clean = { PATH: process.env.PATH, HOME: home, TERM: "xterm", NO_PROXY: "127.0.0.1,localhost" };

function run(program, args, environment = {}) {
    const env = { ...clean, ...environment };
    const options = { cwd: project, env, encoding: "utf8", maxBuffer: 1 << 28, timeout: 180_000 };
    return execFileSync(program, args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
}

const plimsoll = (...args) => run(path.join(target, "plimsoll"), ["--store", store, ...args]);
const json = (...args) => JSON.parse(plimsoll("--json", ...args));

// A reduction with nothing to do exits with 1, which is not an error here.
function reduce(...args) {
    try {
        plimsoll(...args);
        return true;
    } catch (error) {
        if (error.status === 1) return false;
        throw error;
    }
}

const opencode = {
    OPENCODE_DISABLE_MODELS_FETCH: "1", OPENCODE_DISABLE_AUTOUPDATE: "1", OPENCODE_DISABLE_DEFAULT_PLUGINS: "1",
    OPENCODE_DISABLE_LSP_DOWNLOAD: "1", OPENCODE_DISABLE_EMBEDDED_WEB_UI: "1",
};

// Continues a session in the tool.
const goOn = {
    opencode: (done, prompt) => run(binary, ["run", "--session", done.session, "--model", "fake/fake-model", prompt], opencode),
    "claude-code": (done, prompt) => run(binary, ["-p", "--resume", done.session, prompt], {
        ANTHROPIC_BASE_URL: base, ANTHROPIC_API_KEY: "x", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    }),
    codex: (done, prompt) => run(binary, ["exec", "--skip-git-repo-check", "-c", "model_provider=f", "-c",
        `model_providers.f={name="f",base_url="${base}/v1",env_key="K",wire_api="responses"}`, "-m", "gpt-5.5",
        "resume", done.session, prompt], { K: "x" }),
}[tool];

if (tool === "opencode") {
    const model = { limit: { context: 1_000_000, output: 8_000 }, attachment: true, modalities: { input: ["text", "image"], output: ["text"] } };
    const provider = { npm: "@ai-sdk/openai-compatible", options: { baseURL: `${base}/v1`, apiKey: "x" }, models: { "fake-model": model } };
    const config = { model: "fake/fake-model", small_model: "fake/fake-model", permission: { "*": "allow" }, share: "disabled",
        autoupdate: false, compaction: { auto: false }, provider: { fake: provider } };
    fs.writeFileSync(path.join(project, "opencode.json"), JSON.stringify(config));
}

const strings = (value) => typeof value === "string" ? [value] : value && typeof value === "object" ? Object.values(value).flatMap(strings) : [];
// Tools trim texts, and Codex and Chat Completions have arguments as JSON in a string.
const plain = (text) => text.replace(/\\n|\\t|\\|"/g, " ").replace(/\s+/g, " ").trim();

function requests() {
    if (!fs.existsSync(log)) return [];
    return fs.readFileSync(log, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line));
}

// The texts of a conversation in order, including the values of arguments that are JSON in a string.
function leaves(conversation) {
    const inside = (text) => {
        try {
            return strings(JSON.parse(text));
        } catch {
            return [];
        }
    };
    const texts = strings(conversation).flatMap((text) => [text, ...inside(text)]);
    return texts.map((text) => ({ whole: plain(text), lines: text.split("\n").map(plain) }));
}

// Content of the window that is missing in a conversation, or at the wrong place. A short text must be a text or a line of
// the conversation, because an `x` is in many. Texts must be in the order of the window. Inputs and outputs are with their
// call, which each tool places differently.
function missing(window, conversation) {
    const sent = leaves(conversation);
    const lost = [];
    // OpenCode sends the thoughts of another model as text, directly before the answer.
    const thoughts = window.messages.flatMap((message) => message.blocks).filter((block) => block.type === "reasoning").map((block) => plain(block.text));
    let from = 0;
    const want = (what, text, isOrdered) => {
        const wanted = plain(text);
        const isText = (text) => text === wanted || thoughts.some((thought) => text === thought + wanted);
        const holds = ({ whole, lines }) => wanted.length < 20 ? [whole, ...lines].some(isText) : whole.includes(wanted);
        const at = sent.findIndex((leaf, at) => at >= from && holds(leaf));
        if (!wanted || (at >= 0 && !isOrdered)) return;
        if (at >= 0) from = at;
        else if (isOrdered && sent.some(holds)) lost.push(`${what} in its place: ${text.slice(0, 80)}`);
        else if (!sent.some(holds)) lost.push(`${what}: ${text.slice(0, 80)}`);
    };
    for (const message of window.messages.filter((message) => message.role !== "system")) {
        for (const block of message.blocks) {
            if (block.type === "text" && !(block.text === "What did we do so far?" && tool !== "opencode")) want("text", block.text, true);
            if (block.type === "call") strings(block.input).forEach((text) => want(`input of ${block.tool}`, text));
            if (block.type === "result" && !block.cleared) want(`result of ${block.tool}`, block.text);
            const data = block.type === "file" && block.url?.replace(/^data:[^,]*,/, "");
            if (data && !sent.some(({ whole }) => whole === data || whole.endsWith(`,${data}`))) lost.push(`file: ${block.url.slice(0, 80)}`);
            // OpenCode has its own placeholder for a cleared output. When read again, the placeholder has another handle.
            if (block.type === "result" && block.cleared) want("placeholder", tool === "opencode" ? "[Old tool result content cleared" : block.text);
        }
    }
    return lost;
}

// Cleared outputs that are sent nevertheless. They are recognised by a piece from their middle.
function leaked(exported, window, request) {
    const sent = strings(request.body).join("\n");
    const shown = strings(window).join("\n");
    const states = exported.messages.flatMap((message) => message.parts).filter((part) => part.state?.time?.compacted);
    const pieces = states.map((part) => part.state.output).filter((output) => output.length > 400);
    return pieces.map((output) => output.slice(output.length / 2, output.length / 2 + 120)).filter((piece) => sent.includes(piece) && !shown.includes(piece));
}

let failures = 0;
function check(name, holds, what) {
    if (!holds) {
        failures += 1;
        console.log(`  FAILED ${name}: ${what}`);
    }
}

// With the default policy, the small samples fit into the tail, or consist of results that the model has not seen, so there
// would be nothing to summarise.
function summarising() {
    const file = path.join(made, "summarising.json");
    fs.writeFileSync(file, JSON.stringify({ compact: { tailShare: 0.25, tailMax: 15000, askedTailShare: 1, minFreedShare: 0 } }));
    return file;
}

// Replaces the third and fourth turn with a summary. Returns texts that are only in these turns, which must not be sent any
// more.
const RANGE_SUMMARY = "Two turns were summarised by hand, and this is all that is left of them.";
const RANGE_ANSWER = `## Goal\n${RANGE_SUMMARY}`;
function compactRange(name, id) {
    const before = json("window", id).messages;
    const turns = before.filter((message) => message.role === "user" && message.message).map((message) => before.indexOf(message));
    const [first, last] = [turns[2], turns[4] - 1];
    const range = ["--from", before[first].message, "--to", before[last].message];
    check(name, reduce("compact", ...range, "--apply", "--command", `cat > /dev/null; echo "${RANGE_ANSWER}"`, id), "the range was not summarised");
    const shown = plain(strings(json("window", id).messages).join("\n"));
    check(name, shown.includes(RANGE_SUMMARY), "the window has no summary of the range");
    const texts = before.slice(first, last + 1).flatMap((message) => message.blocks).flatMap((block) => strings([block.text, block.input]));
    const gone = texts.flatMap((text) => text.split("\n")).map(plain).filter((line) => line.length > 40 && !shown.includes(line));
    check(name, gone.length > 10, `the summary replaced only ${gone.length} lines`);
    return gone;
}

// Reductions before the handover: summary of a `range`, `prune` by the policy, `clear` all outputs, `compact`, `undo` the
// last one; `own` means that the session already has a summary.
function trip(name, file, how) {
    const began = Date.now();
    const has = (what) => how.includes(what);
    const id = plimsoll("sessions", "import", file, "--duplicate").trim().split("\n")[0];
    const behind = has("range") ? compactRange(name, id) : [];
    if (has("prune")) check(name, reduce("prune", "--apply", id), "nothing was pruned");
    if (has("clear")) check(name, reduce("prune", "--apply", "--keep", "0", id), "nothing was cleared");
    if (has("compact")) check(name, reduce("compact", "--offline", "--apply", "--policy", summarising(), id), "there was nothing to summarise");
    if (has("undo")) plimsoll("undo", json("receipts", id).at(-1).id);
    const window = json("window", id);
    const hasSummary = has("own") || (has("compact") && !has("undo"));
    check(name, (window.pivot !== null) === hasSummary, `the window has ${window.pivot === null ? "no" : "a"} summary`);
    const original = plimsoll("sessions", "export", id);
    const done = json("sessions", "handover", id, "--to", tool, ...(tool === "opencode" ? ["--dir", work] : []));
    check(name, (fs.statSync(done.path).mode & 0o777) === 0o600, `the file is not private: ${done.path}`);
    if (tool === "opencode") check(name, run(binary, ["import", done.path], opencode).includes("Imported session"), "not imported");
    const before = requests().length;
    PROMPTS.forEach((prompt) => goOn(done, prompt));
    const turns = requests().slice(before).filter((request) => PROMPTS.some((prompt) => strings(request.body.messages ?? request.body.input).join("\n").includes(prompt)));
    check(name, turns.length >= 2, `${turns.length} requests were sent`);
    const last = turns.at(-1);
    if (!last) return;
    const lost = missing(window, last.body.messages ?? last.body.input);
    check(name, lost.length === 0, `${lost.length} not sent, such as ${lost[0]}`);
    const sent = plain(strings(last.body).join("\n"));
    // A later summary of everything may repeat the user's words in the range.
    const shown = plain(strings(window.messages).join("\n"));
    const hidden = behind.filter((line) => sent.includes(line) && !shown.includes(line));
    check(name, hidden.length === 0, `${hidden.length} lines that the summary of a range replaced are sent, such as ${hidden[0]}`);
    if (has("range")) check(name, sent.includes(RANGE_SUMMARY), "the summary of the range is not sent");
    const back = leaked(JSON.parse(original), window, last);
    check(name, back.length === 0, `${back.length} cleared outputs are sent`);
    check(name, plimsoll("sessions", "export", id) === original, "the original session has changed");

    // The resulting session must have the same window and two more turns.
    const kept = tool === "opencode" ? path.join(home, ".local/share/opencode/opencode.db") : done.path;
    const again = json("window", ...(tool === "opencode" ? [kept, "--session", done.session] : [kept]));
    const anew = missing(window, again.messages);
    check(name, anew.length === 0, `${anew.length} not read back, such as ${anew[0]}`);
    const said = strings(again).join("\n");
    PROMPTS.forEach((prompt) => check(name, said.includes(prompt), `the turn \`${prompt}\` was not read back`));
    // OpenCode has no field for the names of a cleared output, so they are in its text, after the placeholder.
    const isCleared = (block) => block.cleared || block.text?.startsWith("[Old tool result content cleared");
    const count = (window) => window.messages.flatMap((message) => message.blocks).filter(isCleared).length;
    const cleared = count(window);
    if (tool === "opencode") check(name, count(again) === cleared, `${count(again)} of ${cleared} outputs are cleared when read back`);
    const seconds = ((Date.now() - began) / 1_000).toFixed(0);
    console.log(`${name} (${how.join(", ") || "as it is"}): ${window.messages.length} messages, ${cleared} outputs cleared; ${last.tokens} tokens sent; ${seconds} s`);
}

// A session of every readable format, made from the samples in the tree. The samples of the readers' tests are small:
// outputs of one letter are replaced with a long text.
const root = path.resolve(import.meta.dirname, "../..");
const sample = path.join(root, "examples/session.json");
const made = path.join(work, "made");
fs.mkdirSync(made);
const converted = (format) => {
    const file = path.join(made, `${format}.json`);
    plimsoll("convert", "--to", format, "--force", "--out", file, sample);
    return file;
};
const handed = (to) => json("sessions", "handover", sample, "--to", to, "--dir", made).path;
const lines = (name, records) => {
    const file = path.join(made, name);
    fs.writeFileSync(file, records.map((record) => JSON.stringify(record) + "\n").join(""));
    return file;
};
// Codex leaves out invalid images.
const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC";
const grown = (name) => {
    let outputs = 0;
    const output = () => `:${JSON.stringify(Array.from({ length: 200 }, (_, line) => `line ${line} of output ${outputs} in ${name}`).join("\n"))}`;
    const text = fs.readFileSync(path.join(root, "crates/plimsoll-formats/tests/samples", name), "utf8");
    const file = path.join(made, name);
    fs.writeFileSync(file, text.replace(/:"[xyz]"/g, () => (outputs += 1, output())).replaceAll("AAAA", PIXEL));
    return file;
};
const chat = () => lines("chat.jsonl", JSON.parse(fs.readFileSync(converted("openai-chat"), "utf8")).messages);
const swe = path.join(made, "swe.traj");
fs.writeFileSync(swe, JSON.stringify({ history: [
    { role: "system", content: "You repair programs." },
    { role: "user", content: "Fix the build" },
    { role: "assistant", content: "I look.", action: "ls src", thought: "I look.", tool_calls: null },
    { role: "user", content: "main.c\n" },
    { role: "assistant", content: "It is repaired.", action: "", thought: "It is repaired." },
], info: { model_stats: {} }, trajectory: [] }));
const pi = lines("pi.jsonl", [
    { type: "session", version: 3, id: "0197aaaa-1111-4222-8333-444455556666", timestamp: "2026-05-02T09:18:36.730Z", cwd: project },
    { type: "message", id: "a1", parentId: null, timestamp: "2026-05-02T09:18:37.730Z", message: { role: "user", content: [{ type: "text", text: "Fix the build" }] } },
    { type: "message", id: "a2", parentId: "a1", timestamp: "2026-05-02T09:18:38.730Z", message: { role: "assistant", content: [{ type: "text", text: "I look." }, { type: "toolCall", id: "call_1", name: "bash", arguments: { command: "make" } }] } },
    { type: "message", id: "a3", parentId: "a2", timestamp: "2026-05-02T09:18:39.730Z", message: { role: "toolResult", toolCallId: "call_1", toolName: "bash", content: [{ type: "text", text: "cc: no such file" }], isError: true } },
    { type: "message", id: "a4", parentId: "a3", timestamp: "2026-05-02T09:18:40.730Z", message: { role: "assistant", content: [{ type: "text", text: "A file is missing." }] } },
]);
const trips = [
    ["opencode-export", () => sample, ["prune"]],
    ["gemini-cli", () => grown("gemini-cli.jsonl"), ["compact"]],
    ["opencode-export", () => sample, ["range", "prune"]],
    ["codex", () => handed("codex"), ["prune", "compact"]],
    ["claude-code", () => handed("claude-code"), ["prune"]],
    ["opencode-export", () => sample, ["prune", "compact", "undo"]],
    ["opencode-messages", () => converted("opencode-messages"), ["prune"]],
    ["claude-code", () => handed("claude-code"), ["range", "prune"]],
    ["codex", () => handed("codex"), ["range", "prune", "compact"]],
    ["opencode-db", () => path.join(root, "fuzz/seeds/opencode.db"), []],
    ["openai-chat", () => converted("openai-chat"), ["prune", "compact"]],
    ["openai-chat, a message a line", chat, ["prune"]],
    ["anthropic-messages", () => converted("anthropic-messages"), ["prune"]],
    ["pi", () => pi, []],
    ["swe-agent", () => swe, []],
    ["gemini-cli, a document", () => grown("gemini-cli-document.json"), ["clear"]],
    ["goose", () => grown("goose.jsonl"), ["own"]],
    ["goose, an export", () => grown("goose-export.json"), ["compact"]],
    ["goose, its database", () => path.join(root, "fuzz/seeds/goose.db"), []],
    ["cline", () => grown("cline.messages.json"), ["clear"]],
    ["roo", () => grown("roo.json"), ["own"]],
    ["openhands", () => grown("openhands.jsonl"), ["own", "clear"]],
    ["openhands, runs", () => grown("openhands-runs.jsonl"), ["compact"]],
    ["openhands, kinds", () => grown("openhands-kinds.json"), ["own", "clear"]],
    ["kimi, its wire", () => grown("kimi-wire.jsonl"), ["own"]],
    ["kimi, its context", () => grown("kimi-context.jsonl"), ["clear"]],
    ["kimi code", () => grown("kimi-code.jsonl"), ["own"]],
    ["managed-agents", () => grown("managed-agents.jsonl"), ["clear"]],
    ["trae", () => grown("trae.json"), ["clear"]],
    ["trae, steps", () => grown("trae-steps.json"), ["clear"]],
    ["aider", () => grown("aider.md"), []],
];
// Files given on the command line may have nothing to reduce.
const named = files.map((file) => [path.basename(file), () => file, []]);
const chosen = only ? trips.filter(([name]) => name.startsWith(only)) : short ? trips.slice(0, 3) : trips;
for (const [name, file, how] of [...chosen, ...named]) {
    try {
        trip(name, file(), how);
    } catch (error) {
        check(name, false, `${error.message}\n${error.stdout ?? ""}`.slice(0, 2_000));
    }
}
console.log(failures === 0 ? "all sessions passed" : `${failures} faults`);
process.exit(failures === 0 ? 0 : 1);
