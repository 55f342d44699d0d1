// OpenCode's stock terminal UI finds its server again after `kill -9`, and shows every message once, also those that another
// process writes to the same store, with and without a server. See `run.sh`.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { start } from "./servers.mjs";

const [target, work, opencode] = process.argv.slice(2);
const script = [
    { parts: [{ text: "ANSWER-BEFORE" }] },
    { parts: [{ text: "ANSWER-MEANWHILE" }] },
    { parts: [{ text: "ANSWER-OF-THE-OTHER" }] },
    { parts: [{ text: "ANSWER-AFTER" }], repeat: true },
];
const { url, server, restart, plimsoll, own, env, project } = await start(target, work, script);

const socket = `plimsoll-reconnect-${process.pid}`;
const tmux = (...args) => execFileSync("tmux", ["-L", socket, ...args], { env, encoding: "utf8", timeout: 20_000 });
const quiet = ["MODELS_FETCH", "AUTOUPDATE", "DEFAULT_PLUGINS", "LSP_DOWNLOAD"].map((name) => `OPENCODE_DISABLE_${name}=1`);
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const screen = () => tmux("capture-pane", "-p", "-t", "ui");
const shows = async (what, seconds = 30) => {
    for (let tries = 0; tries < seconds * 10; tries += 1) {
        if (what instanceof RegExp ? what.test(screen()) : screen().includes(what)) return;
        await wait(100);
    }
    throw new Error(`the screen does not show ${what}:\n${screen()}`);
};
const type = async (text) => {
    tmux("send-keys", "-t", "ui", "-l", text);
    await wait(300);
    tmux("send-keys", "-t", "ui", "Enter");
};

const once = (words) => {
    // The right side of the screen has the title of the session, which is the first prompt.
    const lines = screen().split("\n").map((line) => line.slice(0, 76)).filter((line) => line.includes(words));
    assert.equal(lines.length, 1, `${words} is shown ${lines.length} times:\n${screen()}`);
};
const open = (...args) => tmux("new-session", "-d", "-s", "ui", "-x", "120", "-y", "50", "-c", project, "env", ...quiet, opencode, "attach", url, ...args);

try {
    open();
    await shows(/Ask anything|build/i, 60);
    await wait(1000);
    await type("PROMPT-BEFORE");
    await shows("ANSWER-BEFORE");
    const [session] = await (await fetch(`${url}/session`)).json();
    const run = (words) => {
        const args = ["run", "--model", "openai-chat/scripted", "--session", session.id, words];
        return execFileSync(plimsoll, args, { env: own, cwd: project, encoding: "utf8", timeout: 60_000, stdio: ["ignore", "pipe", "ignore"] });
    };
    const gone = new Promise((resolve) => server.once("exit", resolve));
    server.kill("SIGKILL");
    await gone;
    assert.match(run("PROMPT-MEANWHILE"), /ANSWER-MEANWHILE/);
    const again = await restart();
    await wait(5000);
    assert.match(run("PROMPT-OF-THE-OTHER"), /ANSWER-OF-THE-OTHER/);
    await shows("ANSWER-OF-THE-OTHER", 60);
    await type("PROMPT-AFTER");
    await shows("ANSWER-AFTER", 60);
    await wait(1000);
    const all = ["BEFORE", "MEANWHILE", "OF-THE-OTHER", "AFTER"].flatMap((words) => [`PROMPT-${words}`, `ANSWER-${words}`]);
    all.forEach(once);
    // In the order in which they were written.
    const places = all.map((words) => screen().indexOf(words));
    assert.deepEqual(places, [...places].sort((a, b) => a - b), screen());
    console.log("TUI: finds the server again after kill -9, and shows every message once");
    again.kill("SIGTERM");
} finally {
    try {
        tmux("kill-server");
    } catch {
        // It has ended by itself.
    }
}
process.exit(0);
