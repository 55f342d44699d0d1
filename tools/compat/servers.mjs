// Starts the scripted model and `plimsoll serve` in a home of their own, and ends them with the process.

import { spawn } from "node:child_process";
import * as fs from "node:fs";
import * as path from "node:path";

const children = [];
for (const signal of ["exit", "SIGINT", "SIGTERM"]) {
    process.on(signal, () => {
        children.forEach((child) => child.kill("SIGKILL"));
        if (signal !== "exit") process.exit(1);
    });
}

export const url = /http:\/\/[\d.:]+[\w/]*/;

// The first line of a program's output that matches.
export function started(command, args, options, pattern) {
    const child = spawn(command, args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
    children.push(child);
    let output = "";
    return new Promise((resolve, reject) => {
        const read = (bytes) => {
            output += bytes;
            const found = output.match(pattern);
            if (found) resolve({ child, found: found[0] });
        };
        child.stdout.on("data", read);
        child.stderr.on("data", (bytes) => { output += bytes; });
        child.on("exit", (code) => reject(new Error(`${command} ended with ${code}: ${output}`)));
    });
}

// An empty home and project.
export function place(work) {
    fs.rmSync(work, { recursive: true, force: true });
    const [home, project] = ["home", "project"].map((name) => path.join(path.resolve(work), name));
    [home, project].forEach((folder) => fs.mkdirSync(folder, { recursive: true }));
    const env = { PATH: process.env.PATH, HOME: home, TERM: "xterm", NO_PROXY: "127.0.0.1,localhost" };
    return { home, project, env };
}

// The scripted model; without a script it repeats the user's newest text.
export function scriptedModel(target, work, env, script) {
    const args = ["--lenient"];
    if (script) {
        const file = path.join(work, "script.json");
        fs.writeFileSync(file, JSON.stringify(script));
        args.push("--script", file);
    }
    return started(path.join(target, "scripted-model"), args, { env }, url);
}

export async function start(target, work, script, ...flags) {
    const { home, project, env } = place(work);
    const model = await scriptedModel(target, work, env, script);
    const own = { ...env, OPENAI_BASE_URL: model.found, OPENAI_API_KEY: "x" };
    const plimsoll = path.join(target, "plimsoll");
    const serve = (port) => {
        const args = ["serve", "--port", port, "--model", "openai-chat/scripted", "--context", "100k", ...flags];
        return started(plimsoll, args, { env: own, cwd: project }, url);
    };
    const server = await serve("0");
    // The server again, at the same address.
    const restart = async () => (await serve(new URL(server.found).port)).child;
    return { url: server.found, server: server.child, restart, plimsoll, own, env, home, project };
}
