// Starts `plimsoll serve` with a session in it, and runs schemathesis against `/plimsoll/openapi.json`. See `run.sh`.

import { spawn } from "node:child_process";
import * as fs from "node:fs";
import * as path from "node:path";
import { start } from "../compat/servers.mjs";

const [target, work, schemathesis] = process.argv.slice(2);
const { url, home } = await start(target, work, undefined);
const post = async (where, body) =>
    (await fetch(`${url}${where}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) })).json();
const { id } = await post("/session", { title: "harbour" });
for (const text of ["How deep is it?", "And how wide?"]) await post(`/session/${id}/message`, { parts: [{ type: "text", text }] });

// Most generated ids name nothing; the session is what the routes are really about.
const config = path.join(path.resolve(work), "schemathesis.toml");
fs.writeFileSync(config, `[parameters]\n"path.id" = "${id}"\n"query.directory" = ""\n`);
const args = [
    "--config-file", config, "run", `${url}/plimsoll/openapi.json`, "--phases", "coverage,fuzzing", "--max-examples", "40",
    "--continue-on-failure", "--seed", "1",
    // A schema cannot say that a name must exist, or that words must not be blank.
    "--exclude-checks", "positive_data_acceptance",
];
const env = { PATH: process.env.PATH, HOME: home, NO_PROXY: "127.0.0.1,localhost" };
const child = spawn(schemathesis, args, { env, stdio: "inherit", cwd: path.resolve(work) });
child.on("exit", (code) => process.exit(code ?? 1));
