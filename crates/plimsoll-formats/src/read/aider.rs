//! aider's `.aider.chat.history.md`: consecutive chats as Markdown.
//!
//! Lines with `####` are what the user typed, lines with `>` what aider printed, and all others the model's text. Each
//! chat is a session; the newest with any content is read.

use plimsoll::{Millis, PartBody, Role, Tokens, Usage};
use serde_json::{Number, json};

use super::{Sink, choose};
use crate::assembly::Assembly;
use crate::document::Document;
use crate::signs::AIDER;
use crate::time::rfc3339;
use crate::transcript::{Chain, SessionInfo, Transcript};

/// Commands that call the model; all others are handled by aider itself.
const ASKING: [&str; 6] = ["/ask", "/code", "/architect", "/context", "/help", "/chat-mode"];

pub(super) fn read(document: &Document, transcript: &mut Transcript, wanted: Option<&str>, sink: Sink) {
    let chats = chats(document.text());
    let infos: Vec<SessionInfo> = chats.iter().map(|chat| chat.info()).collect();
    let spoken: Vec<usize> = (0..chats.len()).filter(|number| chats[*number].is_spoken()).collect();
    let newest = spoken.last().copied().or(chats.len().checked_sub(1));
    let chosen = choose(wanted, &infos).or(newest);
    for (number, info) in infos.iter().enumerate() {
        if Some(number) != chosen {
            let lines = chats[number].lines.len() as u64;
            *transcript.unused.entry("line of another session".into()).or_default() += lines;
            if spoken.contains(&number) {
                transcript.other_sessions.push(info.clone());
            }
        }
    }
    let Some(chat) = chosen.and_then(|number| chats.get(number)) else { return };
    transcript.info = chat.info();
    let mut sink = |message| sink(Chain::Main, message);
    let log = Assembly::new(&mut sink, usize::MAX);
    let mut reading =
        AiderReader { log, started: chat.started(), notes: Vec::new(), answer: None, position: 0 };
    reading.log.session(transcript.info.id.as_deref());
    for piece in pieces(&chat.lines) {
        reading.piece(piece, transcript);
    }
    reading.count_notes(transcript);
    reading.log.finish();
}

/// Lines of a chat, and its start time.
struct Chat<'a> {
    began: &'a str,
    lines: Vec<&'a str>,
}

impl Chat<'_> {
    fn started(&self) -> Option<Millis> {
        rfc3339(self.began)
    }

    fn is_spoken(&self) -> bool {
        self.lines.iter().any(|line| line.starts_with("#### "))
    }

    /// Returns the metadata of a chat. Its id is its start time.
    fn info(&self) -> SessionInfo {
        let mut info = SessionInfo::default();
        let id: String = self.began.chars().filter(|letter| *letter != ':').collect();
        info.id = Some(id.trim().replace(' ', "-")).filter(|id| !id.is_empty());
        info.note_time(self.started());
        info
    }
}

/// Splits a file into chats. Text before the first one is a chat as well, if there is any.
fn chats(text: &str) -> Vec<Chat<'_>> {
    let mut chats = vec![Chat { began: "", lines: Vec::new() }];
    for line in text.lines() {
        match line.strip_prefix(AIDER) {
            Some(began) => chats.push(Chat { began: began.trim(), lines: Vec::new() }),
            None => chats.iter_mut().last().into_iter().for_each(|chat| chat.lines.push(line)),
        }
    }
    let is_empty =
        |chat: &Chat| chat.began.is_empty() && chat.lines.iter().all(|line| line.trim().is_empty());
    if chats.first().is_some_and(is_empty) {
        chats.remove(0);
    }
    chats
}

/// Consecutive lines of one kind.
enum Piece {
    Typed(String),
    Printed(Vec<String>),
    Answer(String),
}

fn pieces(lines: &[&str]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut is_code = false;
    for line in lines {
        let line = line.trim_end_matches('\r');
        if let Some(typed) = line.strip_prefix("#### ").or((line == "####").then_some("")) {
            is_code = false;
            // Markdown requires two spaces at the end of every line but the last.
            let typed = typed.strip_suffix("  ").unwrap_or(typed);
            match pieces.last_mut() {
                Some(Piece::Typed(text)) => push_line(text, typed),
                _ => pieces.push(Piece::Typed(typed.to_owned())),
            }
            continue;
        }
        // The model's code may contain such lines, too; but a count of tokens always follows an answer.
        let printed = line.strip_prefix("> ").or((line == ">").then_some(""));
        if let Some(printed) = printed.filter(|text| !is_code || text.starts_with("Tokens: ")) {
            is_code = false;
            let printed = printed.trim_end().to_owned();
            match pieces.last_mut() {
                Some(Piece::Printed(lines)) => lines.push(printed),
                _ => pieces.push(Piece::Printed(vec![printed])),
            }
            continue;
        }
        is_code ^= line.starts_with("```");
        match pieces.last_mut() {
            Some(Piece::Answer(text)) => push_line(text, line),
            // A blank line after typed or printed lines belongs to neither.
            _ if line.trim().is_empty() => {}
            _ => pieces.push(Piece::Answer(line.to_owned())),
        }
    }
    pieces
}

fn push_line(text: &mut String, line: &str) {
    text.push('\n');
    text.push_str(line);
}

struct AiderReader<'s> {
    log: Assembly<'s>,
    /// Start time of the chat. Only its first message has a time.
    started: Option<Millis>,
    /// Lines that aider printed since the last message.
    notes: Vec<String>,
    /// The model's newest answer, if no user message followed it.
    answer: Option<usize>,
    position: usize,
}

impl AiderReader<'_> {
    fn piece(&mut self, piece: Piece, transcript: &mut Transcript) {
        self.position += 1;
        self.log.record(self.position, 0, self.position, self.answer);
        match piece {
            Piece::Typed(text) => {
                self.count_notes(transcript);
                self.answer = None;
                let time = self.started.take();
                let place = self.log.begin(Role::User, None, time);
                let word = text.split_whitespace().next().unwrap_or_default();
                let is_command = word.starts_with(['/', '!']) && !ASKING.contains(&word);
                self.log.text(place, text);
                if is_command && let Some(PartBody::Text(text)) = self.log.last_part(place) {
                    text.ignored = Some(true);
                }
            }
            Piece::Answer(text) => {
                // The model answered again without a user message: aider had sent it what it printed, such as an edit
                // that did not apply.
                if self.answer.is_some() {
                    let notes = std::mem::take(&mut self.notes).join("\n");
                    let place = self.log.begin(Role::User, None, None);
                    self.log.user_text(place, notes.trim().to_owned(), true);
                }
                self.count_notes(transcript);
                let time = self.started.take();
                let place = self.log.begin(Role::Assistant, None, time);
                self.log.info(place).model_id.clone_from(&transcript.info.model);
                self.log.text(place, text.trim_end().to_owned());
                self.answer = Some(place);
            }
            Piece::Printed(lines) => {
                for line in lines {
                    self.printed(line, transcript);
                }
            }
        }
        self.log.settle(&mut transcript.notes);
    }

    fn count_notes(&mut self, transcript: &mut Transcript) {
        let notes = self.notes.drain(..).filter(|note| !note.is_empty());
        notes.for_each(|_| transcript.pass("line printed by aider"));
    }

    fn printed(&mut self, line: String, transcript: &mut Transcript) {
        if let Some(counts) = line.strip_prefix("Tokens: ") {
            let counted = usage_of(counts);
            if let (Some((usage, cost)), Some(place)) = (counted, self.answer)
                && self.log.holds(place)
            {
                let info = self.log.info(place);
                (info.tokens, info.cost) = (Some(usage), cost);
                return;
            }
            return transcript.pass("line printed by aider");
        }
        if let Some(version) = line.strip_prefix("Aider v") {
            transcript.info.version = Some(version.trim().to_owned());
        }
        for key in ["Models: ", "Model: ", "Main model: "] {
            if let Some(model) = line.strip_prefix(key) {
                transcript.info.model = model.split(" with ").next().map(|model| model.trim().to_owned());
            }
        }
        let is_interrupt = line == "^C again to exit" || line.starts_with("^C KeyboardInterrupt");
        if let Some(place) = self.answer.filter(|place| is_interrupt && self.log.holds(*place)) {
            let data = json!({ "message": "interrupted by the user" });
            self.log.info(place).error = Some(json!({ "name": "MessageAbortedError", "data": data }));
        }
        self.notes.push(line);
    }
}

/// Reads `10,332 sent, 439 received. Cost: $0.04 message, …`; newer versions write `4.1k` and the cached tokens.
fn usage_of(counts: &str) -> Option<(Usage, Option<Number>)> {
    let (tokens, rest) = counts.split_once(". Cost").unwrap_or((counts, ""));
    let mut usage = Usage::default();
    for count in tokens.split(", ") {
        let (number, what) = count.trim().trim_end_matches('.').split_once(' ')?;
        let number = Tokens(count_of(number)?);
        match what.trim() {
            "sent" => usage.input = number,
            "received" => usage.output = number,
            "cache write" => usage.cache_write = number,
            "cache hit" => usage.cache_read = number,
            _ => {}
        }
    }
    // Cache reads and writes are included in the sent tokens.
    usage.input = usage.input - usage.cache_write - usage.cache_read;
    let cost = rest.split_once('$').and_then(|(_, cost)| cost.split(' ').next()?.parse().ok());
    Some((usage, cost.and_then(Number::from_f64)))
}

fn count_of(number: &str) -> Option<u64> {
    match number.strip_suffix('k') {
        Some(thousands) => {
            let thousands: f64 = thousands.parse().ok()?;
            (0.0..1e9).contains(&thousands).then_some((thousands * 1000.0) as u64)
        }
        None => number.replace(',', "").parse().ok(),
    }
}
