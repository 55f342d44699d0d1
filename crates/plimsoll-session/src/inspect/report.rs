//! Content of a window: the one report that every host renders.

use plimsoll::{PartId, Tokens};
use serde::Serialize;

use super::kind::ContentKind;
use super::ranking::{Share, Weight};
use crate::scale::WindowSize;

/// Maximum factor by which rows are scaled down. Vocabularies differ by less.
const MAX_SCALE: u64 = 4;

/// Content of a session's window, and its distance from the line.
///
/// `plimsoll inspect`, `window`, `watch`, `sessions`, `/window` of a chat and the MCP tool `inspect_session` all show
/// this value, so that their figures agree.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct WindowReport {
    /// Number of messages in the log.
    pub messages: usize,
    /// Tokens of all messages in the log; `None` unless the [log was weighed](super::Weigher::with_log).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// Tokens of the current window: the last recorded request and what came since, or an estimate.
    pub window: Tokens,
    /// How `window` is known.
    pub measured: MeasuredBy,
    /// Tokens of every request that the session does not record: the system prompt and the schemas of tools. `None` if
    /// unknown.
    pub hidden: Option<Tokens>,
    /// Other tokens that the session does not record: hidden reasoning that is sent again, content that the host adds.
    pub unseen: Option<Tokens>,
    /// Tokens of this model for one token of o200k, if usage is recorded.
    pub factor: Option<f64>,
    /// The last recorded request, if it can be compared with the one rebuilt from the session.
    pub rebuilt: Option<Rebuilt>,
    /// The line; `None` if the policy has none.
    pub line: Option<Tokens>,
    /// Number of compactions in the log.
    pub pivots: usize,
    /// The window by kind of content, heaviest first. [`WindowReport::kinds`] adds what the session does not record.
    pub by_kind: Vec<Share>,
    /// The window by tool, inputs and outputs together.
    pub by_tool: Vec<Share>,
    /// The window by file, as far as tools named one.
    pub by_file: Vec<Share>,
    /// The window by turn of the user.
    pub by_turn: Vec<Share>,
    /// The largest items of the window.
    pub items: Vec<Item>,
    /// Files that the window shows more than once.
    pub repeated: Vec<Repeated>,
    /// The whole log, if it was weighed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<LogReport>,
    /// Size of the log after each turn of the user, if the log was weighed.
    pub growth: Vec<Turn>,
    /// Tokens of what the session records of the window.
    #[serde(skip)]
    pub visible: Tokens,
    /// Number of messages that the window has as a request, with a separate one for each result of a tool.
    #[serde(skip)]
    pub request_messages: usize,
    /// Number of items in the window, of which `items` lists the largest.
    #[serde(skip)]
    pub item_count: usize,
    /// Whether a summary replaces older messages.
    #[serde(skip)]
    pub has_summary: bool,
    /// Tokens of pinned text.
    #[serde(skip)]
    pub pinned: Tokens,
}

impl WindowReport {
    /// Sets the size of the window. The rows are estimates: if their sum exceeds the size, each is scaled down, so that
    /// the kinds add up to the window. If the sum is far larger, content was left out of the request and the session
    /// does not record which, so that no scale would be right.
    pub(crate) fn with_size(mut self, size: WindowSize) -> WindowReport {
        let WindowSize { tokens, hidden, unseen } = size;
        (self.window, self.hidden, self.unseen) = (tokens, hidden, unseen);
        let (room, visible) = (tokens - hidden.unwrap_or_default(), self.visible);
        if visible <= room || visible.0 > room.0.saturating_mul(MAX_SCALE) {
            return self;
        }
        self.visible = room;
        let kinds: Vec<Tokens> = self.by_kind.iter().map(|kind| kind.tokens).collect();
        let kinds = apportion(&kinds, (room.0, visible.0), room.0);
        self.by_kind.iter_mut().zip(kinds).for_each(|(kind, tokens)| kind.tokens = Tokens(tokens));
        let scaled = |tokens: Tokens| Tokens(floor_share(tokens, (room.0, visible.0)).0);
        let others = self.by_tool.iter_mut().chain(&mut self.by_file).chain(&mut self.by_turn);
        others.for_each(|row| row.tokens = scaled(row.tokens));
        self.items.iter_mut().for_each(|item| item.tokens = scaled(item.tokens));
        for row in &mut self.repeated {
            (row.tokens, row.frees) = (scaled(row.tokens), scaled(row.frees));
        }
        self.pinned = scaled(self.pinned);
        self
    }

    /// Whether the kinds add up to the window.
    pub fn is_consistent(&self) -> bool {
        let recorded = self.by_kind.iter().map(|kind| kind.tokens).sum::<Tokens>();
        recorded + self.hidden.unwrap_or_default() + self.unseen.unwrap_or_default() == self.window
    }

    /// Returns all of the window by kind, heaviest first: what the session records and what it does not.
    pub fn kinds(&self) -> Vec<Share> {
        let unrecorded = [(ContentKind::Hidden, self.hidden), (ContentKind::Unseen, self.unseen)];
        let unrecorded = unrecorded.into_iter().filter_map(|(kind, tokens)| {
            let tokens = tokens.filter(|tokens| *tokens > Tokens::ZERO)?;
            Some(Share { name: kind.label().to_owned(), count: 1, tokens })
        });
        let mut kinds: Vec<Share> = self.by_kind.iter().cloned().chain(unrecorded).collect();
        kinds.sort_by_key(|share| std::cmp::Reverse(share.tokens));
        kinds
    }

    /// Returns a sentence about the fill level of the window. `is_guess` marks the line as a guess, if the size of the
    /// model's window is unknown.
    pub fn fullness(&self, is_guess: bool) -> String {
        let window = self.window;
        let the = if is_guess { "a guessed" } else { "the" };
        match self.line {
            Some(line) => {
                format!("{window} tokens in the window, {} % of {the} line at {line}", percent(window, line))
            }
            None => format!("{window} tokens in the window"),
        }
    }

    /// Returns how much of the way to the line is used, in percent.
    pub fn percent(&self) -> Option<u64> {
        self.line.map(|line| percent(self.window, line))
    }

    /// Returns the tokens that are left until the line; 0 beyond it.
    pub fn left(&self) -> Option<Tokens> {
        self.line.map(|line| line - self.window)
    }

    /// Returns the number of tool results that show a placeholder.
    pub fn cleared(&self) -> u64 {
        let row = self.by_kind.iter().find(|share| share.name == ContentKind::ClearedOutputs.label());
        row.map_or(0, |row| row.count)
    }
}

/// How the size of a window is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum MeasuredBy {
    /// By the usage that the session records.
    Usage,
    /// By characters over four, because the session records no usage.
    #[default]
    Characters,
    /// By counting tokens, for a request of this host that has no answer yet.
    Count,
}

/// The last recorded request, and its size when it is rebuilt from the session.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Rebuilt {
    /// Recorded tokens.
    pub recorded: Tokens,
    /// Rebuilt tokens.
    pub tokens: Tokens,
    /// Difference as a share of the recorded tokens; negative if more was rebuilt.
    pub gap: f64,
}

/// The whole log, including messages that summaries replace.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LogReport {
    /// By kind of content.
    pub by_kind: Vec<Share>,
    /// By tool, inputs and outputs together.
    pub by_tool: Vec<Share>,
    /// By file, as far as tools named one.
    pub by_file: Vec<Share>,
    /// The largest outputs.
    pub largest: Vec<LargeOutput>,
}

/// A large output of a tool.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LargeOutput {
    /// The part.
    pub part: PartId,
    /// The tool.
    pub tool: String,
    /// Tokens of the output.
    pub tokens: Tokens,
}

/// The log at the end of a turn.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Turn {
    /// Number of the turn, from 1.
    pub turn: usize,
    /// Tokens of the log so far.
    pub tokens: Tokens,
    /// First words of the prompt.
    pub prompt: String,
    #[serde(skip)]
    pub(super) weight: Weight,
}

/// An item of the window: a call with its result, a text, a file.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Item {
    /// The part of the log that it comes from.
    pub part: Option<PartId>,
    /// Label of its kind, or the tool.
    pub kind: String,
    /// The command, the path, or the first words.
    pub about: String,
    /// The turn that it came in, from 1; 0 before the first.
    pub turn: u32,
    /// Tokens of it.
    pub tokens: Tokens,
}

/// A file that the window shows more than once.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Repeated {
    /// The file.
    pub name: String,
    /// How often its content is in the window.
    pub count: u64,
    /// Tokens of all of them.
    pub tokens: Tokens,
    /// Tokens that are freed by clearing those that a later read shows again.
    pub frees: Tokens,
}

/// Returns a part of a whole in percent, rounded.
pub fn percent(part: Tokens, whole: Tokens) -> u64 {
    let whole = u128::from(whole.0.max(1));
    u64::try_from((u128::from(part.0) * 100 + whole / 2) / whole).unwrap_or(u64::MAX)
}

/// Returns several parts of a whole in percent, so that the column adds up: each is rounded down, and what is missing
/// of the rounded share of all goes to those that lost most.
pub fn percents(parts: &[Tokens], whole: Tokens) -> Vec<u64> {
    apportion(parts, (100, whole.0), percent(parts.iter().copied().sum(), whole))
}

/// Multiplies parts by a ratio, rounded so that they add up to `total`: each is rounded down, and what is missing goes
/// to those that lost most.
fn apportion(parts: &[Tokens], ratio: (u64, u64), total: u64) -> Vec<u64> {
    let floors: Vec<(u64, u128)> = parts.iter().map(|part| floor_share(*part, ratio)).collect();
    let mut shares: Vec<u64> = floors.iter().map(|(share, _)| *share).collect();
    let missing = total.saturating_sub(shares.iter().copied().fold(0, u64::saturating_add));
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(floors[*at].1));
    order.iter().take(usize::try_from(missing).unwrap_or(usize::MAX)).for_each(|at| shares[*at] += 1);
    shares
}

/// Multiplies a part by a ratio; returns the result rounded down, and the remainder.
fn floor_share(part: Tokens, (numerator, denominator): (u64, u64)) -> (u64, u128) {
    let (exact, whole) = (u128::from(part.0) * u128::from(numerator), u128::from(denominator.max(1)));
    (u64::try_from(exact / whole).unwrap_or(u64::MAX), exact % whole)
}

#[cfg(test)]
mod tests {
    use plimsoll::Tokens;

    use super::super::ranking::Share;
    use super::{WindowReport, percent, percents};
    use crate::scale::WindowSize;

    #[test]
    fn kinds_that_are_estimated_too_high_add_up_to_the_window() {
        let row = |name: &str, tokens| Share { name: name.to_owned(), count: 1, tokens: Tokens(tokens) };
        let by_kind = vec![row("a", 700), row("b", 201), row("c", 199)];
        let seen = WindowReport { by_kind, visible: Tokens(1_100), ..WindowReport::default() };
        let size = WindowSize { tokens: Tokens(1_000), hidden: Some(Tokens(3)), unseen: Some(Tokens::ZERO) };
        let report = seen.with_size(size);
        let kinds: Vec<(String, u64)> =
            report.kinds().into_iter().map(|kind| (kind.name, kind.tokens.0)).collect();
        assert_eq!(kinds.iter().map(|(_, tokens)| tokens).sum::<u64>(), 1_000, "{kinds:?}");
        assert_eq!(kinds[..2], [("a".to_owned(), 635), ("b".to_owned(), 182)]);
    }

    #[test]
    fn percentages_are_rounded() {
        assert_eq!(percent(Tokens(161_204), Tokens(1_000_000)), 16);
        assert_eq!(percent(Tokens(166_000), Tokens(1_000_000)), 17);
        assert_eq!(
            (percent(Tokens(5), Tokens::ZERO), percent(Tokens(u64::MAX), Tokens(u64::MAX))),
            (500, 100)
        );
    }

    #[test]
    fn percentages_of_a_column_add_up() {
        let thirds = [Tokens(333), Tokens(334), Tokens(333)];
        assert_eq!(percents(&thirds, Tokens(1_000)), [33, 34, 33]);
        assert_eq!(percents(&[Tokens(5), Tokens(5)], Tokens(1_000)), [1, 0]);
        let many = [Tokens(126); 7].into_iter().chain([Tokens(118)]).collect::<Vec<_>>();
        assert_eq!(percents(&many, Tokens(1_000)).iter().sum::<u64>(), 100);
        assert_eq!(percents(&[], Tokens(10)), [0u64; 0]);
    }
}
