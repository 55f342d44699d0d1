// `plimsoll serve` and OpenCode side by side: the same requests, the same scripted model, one run. See `run.sh`.
//
//   node bench.mjs BUILD WORK OPENCODE [--write] [--reader] [--only NAME,NAME]
//
// With `--reader`, a client reads the event stream of each server all the time.
//
// Each measurement alternates between the two servers, so that other work on the machine slows both.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import * as fs from "node:fs";
import * as http from "node:http";
import * as net from "node:net";
import * as path from "node:path";
import { place, scriptedModel } from "../compat/servers.mjs";

const [target, work, opencode, ...flags] = process.argv.slice(2);
const only = flags.includes("--only") ? flags[flags.indexOf("--only") + 1].split(",") : null;
const isWanted = (name) => !only || only.includes(name);

// Larger than any session here, so that no compaction is measured.
const CONTEXT = 1_000_000;
const MESSAGES = 1_000;
const OUTPUT_BYTES = 200_000_000;
// Of `/proc/PID/stat`.
const TICK_MS = 10;
// An idle session is released after 10 s.
const PAUSE_MS = 12_000;
const TEXT = "The harbour is nine metres deep at low tide. ".repeat(23).slice(0, 1_024);

const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const now = () => performance.now();
const median = (values) => {
    const sorted = [...values].sort((a, b) => a - b);
    const middle = sorted.length >> 1;
    return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
};

// A client with one connection, which is kept open.
class Client {
    constructor(base) {
        this.base = base;
        this.agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    }
    send(method, route, body, timeout = 0) {
        return new Promise((resolve, reject) => {
            const text = body === undefined ? undefined : JSON.stringify(body);
            const headers = text === undefined ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(text) };
            const request = http.request(this.base + route, { method, agent: this.agent, headers }, (answer) => {
                const chunks = [];
                answer.on("data", (chunk) => chunks.push(chunk));
                answer.on("error", reject);
                answer.on("end", () => {
                    const bytes = Buffer.concat(chunks);
                    if (answer.statusCode === 200) return resolve(bytes);
                    reject(new Error(`${method} ${route}: ${answer.statusCode} ${bytes.toString().slice(0, 500)}`));
                });
            });
            request.on("error", reject);
            if (timeout) request.setTimeout(timeout, () => request.destroy(new Error("no answer")));
            request.end(text);
        });
    }
    async json(...args) {
        return JSON.parse(await this.send(...args));
    }
    // With a title, OpenCode need not ask the model for one.
    async session(title = "Bench") {
        return (await this.json("POST", "/session", { title })).id;
    }
    prompt(session, text, more = {}) {
        return this.send("POST", `/session/${session}/message`, { parts: [{ type: "text", text }], ...more });
    }
    close() {
        this.agent.destroy();
    }
}

function freePort() {
    return new Promise((resolve) => {
        const server = net.createServer().listen(0, "127.0.0.1", () => {
            const { port } = server.address();
            server.close(() => resolve(port));
        });
    });
}

const running = new Set();
process.on("exit", () => running.forEach((child) => child.kill("SIGKILL")));

// One of the two tools in its own home and project.
class Tool {
    constructor(name, model) {
        Object.assign(this, { name, model }, place(path.join(work, name)));
        execFileSync("git", ["init", "-q"], { cwd: this.project, env: this.env });
        this.log = path.join(work, `${name}.log`);
    }
    configure(model) {
        this.model = model;
        if (this.name !== "opencode") return;
        const models = { "fake-model": { limit: { context: CONTEXT, output: 8_000 } } };
        const provider = { npm: "@ai-sdk/openai-compatible", options: { baseURL: `${model}/v1`, apiKey: "x" }, models };
        const config = { model: "fake/fake-model", small_model: "fake/fake-model", permission: { "*": "allow" }, share: "disabled", autoupdate: false };
        fs.writeFileSync(path.join(this.project, "opencode.json"), JSON.stringify({ ...config, provider: { fake: provider } }));
    }
    command(port) {
        if (this.name === "opencode") {
            const off = ["MODELS_FETCH", "AUTOUPDATE", "DEFAULT_PLUGINS", "LSP_DOWNLOAD", "EMBEDDED_WEB_UI"];
            const env = Object.fromEntries(off.map((name) => [`OPENCODE_DISABLE_${name}`, "1"]));
            return [opencode, ["serve", "--hostname", "127.0.0.1", "--port", port], env];
        }
        const args = ["serve", "--port", port, "--model", "openai-chat/fake-model", "--context", CONTEXT, "--allow", "all"];
        return [path.join(target, "plimsoll"), args, { OPENAI_BASE_URL: `${this.model}/v1`, OPENAI_API_KEY: "x" }];
    }
    // Starts the server, and returns the time to its first answer. A request that was accepted early may never be answered, so
    // it is given up after a while.
    async start() {
        const port = await freePort();
        this.url = `http://127.0.0.1:${port}`;
        const [program, args, env] = this.command(port);
        const log = fs.openSync(this.log, "a");
        const before = now();
        this.child = spawn(program, args.map(String), { cwd: this.project, env: { ...this.env, ...env }, stdio: ["ignore", log, log] });
        fs.closeSync(log);
        running.add(this.child);
        this.ended = new Promise((resolve) => this.child.once("exit", resolve));
        this.client = new Client(this.url);
        for (;;) {
            try {
                await this.client.send("GET", "/global/health", undefined, 300);
                const time = now() - before;
                if (flags.includes("--reader")) {
                    http.get(`${this.url}/global/event`, (events) => events.resume().on("error", () => {})).on("error", () => {});
                }
                return time;
            } catch (error) {
                if (now() - before > 60_000 || this.child.exitCode !== null) throw new Error(`${this.name} does not start: ${error.message}; see ${this.log}`);
                await wait(2);
            }
        }
    }
    async stop() {
        this.client.close();
        const child = this.child;
        child.kill("SIGTERM");
        await Promise.race([this.ended, wait(15_000)]);
        child.kill("SIGKILL");
        await this.ended;
        running.delete(child);
    }
    // A figure of `/proc/PID/status`, in MB.
    memory(field) {
        const status = fs.readFileSync(`/proc/${this.child.pid}/status`, "utf8");
        return Number(status.match(new RegExp(`${field}:\\s+(\\d+) kB`))[1]) / 1_024;
    }
    // Processor time of the server so far, in ms.
    cpu() {
        if (this.child.exitCode !== null || this.child.signalCode) return 0;
        const fields = fs.readFileSync(`/proc/${this.child.pid}/stat`, "utf8").replace(/.*\) /s, "").split(" ");
        return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
    }
    // The peak counts from now on.
    resetPeak() {
        fs.writeFileSync(`/proc/${this.child.pid}/clear_refs`, "5");
    }
}

const rows = [];
const unit = {
    ms: (value) => value >= 1_000 ? `${(value / 1_000).toFixed(2)} s` : value >= 100 ? `${value.toFixed(0)} ms` : `${value.toFixed(1)} ms`,
    rate: (value) => `${value.toFixed(0)}/s`,
    mb: (value) => `${value.toFixed(1)} MB`,
};
const short = (ratio) => `${ratio >= 10 ? ratio.toFixed(0) : ratio.toFixed(1)}×`;
// `figures` has the runs of each tool, and the processor time of its server. More is better for rates only.
function report(what, { values, spent }, kind, aim) {
    const [theirs, ours] = [median(values.opencode), median(values.plimsoll)];
    const ratio = short(kind === "rate" ? ours / theirs : theirs / ours);
    const cpu = spent && spent.opencode > 0 && spent.plimsoll > 0 ? short(spent.opencode / spent.plimsoll) : "";
    rows.push([what, unit[kind](theirs), unit[kind](ours), ratio, cpu, aim]);
    const runs = (name) => `    ${name} ${values[name].map((value) => value.toFixed(1)).join(" ")}${spent ? `; processor time ${spent[name].toFixed(2)} ms` : ""}`;
    console.error(`${what}: ${unit[kind](theirs)} / ${unit[kind](ours)} = ${ratio}\n${runs("opencode")}\n${runs("plimsoll")}`);
}

// Alternates between the tools. A measurement may return how many requests it made, by which its processor time is divided.
async function alternate(tools, runs, measure) {
    const of = (value) => Object.fromEntries(tools.map((tool) => [tool.name, value()]));
    const [values, total, count] = [of(() => []), of(() => 0), of(() => 0)];
    for (let run = 0; run < runs; run += 1) {
        for (const tool of tools) {
            const before = tool.cpu();
            const measured = await measure(tool, run);
            const { value, requests } = typeof measured === "number" ? { value: measured, requests: 1 } : measured;
            total[tool.name] += tool.cpu() - before;
            count[tool.name] += requests;
            values[tool.name].push(value);
        }
    }
    return { values, spent: Object.fromEntries(tools.map(({ name }) => [name, total[name] / count[name]])) };
}
async function plain(tools, runs, measure) {
    const { values } = await alternate(tools, runs, measure);
    return { values };
}
async function timed(work) {
    const before = now();
    await work();
    return now() - before;
}

// Prompts per second of clients that each have a connection and a session.
async function rate(tool, clients, ms) {
    const all = await Promise.all(Array.from({ length: clients }, async () => {
        const client = new Client(tool.url);
        const session = await client.session();
        await client.prompt(session, TEXT, { noReply: true });
        return { client, session };
    }));
    const before = now();
    let done = 0;
    await Promise.all(all.map(async ({ client, session }) => {
        while (now() - before < ms) {
            await client.prompt(session, TEXT, { noReply: true });
            done += 1;
        }
    }));
    const seconds = (now() - before) / 1_000;
    all.forEach(({ client }) => client.close());
    return { value: done / seconds, requests: done };
}

async function turn(tool, session, number) {
    const text = `Answer number ${number} of the bench.`;
    const answer = JSON.parse(await tool.client.prompt(session, text));
    assert.equal(answer.info.role, "assistant");
    assert.ok(answer.parts.some((part) => part.type === "text" && part.text.includes(text)), JSON.stringify(answer).slice(0, 500));
}

fs.rmSync(work, { recursive: true, force: true });
fs.mkdirSync(work, { recursive: true });
const env = { PATH: process.env.PATH };
const echo = (await scriptedModel(target, work, env)).found;
const tools = ["opencode", "plimsoll"].map((name) => new Tool(name));
tools.forEach((tool) => tool.configure(echo));

// The first start in an empty home creates the database.
for (const tool of tools) {
    await tool.start();
    await tool.client.session();
    await tool.stop();
}
if (isWanted("start")) {
    const starts = await plain(tools, 5, async (tool) => {
        const time = await tool.start();
        await tool.stop();
        return time;
    });
    report("start to first answer", starts, "ms", "20×");
}

for (const tool of tools) await tool.start();
if (isWanted("idle")) {
    await wait(10_000);
    report("idle memory (RSS), 10 s after the start", await plain(tools, 1, (tool) => tool.memory("VmRSS")), "mb", "20×");
    report("of that, not pages of files", await plain(tools, 1, (tool) => tool.memory("RssAnon")), "mb", "");
}
if (isWanted("prompts")) {
    for (const clients of [1, 8]) {
        const rates = await alternate(tools, 3, (tool) => rate(tool, clients, 3_000));
        report(`\`noReply\` prompts of 1 kB, ${clients} ${clients > 1 ? "clients" : "client"}`, rates, "rate", "20×");
    }
}
if (isWanted("turn")) {
    for (const tool of tools) await turn(tool, await tool.client.session(), 0);
    const fresh = await alternate(tools, 9, async (tool, run) => {
        const session = await tool.client.session();
        return timed(() => turn(tool, session, run));
    });
    report("full turn, fresh session", fresh, "ms", "20×");
}
if (["messages", "long", "fork"].some(isWanted)) {
    const long = {};
    for (const tool of tools) {
        const session = long[tool.name] = await tool.client.session("Long");
        for (let number = 0; number < MESSAGES; number += 1) await tool.client.prompt(session, TEXT, { noReply: true });
        const listed = await tool.client.json("GET", `/session/${session}/message`);
        assert.equal(listed.length, MESSAGES);
        assert.ok(listed.every((message) => message.parts.length === 1 && message.parts[0].text === TEXT));
    }
    if (isWanted("messages")) {
        const reads = await alternate(tools, 21, (tool) => timed(() => tool.client.send("GET", `/session/${long[tool.name]}/message`)));
        report("GET of 1,000 messages", reads, "ms", "20×");
    }
    if (isWanted("fork")) {
        const forked = {};
        const forks = await alternate(tools, 3, async (tool) => {
            return timed(async () => { forked[tool.name] = await tool.client.json("POST", `/session/${long[tool.name]}/fork`, {}); });
        });
        report("fork of 1,000 messages", forks, "ms", "20×");
        for (const tool of tools) {
            const listed = await tool.client.json("GET", `/session/${forked[tool.name].id}/message`);
            assert.equal(listed.length, MESSAGES);
        }
    }
    if (isWanted("long")) {
        for (const tool of tools) await turn(tool, long[tool.name], 0);
        const turns = await alternate(tools, 9, (tool, run) => timed(() => turn(tool, long[tool.name], run + 1)));
        report("full turn, session of 1,000 messages", turns, "ms", "20×");
        const paused = await alternate(tools, 3, async (tool, run) => {
            if (tool === tools[0]) await wait(PAUSE_MS);
            return timed(() => turn(tool, long[tool.name], run + 100));
        });
        report(`the same, ${PAUSE_MS / 1_000} s after the last`, paused, "ms", "20×");
        // What both turns contain: the model's own time for the last request.
        const messages = (await tools[1].client.json("GET", `/session/${long.plimsoll}/message`))
            .map(({ info, parts }) => ({ role: info.role, content: parts.map((part) => part.text ?? "").join("") }));
        const model = new Client(echo);
        const alone = [];
        for (let run = 0; run < 5; run += 1) alone.push(await timed(() => model.send("POST", "/v1/chat/completions", { model: "fake-model", stream: true, messages })));
        model.close();
        console.error(`    the model alone, of each turn: ${median(alone).toFixed(1)} ms`);
    }
}
for (const tool of tools) await tool.stop();

if (isWanted("bash")) {
    const RUNS = 3;
    const line = "x".repeat(79);
    const command = (bytes) => `yes ${line} | head -c ${bytes}`;
    const call = (bytes, id) => ({ parts: [{ call: { id, tool: "bash", input: { command: command(bytes), description: "Print lines" } } }] });
    const script = [];
    for (let run = 0; run <= RUNS; run += 1) script.push(call(run ? OUTPUT_BYTES : 1_000, `call_${run}`), { parts: [{ text: "Printed." }] });
    // The script is used up request by request, so each tool has a model of its own.
    for (const tool of tools) {
        tool.configure((await scriptedModel(target, work, env, script)).found);
        await tool.start();
    }
    const printed = async (tool) => {
        const session = await tool.client.session();
        await tool.client.prompt(session, "Print it.");
        const listed = await tool.client.json("GET", `/session/${session}/message`);
        const done = listed.flatMap((message) => message.parts).filter((part) => part.type === "tool");
        assert.ok(done.length === 1 && done[0].state.status === "completed", JSON.stringify(done).slice(0, 800));
    };
    for (const tool of tools) await printed(tool);
    await wait(1_000);
    const memory = { opencode: [], plimsoll: [] };
    const times = await alternate(tools, RUNS, async (tool) => {
        const before = tool.memory("VmRSS");
        tool.resetPeak();
        const time = await timed(() => printed(tool));
        memory[tool.name].push(tool.memory("VmHWM") - before);
        return time;
    });
    report("200 MB of output of `bash`, time of the turn", times, "ms", "5×");
    report("the same, peak of RSS over before", { values: memory }, "mb", "at most 10 MB");
    const alone = [];
    for (let run = 0; run < RUNS; run += 1) alone.push(await timed(async () => execFileSync("sh", ["-c", `${command(OUTPUT_BYTES)} | cat >/dev/null`])));
    console.error(`    the command alone, through a pipe: ${median(alone).toFixed(0)} ms`);
    for (const tool of tools) await tool.stop();
}

const version = path.basename(opencode) && execFileSync(opencode, ["--version"], { env: { ...env, HOME: tools[0].home }, encoding: "utf8" }).trim();
const table = [["what", `OpenCode ${version}`, "`plimsoll serve`", "ratio", "of processor time", "aim"], Array(6).fill("---"), ...rows]
    .map((cells) => `| ${cells.join(" | ")} |`.replaceAll(" --- ", "---")).join("\n");
console.log(table);
if (flags.includes("--write")) {
    const file = path.join(import.meta.dirname, "../../docs/BENCHMARKS.md");
    const marked = /(<!-- bench-server -->\n)[^]*?(<!-- end -->)/;
    const text = fs.readFileSync(file, "utf8");
    assert.ok(marked.test(text), "docs/BENCHMARKS.md has no place for the table");
    fs.writeFileSync(file, text.replace(marked, (_, begin, end) => `${begin}${table}\n${end}`));
}
process.exit(0);
