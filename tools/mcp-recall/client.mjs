// `plimsoll mcp` as the official TypeScript SDK sees it, and as Claude Code uses it. See `run.sh`.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import * as fs from "node:fs";
import { createRequire } from "node:module";
import * as path from "node:path";
import { pathToFileURL } from "node:url";

const [place, target, work] = process.argv.slice(2);
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

// Claude Code: the model asks for the handle, and is sent what was cleared.
const script = path.join(work, "script.json");
const parts = (part) => ({ parts: [part] });
fs.writeFileSync(script, JSON.stringify([
    parts({ call: { id: "toolu_1", tool: "mcp__plimsoll__recall", input: { handle } } }),
    { ...parts({ text: "That is it." }), repeat: true },
]));
const log = path.join(work, "requests.jsonl");
const server = spawn(path.join(target, "scripted-model"), ["--lenient", "--log", log, "--script", script], { stdio: ["ignore", "pipe", "ignore"] });
process.on("exit", () => server.kill());
const url = await new Promise((resolve) => server.stdout.once("data", (data) => resolve(String(data).trim())));
const config = JSON.stringify({ mcpServers: { plimsoll: { command: binary, args: ["mcp", "--session", id] } } });
execFileSync(path.join(place, "node_modules/@anthropic-ai/claude-code-linux-x64/claude"),
    ["-p", "What did that output say?", "--mcp-config", config, "--allowedTools", "mcp__plimsoll__recall"],
    { ...options, env: { ...env, ANTHROPIC_BASE_URL: url.replace(/\/v1$/, ""), ANTHROPIC_API_KEY: "x", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1" } });
const bodies = fs.readFileSync(log, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line).body);
const results = bodies.flatMap((body) => body.messages).flatMap((message) => message.content).filter((block) => block?.type === "tool_result");
const sent = JSON.stringify(results);
const first = recalled.content[0].text.split("\n").find((line) => line.length > 20 && !line.startsWith("["));
assert.ok(sent.includes(JSON.stringify(first).slice(1, -1)), `the request holds no answer of recall: ${sent.slice(0, 500)}`);
console.log(`Claude Code: the request holds what ${handle} brought back`);
process.exit(0);
