// OpenCode's stock terminal UI, attached to `plimsoll serve` in tmux. See `run.sh`.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { start } from "./servers.mjs";

const [target, work, opencode] = process.argv.slice(2);
const long = "The harbour is nine metres deep at low tide. ".repeat(300);
const script = [
    { parts: [{ text: "Nine metres at low tide." }] },
    { parts: [{ call: { id: "call_1", tool: "bash", input: { command: "echo depth > depth.txt", description: "Write the depth" } } }] },
    { parts: [{ text: "The depth is written." }] },
    { parts: [{ text: `${long} End of the report.` }] },
    { parts: [{ text: `${long} End of the second report.` }] },
    { parts: [{ text: "## Objective\n- Measure the harbour\n\n## Important Details\n- SUMMARY-OF-THE-HARBOUR" }] },
    { parts: [{ call: { id: "call_2", tool: "background_task", input: { description: "Sound the bay", prompt: "Sound the bay", agent: "explore" } } }] },
    { parts: [{ text: "The bay is sounded." }], pause_ms: 400, repeat: true },
];
const { url, server, env, project } = await start(target, work, script);

const socket = `plimsoll-compat-${process.pid}`;
const tmux = (...args) => execFileSync("tmux", ["-L", socket, ...args], { env, encoding: "utf8", timeout: 20_000 });
const quiet = ["MODELS_FETCH", "AUTOUPDATE", "DEFAULT_PLUGINS", "LSP_DOWNLOAD"].map((name) => `OPENCODE_DISABLE_${name}=1`);
const attach = ["env", ...quiet, opencode, "attach", url];
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const screen = () => tmux("capture-pane", "-p", "-t", "ui");
const shows = async (what, seconds = 30) => {
    for (let tries = 0; tries < seconds * 10; tries += 1) {
        if (what instanceof RegExp ? what.test(screen()) : screen().includes(what)) return;
        await wait(100);
    }
    throw new Error(`the screen does not show ${what}:\n${screen()}`);
};
const hides = async (what) => {
    for (let tries = 0; tries < 150; tries += 1) {
        if (!screen().includes(what)) return;
        await wait(100);
    }
    throw new Error(`the screen still shows ${what}:\n${screen()}`);
};
const type = async (text) => {
    tmux("send-keys", "-t", "ui", "-l", text);
    await wait(300);
    tmux("send-keys", "-t", "ui", "Enter");
};
const get = async (path) => (await fetch(`${url}${path}`)).json();

try {
    // An earlier session, for the list.
    const json = { "content-type": "application/json" };
    await fetch(`${url}/session`, { method: "POST", headers: json, body: JSON.stringify({ title: "An earlier voyage" }) });
    tmux("new-session", "-d", "-s", "ui", "-x", "120", "-y", "40", "-c", project, ...attach);
    await shows(/Ask anything|build/i, 60);
    await wait(1000);
    await type("How deep is the harbour?");
    await shows("Nine metres at low tide.");
    console.log("TUI: starts, sends a prompt, shows the answer");
    await type("Write it down.");
    await shows(/permission|allow/i);
    tmux("send-keys", "-t", "ui", "Enter");
    await shows("The depth is written.");
    console.log("TUI: asks for permission, and the call runs once it is given");
    await type("/undo");
    await hides("The depth is written.");
    await shows("Nine metres at low tide.");
    // The prompt is back in the input field.
    tmux("send-keys", "-t", "ui", "C-u");
    await type("/redo");
    await shows("The depth is written.");
    console.log("TUI: /undo hides a turn, and /redo shows it again");
    await type("/undo");
    await hides("The depth is written.");
    tmux("send-keys", "-t", "ui", "C-u");
    await type("Report.");
    await shows("End of the report.");
    const [listed] = (await get("/session")).filter((session) => !session.parentID && session.title !== "An earlier voyage");
    assert.equal(listed.revert, undefined, JSON.stringify(listed));
    assert.ok(!JSON.stringify(await get(`/session/${listed.id}/message`)).includes("The depth is written."));
    console.log("TUI: the next prompt removes the turn");
    await type("Report again.");
    await shows("End of the second report.");
    await type("/compact");
    await shows("SUMMARY-OF-THE-HARBOUR");
    await shows(/Compaction/);
    console.log("TUI: /compact shows its divider and the summary");
    await type("Sound the bay in the background.");
    await shows("Background task running");
    await shows("Background task completed");
    console.log("TUI: shows the toasts of a background task");
    await shows(/finished in \d+s[^]*The bay is sounded|The bay is sounded[^]*finished in \d+s/);
    const sessions = await get("/session");
    const child = sessions.find((session) => session.parentID);
    assert.ok(child, "the task is a child session");
    const resumed = await fetch(`${url}/plimsoll/tasks/${child.id}/resume`, {
        method: "POST", headers: json, body: JSON.stringify({ prompt: "Sound it again" }),
    });
    assert.equal(resumed.status, 200);
    await shows("Background task resumed");
    await shows("Background task completed");
    console.log("TUI: shows the toasts of a resumed task");
    await wait(1500);
    tmux("send-keys", "-t", "ui", "C-x");
    tmux("send-keys", "-t", "ui", "Down");
    await shows("Sound it again", 15);
    assert.ok(!screen().includes("SUMMARY-OF-THE-HARBOUR"), `the parent is still shown:\n${screen()}`);
    console.log("TUI: opens the child session");
    tmux("send-keys", "-t", "ui", "Up");
    await shows("Sound the bay in the background.", 15);
    await type("/sessions");
    await shows("An earlier voyage");
    console.log("TUI: goes back to the parent, and lists the sessions");
} finally {
    try {
        tmux("kill-server");
    } catch {
        // It has ended by itself.
    }
}
const exited = new Promise((resolve) => server.once("exit", resolve));
server.kill("SIGTERM");
assert.equal(await exited, 0);
process.exit(0);
