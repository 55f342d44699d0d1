// One trip for each session: store it, reduce it, hand it over, go on for two turns in the real tool, and compare what
// the tool sends with the window, and the session it leaves with both. See `run.sh`.

import { execFileSync, spawn } from "node:child_process";
import * as fs from "node:fs";
import * as path from "node:path";

const [tool, binary, target, work, ...rest] = process.argv.slice(2);
const short = rest.includes("--short");
const files = rest.filter((each) => each !== "--short").map((file) => path.resolve(file));
const CLEARED = /^\[Old tool result content cleared/;
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

// A reduction that finds nothing to do answers no, which is no fault here.
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

// How the tool goes on with a session, and where it keeps it afterwards.
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
    const model = { limit: { context: 1_000_000, output: 8_000 } };
    const provider = { npm: "@ai-sdk/openai-compatible", options: { baseURL: `${base}/v1`, apiKey: "x" }, models: { "fake-model": model } };
    const config = { model: "fake/fake-model", small_model: "fake/fake-model", permission: { "*": "allow" }, share: "disabled",
        autoupdate: false, compaction: { auto: false }, provider: { fake: provider } };
    fs.writeFileSync(path.join(project, "opencode.json"), JSON.stringify(config));
}

const strings = (value) => typeof value === "string" ? [value] : value && typeof value === "object" ? Object.values(value).flatMap(strings) : [];
// Tools trim, and Codex and Chat Completions have arguments as JSON inside a string.
const plain = (text) => text.replace(/\\n|\\t|\\|"/g, " ").replace(/\s+/g, " ").trim();

function requests() {
    if (!fs.existsSync(log)) return [];
    return fs.readFileSync(log, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line));
}

// What of the window is not in a request.
function missing(window, request) {
    const sent = plain(strings(request.body).join("\n"));
    const lost = [];
    const want = (what, text) => {
        if (plain(text) && !sent.includes(plain(text))) lost.push(`${what}: ${text.slice(0, 80)}`);
    };
    for (const message of window.messages.filter((message) => message.role !== "system")) {
        for (const block of message.blocks) {
            if (block.type === "text" && !(block.text === "What did we do so far?" && tool !== "opencode")) want("text", block.text);
            if (block.type === "call") strings(block.input).forEach((text) => want(`input of ${block.tool}`, text));
            if (block.type === "result" && !block.cleared) want(`result of ${block.tool}`, block.text);
            if (block.type === "result" && block.cleared) want("placeholder", tool === "opencode" ? "[Old tool result content cleared]" : block.text);
        }
    }
    return lost;
}

// Outputs that were cleared and are sent all the same. A piece from the middle of a long one tells it from others.
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

function trip(name, file, { compact, undo }) {
    const id = plimsoll("sessions", "import", file, "--again").trim().split("\n")[0];
    const pruned = reduce("prune", "--apply", id);
    let compacted = compact && reduce("compact", "--offline", "--apply", id);
    if (compacted && undo) {
        plimsoll("undo", json("receipts", id).at(-1)?.id ?? json("receipts", id)[0].id);
        compacted = false;
    }
    const window = json("window", id);
    const original = plimsoll("sessions", "export", id);
    const done = json("sessions", "handover", id, "--to", tool, ...(tool === "opencode" ? ["--folder", work] : []));
    check(name, (fs.statSync(done.path).mode & 0o777) === 0o600, `the file is not private: ${done.path}`);
    if (tool === "opencode") check(name, run(binary, ["import", done.path], opencode).includes("Imported session"), "not imported");
    const before = requests().length;
    PROMPTS.forEach((prompt) => goOn(done, prompt));
    const turns = requests().slice(before).filter((request) => PROMPTS.some((prompt) => strings(request.body.messages ?? request.body.input).join("\n").includes(prompt)));
    check(name, turns.length >= 2, `${turns.length} requests were sent`);
    const last = turns.at(-1);
    if (!last) return;
    const lost = missing(window, last);
    check(name, lost.length === 0, `${lost.length} not sent, such as ${lost[0]}`);
    const back = leaked(JSON.parse(original), window, last);
    check(name, back.length === 0, `${back.length} cleared outputs are sent`);
    check(name, plimsoll("sessions", "export", id) === original, "the session it was made from has changed");

    // The session the tool has now, read again: the same window and two turns more.
    const kept = tool === "opencode" ? path.join(home, ".local/share/opencode/opencode.db") : done.path;
    const again = json("window", ...(tool === "opencode" ? [kept, "--session", done.session] : [kept]));
    const anew = missing(window, { body: again });
    check(name, anew.length === 0, `${anew.length} not read back, such as ${anew[0]}`);
    const said = strings(again).join("\n");
    PROMPTS.forEach((prompt) => check(name, said.includes(prompt), `the turn \`${prompt}\` was not read back`));
    const cleared = window.messages.flatMap((message) => message.blocks).filter((block) => block.cleared).length;
    const how = [pruned && `${cleared} outputs cleared`, compacted && "a summary", compact && undo && "an undone summary"].filter(Boolean);
    console.log(`${name}: ${window.messages.length} messages, ${how.join(", ") || "nothing reduced"}; ${last.tokens} tokens sent`);
}

// A session of every format that is read, made of the sample in the tree.
const sample = path.resolve(import.meta.dirname, "../../examples/session.json");
const made = path.join(work, "made");
fs.mkdirSync(made);
const converted = (format) => {
    const file = path.join(made, `${format}.json`);
    plimsoll("convert", "--to", format, "--out", file, sample);
    return file;
};
const handed = (to) => json("sessions", "handover", sample, "--to", to, "--folder", made).path;
const lines = (name, records) => {
    const file = path.join(made, name);
    fs.writeFileSync(file, records.map((record) => JSON.stringify(record) + "\n").join(""));
    return file;
};
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
    ["opencode-export, pruned", sample, {}],
    ["codex, pruned and compacted", handed("codex"), { compact: true }],
    ["claude-code, pruned", handed("claude-code"), {}],
    ["opencode-export, compaction undone", sample, { compact: true, undo: true }],
    ["openai-chat, pruned and compacted", converted("openai-chat"), { compact: true }],
    ["anthropic-messages, pruned", converted("anthropic-messages"), {}],
    ["pi", pi, {}],
    ["swe-agent", swe, {}],
    ...files.map((file, index) => [path.basename(file), file, { compact: index % 2 === 0 }]),
];
for (const [name, file, how] of short ? trips.slice(0, 2) : trips) {
    try {
        trip(name, file, how);
    } catch (error) {
        check(name, false, `${error.message}\n${error.stdout ?? ""}`.slice(0, 2_000));
    }
}
console.log(failures === 0 ? "every session came through" : `${failures} faults`);
process.exit(failures === 0 ? 0 : 1);
