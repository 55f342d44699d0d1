// `opencode run --attach`, and the terminal UI with a password, against `plimsoll serve`. See `run.sh`.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import * as fs from "node:fs";
import * as path from "node:path";
import { start } from "./servers.mjs";

const [target, work, opencode] = process.argv.slice(2);
const quiet = { OPENCODE_DISABLE_MODELS_FETCH: "1", OPENCODE_DISABLE_AUTOUPDATE: "1", OPENCODE_DISABLE_DEFAULT_PLUGINS: "1", OPENCODE_DISABLE_LSP_DOWNLOAD: "1" };
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Runs the command and returns what it prints.
const run = (url, { env, project }, ...args) => new Promise((resolve, reject) => {
    const child = spawn(opencode, ["run", "--attach", url, ...args], { env: { ...env, ...quiet }, cwd: project, stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (bytes) => { output += bytes; });
    const timer = setTimeout(() => child.kill("SIGKILL"), 90_000);
    child.on("exit", (code) => {
        clearTimeout(timer);
        return code === 0 ? resolve(output) : reject(new Error(`opencode run ended with ${code}: ${output}`));
    });
});

const open = await start(target, path.join(work, "open"), [
    { parts: [{ text: "Nine metres at low tide." }] },
    { parts: [{ text: "As I said." }], repeat: true },
]);
assert.match(await run(open.url, open, "How deep is the harbour?"), /Nine metres at low tide/);
const [session] = await (await fetch(`${open.url}/session`)).json();
assert.ok(session.permission.length > 0, JSON.stringify(session));
assert.match(await run(open.url, open, "--session", session.id, "Once more."), /As I said/);
const messages = await (await fetch(`${open.url}/session/${session.id}/message`)).json();
assert.equal(messages.length, 4);
console.log("CLI: `opencode run --attach` answers, and continues a session");

fs.mkdirSync(work, { recursive: true });
const file = path.join(path.resolve(work), "password");
fs.writeFileSync(file, "a-password-for-tests\n", { mode: 0o600 });
const closed = await start(target, path.join(work, "closed"), [{ parts: [{ text: "Nine metres." }], repeat: true }], "--password-file", file);
assert.equal((await fetch(`${closed.url}/session`)).status, 401);
const socket = `plimsoll-attach-${process.pid}`;
const tmux = (...args) => execFileSync("tmux", ["-L", socket, ...args], { env: closed.env, encoding: "utf8", timeout: 20_000 });
const screen = () => tmux("capture-pane", "-p", "-t", "ui");
const shows = async (what, seconds = 30) => {
    for (let tries = 0; tries < seconds * 10; tries += 1) {
        if (what.test(screen())) return;
        await wait(100);
    }
    throw new Error(`the screen does not show ${what}:\n${screen()}`);
};
try {
    const variables = Object.entries(quiet).map(([name, value]) => `${name}=${value}`);
    tmux("new-session", "-d", "-s", "ui", "-x", "120", "-y", "40", "-c", closed.project, "env", ...variables, opencode, "attach", closed.url, "-p", "a-password-for-tests");
    await shows(/Ask anything|build/i, 60);
    await wait(1000);
    tmux("send-keys", "-t", "ui", "-l", "How deep?");
    await wait(300);
    tmux("send-keys", "-t", "ui", "Enter");
    await shows(/Nine metres\./);
    console.log("TUI: a server with a password answers with `-p`");
} finally {
    try {
        tmux("kill-server");
    } catch {
        // It has ended by itself.
    }
}
process.exit(0);
