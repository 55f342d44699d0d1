//! Layer 1: truncates a tool output on arrival.
//!
//! The engine decides what stays and writes the notice; the caller spills the whole output in between, because
//! the engine does no I/O. Output is bytes: a tool may print anything, and what is not UTF-8 is shown
//! with replacement characters and spilled unchanged. Beyond what is kept, only newlines are counted, so
//! a line of a hundred megabytes is as harmless as a hundred thousand short ones.
//!
//! ```
//! use plimsoll::truncate::{self, Address, Spill};
//! use plimsoll::Policy;
//! let output = "line\n".repeat(5_000);
//! let plan = truncate::plan(output.as_bytes(), "read", &Policy::default());
//! assert!(plan.truncated && plan.wants_spill());
//! // … write `output` somewhere safe, then:
//! let shown = plan.render(&Spill::Saved(Address::Handle("spill_9c2f".into())));
//! assert!(shown.contains("[Output truncated: 5001 → 2000 lines, 24.4KB → 9.8KB]"));
//! assert!(shown.ends_with("[Full output kept: recall spill_9c2f]\n"));
//! ```

mod stream;

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::chars::{Chars, Text, head, level, tail};
use crate::mentions::{self, Mentioned};
use crate::numbers::thousands;
use crate::policy::{Keep, Notice, Policy, ShortenLines, TruncatePolicy};
use crate::recall;
use crate::redact::redact;

pub use stream::OutputEnds;

const LINE_CUT: &str = "... (line truncated)";
const LINE_CUT_BEFORE: &str = "(line truncated) ...";

/// Plan for an output: the content that stays, and the original size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TruncatePlan {
    /// The tool that printed it.
    pub tool: String,
    /// The content that stays, without a notice.
    #[serde(skip)]
    pub kept: KeptText,
    /// Whether lines, bytes or chars were over a limit.
    pub truncated: bool,
    /// Number of lines that were shortened.
    pub lines_shortened: u64,
    /// Whether bytes that are not UTF-8 are shown as replacement characters.
    pub lossy: bool,
    /// Lines of the original.
    pub original_lines: u64,
    /// Bytes of the original.
    pub original_bytes: u64,
    /// Lines that stay.
    pub kept_lines: u64,
    /// Bytes that stay, each line with its newline.
    pub kept_bytes: u64,
    /// Whether the policy allows spilling.
    pub may_spill: bool,
    notice: Notice,
}

/// The parts of an output that stay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeptText {
    /// Beginning of the output.
    pub head: String,
    /// End of the output, if it is kept too.
    pub tail: Option<String>,
    /// Names from the rest that neither of them contains; empty if the policy keeps none.
    pub names: String,
}

/// Storage of the whole output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Spill {
    /// Stored at this address.
    Saved(Address),
    /// Not stored, because spilling is off or nothing was cut.
    Off,
    /// Failed, for this reason; what was cut is lost.
    Failed(String),
}

/// Address of a whole output, in a form that the reader of the notice can use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Address {
    /// A file that the reader's own tools can open.
    Path(String),
    /// A handle for the recall tool. It may be stored in a file, but not one that the reader can open: it is
    /// compressed, and no tool of an agent reaches the directory of a store.
    Handle(String),
}

impl Address {
    /// Returns the path or handle.
    pub fn as_str(&self) -> &str {
        match self {
            Address::Path(address) | Address::Handle(address) => address,
        }
    }
}

/// Formats the address in a notice.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Path(path) => write!(f, "Full output saved to: {path}"),
            Address::Handle(handle) => write!(f, "Full output kept: {} {handle}", recall::NAME),
        }
    }
}

/// Plans what stays of an output.
pub fn plan(output: &[u8], tool: &str, policy: &Policy) -> TruncatePlan {
    let mut limits = Limits::of(tool, &policy.truncate);
    let newlines = memchr::memchr_iter(b'\n', output).count() as u64;
    let original_lines = if output.is_empty() { 0 } else { newlines + 1 };
    let original_bytes = output.len() as u64;
    let over = original_lines > limits.lines
        || original_bytes > limits.bytes
        // With no more bytes than chars allowed, there is nothing to count.
        || (original_bytes > limits.chars.0 && Chars::of(&String::from_utf8_lossy(output)) > limits.chars);
    if policy.truncate.shorten_lines == ShortenLines::WhenOver {
        limits.line_chars = if over { limits.line_chars_to_fit(output) } else { Chars(u64::MAX) };
    }
    let mut cutter = Cutter { limits: &limits, shortened: 0, lossy: false };
    let (mut kept, kept_lines, kept_bytes) = if over {
        cutter.cut(output)
    } else {
        let whole = cutter.lines(forward(output), limits.whole(), End::Head);
        (KeptText { head: whole.text, ..KeptText::default() }, original_lines, whole.bytes.saturating_sub(1))
    };
    if over && policy.names.enabled {
        kept.names = names_of_rest(output, &kept, policy);
    }
    let plan = TruncatePlan {
        tool: tool.to_owned(),
        kept,
        truncated: over,
        lines_shortened: cutter.shortened,
        lossy: cutter.lossy,
        original_lines,
        original_bytes,
        kept_lines,
        kept_bytes,
        may_spill: policy.truncate.spill,
        notice: policy.truncate.notice,
    };
    if policy.truncate.only_if_shorter { plan.unless_longer(output) } else { plan }
}

/// Maximum length of a notice. If more than this is cut, the result is shorter in any case and need not be rendered
/// for the comparison.
const LONGEST_NOTICE: u64 = 16_384;

/// Size of each end of an output that is searched for names.
const SEARCHED: usize = 1 << 20;

/// Returns names of an output that are not in what is kept of it.
fn names_of_rest(output: &[u8], kept: &KeptText, policy: &Policy) -> String {
    let searched = if output.len() <= 2 * SEARCHED {
        String::from_utf8_lossy(output).into_owned()
    } else {
        let (first, last) = (&output[..SEARCHED], &output[output.len() - SEARCHED..]);
        [String::from_utf8_lossy(first), String::from_utf8_lossy(last)].join("\n")
    };
    let shown = [Text::from(kept.head.as_str()), Text::from(kept.tail.as_deref().unwrap_or_default())];
    let gone = Chars::of(&searched) - shown[0].chars() - shown[1].chars();
    let mut mentioned = Mentioned::in_texts(&shown);
    // Redacted first, because secrets are recognised by their context, which a list of names does not have.
    mentions::list(&redact(&searched).text, &mut mentioned, policy.names.room(gone, &policy.count))
        .unwrap_or_default()
}

impl TruncatePlan {
    /// Returns the plan, or the whole output if the cut would not make it shorter: the model would pay for a notice and
    /// see less. Bytes that are not UTF-8 are reported in any case.
    fn unless_longer(self, output: &[u8]) -> TruncatePlan {
        let gains_much = self.original_bytes > self.kept_bytes.saturating_add(LONGEST_NOTICE);
        let Ok(whole) = std::str::from_utf8(output) else { return self };
        if !self.loses_content() || gains_much {
            return self;
        }
        // The output is spilled after this, so the length of its address is unknown; a handle is typical.
        let handle = Address::Handle(format!("spill_{:032x}", 0));
        let spill = if self.may_spill { Spill::Saved(handle) } else { Spill::Off };
        if self.render(&spill).chars() < Chars::of(whole) {
            return self;
        }
        TruncatePlan {
            kept: KeptText { head: whole.to_owned(), ..KeptText::default() },
            truncated: false,
            lines_shortened: 0,
            kept_lines: self.original_lines,
            kept_bytes: self.original_bytes,
            ..self
        }
    }

    /// Returns whether content would be lost without a spill.
    pub fn loses_content(&self) -> bool {
        self.truncated || self.lines_shortened > 0 || self.lossy
    }

    /// Returns whether the caller should spill the whole output before rendering.
    pub fn wants_spill(&self) -> bool {
        self.may_spill && self.loses_content()
    }

    /// Returns the text for the model.
    pub fn render(&self, spill: &Spill) -> Text {
        if !self.truncated {
            return match spill {
                // No limit was exceeded, but lines were shortened or bytes replaced: the model needs to know where
                // the original is.
                Spill::Saved(address) if self.loses_content() => Text::from(format!(
                    "{}\n\n---\n[Long lines were shortened or bytes replaced]\n[{address}]\n",
                    self.kept.head
                )),
                _ => Text::from(self.kept.head.as_str()),
            };
        }
        match self.notice {
            Notice::Guide => self.guide(spill),
            Notice::Opencode => self.opencode(spill),
        }
    }

    /// Returns the notice: how much is shown, and where the whole is.
    pub fn message(&self, spill: &Spill) -> String {
        let (was, is) = (format_bytes(self.original_bytes), format_bytes(self.kept_bytes));
        let (lines, kept) = (self.original_lines, self.kept_lines);
        let mut notice = format!("---\n[Output truncated: {lines} → {kept} lines, {was} → {is}]\n");
        if !self.kept.names.is_empty() {
            notice.push_str(&format!("Names in the rest: {}\n", self.kept.names));
        }
        match spill {
            Spill::Saved(address) => {
                notice.push_str(&format!("[{address}]\n"));
                if matches!(address, Address::Path(_)) {
                    notice.push_str("[Use 'read' tool with the path above to see full content]\n");
                }
            }
            Spill::Failed(why) => {
                notice.push_str(&format!("[The rest could not be saved and is lost: {why}]\n"));
            }
            Spill::Off => {}
        }
        notice
    }

    fn guide(&self, spill: &Spill) -> Text {
        let KeptText { head, tail, .. } = &self.kept;
        let mut shown = head.clone();
        if let Some(tail) = tail {
            let hidden_lines = self.original_lines.saturating_sub(self.kept_lines);
            let hidden_bytes = self.original_bytes.saturating_sub(self.kept_bytes);
            let (lines, bytes) = (thousands(hidden_lines), format_bytes(hidden_bytes));
            shown.push_str(&format!("\n\n...[{lines} lines, {bytes} not shown here]...\n\n"));
            shown.push_str(tail);
        }
        shown.push_str("\n\n");
        shown.push_str(&self.message(spill));
        Text::from(shown)
    }

    fn opencode(&self, spill: &Spill) -> Text {
        let saved = match spill {
            Spill::Saved(address) => address.to_string(),
            Spill::Failed(why) => format!("The rest could not be saved and is lost: {why}"),
            Spill::Off => "The rest was not saved.".to_owned(),
        };
        if let Some(tail) = &self.kept.tail {
            return Text::from(format!("...output truncated...\n\n{saved}\n\n{tail}"));
        }
        let (number, unit) = if self.original_lines > self.kept_lines && self.kept_lines > 0 {
            (self.original_lines - self.kept_lines, "lines")
        } else {
            (self.original_bytes.saturating_sub(self.kept_bytes), "bytes")
        };
        let head = &self.kept.head;
        Text::from(format!("{head}\n\n...{number} {unit} truncated...\n\n{saved}"))
    }
}

/// Formats a size: `512B`, `1.5KB`, `2.0MB`.
pub fn format_bytes(bytes: u64) -> String {
    const KB: f64 = 1024.0;
    let size = bytes as f64;
    if bytes < 1024 {
        format!("{bytes}B")
    } else if size < KB * KB {
        format!("{:.1}KB", size / KB)
    } else {
        format!("{:.1}MB", size / (KB * KB))
    }
}

/// Limits for one tool.
struct Limits {
    lines: u64,
    bytes: u64,
    chars: Chars,
    line_chars: Chars,
    keep: Keep,
    head_share: f64,
}

/// Limits for one end of an output.
#[derive(Clone, Copy)]
struct Budget {
    lines: u64,
    bytes: u64,
    chars: Chars,
}

impl Limits {
    fn of(tool: &str, policy: &TruncatePolicy) -> Limits {
        let lower = tool.to_lowercase();
        let own = policy.tool_limits.get(tool).or_else(|| policy.tool_limits.get(&lower));
        let terminal = policy.terminal_tools.iter().any(|name| lower.contains(&name.to_lowercase()));
        let chars = own.copied().unwrap_or(policy.default_limit);
        // A char takes at most three bytes of UTF-8 for each UTF-16 unit.
        let bytes = if policy.tool_limit_overrides_bytes && own.is_some() {
            chars.0.saturating_mul(3)
        } else {
            policy.max_bytes
        };
        Limits {
            lines: policy.max_lines,
            bytes,
            chars,
            line_chars: policy.max_line_chars,
            keep: if terminal { policy.terminal_keep } else { Keep::Head },
            head_share: policy.head_share,
        }
    }

    /// Returns the maximum length of lines that uses all the room: an output of one long line is cut by its
    /// size, one of many lines by its lines.
    fn line_chars_to_fit(&self, output: &[u8]) -> Chars {
        let longest = forward(output).map(<[u8]>::len).max().unwrap_or_default();
        if longest as u64 <= self.line_chars.0 {
            return self.line_chars;
        }
        let room = Chars(self.bytes).min(self.chars);
        // If both ends are kept, a line that is the whole output is shown in two pieces.
        let room = if self.keep == Keep::HeadTail { room.share(0.5) } else { room };
        let lengths = forward(output).map(|line| Chars(line.len() as u64 + 1));
        // The marker of a shortened line takes room too.
        (level(lengths, room) - Chars::of(LINE_CUT)).max(self.line_chars)
    }

    fn whole(&self) -> Budget {
        Budget { lines: u64::MAX, bytes: u64::MAX, chars: Chars(u64::MAX) }
    }

    fn budgets(&self) -> (Budget, Budget) {
        let all = Budget { lines: self.lines, bytes: self.bytes, chars: self.chars };
        let none = Budget { lines: 0, bytes: 0, chars: Chars::ZERO };
        match self.keep {
            Keep::Head => (all, none),
            Keep::Tail => (none, all),
            Keep::HeadTail => {
                let share = |number: u64| Chars(number).share(self.head_share).0;
                let head = Budget {
                    lines: share(all.lines),
                    bytes: share(all.bytes),
                    chars: Chars(share(all.chars.0)),
                };
                let tail = Budget {
                    lines: all.lines - head.lines,
                    bytes: all.bytes - head.bytes,
                    chars: all.chars - head.chars,
                };
                (head, tail)
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum End {
    Head,
    Tail,
}

/// Lines taken from one end.
struct TakenLines {
    text: String,
    lines: u64,
    bytes: u64,
    /// Bytes of the output that these lines represent.
    consumed: usize,
}

struct Cutter<'a> {
    limits: &'a Limits,
    shortened: u64,
    lossy: bool,
}

impl Cutter<'_> {
    fn cut(&mut self, output: &[u8]) -> (KeptText, u64, u64) {
        let (first, last) = self.limits.budgets();
        let head = self.lines(forward(output), first, End::Head);
        let rest = &output[head.consumed.min(output.len())..];
        let mut tail = self.lines(backward(rest), last, End::Tail);
        // The whole output was one line too long to show: its end is still worth seeing.
        if self.limits.keep == Keep::HeadTail && rest.is_empty() && self.shortened > 0 {
            tail.text = self.end_of_last_line(output);
            tail.bytes = tail.text.len() as u64;
        }
        let lines = head.lines + tail.lines;
        let bytes = head.bytes + tail.bytes;
        let tail = (self.limits.keep != Keep::Head && !tail.text.is_empty()).then_some(tail.text);
        (KeptText { head: head.text, tail, names: String::new() }, lines, bytes)
    }

    /// Takes whole lines while the budget lasts; a line over the line limit is shortened first.
    fn lines<'o>(&mut self, lines: impl Iterator<Item = &'o [u8]>, budget: Budget, end: End) -> TakenLines {
        let mut pieces: Vec<Cow<'o, str>> = Vec::new();
        let mut taken = TakenLines { text: String::new(), lines: 0, bytes: 0, consumed: 0 };
        // There are never more chars than bytes, so nothing is counted until there are too many bytes.
        let mut chars = Chars::ZERO;
        let mut counted = false;
        for line in lines {
            if taken.lines >= budget.lines {
                break;
            }
            let (mut piece, shortened) = self.line(line, end);
            if taken.lines == 0 && piece.len() as u64 >= budget.bytes && budget.bytes > 0 {
                // Not even one line fits: a part of it is better than nothing.
                piece = Cow::Owned(within(&piece, budget.bytes as usize - 1, end).to_owned());
            }
            let bytes = piece.len() as u64 + 1;
            if taken.bytes + bytes > budget.bytes {
                break;
            }
            self.shortened += u64::from(shortened);
            let newline = Chars(u64::from(taken.lines > 0));
            if !counted && chars + newline + Chars(bytes) > budget.chars {
                chars = pieces.iter().map(|piece| Chars::of(piece) + Chars(1)).sum::<Chars>() - Chars(1);
                counted = true;
            }
            let length = if counted { Chars::of(&piece) } else { Chars(bytes - 1) };
            let room = budget.chars - chars - newline;
            if length > room {
                // The char limit cuts inside a line; what is left of it still counts as a line.
                let part = match end {
                    End::Head => head(&piece, room),
                    End::Tail => tail(&piece, room),
                };
                if !part.is_empty() {
                    taken.bytes += part.len() as u64 + 1;
                    taken.lines += 1;
                    taken.consumed += part.len().min(line.len());
                    pieces.push(Cow::Owned(part.to_owned()));
                } else if newline <= budget.chars - chars && end == End::Head {
                    // The limit is right after a newline, which still fits.
                    pieces.push(Cow::Borrowed(""));
                }
                break;
            }
            chars += length + newline;
            taken.bytes += bytes;
            taken.lines += 1;
            taken.consumed += line.len() + 1;
            pieces.push(piece);
        }
        if end == End::Tail {
            pieces.reverse();
        }
        taken.text = pieces.join("\n");
        taken
    }

    fn line<'o>(&mut self, line: &'o [u8], end: End) -> (Cow<'o, str>, bool) {
        let limit = self.limits.line_chars;
        if line.len() as u64 <= limit.0 {
            return (self.decode(line), false);
        }
        // A character has at most four bytes, so nothing beyond this many can be shown.
        let reach = (limit.0 as usize).saturating_mul(4).saturating_add(4);
        if line.len() <= reach && Chars::of(&String::from_utf8_lossy(line)) <= limit {
            return (self.decode(line), false);
        }
        match end {
            End::Head => {
                let start = self.decode(&line[..boundary(line, line.len().min(reach))]);
                (Cow::Owned([head(&start, limit), LINE_CUT].concat()), true)
            }
            End::Tail => {
                let rest = self.decode(&line[boundary(line, line.len() - line.len().min(reach))..]);
                (Cow::Owned([LINE_CUT_BEFORE, tail(&rest, limit)].concat()), true)
            }
        }
    }

    fn end_of_last_line(&mut self, output: &[u8]) -> String {
        let output = output.strip_suffix(b"\n").unwrap_or(output);
        let last = memchr::memrchr(b'\n', output).map(|at| &output[at + 1..]).unwrap_or(output);
        let (piece, shortened) = self.line(last, End::Tail);
        if shortened { piece.into_owned() } else { String::new() }
    }

    fn decode<'o>(&mut self, bytes: &'o [u8]) -> Cow<'o, str> {
        let text = String::from_utf8_lossy(bytes);
        self.lossy |= matches!(text, Cow::Owned(_));
        text
    }
}

/// Moves a cut back to the start of a character, so that cutting creates no invalid bytes.
fn boundary(line: &[u8], at: usize) -> usize {
    let is_inside = |at: &usize| line.get(*at).is_some_and(|byte| *byte as i8 <= -0x41);
    (at.saturating_sub(3)..=at).rev().find(|at| !is_inside(at)).unwrap_or(at)
}

/// Returns one end of a text with at most `most` bytes.
fn within(text: &str, bytes: usize, end: End) -> &str {
    match end {
        End::Head => &text[..text.floor_char_boundary(bytes)],
        End::Tail => &text[text.ceil_char_boundary(text.len().saturating_sub(bytes))..],
    }
}

/// Lines of an output, first to last.
fn forward(output: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(output);
    std::iter::from_fn(move || {
        let lines = rest.take()?;
        match memchr::memchr(b'\n', lines) {
            Some(at) => {
                rest = Some(&lines[at + 1..]);
                Some(&lines[..at])
            }
            None => Some(lines),
        }
    })
}

/// Lines of an output, last to first.
fn backward(output: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(output);
    std::iter::from_fn(move || {
        let lines = rest.take()?;
        match memchr::memrchr(b'\n', lines) {
            Some(at) => {
                rest = Some(&lines[..at]);
                Some(&lines[at + 1..])
            }
            None => Some(lines),
        }
    })
}
