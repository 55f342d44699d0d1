// Tests `plimsoll mcp` with the official TypeScript SDK and with Claude Code, Codex and OpenCode. See `run.sh`.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import * as fs from "node:fs";
import { createRequire } from "node:module";
import * as path from "node:path";
import { pathToFileURL } from "node:url";

const [place, target, work, claude, codex, opencode] = process.argv.slice(2);
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

// The pruned sample, in which cleared outputs have handles.
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
assert.ok(none.isError, "an unknown handle is reported in the answer");
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

// The real tools: the model calls a tool of the server and receives the answer.
const claudeKeys = { ANTHROPIC_API_KEY: "x", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1" };
const opencodeKeys = {
    OPENCODE_DISABLE_MODELS_FETCH: "1", OPENCODE_DISABLE_AUTOUPDATE: "1", OPENCODE_DISABLE_DEFAULT_PLUGINS: "1",
    OPENCODE_DISABLE_LSP_DOWNLOAD: "1", OPENCODE_DISABLE_EMBEDDED_WEB_UI: "1",
};
const clients = {
    "Claude Code": {
        call: (id, tool, input) => [{ call: { id, tool: `mcp__plimsoll__${tool}`, input } }],
        run: (url, tool, args) => {
            const config = JSON.stringify({ mcpServers: { plimsoll: { command: binary, args: ["mcp", ...args] } } });
            execFileSync(claude, ["-p", question, "--mcp-config", config, "--allowedTools", `mcp__plimsoll__${tool}`],
                { ...options, env: { ...env, ...claudeKeys, ANTHROPIC_BASE_URL: url.replace(/\/v1$/, "") } });
        },
    },
    Codex: {
        // Codex puts the tools of a server in a namespace.
        call: (id, tool, input) => [{ block: { type: "function_call", id: `fc_${id}`, status: "completed", call_id: id,
            namespace: "mcp__plimsoll", name: tool, arguments: JSON.stringify(input) } }],
        run: (url, tool, args) => {
            const provider = `model_providers.f={name="f",base_url="${url}",env_key="K",wire_api="responses"}`;
            const server = `mcp_servers.plimsoll={command=${JSON.stringify(binary)},args=${JSON.stringify(["mcp", ...args])}}`;
            // No user is present to allow the call, and the command that it runs is ours.
            execFileSync(codex, ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox",
                "-c", "model_provider=f", "-c", provider, "-c", server, "-m", "gpt-5.5", question],
                { ...options, env: { ...env, K: "x" } });
        },
    },
    OpenCode: {
        call: (id, tool, input) => [{ call: { id, tool: `plimsoll_${tool}`, input } }],
        // The first request is for a title.
        before: ["A title"],
        run: (url, tool, args) => {
            const provider = { npm: "@ai-sdk/openai-compatible", options: { baseURL: url, apiKey: "x" },
                models: { "fake-model": { limit: { context: 1_000_000, output: 8_000 } } } };
            const config = { model: "fake/fake-model", small_model: "fake/fake-model", permission: { "*": "allow" }, share: "disabled",
                autoupdate: false, mcp: { plimsoll: { type: "local", command: [binary, "mcp", ...args] } }, provider: { fake: provider } };
            fs.writeFileSync(path.join(project, "opencode.json"), JSON.stringify(config));
            execFileSync(opencode, ["run", "--model", "fake/fake-model", question], { ...options, env: { ...env, ...opencodeKeys } });
        },
    },
};
const question = "What did that output say?";
const strings = (value) => typeof value === "string" ? [value] : value && typeof value === "object" ? Object.values(value).flatMap(strings) : [];

// The request of a tool after its model has called a tool of the server.
async function answered(client, name, tool, input, args) {
    const { call, before = [], run } = clients[client];
    const [script, log] = [".json", ".jsonl"].map((end) => path.join(work, `${client}-${name}${end}`));
    // As in earnest, no two calls have one id: it tells the server which session calls.
    const replies = [...before, { parts: call(`call_${name}`, tool, input) }, { parts: [{ text: "That is it." }], repeat: true }];
    fs.writeFileSync(script, JSON.stringify(replies));
    const server = spawn(path.join(target, "scripted-model"), ["--lenient", "--log", log, "--script", script], { stdio: ["ignore", "pipe", "ignore"] });
    process.on("exit", () => server.kill());
    const url = await new Promise((resolve) => server.stdout.once("data", (data) => resolve(String(data).trim())));
    run(url, tool, args);
    server.kill();
    const bodies = fs.readFileSync(log, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line).body);
    const said = bodies.flatMap((body) => body.messages ?? body.input);
    const isAnswer = (block) => [block?.tool_use_id, block?.tool_call_id, block?.type === "function_call_output" && block.call_id].includes(`call_${name}`);
    return strings(said.flatMap((message) => [message, ...(Array.isArray(message.content) ? message.content : [])]).filter(isAnswer)).join("\n");
}

const first = recalled.content[0].text.split("\n").find((line) => line.length > 20 && !line.startsWith("["));
const written = () => JSON.parse(plimsoll("sessions", "--all", "--json")).map((session) => session.id);
for (const client of Object.keys(clients)) {
    const sent = await answered(client, "recall", "recall", { handle }, ["--session", id]);
    assert.ok(sent.includes(first), `the request holds no answer of recall: ${sent.slice(0, 500)}`);
    console.log(`${client}: the request holds what ${handle} brought back`);

    // Without a name it is the session that the client is writing at this moment, which is stored nowhere else.
    const known = written();
    const told = await answered(client, "inspect", "inspect_session", {}, []);
    const current = written().find((session) => !known.includes(session));
    assert.ok(told.includes(`session ${current} of ${client}, not stored`), `not about ${current}: ${told.slice(0, 500)}`);

    // The same session for the SDK, which says that it is that client.
    const names = { "Claude Code": "claude-code", Codex: "codex-mcp-client", OpenCode: "opencode" };
    const again = new Client({ name: names[client], version: "1" });
    await again.connect(new StdioClientTransport({ command: binary, args: ["mcp"], env, cwd: project }));
    const ask = async (name, args) => (await again.callTool({ name, arguments: args })).content[0].text;
    assert.match(await ask("inspect_session", {}), new RegExp(`^session ${current} of ${client}, not stored`));
    assert.match(await ask("recall", { handle }), new RegExp(`^\\[recall ${handle}`));
    await again.close();
    console.log(`${client}: it is told about its own session ${current}, and so is the SDK`);
}
process.exit(0);
