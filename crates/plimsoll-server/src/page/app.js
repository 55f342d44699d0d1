"use strict";
// The page of `plimsoll serve`. Transcripts are untrusted: everything from the server is written as text, never as markup.

const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const LETTERS = "ABCDEFGHI";
const DEBOUNCE = 400;
const AT_MOST_EVERY = 1500;
const ROWS = 15;

const directory = new URLSearchParams(location.search).get("directory");
const state = { selected: null, sessions: [], others: [], busy: [], tasks: [], detail: null, skew: 0, plans: [], choice: null };

// ---- Text ----

const grouped = new Intl.NumberFormat("en-US");
const number = (value) => (value === null || value === undefined ? "–" : grouped.format(value));
const share = (part, whole) => (whole > 0 ? `${Math.round((part * 100) / whole)} %` : "–");
const plural = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;

function dollars(cost) {
    if (cost === null || cost === undefined) return "unknown";
    return `$${cost.toFixed(cost !== 0 && cost < 0.01 ? 4 : 2)}`;
}

function bytes(count) {
    if (count < 1000) return `${count} B`;
    return count < 1e6 ? `${(count / 1e3).toFixed(1)} kB` : `${(count / 1e6).toFixed(1)} MB`;
}

function duration(millis) {
    const seconds = Math.max(0, Math.floor(millis / 1000));
    const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
    const two = (value) => String(value).padStart(2, "0");
    return hours > 0 ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`;
}

const now = () => Date.now() + state.skew;
function clock(at) {
    if (!at) return "–";
    const time = new Date(at);
    const two = (value) => String(value).padStart(2, "0");
    const day = `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())}`;
    return `${day} ${two(time.getHours())}:${two(time.getMinutes())}`;
}

function age(at) {
    const minutes = Math.max(0, Math.floor((now() - at) / 60000));
    if (minutes < 1) return "now";
    if (minutes < 60) return `${minutes} min ago`;
    return minutes < 2880 ? `${Math.floor(minutes / 60)} h ago` : `${Math.floor(minutes / 1440)} days ago`;
}

// Control characters, such as those of terminal escapes, and those that reverse the direction of text are shown as symbols.
function visible(text) {
    return String(text)
        .replace(/[\u0000-\u0008\u000b-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)))
        .replace(/[\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
}

// ---- Elements ----

function fill(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
        if (name === "onclick" || name === "onchange") element.addEventListener(name.slice(2), value);
        else if (value === true) element.setAttribute(name, "");
        else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, visible(value));
    }
    for (const child of children.flat()) {
        if (child === null || child === undefined || child === false) continue;
        element.append(child instanceof Node ? child : document.createTextNode(visible(child)));
    }
    return element;
}

const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
const write = (id, text) => {
    const shown = visible(text);
    if ($(id).textContent !== shown) $(id).textContent = shown;
};

const drawn = new Map();

// Draws a part of the page anew if what it shows has changed. The focus stays on the element with the same key.
function draw(id, shown, make) {
    const signature = JSON.stringify(shown);
    if (drawn.get(id) === signature) return;
    drawn.set(id, signature);
    const holder = $(id);
    const focused = holder.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    const open = [...holder.querySelectorAll("details[open]")].map((details) => details.dataset.key);
    const scrolled = holder.scrollTop;
    holder.replaceChildren(...[make()].flat().filter(Boolean));
    holder.scrollTop = scrolled;
    for (const details of holder.querySelectorAll("details")) details.open = open.includes(details.dataset.key);
    if (focused) [...holder.querySelectorAll("[data-key]")].find((one) => one.dataset.key === focused)?.focus();
}

// Roles are explicit, because narrow screens show each row as a block, which would end the meaning of the elements.
function table(caption, headings, rows) {
    if (rows.length === 0) return el("p", { class: "quiet" }, `${caption}: none.`);
    const head = headings.map(([name, kind]) => el("th", { scope: "col", role: "columnheader", class: kind }, name));
    const body = rows.map((cells) => el("tr", { role: "row" }, cells.map((cell, at) => {
        const [name, kind] = headings[at];
        return at === 0
            ? el("th", { scope: "row", role: "rowheader", class: kind, "data-name": name }, cell)
            : el("td", { role: "cell", class: kind, "data-name": name }, cell);
    })));
    const whole = el(
        "table",
        { role: "table" },
        el("caption", {}, caption),
        el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, head)),
        el("tbody", { role: "rowgroup" }, body),
    );
    return el("div", { class: "scroll", role: "region", "aria-label": caption, tabindex: "0" }, whole);
}

function button(label, key, action, attributes = {}) {
    return el("button", { type: "button", "data-key": key, onclick: (event) => run(event.currentTarget, action), ...attributes }, label);
}

// ---- Server ----

function address(path) {
    if (directory === null) return path;
    return `${path}${path.includes("?") ? "&" : "?"}directory=${encodeURIComponent(directory)}`;
}

async function ask(method, path, body, signal) {
    const options = { method, signal, headers: { accept: "application/json" } };
    if (body !== undefined) {
        options.headers["content-type"] = "application/json";
        options.body = JSON.stringify(body);
    }
    const answer = await fetch(address(path), options);
    const value = await answer.json().catch(() => null);
    if (!answer.ok) {
        const error = new Error(value?.data?.message ?? value?.message ?? `the server answered ${answer.status}`);
        error.status = answer.status;
        throw error;
    }
    return value;
}

const get = (path) => ask("GET", path);
const post = (path, body) => ask("POST", path, body ?? {});
const own = (id, what = "") => `/plimsoll/session/${encodeURIComponent(id)}${what && `/${what}`}`;

function say(text, kind = "info") {
    $("message").dataset.kind = kind;
    write("message", text);
}

// Does something for a button: it cannot be pressed twice, and a failure is shown.
async function run(pressed, action) {
    if (pressed?.disabled) return;
    if (pressed) pressed.disabled = true;
    try {
        await action();
    } catch (error) {
        if (error.name !== "AbortError") say(error.message, "error");
    } finally {
        if (pressed) pressed.disabled = false;
    }
    await refresh();
}

function confirmed(text) {
    const dialog = $("confirm");
    write("confirm-text", text);
    dialog.showModal();
    return new Promise((resolve) => {
        const end = (answer) => () => {
            dialog.onclose = null;
            dialog.close();
            resolve(answer);
        };
        $("confirm-yes").onclick = end(true);
        $("confirm-no").onclick = end(false);
        dialog.onclose = end(false);
    });
}

// ---- Sessions ----

const isSelected = (kind, session) =>
    state.selected?.kind === kind && state.selected.id === session.id && (kind === "own" || state.selected.tool === session.tool);

function figuresOf(session) {
    const size = session.percent === null ? `${number(session.window)} tokens` : `${session.percent} % of the line`;
    const cost = session.cost === null ? [] : [dollars(session.cost)];
    return [size, plural(session.messages, "message"), ...cost, age(session.updated)].join(" · ");
}

function entry(kind, session, notes) {
    const current = isSelected(kind, session) ? "true" : null;
    const hash = kind === "own" ? `#${encodeURIComponent(session.id)}` : `#other/${session.tool}/${encodeURIComponent(session.id)}`;
    return el(
        "button",
        { type: "button", class: "row", "aria-current": current, "data-key": hash, onclick: () => { location.hash = hash; } },
        el("span", { class: "name" }, session.title || session.id),
        el("span", { class: "quiet" }, [...notes, figuresOf(session)].join(" · ")),
    );
}

function drawTree() {
    const { sessions, busy, selected } = state;
    $("sessions-empty").hidden = sessions.length > 0;
    // Ages change without an event.
    draw("tree", [sessions, busy, selected, state.tasks.map((task) => task.id), Math.floor(now() / 60000)], () => {
        const known = new Set(sessions.map((session) => session.id));
        const tasks = new Set(state.tasks.map((task) => task.id));
        const children = new Map();
        for (const session of sessions) {
            const above = session.parent ?? session.forkedFrom;
            const parent = known.has(above) ? above : null;
            children.set(parent, [...(children.get(parent) ?? []), session]);
        }
        const placed = new Set();
        const branch = (parent) => (children.get(parent) ?? []).map((session) => {
            // A damaged record may name itself.
            if (placed.has(session.id)) return null;
            placed.add(session.id);
            const notes = [
                busy.includes(session.id) && "running",
                session.parent && (tasks.has(session.id) ? "task" : "child"),
                !session.parent && session.forkedFrom && "fork",
                session.importedFrom && `from ${session.importedFrom}`,
            ].filter(Boolean);
            const below = branch(session.id).filter(Boolean);
            return el("li", {}, entry("own", session, notes), below.length > 0 && el("ul", {}, below));
        });
        return branch(null);
    });
}

function drawOthers() {
    draw("others", [state.others, state.selected], () => state.others.map((session) => {
        const notes = [session.tool, session.isStored && "imported"].filter(Boolean);
        return el("li", {}, entry("other", session, notes));
    }));
}

async function findOthers() {
    write("others-empty", "Searching…");
    $("others-empty").hidden = false;
    try {
        state.others = (await get("/plimsoll/others")).sessions;
        write("others-empty", "No other tool has sessions of this directory.");
        $("others-empty").hidden = state.others.length > 0;
    } catch (error) {
        write("others-empty", error.message);
    }
    drawOthers();
}

async function importSession({ tool, id }) {
    const name = state.others.find((one) => one.id === id && one.tool === tool)?.title ?? id;
    if (!(await confirmed(`Store a copy of “${name}” of ${tool} here? The original is not changed.`))) return;
    const report = await post("/plimsoll/import", { tool, session: id });
    await findOthers();
    // Choosing a session clears the message.
    const chosen = new Promise((resolve) => { window.addEventListener("hashchange", resolve, { once: true }); });
    location.hash = `#${encodeURIComponent(report.id)}`;
    await chosen;
    say(`${report.outcome === "unchanged" ? "Already stored" : "Imported"}: ${report.id}`);
}

// ---- Tasks ----

const ACTIVE = ["queued", "running", "resumed"];

function forkText(fork) {
    if (!fork) return "fork: none was requested";
    const words = [`fork: ${fork.way === "history" ? "the parent's window" : fork.way}`];
    if (fork.stats) words.push(`${plural(fork.stats.finalCount, "message")} of ${number(fork.stats.originalCount)}`);
    if (fork.shared) words.push(`${plural(fork.shared, "message")} shared`);
    if (fork.tokens) words.push(`${number(fork.tokens)} tokens`);
    if (fork.stats?.truncatedResults) words.push(`${plural(fork.stats.truncatedResults, "result")} cut`);
    if (fork.cut) words.push("cut to fit");
    if (fork.why) words.push(fork.why);
    if (fork.warning) words.push(fork.warning);
    return words.join(" · ");
}

function drawTasks() {
    const tasks = state.tasks.filter((task) => !task.cleared).slice(-20).reverse();
    $("tasks-empty").hidden = tasks.length > 0;
    draw("tasks", tasks, () => tasks.map((task) => {
        const { progress, agent, status, runs } = task;
        const last = runs?.at(-1);
        const isActive = ACTIVE.includes(status);
        const begun = last?.started ?? last?.asked ?? task.created;
        const time = el("span", isActive ? { "data-since": begun } : {}, duration((isActive ? now() : last?.ended ?? begun) - begun));
        const calls = plural(progress?.toolCalls ?? 0, "tool call");
        return el(
            "li",
            { class: "task" },
            el("strong", {}, `${status}: `),
            task.description || task.id,
            el("div", { class: "quiet" }, `${agent} · ${calls} · ${dollars(progress?.cost ?? 0)} · `, time),
            el("div", { class: "quiet" }, forkText(task.fork)),
            task.error && el("div", { class: "quiet" }, task.error),
            el(
                "div",
                { class: "actions" },
                button("Open", `open-${task.id}`, async () => { location.hash = `#${task.id}`; }, { "aria-label": `Open the task ${task.description}` }),
                isActive && button("Cancel", `cancel-${task.id}`, () => post(`/plimsoll/tasks/${task.id}/cancel`), { "aria-label": `Cancel the task ${task.description}` }),
            ),
        );
    }));
}

// ---- Window ----

function kindsOf(window) {
    const kinds = window.kinds.filter((kind) => kind.tokens > 0);
    const [shown, rest] = [kinds.slice(0, LETTERS.length - 1), kinds.slice(LETTERS.length - 1)];
    if (rest.length > 0) {
        const sum = (name) => rest.reduce((total, kind) => total + kind[name], 0);
        shown.push({ name: "other", count: sum("count"), tokens: sum("tokens") });
    }
    return shown;
}

function drawWindow(window) {
    const kinds = kindsOf(window);
    const measured = { usage: "by recorded usage", characters: "an estimate", count: "counted" }[window.measured] ?? "";
    const line = window.line;
    const of = line === null ? "no line" : `${window.percent} % of the line at ${number(line)}; ${number(window.left)} left`;
    write("fullness", `${number(window.window)} tokens in the window (${measured}), ${of}`);
    const width = Math.max(240, $("bar").clientWidth);
    draw("bar", [kinds, window.window, line, width], () => {
        const whole = Math.max(window.window, line ?? 0, 1) * 1.02;
        const x = (tokens) => (tokens / whole) * width;
        const shapes = [svg("rect", { class: "room", x: 0, y: 18, width, height: 40, rx: 3 })];
        let at = 0;
        kinds.forEach((kind, place) => {
            const [left, size] = [x(at), x(kind.tokens)];
            const title = svg("title", {}, `${LETTERS[place]} ${kind.name}: ${number(kind.tokens)} tokens`);
            shapes.push(svg("rect", { class: `k${place}`, x: left, y: 18, width: Math.max(size, 0.5), height: 40 }, title));
            if (size > 16) shapes.push(svg("text", { class: "on", x: left + size / 2, y: 43, "text-anchor": "middle" }, LETTERS[place]));
            at += kind.tokens;
        });
        if (line !== null) {
            const end = x(line) > width / 2 ? "end" : "start";
            shapes.push(svg("path", { class: "line", d: `M${x(line)} 12V66` }));
            shapes.push(svg("text", { class: "line-name", x: x(line), y: 10, "text-anchor": end }, `line ${number(line)}`));
        }
        return svg("svg", { viewBox: `0 0 ${width} 70`, "aria-hidden": "true", focusable: "false" }, shapes);
    });
    const words = kinds.map((kind) => `${kind.name} ${number(kind.tokens)}`).join(", ");
    $("bar").setAttribute("aria-label", visible(`${$("fullness").textContent}: ${words}`));
    draw("legend", [kinds, window.window], () => kinds.map((kind, place) => el(
        "li",
        {},
        el("span", { class: `swatch k${place}`, "aria-hidden": "true" }, el("b", {}, LETTERS[place])),
        `${kind.name} ${number(kind.tokens)}, ${share(kind.tokens, window.window)}`,
    )));
    const rows = (shares) => shares.slice(0, ROWS).map((one) => [one.name, number(one.count), number(one.tokens), share(one.tokens, window.window)]);
    const headings = (name) => [[name, "words"], ["Items"], ["Tokens"], ["Share"]];
    draw("tables", [window.kinds, window.byTool, window.byFile, window.window], () => [
        table("By kind", headings("Kind"), rows(window.kinds)),
        table("By tool", headings("Tool"), rows(window.byTool)),
        table("By file", headings("File"), rows(window.byFile)),
    ]);
}

function drawItems(window, contents, id) {
    const pinned = new Map((contents?.pinned ?? []).map((pin) => [pin.part, pin.receipt]));
    const shown = window.items.slice(0, ROWS);
    draw("items", [shown, [...pinned], id], () => {
        const action = (item) => {
            if (contents === null || !item.part) return "";
            const receipt = pinned.get(item.part);
            return receipt
                ? button("Unpin", `pin-${item.part}`, () => unpin(id, receipt), { "aria-label": `Unpin ${item.kind} ${item.about}` })
                : button("Pin", `pin-${item.part}`, () => pin(id, item.part), { "aria-label": `Pin ${item.kind} ${item.about}` });
        };
        const rows = shown.map((item) => [`${item.kind} ${item.about}`, number(item.turn), number(item.tokens), share(item.tokens, window.window), action(item)]);
        return table("Largest items in the window", [["Item", "words"], ["Turn"], ["Tokens"], ["Share"], [contents === null ? "" : "Pin"]], rows);
    });
}

async function pin(id, what) {
    const receipt = await post(own(id, "pins"), { what });
    say(`Pinned. Receipt ${receipt.id}`);
}

async function unpin(id, receipt) {
    await ask("DELETE", own(id, `pins/${encodeURIComponent(receipt)}`));
    say("Unpinned.");
}

// ---- History ----

function drawHistory(turns, line) {
    const width = Math.max(240, $("chart").clientWidth);
    draw("chart", [turns, line, width], () => {
        if (turns.length === 0) return el("p", { class: "quiet" }, "No turn yet.");
        const [height, left, right, top, bottom] = [200, 58, 10, 18, 26];
        const most = Math.max(line ?? 0, ...turns.map((turn) => Math.max(turn.log, turn.window ?? 0)), 1) * 1.05;
        const [first, last] = [turns[0].turn, turns.at(-1).turn];
        const x = (turn) => left + (last === first ? 0.5 : (turn - first) / (last - first)) * (width - left - right);
        const y = (tokens) => top + (1 - tokens / most) * (height - top - bottom);
        const path = (points) => points.map(([turn, tokens], at) => `${at === 0 ? "M" : "L"}${x(turn).toFixed(1)} ${y(tokens).toFixed(1)}`).join("");
        const sent = turns.filter((turn) => turn.window !== null).map((turn) => [turn.turn, turn.window]);
        const shapes = [
            svg("path", { class: "axis", d: `M${left} ${top}V${height - bottom}H${width - right}` }),
            svg("text", { x: left - 6, y: height - bottom + 4, "text-anchor": "end" }, "0"),
            svg("text", { x: left - 6, y: y(most / 1.05) + 4, "text-anchor": "end" }, compact(most / 1.05)),
            svg("text", { x: left, y: height - 8 }, `turn ${first}`),
            last > first && svg("text", { x: width - right, y: height - 8, "text-anchor": "end" }, `turn ${last}`),
            svg("path", { class: "log", d: path(turns.map((turn) => [turn.turn, turn.log])) }),
            svg("path", { class: "sent", d: path(sent) }),
            ...(sent.length <= 60 ? sent.map(([turn, tokens]) => svg("circle", { class: "dot", cx: x(turn), cy: y(tokens), r: 3 },
                svg("title", {}, `turn ${turn}: ${number(tokens)} tokens`))) : []),
        ];
        if (line !== null) {
            shapes.push(svg("path", { class: "line", d: `M${left} ${y(line)}H${width - right}` }));
            shapes.push(svg("text", { class: "line-name", x: width - right, y: y(line) - 5, "text-anchor": "end" }, `line ${number(line)}`));
        }
        const label = `Window and log over ${plural(turns.length, "turn")}; the figures are in the table below`;
        return [
            svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, shapes),
            el("p", { class: "quiet" }, "Solid with dots: the window after each turn, by recorded usage. Dotted: the log, which only grows. Dashed: the line."),
        ];
    });
    draw("turns", turns, () => table(
        "Window and log after each turn",
        [["Turn"], ["Prompt", "words"], ["Window"], ["Log"], ["Cost"]],
        turns.slice(-200).reverse().map((turn) => [number(turn.turn), turn.prompt, number(turn.window), number(turn.log), dollars(turn.cost)]),
    ));
}

const compact = (tokens) => (tokens >= 1e6 ? `${(tokens / 1e6).toFixed(1)}M` : tokens >= 1000 ? `${Math.round(tokens / 1000)}k` : `${Math.round(tokens)}`);

// ---- What left the window ----

function drawContents(contents, id) {
    draw("contents", [contents, id], () => {
        const show = (handle, about) => button("Show", `show-${handle}`, () => recall({ handle }), { "aria-label": `Show ${about}` });
        const turns = (one) => (one.firstTurn === one.lastTurn ? `${one.firstTurn ?? "–"}` : `${one.firstTurn ?? "–"} to ${one.lastTurn ?? "–"}`);
        return [
            table("Pruned", [["Item", "words"], ["How", "words"], ["Turn"], ["Tokens"], ["Recall"]], contents.pruned.slice(0, 100).map((one) =>
                [`${one.kind} ${one.about}`, one.how, number(one.turn), number(one.tokens), show(one.handle, one.about)])),
            table("Spilled to disk", [["Output of", "words"], ["Turn"], ["Size"], ["Stored"], ["Recall"]], contents.spilled.slice(0, 100).map((one) =>
                [`${one.tool} ${one.about}`, number(one.turn), bytes(one.bytes), clock(one.created), one.expired ? "expired" : show(one.handle, `the output of ${one.tool} ${one.about}`)])),
            table("Compacted", [["Turns"], ["Messages"], ["Tokens"], ["Window before"], ["After"], ["Recall"]], contents.compacted.slice(0, 100).map((one) =>
                [turns(one), number(one.messages), number(one.tokens), number(one.before), number(one.after), show(one.handle, "the messages")])),
            table(`Pinned (budget ${number(contents.pinBudget)} tokens)`, [["Text", "words"], ["Tokens"], [""]], contents.pinned.map((one) =>
                [one.text.slice(0, 300), number(one.tokens), button("Unpin", `unpin-${one.receipt}-${one.part}`, () => unpin(id, one.receipt), { "aria-label": `Unpin ${one.text.slice(0, 60)}` })])),
        ];
    });
}

function drawReceipts(receipts, id) {
    draw("receipts", [receipts, id], () => table(
        "Receipts, newest first",
        [["What", "words"], ["When"], ["Before"], ["After"], ["Undo"]],
        [...receipts].reverse().slice(0, 200).map((receipt) => {
            const undo = button("Undo", `undo-${receipt.id}`, async () => {
                await post(own(id, "undo"), { receipt: receipt.id });
                say(`Undone: ${receipt.title}`);
            }, { "aria-label": `Undo ${receipt.title}` });
            const action = receipt.canUndo ? undo : receipt.undoneBy ? "undone" : "";
            const what = el("span", {}, receipt.title, el("br"), el("span", { class: "quiet" }, receipt.reason));
            return [what, clock(receipt.at), number(receipt.before), number(receipt.after), action];
        }),
    ));
}

// ---- Plans ----

function drawPlanTools(window) {
    const names = window.byTool.slice(0, 12).map((tool) => tool.name);
    const chosen = new Set([...$("plan-tools").querySelectorAll("input:checked")].map((box) => box.value));
    draw("plan-tools", names, () => names.length === 0
        ? el("p", { class: "quiet" }, "No tool has outputs in the window.")
        : names.map((name) => {
            const box = el("input", { type: "checkbox", "data-key": `tool-${name}` });
            box.value = name;
            box.checked = chosen.has(name);
            return el("label", {}, box, ` ${name}`);
        }));
}

function drawPlans() {
    const { plans, choice } = state;
    draw("plans", plans, () => plans.map((plan, at) => {
        const name = plan.kind === "prune" ? "Plan: clear outputs" : "Plan: replace older messages by a summary";
        const bound = plan.kind === "compact" ? "at most " : "";
        const rows = plan.items.slice(0, 100).map((item) => [`${item.kind} ${item.about}`, number(item.turn), number(item.tokens)]);
        return el(
            "div",
            { class: "plan", role: "group", "aria-label": name },
            el("h4", {}, name),
            el("p", {}, plan.text),
            !plan.isEmpty && el("p", {}, `Window: ${number(plan.before)} tokens before, ${bound}${number(plan.after)} after.`),
            rows.length > 0 && table("Outputs that would be cleared", [["Output", "words"], ["Turn"], ["Tokens"]], rows),
            plan.items.length > 100 && el("p", { class: "quiet" }, `and ${number(plan.items.length - 100)} more`),
            !plan.isEmpty && button("Apply this plan", `apply-${at}`, () => apply(plan, choice), { class: "main" }),
        );
    }));
}

async function makePlan(choice) {
    const { id } = state.selected;
    state.plans = [];
    drawPlans();
    const plans = choice ? [await post(own(id, "plan"), choice)] : (await get(own(id, "plan"))).plans;
    if (state.selected?.id !== id) return;
    [state.plans, state.choice] = [plans, choice];
    drawPlans();
}

async function apply(plan, choice) {
    const { id } = state.selected;
    state.plans = [];
    try {
        const { receipts } = await post(own(id, "apply"), choice ? { id: plan.id, choice } : { id: plan.id });
        say(receipts.length === 0 ? "Nothing was reduced: the window would not get smaller." : `Applied. Receipt ${receipts.map((one) => one.id).join(", ")}`);
    } finally {
        drawPlans();
    }
}

// ---- Recall, replay ----

async function recall(query) {
    const { id } = state.selected;
    const { text, next } = await post(own(id, "recall"), query);
    if (state.selected?.id !== id) return;
    draw("recalled", [text, next, query], () => [
        el("pre", { tabindex: "0", "aria-label": "Recalled content" }, text),
        next && button("More", "recall-more", () => recall(next)),
    ]);
    $("recalled").scrollIntoView({ block: "nearest" });
}

async function recallText(text) {
    if (/^(msg|prt|spl|out|spill)_\S+$/.test(text)) {
        try {
            return await recall({ handle: text });
        } catch (error) {
            if (error.status !== 400) throw error;
        }
    }
    return recall({ search: text });
}

let replaying = null;

async function replay() {
    const { id } = state.selected;
    replaying = new AbortController();
    $("replay-stop").hidden = false;
    write("replayed", "Replaying…");
    drawn.delete("replayed");
    try {
        const found = await ask("GET", own(id, "replay"), undefined, replaying.signal);
        const [session] = found.sessions;
        const rows = session.policies.map((one) => [one.policy, one.references?.onlyInOutputs?.calls ? share(one.references.onlyInOutputs.inWindowShare, 1) : "–", number(one.deaths), number(one.peak), dollars(one.cost)]);
        draw("replayed", rows, () => table(
            `${plural(session.policies[0]?.calls ?? 0, "call")} in a window of ${number(session.context)} tokens`,
            [["Policy", "words"], ["Needed content in the window"], ["Calls that do not fit"], ["Peak"], ["Cost"]],
            rows,
        ));
    } catch (error) {
        write("replayed", error.name === "AbortError" ? "Stopped." : error.message);
    } finally {
        replaying = null;
        $("replay-stop").hidden = true;
    }
}

// ---- One session ----

function drawFigures(figures) {
    draw("figures", figures, () => figures.map(([name, value, data]) => el("div", {}, el("dt", {}, name), el("dd", data ?? {}, value))));
}

const STATES = { running: "running here", open: "open here", elsewhere: "run by another process", idle: "idle" };

function drawOwn({ overview, window, history, contents, receipts }) {
    const { session, figures, cache } = overview;
    write("title", figures.title || session.id);
    document.title = `${visible(figures.title || session.id)} – Plimsoll`;
    write("facts", [session.id, figures.model, STATES[overview.state]].filter(Boolean).join(" · "));
    const until = cache === null ? ["no request yet"] : ["", { "data-until": cache.until, "data-assumed": cache.isRecorded ? null : "1" }];
    drawFigures([
        ["Window", `${number(window.window)} tokens`],
        ["Line", window.line === null ? "none" : `${number(window.line)} (${window.percent} % used)`],
        ["Left", window.left === null ? "–" : `${number(window.left)} tokens`],
        ["Cost", dollars(figures.cost ?? session.cost)],
        ["Prompt cache", ...until],
        ["Messages", number(figures.messages)],
        ["Pinned", `${number(window.pinned)} tokens`],
        ["Summary", window.hasSummary ? "replaces older messages" : "none"],
    ]);
    drawWindow(window);
    drawItems(window, contents, session.id);
    drawHistory(history.turns, window.line);
    drawPlanTools(window);
    drawContents(contents, session.id);
    drawReceipts(receipts, session.id);
    tick();
}

function drawOther({ session, window }) {
    write("title", session.title || session.session);
    document.title = `${visible(session.title || session.session)} – Plimsoll`;
    write("facts", [session.session, session.model, session.format].filter(Boolean).join(" · "));
    drawFigures([
        ["Window", `${number(window.window)} tokens`],
        ["Line", window.line === null ? "none" : `${number(window.line)} (${window.percent} % used)`],
        ["Cost", dollars(session.recorded.cost)],
        ["Messages", number(window.messages)],
    ]);
    drawWindow(window);
    drawItems(window, null, session.session);
    drawHistory((window.growth ?? []).map((turn) => ({ turn: turn.turn, prompt: turn.prompt, log: turn.tokens, window: null, cost: null })), window.line);
}

async function loadOwn(id) {
    const [overview, window, history, contents, receipts] = await Promise.all(
        ["", "window", "history", "contents", "receipts"].map((what) => get(own(id, what))),
    );
    return { overview, window, history, contents, receipts };
}

async function loadSelected() {
    const { selected } = state;
    $("none").hidden = selected !== null;
    if (selected === null) {
        $("shown").hidden = true;
        document.title = "Plimsoll";
        return;
    }
    const isOwn = selected.kind === "own";
    const other = () => get(`/plimsoll/others/${selected.tool}/${encodeURIComponent(selected.id)}`);
    const detail = isOwn ? await loadOwn(selected.id) : state.detail ?? (await other());
    if (state.selected !== selected) return;
    state.detail = detail;
    if (isOwn) state.skew = detail.overview.now - Date.now();
    $("shown").hidden = false;
    $("import-bar").hidden = isOwn;
    document.querySelectorAll(".own").forEach((part) => { part.hidden = !isOwn; });
    (isOwn ? drawOwn : drawOther)(detail);
}

function select() {
    const hash = decodeURIComponent(location.hash.slice(1));
    const [, tool, ...rest] = hash.startsWith("other/") ? hash.split("/") : [];
    const next = tool ? { kind: "other", tool, id: rest.join("/") } : hash !== "" ? { kind: "own", id: hash } : null;
    if (JSON.stringify(next) === JSON.stringify(state.selected)) return;
    replaying?.abort();
    Object.assign(state, { selected: next, detail: null, plans: [], choice: null });
    ["recalled", "replayed", "plan-tools"].forEach((id) => {
        drawn.delete(id);
        $(id).replaceChildren();
    });
    $("shown").hidden = true;
    say("");
    drawPlans();
    drawTree();
    drawOthers();
    refresh();
}

// ---- Keeping up to date ----

let [refreshing, isStale] = [null, false];

async function refreshOnce() {
    const [tree, tasks] = await Promise.all([get("/plimsoll/sessions"), get("/plimsoll/tasks")]);
    state.skew = tree.now - Date.now();
    Object.assign(state, { sessions: tree.sessions, busy: tree.busy, tasks });
    write("directory", tree.directory);
    drawTree();
    drawTasks();
    await loadSelected();
}

// One refresh at a time; what changes meanwhile is fetched by the next.
function refresh() {
    if (refreshing) {
        isStale = true;
        return refreshing;
    }
    refreshing = (async () => {
        do {
            isStale = false;
            try {
                await refreshOnce();
            } catch (error) {
                // The connection is shown by the event stream.
                if (!(error instanceof TypeError)) say(error.message, "error");
            }
        } while (isStale);
    })().finally(() => { refreshing = null; });
    return refreshing;
}

let [waiting, refreshedAt] = [null, 0];

function changed() {
    if (waiting) return;
    waiting = setTimeout(() => {
        [waiting, refreshedAt] = [null, Date.now()];
        refresh();
    }, Math.max(DEBOUNCE, refreshedAt + AT_MOST_EVERY - Date.now()));
}

function connection(to, words) {
    $("connection").dataset.state = to;
    write("connection", words);
}

function listen() {
    const events = new EventSource(address("/event"));
    events.onopen = () => {
        connection("live", "live");
        changed();
    };
    events.onmessage = (message) => {
        // A heartbeat changes nothing. Its frame needs no parsing to be recognised.
        if (!/"type":\s*"server\.(connected|heartbeat)"/.test(message.data.slice(0, 200))) changed();
    };
    events.onerror = () => {
        connection("lost", "disconnected, trying again");
        // The browser tries again by itself unless it was refused.
        if (events.readyState === EventSource.CLOSED) {
            events.close();
            setTimeout(listen, 2000);
        }
    };
}

// What changes with time only.
function tick() {
    for (const left of document.querySelectorAll("[data-until]")) {
        const millis = Number(left.dataset.until) - now();
        const assumed = left.dataset.assumed ? " (assumed)" : "";
        const text = millis > 0 ? `${duration(millis)} left${assumed}` : `expired${assumed}`;
        if (left.textContent !== text) left.textContent = text;
    }
    for (const since of document.querySelectorAll("[data-since]")) since.textContent = duration(now() - Number(since.dataset.since));
}

function onSubmit(id, action) {
    $(id).addEventListener("submit", (event) => {
        event.preventDefault();
        run(event.submitter, action);
    });
}

onSubmit("plan-form", async () => {
    const tools = [...$("plan-tools").querySelectorAll("input:checked")].map((box) => box.value);
    if (tools.length === 0) throw new Error("choose at least one tool, or plan as the policy would");
    const keep = Number($("plan-keep").value);
    await makePlan(keep > 0 ? { tools, keep } : { tools });
});
onSubmit("pin-form", async () => {
    await pin(state.selected.id, $("pin-words").value);
    $("pin-words").value = "";
});
onSubmit("recall-form", () => recallText($("recall-text").value));
$("plan-policy").addEventListener("click", (event) => run(event.currentTarget, () => makePlan(null)));
$("replay").addEventListener("click", (event) => run(event.currentTarget, replay));
$("replay-stop").addEventListener("click", () => replaying?.abort());
$("find-others").addEventListener("click", (event) => run(event.currentTarget, findOthers));
$("import").addEventListener("click", (event) => run(event.currentTarget, () => importSession(state.selected)));
document.querySelector(".skip").addEventListener("click", (event) => {
    // The fragment of the address names the session.
    event.preventDefault();
    $("session").focus();
});
window.addEventListener("hashchange", () => {
    select();
    $("session").focus({ preventScroll: state.selected === null });
});
new ResizeObserver(() => {
    if (state.detail === null || $("shown").hidden) return;
    if (state.selected.kind === "own") drawOwn(state.detail);
    else drawOther(state.detail);
}).observe($("session"));
setInterval(tick, 1000);
setInterval(drawTree, 60000);
select();
if (state.selected === null) refresh();
findOthers();
listen();
