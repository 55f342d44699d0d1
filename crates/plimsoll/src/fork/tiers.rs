//! Stage 2: cuts tool results by age.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use super::format::{Line, Lines, Results, Shown, Tier};
use crate::chars::{Chars, Text, head, level, tail};
use crate::log::{Message, Part, PartBody};
use crate::pattern::Words;
use crate::policy::{CutMarker, ForkPolicy, ForkRules};
use crate::window::{PLACEHOLDER, is_placeholder};

/// A history with its tool results cut by age.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Tiered<'a> {
    /// Content of each message.
    pub messages: Vec<Lines<'a>>,
}

impl Tiered<'_> {
    /// Figures about the results.
    pub fn results(&self) -> Results {
        let mut results = Results::default();
        self.messages.iter().for_each(|message| message.count(&mut results));
        results
    }
}

/// Numbers the results from the newest and cuts each to the limit of its tier.
pub fn apply<'a>(messages: &[&'a Message], policy: &ForkPolicy) -> Tiered<'a> {
    let mut walk = Walk::new(messages, policy);
    let mut shown: Vec<Lines<'a>> = messages.iter().rev().map(|message| walk.lines(message)).collect();
    shown.reverse();
    Tiered { messages: shown }
}

/// Like [`apply`], for only as many of the newest messages as [`fit`](super::budget::fit) can use: those that fill the
/// budget, the first `pinned`, and the user's older words that the policy has room for. Returns them and the number of
/// messages left out. `fit` returns the same for them as for all messages.
pub(super) fn newest<'a>(
    messages: &[&'a Message],
    pinned: usize,
    policy: &ForkPolicy,
) -> (Vec<Lines<'a>>, usize) {
    let pinned = pinned.min(messages.len());
    let mut walk = Walk::new(messages, policy);
    let enough = policy.char_budget.max(policy.no_removal);
    let (mut shown, mut chars) = (Vec::new(), Chars::ZERO);
    let mut older = messages[pinned..].iter().rev();
    // Once the budget is full, older messages cannot stay.
    while chars <= enough
        && let Some(message) = older.next()
    {
        let lines = walk.lines(message);
        chars += lines.chars();
        shown.push(lines);
    }
    if let Some(room) = policy.words_room {
        let mut words = Chars::ZERO;
        // `fit` stops at the first words that do not fit, so it needs one more than fit.
        while words <= room
            && let Some(message) = older.next()
        {
            match Lines::are_words_in(message) {
                true => {
                    let lines = walk.lines(message);
                    words += lines.chars().min(policy.least_result);
                    shown.push(lines);
                }
                false => walk.skip(message),
            }
        }
    }
    let left_out = messages.len() - pinned - shown.len();
    let first = &messages[..pinned];
    if first.iter().any(|message| message.parts.iter().any(has_result)) {
        // The results of the pinned messages are numbered after those of all messages in between.
        older.for_each(|message| walk.skip(message));
    }
    shown.extend(first.iter().rev().map(|message| walk.lines(message)));
    shown.reverse();
    (shown, left_out)
}

/// Walks over messages from the newest to the oldest and numbers their results.
struct Walk<'m, 'a, 'p> {
    messages: &'m [&'a Message],
    policy: &'p ForkPolicy,
    cutter: Cutter<'p>,
    /// Number of results so far.
    results: usize,
    /// Tools and tiers of calls whose results are separate parts. Built when the first such part is found, because it
    /// reads all messages and few hosts write such parts.
    names: OnceCell<BTreeMap<&'a str, &'a str>>,
    calls: OnceCell<BTreeMap<&'a str, Tier>>,
}

impl<'m, 'a, 'p> Walk<'m, 'a, 'p> {
    fn new(messages: &'m [&'a Message], policy: &'p ForkPolicy) -> Walk<'m, 'a, 'p> {
        let mut walk = Walk {
            messages,
            policy,
            cutter: Cutter::new(policy, None),
            results: 0,
            names: OnceCell::new(),
            calls: OnceCell::new(),
        };
        walk.cutter.first_limit = walk.first_limit();
        walk
    }

    /// Skips a message, but numbers its results.
    fn skip(&mut self, message: &Message) {
        self.results += message.parts.iter().filter(|part| has_result(part)).count();
    }

    /// Returns the content of the next older message.
    fn lines(&mut self, message: &'a Message) -> Lines<'a> {
        let policy = self.policy;
        self.skip(message);
        let mut index = self.results;
        let mut lines = Lines::new(message, policy.label_host);
        for part in &message.parts {
            if let Some(summary) = part.replaced() {
                // The summary of a range is shown in one of its parts. The other parts are empty.
                if !summary.is_empty() {
                    lines.push(Line::Text(summary));
                }
                continue;
            }
            match &part.body {
                // Text that is only shown to the user was never sent to the model.
                PartBody::Text(text) if text.ignored == Some(true) => {}
                PartBody::Text(text) => lines.push(Line::Text(&text.text)),
                // Imported logs may have a summary in its marker.
                PartBody::Compaction(marker) => {
                    if let Some(summary) = &marker.summary {
                        lines.push(Line::Text(summary));
                    }
                }
                PartBody::Tool(tool) => {
                    let tier = if has_result(part) {
                        index -= 1;
                        tier(index, policy)
                    } else {
                        Tier::First
                    };
                    let input = tool.state.input.as_ref().map(|input| input.json());
                    lines.push(Line::Call { tool: &tool.tool, input, limit: params(tier, policy) });
                    if let Some(result) = tool.state.result().filter(|_| has_result(part)) {
                        lines.push(self.cutter.result(part, &tool.tool, result, tier));
                    }
                }
                PartBody::ToolCall(call) => {
                    let tier = self.call_tier(call.call_id.as_str());
                    let input = call.input.as_ref().map(|input| input.json());
                    lines.push(Line::Call { tool: &call.tool, input, limit: params(tier, policy) });
                }
                PartBody::ToolResult(result) if has_result(part) => {
                    index -= 1;
                    let tool = self.tool_of(part);
                    lines.push(self.cutter.result(part, tool, &result.text, tier(index, policy)));
                }
                _ => {}
            }
        }
        lines
    }

    /// The tool of a part's result. Empty if unknown.
    fn tool_of(&self, part: &'a Part) -> &'a str {
        match &part.body {
            PartBody::Tool(tool) => &tool.tool,
            PartBody::ToolResult(result) => {
                let names = || self.names.get_or_init(|| tool_names(self.messages));
                let named = result.tool.as_deref();
                named.or_else(|| names().get(result.call_id.as_str()).copied()).unwrap_or_default()
            }
            _ => "",
        }
    }

    /// The tier of a separate call, which is that of its result.
    fn call_tier(&self, call: &str) -> Tier {
        let calls = self.calls.get_or_init(|| call_tiers(self.messages, self.policy));
        calls.get(call).copied().unwrap_or(Tier::First)
    }

    /// Returns the length to which results of the first tier are cut so that together they fit their room. `None` if
    /// the policy has no such room. At least the limit of the second tier, because newer results are worth more.
    fn first_limit(&self) -> Option<Chars> {
        let room = self.policy.newest_room?;
        let newest = self.messages.iter().rev().flat_map(|message| message.parts.iter().rev());
        let newest =
            newest.filter_map(|part| Some((part, result_of(part)?))).take(self.policy.tier1_count as usize);
        let can_be_cut = |part: &'a Part, result: &Text| {
            !is_cleared(part, result) && !is_uncut(self.tool_of(part), self.policy)
        };
        let lengths =
            newest.filter(|(part, result)| can_be_cut(part, result)).map(|(_, result)| result.chars());
        Some(level(lengths, room).max(self.policy.tier2_limit))
    }
}

/// The result in a part, if it is not empty and not replaced by a summary. Only such results are numbered.
fn result_of(part: &Part) -> Option<&Text> {
    let text = match &part.body {
        PartBody::Tool(tool) => tool.state.result(),
        PartBody::ToolResult(result) => Some(&result.text),
        _ => None,
    };
    text.filter(|text| !text.is_empty() && part.replaced().is_none())
}

fn has_result(part: &Part) -> bool {
    result_of(part).is_some()
}

fn is_cleared(part: &Part, result: &Text) -> bool {
    part.cleared().is_some() || is_placeholder(result)
}

fn tier(index: usize, policy: &ForkPolicy) -> Tier {
    let index = index as u64;
    if index < policy.tier1_count {
        Tier::First
    } else if index < policy.tier1_count.saturating_add(policy.tier2_count) {
        Tier::Second
    } else {
        Tier::Third
    }
}

fn params(tier: Tier, policy: &ForkPolicy) -> Chars {
    match tier {
        Tier::First => policy.params_tier1,
        Tier::Second => policy.params_tier2,
        Tier::Third => policy.params_tier3,
    }
}

/// The tools of separate calls, for results that do not name theirs.
fn tool_names<'a>(messages: &[&'a Message]) -> BTreeMap<&'a str, &'a str> {
    let parts = messages.iter().flat_map(|message| &message.parts);
    let calls = parts.filter_map(|part| match &part.body {
        PartBody::ToolCall(call) => Some((call.call_id.as_str(), call.tool.as_str())),
        _ => None,
    });
    calls.collect()
}

fn is_uncut(tool: &str, policy: &ForkPolicy) -> bool {
    policy.uncut_tools.iter().any(|name| tool.contains(name.as_str()))
}

/// The tiers of results in separate parts, by call id.
fn call_tiers<'a>(messages: &[&'a Message], policy: &ForkPolicy) -> BTreeMap<&'a str, Tier> {
    let parts = messages.iter().flat_map(|message| &message.parts).filter(|part| has_result(part));
    let results = parts.clone().count();
    let numbered = parts.enumerate().map(|(at, part)| (part, tier(results - 1 - at, policy)));
    let separate = numbered.filter_map(|(part, tier)| match &part.body {
        PartBody::ToolResult(result) => Some((result.call_id.as_str(), tier)),
        _ => None,
    });
    separate.collect()
}

/// Cuts results to the limits of their tiers.
struct Cutter<'p> {
    policy: &'p ForkPolicy,
    errors: Words,
    first_limit: Option<Chars>,
}

impl<'p> Cutter<'p> {
    fn new(policy: &'p ForkPolicy, first_limit: Option<Chars>) -> Cutter<'p> {
        Cutter { policy, errors: Words::new(&policy.error_patterns), first_limit }
    }

    fn result<'a>(&self, part: &Part, tool: &str, text: &'a Text, tier: Tier) -> Line<'a> {
        // A cleared result is numbered, so that the age of others is right, but not counted as cut.
        if is_cleared(part, text) {
            return Line::Cleared { tier };
        }
        if self.policy.rules == ForkRules::Document && text.contains(PLACEHOLDER) {
            return Line::Result { tier, shown: Shown::Whole(text) };
        }
        let limit = match tier {
            Tier::First => self.first_limit,
            Tier::Second => Some(self.policy.tier2_limit),
            Tier::Third => Some(self.policy.tier3_limit),
        };
        let limit = limit.filter(|limit| text.chars() > *limit && !is_uncut(tool, self.policy));
        let shown = limit.map_or(Shown::Whole(text), |limit| self.cut(tool, text, limit));
        Line::Result { tier, shown }
    }

    fn cut<'a>(&self, tool: &str, text: &'a Text, limit: Chars) -> Shown<'a> {
        if self.policy.cut_marker == CutMarker::Prefix {
            return Shown::Prefixed { text: head(text, limit), original: text.chars() };
        }
        if self.keeps_end(tool, text) {
            let first = head(text, limit.share(self.policy.head_ratio));
            let last = tail(text, limit.share(self.policy.tail_ratio));
            let missing = text.chars() - Chars::of(first) - Chars::of(last);
            return Shown::Cut { head: first, missing, tail: Some(last) };
        }
        let first = head(text, limit);
        Shown::Cut { head: first, missing: text.chars() - Chars::of(first), tail: None }
    }

    /// Whether to keep the end: terminals and errors have the important content there.
    fn keeps_end(&self, tool: &str, text: &Text) -> bool {
        self.policy.head_tail_keywords.iter().any(|word| tool.contains(word.as_str()))
            || self.errors.any_in(text)
    }
}
