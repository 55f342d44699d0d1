//! Measures how well the size of the next request is predicted.
//!
//! ```text
//! cargo run --release -p plimsoll-tokens --example calibration -- SESSION.jsonl …
//! ```
//!
//! Replays sessions of Claude Code and Codex (without arguments those under `$PLIMSOLL_CORPUS`). Before each response,
//! its input tokens are predicted from what came before; then the real usage is learned. The readers are minimal.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::error::Error;
use std::path::{Path, PathBuf};

use plimsoll::{CharCounter, Counter, Tokens};
use plimsoll_tokens::{Bpe, Calibration, Measure};
use serde_json::Value;

/// A request as far as the transcript contains it, and its charged tokens.
#[derive(Clone, Copy, Default)]
struct Request {
    /// All visible content by characters over four.
    chars: Tokens,
    /// The same by o200k.
    visible: Tokens,
    /// Input of the calibration: o200k, with replies at their billed price.
    sent: Measure,
    actual: Tokens,
    /// Whether the window was replaced before this request.
    restarted: bool,
}

/// Builds requests from a stream of content and usage.
#[derive(Default)]
struct Replay {
    model: String,
    requests: Vec<Request>,
    without_usage: usize,
    now: Request,
    /// The current reply: it is priced when its usage is known.
    reply: Measure,
    reply_chars: Tokens,
}

impl Replay {
    fn count(text: &str) -> (Measure, Tokens) {
        (Measure::new(Bpe::O200k.count(text), 1), CharCounter::default().count(text))
    }

    fn add(&mut self, sent: Measure, visible: Tokens, chars: Tokens) {
        self.now.sent = self.now.sent + sent;
        self.now.visible += visible;
        self.now.chars += chars;
    }

    /// Adds content of the harness or the user.
    fn input(&mut self, text: &str) {
        let (measure, chars) = Replay::count(text);
        self.add(measure, measure.base, chars);
    }

    fn image(&mut self) {
        self.add(
            Measure::default().with_exact(CharCounter::default().file_tokens),
            CharCounter::default().file_tokens,
            CharCounter::default().file_tokens,
        );
    }

    /// Adds content of the model.
    fn output(&mut self, text: &str) {
        let (measure, chars) = Replay::count(text);
        self.reply = self.reply + measure;
        self.reply_chars += chars;
    }

    /// Completes a response: `request` was sent, `actual` charged for it and `output` for the reply.
    fn response(&mut self, request: Request, actual: u64, output: u64) {
        let reply = std::mem::take(&mut self.reply);
        let chars = std::mem::take(&mut self.reply_chars);
        // Some writers only record the output count from the start of the stream; then the text is more accurate.
        let billed = Measure::default().with_exact(Tokens(output));
        let plausible = output as f64 > 0.8 * reply.base.0 as f64;
        self.add(if plausible { billed } else { reply }, reply.base, chars);
        self.now.restarted = false;
        if actual == 0 {
            self.without_usage += 1;
        } else {
            self.requests.push(Request { actual: Tokens(actual), ..request });
        }
    }

    fn restart(&mut self) {
        self.now = Request { restarted: true, ..Request::default() };
        (self.reply, self.reply_chars) = Default::default();
    }
}

/// All text in a string, a block, or a list of blocks.
fn texts(content: &Value, each: &mut dyn FnMut(Option<&str>)) {
    match content {
        Value::String(text) => each(Some(text)),
        Value::Array(blocks) => blocks.iter().for_each(|block| texts(block, each)),
        Value::Object(block) => match block.get("type").and_then(Value::as_str) {
            Some("image" | "input_image" | "document") => each(None),
            Some("tool_result") => texts(&block["content"], each),
            _ => block.get("text").or(block.get("content")).into_iter().for_each(|text| texts(text, each)),
        },
        _ => {}
    }
}

fn input(replay: &mut Replay, content: &Value) {
    texts(content, &mut |text| match text {
        Some(text) => replay.input(text),
        None => replay.image(),
    });
}

/// One response has several records with the same message id, with tool results between them; the last record has the
/// final usage.
fn claude_code(records: &[Value]) -> Replay {
    let mut replay = Replay::default();
    let mut open: Option<(&Value, Request)> = None;
    let close = |replay: &mut Replay, open: &mut Option<(&Value, Request)>| {
        if let Some((message, request)) = open.take() {
            let usage = |field: &str| message["usage"][field].as_u64().unwrap_or(0);
            let actual = usage("input_tokens")
                + usage("cache_read_input_tokens")
                + usage("cache_creation_input_tokens");
            replay.response(request, actual, usage("output_tokens"));
        }
    };
    for record in records.iter().filter(|record| record["isSidechain"] != true) {
        let message = &record["message"];
        match record["type"].as_str() {
            Some("assistant") if message["model"] != "<synthetic>" => {
                if open.is_none_or(|(earlier, _)| earlier["id"] != message["id"]) {
                    close(&mut replay, &mut open);
                    if replay.model.is_empty() {
                        replay.model = message["model"].as_str().unwrap_or_default().to_owned();
                    }
                    open = Some((message, replay.now));
                }
                open = open.map(|(_, request)| (message, request));
                for block in message["content"].as_array().into_iter().flatten() {
                    match block["type"].as_str() {
                        Some("tool_use") => replay.output(&format!("{}{}", block["name"], block["input"])),
                        Some("thinking") => replay.output(block["thinking"].as_str().unwrap_or_default()),
                        _ => replay.output(block["text"].as_str().unwrap_or_default()),
                    }
                }
            }
            Some("system") if record["subtype"] == "compact_boundary" => {
                close(&mut replay, &mut open);
                replay.restart();
            }
            Some("user") => {
                // A plain message is not sent before the response is complete; a tool result may be.
                if message["content"].is_string() {
                    close(&mut replay, &mut open);
                }
                input(&mut replay, &message["content"]);
            }
            Some("attachment") => input(&mut replay, &record["attachment"]),
            _ => {}
        }
    }
    close(&mut replay, &mut open);
    replay
}

/// Usage is an event after the response, and is repeated unchanged at other times.
fn codex(records: &[Value]) -> Replay {
    let mut replay = Replay::default();
    let mut seen = Value::Null;
    let mut request = None;
    for record in records {
        let payload = &record["payload"];
        match (record["type"].as_str(), payload["type"].as_str()) {
            (Some("session_meta"), _) => {
                replay.input(payload["base_instructions"]["text"].as_str().unwrap_or_default());
            }
            (Some("turn_context"), _) if replay.model.is_empty() => {
                replay.model = payload["model"].as_str().unwrap_or_default().to_owned();
            }
            (Some("compacted"), _) => {
                replay.restart();
                input(&mut replay, &payload["message"]);
            }
            (Some("response_item"), Some(kind)) => {
                let ours = kind.ends_with("_output") || (kind == "message" && payload["role"] != "assistant");
                if ours {
                    input(&mut replay, payload.get("output").unwrap_or(&payload["content"]));
                    continue;
                }
                // The first output of the model shows what was sent to it.
                request.get_or_insert(replay.now);
                match kind {
                    "function_call" | "custom_tool_call" => {
                        let arguments = payload.get("arguments").unwrap_or(&payload["input"]);
                        let arguments = arguments.as_str().unwrap_or_default();
                        replay.output(&format!("{}{arguments}", payload["name"]));
                    }
                    _ => texts(&payload["content"], &mut |text| replay.output(text.unwrap_or_default())),
                }
            }
            (Some("event_msg"), Some("token_count")) => {
                let usage = &payload["info"]["last_token_usage"];
                if usage.is_null() || *usage == seen {
                    continue;
                }
                seen = usage.clone();
                let tokens = |field: &str| usage[field].as_u64().unwrap_or(0);
                let sent = request.take().unwrap_or(replay.now);
                replay.response(sent, tokens("input_tokens"), tokens("output_tokens"));
            }
            _ => {}
        }
    }
    replay
}

/// Errors of predictions in percent, in the order of the responses.
#[derive(Default)]
struct Misses(Vec<f64>);

impl Misses {
    fn add(&mut self, predicted: Tokens, actual: Tokens, of: Tokens) {
        self.0.push(100.0 * predicted.0.abs_diff(actual.0) as f64 / of.0.max(1) as f64);
    }

    fn median(&self, from: usize) -> f64 {
        let mut misses: Vec<f64> = self.0.iter().skip(from).copied().collect();
        misses.sort_by(f64::total_cmp);
        misses.get(misses.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

/// Results of one prediction method.
#[derive(Default)]
struct Method {
    /// From the window only.
    scratch: Misses,
    /// From the last usage and what was added since.
    onward: Misses,
    /// The same error as a share of what was added since.
    increment: Misses,
}

impl Method {
    fn add(&mut self, scratch: Tokens, onward: Tokens, request: &Request, last: Option<&Request>) {
        let actual = request.actual;
        self.scratch.add(scratch, actual, actual);
        self.onward.add(onward, actual, actual);
        if let Some(last) = last {
            self.increment.add(onward, actual, actual - last.actual);
        }
    }
}

/// Each request with the previous one of the same window, if there is one.
fn steps(requests: &[Request]) -> impl Iterator<Item = (Option<&Request>, &Request)> {
    let before = std::iter::once(None).chain(requests.iter().map(Some));
    before.zip(requests).map(|(last, request)| (last.filter(|_| !request.restarted), request))
}

/// A method that counts and learns nothing. It only keeps the hidden part of the first response.
fn fixed(requests: &[Request], count: impl Fn(&Request) -> Tokens) -> Method {
    let mut method = Method::default();
    let mut hidden = None;
    for (last, request) in steps(requests) {
        let scratch = count(request);
        let onward = match last {
            Some(last) => last.actual + (scratch - count(last)),
            None => hidden.unwrap_or_default() + scratch,
        };
        hidden.get_or_insert(request.actual - scratch);
        method.add(scratch, onward, request, last);
    }
    method
}

/// The calibration, and the number of responses inside its error bar.
fn calibrated(model: &str, requests: &[Request]) -> (Method, usize, Calibration) {
    let mut calibration = Calibration::new(model);
    let mut method = Method::default();
    let mut inside = 0;
    for (last, request) in steps(requests) {
        let (scratch, onward) = (calibration.estimate(request.sent), calibration.next(request.sent));
        method.add(scratch.tokens, onward.tokens, request, last);
        inside += usize::from((onward.low..=onward.high).contains(&request.actual));
        calibration.observe(request.sent, request.actual);
    }
    (method, inside, calibration)
}

fn report(path: &Path) -> Result<(), Box<dyn Error>> {
    let text = std::fs::read_to_string(path)?;
    let records: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let is_codex = records.iter().any(|record| record["type"] == "session_meta");
    let replay = if is_codex { codex(&records) } else { claude_code(&records) };
    let Replay { model, requests, without_usage, .. } = replay;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    if requests.len() < 2 {
        let usable = requests.len();
        println!("{name:<14} {model}: unusable, {usable} responses with usage, {without_usage} without\n");
        return Ok(());
    }
    let chars = fixed(&requests, |request| request.chars);
    let o200k = fixed(&requests, |request| request.visible);
    let (own, inside, learned) = calibrated(&model, &requests);
    for (label, from) in [("all", 0), ("5th on", 4)] {
        let used = requests.len().saturating_sub(from);
        let cells: Vec<String> = [&chars.scratch, &o200k.scratch, &own.scratch]
            .into_iter()
            .chain([&chars.onward, &o200k.onward, &own.onward])
            .map(|misses| format!("{:>9.2}", misses.median(from)))
            .collect();
        println!("{name:<14} {label:<7} {used:>4} {}", cells.join(" "));
    }
    let billed = fixed(&requests, |request| request.sent.base + request.sent.exact);
    let [by_chars, by_o200k, by_billed, by_own] =
        [&chars, &o200k, &billed, &own].map(|method| method.increment.median(3));
    println!(
        "  of the increment, 5th on: chars/4 {by_chars:.1}, o200k {by_o200k:.1}, o200k and billed replies \
         {by_billed:.1}, calibrated {by_own:.1}"
    );
    let share = 100 * inside / requests.len();
    let (factor, block, hidden) = (learned.factor(), learned.per_block(), learned.constant());
    println!(
        "  {model}: factor {factor:.2}, {block:.0} a block, {hidden:.0} hidden; {share} % in the error bar\n"
    );
    Ok(())
}

/// The sessions under `$PLIMSOLL_CORPUS` that this program can read.
fn corpus() -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let root = std::env::var_os("PLIMSOLL_CORPUS").ok_or("name session files, or set PLIMSOLL_CORPUS")?;
    let mut paths = Vec::new();
    for directory in ["claude-code", "codex"] {
        for entry in std::fs::read_dir(Path::new(&root).join(directory))? {
            paths.push(entry?.path());
        }
    }
    paths.sort();
    Ok(paths)
}

fn main() -> Result<(), Box<dyn Error>> {
    let named: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let paths = if named.is_empty() { corpus()? } else { named };
    println!("Median absolute error of the predicted input tokens, in percent\n");
    println!("{:27}   ------ from scratch ------- -- last usage and since -----", "");
    let methods = "  chars/4     o200k    calibr";
    println!("{:<14} {:<7} {:>4} {methods} {methods}", "session", "", "n");
    for path in paths {
        report(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}
