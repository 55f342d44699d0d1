// `plimsoll mcp` as the official TypeScript SDK sees it, and as Claude Code uses it. See `run.sh`.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import * as fs from "node:fs";
import { createRequire } from "node:module";
import * as path from "node:path";
import { pathToFileURL } from "node:url";

const [place, claude, target, work] = process.argv.slice(2);
const find = createRequire(path.join(place, "package.json")).resolve;
const load = (name) => import(pathToFileURL(find(name)));
const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = await load("@modelcontextprotocol/sdk/client/stdio.js");

fs.rmSync(work, { recursive: true, force: true });
const home = path.join(work, "home");
const project = path.join(work, "project");
[home, project].forEach((folder) => fs.mkdirSync(folder, { recursive: true }));
const env = { PATH: process.env.PATH, HOME: home, TERM: "xterm", NO_PROXY: "127.0.0.1,localhost" };
const options = { cwd: project, env, encoding: "utf8", maxBuffer: 1 << 28, timeout: 180_000, stdio: ["ignore", "pipe", "pipe"] };
const binary = path.join(target, "plimsoll");
const plimsoll = (...args) => execFileSync(binary, args, options);

// The sample, pruned: what is cleared has handles.
const sample = path.resolve(import.meta.dirname, "../../examples/session.json");
const id = plimsoll("sessions", "import", sample).trim();
plimsoll("prune", "--apply", id);

const client = new Client({ name: "mcp-recall", version: "1" });
const transport = new StdioClientTransport({ command: binary, args: ["mcp", "--session", id], env, cwd: project });
await client.connect(transport);
const call = async (name, args) => client.callTool({ name, arguments: args });
const { tools } = await client.listTools();
assert.deepEqual(tools.map((tool) => tool.name), ["recall", "list_recallable", "inspect_session"]);
const listed = (await call("list_recallable", {})).content[0].text;
const handle = listed.match(/prt_\w+/)[0];
assert.match((await call("inspect_session", {})).content[0].text, new RegExp(`session ${id}`));
const recalled = await call("recall", { handle });
assert.ok(!recalled.isError && recalled.content[0].text.startsWith(`[recall ${handle}`), recalled.content[0].text);
const searched = await call("recall", { search: "test" });
assert.ok(!searched.isError && searched.content[0].text.length < 210_000);
const none = await call("recall", { handle: "prt_none" });
assert.ok(none.isError, "a handle that names nothing is an answer that says so");
for (const [name, args] of [
    ["forget", {}],
    ["recall", {}],
    ["recall", { handle: 7 }],
    ["recall", { handle, colour: "red" }],
    ["recall", { handle, session: "ses_none" }],
    ["list_recallable", { after: -1 }],
]) {
    await assert.rejects(call(name, args), (error) => error.code === -32602, `${name} ${JSON.stringify(args)}`);
}
await client.close();
console.log(`SDK: ${tools.length} tools, recalled ${handle}, bad calls get errors`);

// Claude Code: the model calls a tool of the server, and is sent what that answers.
const parts = (part) => ({ parts: [part] });
async function answered(name, tool, input, args) {
    const script = path.join(work, `${name}.json`);
    const log = path.join(work, `${name}.jsonl`);
    fs.writeFileSync(script, JSON.stringify([
        parts({ call: { id: "toolu_1", tool: `mcp__plimsoll__${tool}`, input } }),
        { ...parts({ text: "That is it." }), repeat: true },
    ]));
    const server = spawn(path.join(target, "scripted-model"), ["--lenient", "--log", log, "--script", script], { stdio: ["ignore", "pipe", "ignore"] });
    process.on("exit", () => server.kill());
    const url = await new Promise((resolve) => server.stdout.once("data", (data) => resolve(String(data).trim())));
    const config = JSON.stringify({ mcpServers: { plimsoll: { command: binary, args: ["mcp", ...args] } } });
    execFileSync(claude, ["-p", "What did that output say?", "--mcp-config", config, "--allowedTools", `mcp__plimsoll__${tool}`],
        { ...options, env: { ...env, ANTHROPIC_BASE_URL: url.replace(/\/v1$/, ""), ANTHROPIC_API_KEY: "x", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1" } });
    server.kill();
    const bodies = fs.readFileSync(log, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line).body);
    return JSON.stringify(bodies.flatMap((body) => body.messages).flatMap((message) => message.content).filter((block) => block?.type === "tool_result"));
}
const sent = await answered("recall", "recall", { handle }, ["--session", id]);
const first = recalled.content[0].text.split("\n").find((line) => line.length > 20 && !line.startsWith("["));
assert.ok(sent.includes(JSON.stringify(first).slice(1, -1)), `the request holds no answer of recall: ${sent.slice(0, 500)}`);
console.log(`Claude Code: the request holds what ${handle} brought back`);

// Without a name it is the session that Claude Code is writing at this moment, which is stored nowhere else.
const files = () => fs.readdirSync(path.join(home, ".claude/projects"), { recursive: true }).filter((file) => file.endsWith(".jsonl"));
const before = files();
const told = await answered("inspect", "inspect_session", {}, []);
const current = path.basename(files().find((file) => !before.includes(file)), ".jsonl");
assert.ok(told.includes(`session ${current} of Claude Code, not stored`), `not about ${current}: ${told.slice(0, 500)}`);

// The same session for the SDK, which says that it is Claude Code.
const again = new Client({ name: "claude-code", version: "1" });
await again.connect(new StdioClientTransport({ command: binary, args: ["mcp"], env, cwd: project }));
const ask = async (name, args) => (await again.callTool({ name, arguments: args })).content[0].text;
assert.match(await ask("inspect_session", {}), new RegExp(`^session ${current} of Claude Code, not stored`));
assert.match(await ask("recall", { handle }), new RegExp(`^\\[recall ${handle}`));
await again.close();
console.log(`Claude Code: it is told about its own session ${current}, and so is the SDK`);
process.exit(0);
