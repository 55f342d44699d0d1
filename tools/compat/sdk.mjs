// The official JavaScript SDK of OpenCode against `plimsoll serve`. See `run.sh`.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import * as fs from "node:fs";
import * as path from "node:path";
import { pathToFileURL } from "node:url";
import { start } from "./servers.mjs";

const [place, target, work] = process.argv.slice(2);
const folder = path.join(path.resolve(place), "node_modules/@opencode-ai/sdk");
const { createOpencodeClient } = await import(pathToFileURL(path.join(folder, "dist/client.js")));
const v2 = await import(pathToFileURL(path.join(folder, "dist/v2/client.js")));
void createRequire;

const { url, server, project } = await start(target, work, undefined);
const client = createOpencodeClient({ baseUrl: url, directory: project });
const ok = ({ data, error }) => {
    assert.equal(error, undefined, JSON.stringify(error));
    return data;
};
const text = (message) => message.parts.filter((part) => part.type === "text").map((part) => part.text).join("");
const parts = (words) => [{ type: "text", text: words }];

// The stream is read beside everything else.
const events = [];
const stream = (await client.event.subscribe()).stream;
const reading = (async () => {
    for await (const event of stream) events.push(event);
})();
const until = async (what, wanted) => {
    for (let tries = 0; tries < 200; tries += 1) {
        if (await wanted()) return;
        await new Promise((resolve) => setTimeout(resolve, 50));
    }
    throw new Error(`${what} does not come: ${JSON.stringify(events.map((event) => event.type))}`);
};
await until("the first event", () => events.some((event) => event.type === "server.connected"));

const session = ok(await client.session.create({ body: { title: "sdk" } }));
const id = session.id;
assert.equal(session.directory, project);
const answer = ok(await client.session.prompt({ path: { id }, body: { parts: parts("hello") } }));
assert.equal(text(answer), "hello");
const note = ok(await client.session.prompt({ path: { id }, body: { noReply: true, parts: parts("a note") } }));
assert.equal(note.info.role, "user");
ok(await client.session.promptAsync({ path: { id }, body: { parts: parts("later") } }));
await until("the idle event", () => events.filter((event) => event.type === "session.idle").length >= 2);
const messages = ok(await client.session.messages({ path: { id } }));
assert.deepEqual(messages.map(text), ["hello", "hello", "a note", "later", "later"]);
assert.equal(ok(await client.session.messages({ path: { id }, query: { limit: 2 } })).length, 2);
const fork = ok(await client.session.fork({ path: { id }, body: {} }));
assert.equal(ok(await client.session.messages({ path: { id: fork.id } })).length, 5);
const child = ok(await client.session.create({ body: { parentID: id } }));
assert.deepEqual(ok(await client.session.children({ path: { id } })).map((found) => found.id), [child.id]);
assert.ok(ok(await client.session.list()).length >= 3);
const model = { providerID: "openai-chat", modelID: "scripted" };
assert.equal(ok(await client.session.summarize({ path: { id }, body: model })), true);
assert.equal(ok(await client.session.abort({ path: { id } })), true);
assert.equal(ok(await client.session.update({ path: { id }, body: { title: "renamed" } })).title, "renamed");
assert.equal(ok(await client.session.get({ path: { id } })).title, "renamed");
const missing = await client.session.get({ path: { id: "ses_none" } });
assert.equal(missing.error.name, "NotFoundError");
assert.equal(ok(await client.session.delete({ path: { id: child.id } })), true);
await until("the deletion", () => events.some((event) => event.type === "session.deleted"));
for (const type of ["session.created", "message.updated", "message.part.updated", "session.status", "session.idle"]) {
    assert.ok(events.some((event) => event.type === type), `${type} is reported`);
}

// The flat client of the same package.
const flat = v2.createOpencodeClient({ baseUrl: url, directory: project });
const second = ok(await flat.session.create({ title: "v2" }));
const reply = ok(await flat.session.prompt({ sessionID: second.id, parts: parts("flat") }));
assert.equal(text(reply), "flat");
assert.equal(ok(await flat.session.messages({ sessionID: second.id })).length, 2);

// Runs that take a while: half of an answer, a run that is aborted, a call that is rejected, and edits.
const slow = await start(target, `${work}-slow`, [
    { parts: [{ text: "one two three four five six seven eight" }], piece_size: 4, pause_ms: 150 },
    { parts: [{ text: "never to be finished ".repeat(50) }], piece_size: 4, pause_ms: 150 },
    { parts: [{ call: { id: "call_1", tool: "bash", input: { command: "echo x > written.txt", description: "Write" } } }] },
    { parts: [{ text: "Not written." }], repeat: true },
]);
const other = v2.createOpencodeClient({ baseUrl: slow.url, directory: slow.project });
const seen = [];
const live = (await other.event.subscribe()).stream;
void (async () => {
    for await (const event of live) seen.push(event);
})().catch(() => {});
const sessionID = ok(await other.session.create({ title: "slow" })).id;
const newest = async () => text(ok(await other.session.messages({ sessionID })).at(-1));
const idle = () => seen.filter((event) => event.type === "session.idle").length;
const deltas = () => seen.filter((event) => event.type === "message.part.delta").length;
ok(await other.session.promptAsync({ sessionID, parts: parts("count") }));
await until("half of the answer", async () => deltas() >= 2 && (await newest()).startsWith("one two"));
assert.ok(!(await newest()).includes("eight") && idle() === 0, await newest());
await until("the whole answer", () => idle() === 1);
assert.equal(await newest(), "one two three four five six seven eight");
const before = deltas();
ok(await other.session.promptAsync({ sessionID, parts: parts("go on") }));
await until("an answer to abort", () => deltas() >= before + 2);
assert.equal(ok(await other.session.abort({ sessionID })), true);
await until("the end of the aborted run", () => idle() === 2);
const aborted = ok(await other.session.messages({ sessionID })).at(-1);
assert.ok(aborted.info.error, JSON.stringify(aborted.info));
assert.ok((await newest()).length < 500, "it was cut off");
const writing = other.session.prompt({ sessionID, parts: parts("write") });
await until("a question", () => seen.some((event) => event.type === "permission.asked"));
const { id: requestID } = seen.find((event) => event.type === "permission.asked").properties;
assert.equal(ok(await other.permission.reply({ requestID, reply: "reject" })), true);
assert.equal(text(ok(await writing)), "Not written.");
assert.ok(!fs.existsSync(path.join(slow.project, "written.txt")));
const all = ok(await other.session.messages({ sessionID }));
const asked = all[0];
const [part] = asked.parts;
const changed = { ...part, text: "count to eight" };
const spot = { sessionID, messageID: asked.info.id, partID: part.id };
assert.deepEqual(ok(await other.part.update({ ...spot, part: changed })), changed);
assert.equal(text(ok(await other.session.messages({ sessionID }))[0]), "count to eight");
assert.equal(ok(await other.part.delete(spot)), true);
assert.equal(ok(await other.session.messages({ sessionID })).length, all.length - 1);
console.log("SDK: half of an answer, an aborted run, a rejected call, part update and delete work");

// The stream ends when the server does.
const exited = new Promise((resolve) => server.once("exit", resolve));
server.kill("SIGTERM");
assert.equal(await exited, 0);
await Promise.race([reading, new Promise((resolve) => setTimeout(resolve, 3000))]);
console.log(`SDK: ${events.length} events; create, prompt, noReply, promptAsync, messages, fork, children, summarize, abort, update, delete work`);
process.exit(0);
