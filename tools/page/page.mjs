// The page of `plimsoll serve` in headless Chromium: clicks through each function and checks what is shown. See `run.sh`.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import * as fs from "node:fs";
import { createRequire } from "node:module";
import * as path from "node:path";
import { start } from "../compat/servers.mjs";

const [place, target, work, chromium, pictures] = process.argv.slice(2);
const require = createRequire(path.join(path.resolve(place), "package.json"));
const puppeteer = require("puppeteer-core");
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const hostile = `<img src=x onerror="window.owned=1"> \u001b[31mred\u001b[0m \u202etxt`;
const bash = (id, command) => ({ parts: [{ call: { id, tool: "bash", input: { command, description: "Count" } } }] });
const script = [
    bash("call_1", "seq 1 2000"),
    { parts: [{ text: `Counted: ${hostile}` }] },
    bash("call_2", "seq 1 60000"),
    { parts: [{ text: "Counted further." }] },
    bash("call_3", "seq 3000 4500"),
    { parts: [{ text: "Counted again." }] },
    { parts: [{ call: { id: "call_4", tool: "background_task", input: { description: "Sound the bay", prompt: "Sound the bay", agent: "explore", fork: true } } }] },
    // Those of the parent and of the task, in either order.
    { parts: [{ text: "The sounding of the bay is under way." }], piece_size: 2, pause_ms: 100 },
    { parts: [{ text: "The bay is nine metres deep everywhere." }], piece_size: 2, pause_ms: 100 },
    { parts: [{ text: "## Objective\n- Measure the harbour" }], repeat: true },
];
const { url, server, env, home, project } = await start(target, work, script, "--allow", "all");
const json = { "content-type": "application/json" };
const send = async (method, where, body) => {
    const answer = await fetch(`${url}${where}`, { method, headers: json, body: body && JSON.stringify(body) });
    assert.ok(answer.ok, `${method} ${where}: ${answer.status} ${await answer.clone().text()}`);
    return answer.json();
};
const prompt = (id, text, more = {}) => send("POST", `/session/${id}/message`, { ...more, parts: [{ type: "text", text }] });

// A session of another tool.
const other = "7f3b1c9a-2222-4333-8444-555566667777";
const folder = path.join(home, ".claude/projects", project.replaceAll("/", "-"));
fs.mkdirSync(folder, { recursive: true });
const record = (type, uuid, parentUuid, message) => JSON.stringify({
    type, uuid, parentUuid, sessionId: other, cwd: project, timestamp: "2026-01-02T03:04:05.000Z", version: "2.0.0", message,
});
const usage = { input_tokens: 1200, output_tokens: 7, cache_read_input_tokens: 0, cache_creation_input_tokens: 0 };
fs.writeFileSync(path.join(folder, `${other}.jsonl`), `${[
    record("user", "u-1", null, { role: "user", content: "Where is the line of the other tool?" }),
    record("assistant", "a-1", "u-1", {
        role: "assistant", id: "msg_1", model: "claude-sonnet-4-5", content: [{ type: "text", text: "At the hull." }], usage,
    }),
].join("\n")}\n`);

const { id } = await send("POST", "/session", { title: `Harbour ${hostile}` });
const child = await send("POST", "/session", { title: "A child of the harbour", parentID: id });
await prompt(id, `Count, please. ${hostile}`);
await prompt(id, "Count further.");
await prompt(id, "Count again.");

const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars"];
const profile = path.join(path.resolve(work), "profile");
const browser = await puppeteer.launch({ executablePath: chromium, headless: true, args: flags, userDataDir: profile });
process.on("exit", () => browser.process()?.kill("SIGKILL"));
const page = await browser.newPage();
page.setDefaultTimeout(20_000);
await page.setViewport({ width: 1280, height: 900 });
const problems = [];
let isDown = false;
page.on("pageerror", (error) => problems.push(`error: ${error.message}`));
page.on("console", (message) => {
    // Refused plans and a server that is gone are part of the test.
    const isExpected = isDown || /status of 409|ERR_INCOMPLETE_CHUNKED|ERR_CONNECTION/.test(message.text());
    if (message.type() === "error" && !isExpected) problems.push(`console: ${message.text()}`);
});
page.on("request", (request) => {
    if (!request.url().startsWith(url) && !request.url().startsWith("data:")) problems.push(`request: ${request.url()}`);
});

const text = (selector) => page.$eval(selector, (element) => element.innerText);
const until = async (what, check, ...args) => {
    try {
        await page.waitForFunction(check, { polling: 50 }, ...args);
    } catch (error) {
        await page.screenshot({ path: path.join(pictures, "failed.png"), fullPage: true });
        throw new Error(`${what}: ${error.message}\n${await text("body")}`);
    }
};
const shows = (selector, words) => until(`${selector} does not show ${words}`,
    (selector, words) => {
        const element = document.querySelector(selector);
        return element?.checkVisibility() && element.innerText.includes(words);
    }, selector, words);
const click = async (selector, label) => {
    await until(`no button ${label} in ${selector}`, (selector, label) => [...document.querySelectorAll(`${selector} button`)]
        .some((button) => !button.disabled && button.innerText.includes(label)), selector, label);
    await page.evaluate((selector, label) => [...document.querySelectorAll(`${selector} button`)]
        .find((button) => !button.disabled && button.innerText.includes(label)).click(), selector, label);
};
const done = (what) => console.log(`page: ${what}`);
const number = (words) => Number(words.replace(/[^\d]/g, ""));
const windowSize = async () => number((await text("#fullness")).split(" tokens")[0]);
const isAccessible = async (what) => {
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
    const found = violations.map((one) => `${one.id}: ${one.nodes.map((node) => `${node.html} ${node.failureSummary}`).join("\n  ")}`);
    assert.deepEqual(found, [], what);
};

// The tree.
await page.goto(url, { waitUntil: "load" });
await shows("#connection", "live");
await shows("#directory", project);
await shows("#tree", "Harbour");
assert.equal(await page.$$eval("#tree > li", (rows) => rows.length), 1);
await shows("#tree li li", "A child of the harbour");
await isAccessible("without a session");
done("shows the sessions as a tree, live");

// By keyboard.
await page.keyboard.press("Tab");
assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
await page.keyboard.press("Tab");
assert.ok((await page.evaluate(() => document.activeElement.innerText)).startsWith("Harbour"));
const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
assert.equal(outline, "solid", "the focus is visible");
await page.keyboard.press("Enter");
await shows("#title", "Harbour");
await until("the session has no focus", () => document.activeElement.id === "session");
done("is used by keyboard");

// What is hostile is text.
assert.ok((await text("#title")).includes('<img src=x onerror="window.owned=1">'));
const [first] = await send("GET", `/session/${id}/message`);
await send("POST", `/plimsoll/session/${id}/pins`, { what: first.info.id });
await shows("#contents", "\u241b[31mred\u241b[0m");
await shows("#contents", "<img src=x");
await click("#contents", "Unpin");
await shows("#message", "Unpinned");
assert.equal(await page.$$eval("img", (images) => images.length), 0);
assert.equal(await page.evaluate(() => window.owned), undefined);
assert.ok(!(await text("body")).includes("\u202e"), "text is not reversed");
done("shows markup, escapes and control characters as text");

// The window.
await shows("#fullness", "of the line at");
assert.ok((await page.$$eval("#bar rect:not(.room)", (rects) => rects.length)) >= 2);
assert.ok((await page.$eval("#bar", (bar) => bar.ariaLabel ?? bar.getAttribute("aria-label"))).includes("tool outputs"));
assert.match(await page.$eval("#bar .line-name", (name) => name.textContent), /^line [\d,]+$/);
assert.match(await text("#legend"), /^A\s*\S/);
for (const caption of ["By kind", "By tool", "By file"]) await shows("#tables", caption);
await shows("#tables", "bash");
await shows("#items", "seq 1 2000");
await shows("#contents", "Spilled to disk");
await until("no spill", () => [...document.querySelectorAll("#contents table")].some((one) =>
    one.caption.innerText.startsWith("Spilled") && one.tBodies[0].innerText.includes("seq 1 60000")));
done("shows the window against its line, what fills it, and what was spilled");

// History, cost, cache.
assert.equal(await page.$$eval("#chart circle", (dots) => dots.length), 3);
await page.click("details summary");
await shows("#turns", "Count further.");
await shows("#figures", "$");
const cache = () => page.$eval("[data-until]", (left) => left.innerText);
const before = await cache();
assert.match(before, /^\d+:\d\d left/);
await until("the time does not pass", (before) => document.querySelector("[data-until]").innerText !== before, before);
done("shows the history, the cost, and the time left in the prompt cache");

// Pins.
await click("#items", "Pin");
await shows("#message", "Pinned");
await shows("#items", "Unpin");
await click("#items", "Unpin");
await shows("#message", "Unpinned");
await until("still pinned", () => !document.querySelector("#items").innerText.includes("Unpin"));
await page.type("#pin-words", "Count again.");
await click("#pin-form", "Pin");
await until("the words are not pinned", () => [...document.querySelectorAll("#contents table")].some((one) =>
    one.caption.innerText.startsWith("Pinned") && one.innerText.includes("Count again.")));
await click("#contents", "Unpin");
await until("the words are still pinned", () => document.querySelector("#contents").innerText.includes("tokens): none."));
done("pins and unpins items and words");

// A plan, applied.
const size = await windowSize();
await page.click('#plan-tools input[value="bash"]');
await click("#plan-form", "Plan the chosen outputs");
await shows("#plans", "Apply this plan");
await shows("#plans", "seq 1 2000");
assert.equal(await windowSize(), size, "a plan changes nothing");
await page.screenshot({ path: path.join(pictures, "plan.png"), fullPage: true });
await prompt(id, "A note.", { noReply: true });
await click("#plans", "Apply this plan");
await shows("#message", "has changed since the plan was shown");
await click("#plan-form", "Plan the chosen outputs");
await click("#plans", "Apply this plan");
await shows("#message", "Applied.");
await shows("#contents", "cleared");
await until("the window is not smaller", (size) =>
    Number(document.querySelector("#fullness").innerText.split(" tokens")[0].replaceAll(",", "")) < size, size);
done("shows a plan, refuses it after a change, and applies it as shown");

// Recall.
await page.type("#recall-text", "^1999$");
await click("#recall-form", "Recall");
await shows("#recalled pre", "1999");
await click("#contents", "Show");
await until("the content is not shown", () => document.querySelector("#recalled pre")?.innerText.includes("17"));
done("recalls by a search and by a handle");

await page.screenshot({ path: path.join(pictures, "light.png"), fullPage: true });
await isAccessible("light");
await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
await page.screenshot({ path: path.join(pictures, "dark.png"), fullPage: true });
await isAccessible("dark");
await page.setViewport({ width: 360, height: 740 });
await until("the page is wider than the screen", () => document.scrollingElement.scrollWidth <= 360);
await new Promise((resolve) => setTimeout(resolve, 500));
await page.screenshot({ path: path.join(pictures, "narrow-dark.png"), fullPage: true });
await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "light" }]);
await page.screenshot({ path: path.join(pictures, "narrow.png"), fullPage: true });
await isAccessible("narrow");
await page.setViewport({ width: 1280, height: 900 });
done("is accessible in light and dark, and fits 360 pixels");

// Undo.
await click("#receipts", "Undo");
await shows("#message", "Undone");
await shows("#receipts", "undone");
done("undoes a receipt");

// A background task, live.
const launched = prompt(id, "Sound the bay in the background.");
await shows("#tasks", "Sound the bay");
await shows("#tasks", "fork: ");
await until("the task is not running", () => /running|queued/.test(document.querySelector("#tasks").innerText));
await page.evaluate(() => scrollTo(0, 0));
await page.screenshot({ path: path.join(pictures, "task.png") });
await launched;
await shows("#tasks", "completed");
await until("the task is not in the tree", () => document.querySelectorAll("#tree li li").length >= 2);
done("shows a running task with its fork receipt, and its end");

// A compaction.
await click("#plan-form", "Plan as the policy would");
await shows("#plans", "replace older messages by a summary");
await click("#plans .plan:last-child", "Apply this plan");
await shows("#message", "Applied.");
await until("nothing is compacted", () => [...document.querySelectorAll("#contents table")].some((one) =>
    one.caption.innerText.startsWith("Compacted") && one.tBodies[0].rows.length === 1));
done("compacts as planned");

// A replay.
await click("#replay-heading + p + .actions", "Replay");
await shows("#replayed", "plimsoll");
done("replays the session");

// Another tool's session.
await click("nav", "Search again");
await shows("#others", "Where is the line");
await click("#others", "Where is the line");
await shows("#import-bar", "read-only");
await until("what only stored sessions have is shown", () => [...document.querySelectorAll(".own")].every((part) => part.hidden));
await shows("#fullness", "1,207 tokens");
await click("#import-bar", "Import");
await shows("#confirm", "Store a copy");
await click("#confirm", "Cancel");
assert.equal((await send("GET", "/plimsoll/sessions")).sessions.filter((one) => one.importedFrom).length, 0);
await click("#import-bar", "Import");
await click("#confirm", "Yes");
await shows("#message", "Imported");
await until("the copy is not shown", () => document.querySelector("#import-bar").hidden && !location.hash.startsWith("#other"));
await shows("#tree", "from claude-code");
done("shows and imports a session of another tool");

// Changes appear by themselves.
await click("#tree", "A child of the harbour");
await shows("#facts", child.id);
await prompt(child.id, "Live words", { noReply: true });
await until("the change does not appear", () => document.querySelector("#figures").innerText.match(/Messages\s+1\b/));
isDown = true;
server.removeAllListeners("exit");
server.kill("SIGKILL");
await shows("#connection", "disconnected");
await page.screenshot({ path: path.join(pictures, "disconnected.png") });
const again = spawn(path.join(target, "plimsoll"), ["serve", "--port", new URL(url).port], { env, cwd: project, stdio: "ignore" });
process.on("exit", () => again.kill("SIGKILL"));
await shows("#connection", "live");
isDown = false;
// Without a model, because its address is not in this environment: sessions can be looked at all the same.
await click("#tree", "Harbour");
await shows("#fullness", "of the line at");
await shows("#receipts", "undone");
done("reconnects after the server was killed, and needs no model to show a session");

assert.deepEqual(problems, []);
await browser.close();
process.exit(0);
