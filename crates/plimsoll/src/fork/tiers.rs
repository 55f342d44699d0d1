//! Stage 2: the older a tool result, the less of it stays.

use std::collections::BTreeMap;

use aho_corasick::{AhoCorasick, packed};

use super::TierDistribution;
use super::format::{Line, Lines};
use crate::chars::{Chars, Text, head, tail};
use crate::log::{Message, Part, PartBody};
use crate::policy::{CutMarker, ForkPolicy};
use crate::window::PLACEHOLDER;

/// History with its tool results cut by age.
#[derive(Clone, Debug)]
pub struct Tiered<'a> {
    /// What each message shows.
    pub messages: Vec<Lines<'a>>,
    /// Results that were cut.
    pub truncated: usize,
    /// Those of them that keep their end.
    pub head_tail: usize,
    /// Results by tier, cut or not.
    pub distribution: TierDistribution,
}

#[derive(Clone, Copy, PartialEq)]
enum Tier {
    First,
    Second,
    Third,
}

/// Number the results from the newest and cut each to its tier's limit.
pub fn apply<'a>(messages: &[&'a Message], policy: &ForkPolicy) -> Tiered<'a> {
    let names = tool_names(messages);
    let results = messages.iter().flat_map(|message| &message.parts).filter(|part| has_result(part)).count();
    let calls = call_tiers(messages, policy, results);
    let mut cutter = Cutter::new(policy);
    let mut index = results;
    let mut shown = Vec::with_capacity(messages.len());
    for message in messages {
        let mut lines = Lines::new(message);
        for part in &message.parts {
            match &part.body {
                PartBody::Text(text) => lines.push(Line::Text(&text.text)),
                // Imported logs may keep a summary inside its marker.
                PartBody::Compaction(marker) => lines.extend(marker.summary.as_ref().map(Line::Text)),
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
                        lines.push(cutter.result(part, &tool.tool, result, tier));
                    }
                }
                PartBody::ToolCall(call) => {
                    let tier = calls.get(call.call_id.as_str()).copied().unwrap_or(Tier::First);
                    let input = call.input.as_ref().map(|input| input.json());
                    lines.push(Line::Call { tool: &call.tool, input, limit: params(tier, policy) });
                }
                PartBody::ToolResult(result) if has_result(part) => {
                    index -= 1;
                    let named =
                        result.tool.as_deref().or_else(|| names.get(result.call_id.as_str()).copied());
                    let tier = tier(index, policy);
                    lines.push(cutter.result(part, named.unwrap_or_default(), &result.text, tier));
                }
                _ => {}
            }
        }
        shown.push(lines);
    }
    let Cutter { truncated, head_tail, distribution, .. } = cutter;
    Tiered { messages: shown, truncated, head_tail, distribution }
}

/// Whether a part takes a place in the numbering: a result with something in it.
fn has_result(part: &Part) -> bool {
    let text = match &part.body {
        PartBody::Tool(tool) => tool.state.result(),
        PartBody::ToolResult(result) => Some(&result.text),
        _ => None,
    };
    text.is_some_and(|text| !text.is_empty())
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

/// The tier of a separate call is that of its result.
fn call_tiers<'a>(messages: &[&'a Message], policy: &ForkPolicy, results: usize) -> BTreeMap<&'a str, Tier> {
    let parts = messages.iter().flat_map(|message| &message.parts).filter(|part| has_result(part));
    let numbered = parts.enumerate().map(|(at, part)| (part, tier(results - 1 - at, policy)));
    let separate = numbered.filter_map(|(part, tier)| match &part.body {
        PartBody::ToolResult(result) => Some((result.call_id.as_str(), tier)),
        _ => None,
    });
    separate.collect()
}

/// Looks for any of a few words. The vectorised search is some twenty times as fast as the automaton, but takes
/// only so many words and not every machine has it.
enum Words {
    Packed(packed::Searcher),
    Automaton(AhoCorasick),
    None,
}

impl Words {
    fn new(words: &[String]) -> Words {
        if let Some(packed) = packed::Searcher::new(words) {
            return Words::Packed(packed);
        }
        AhoCorasick::new(words).map_or(Words::None, Words::Automaton)
    }

    fn any_in(&self, text: &str) -> bool {
        match self {
            Words::Packed(packed) => packed.find(text).is_some(),
            Words::Automaton(automaton) => automaton.is_match(text),
            Words::None => false,
        }
    }
}

struct Cutter<'p> {
    policy: &'p ForkPolicy,
    errors: Words,
    truncated: usize,
    head_tail: usize,
    distribution: TierDistribution,
}

impl<'p> Cutter<'p> {
    fn new(policy: &'p ForkPolicy) -> Cutter<'p> {
        let errors = Words::new(&policy.error_patterns);
        let (truncated, head_tail, distribution) = Default::default();
        Cutter { policy, errors, truncated, head_tail, distribution }
    }

    fn result<'a>(&mut self, part: &Part, tool: &str, text: &'a Text, tier: Tier) -> Line<'a> {
        // What was cleared keeps its place in the numbering, so that age stays honest, but is not counted.
        if part.cleared().is_some() || text.as_str() == PLACEHOLDER {
            return Line::Cleared;
        }
        let counted = match tier {
            Tier::First => &mut self.distribution.tier1,
            Tier::Second => &mut self.distribution.tier2,
            Tier::Third => &mut self.distribution.tier3,
        };
        *counted += 1;
        let limit = match tier {
            Tier::First => return Line::Result(text),
            Tier::Second => self.policy.tier2_limit,
            Tier::Third => self.policy.tier3_limit,
        };
        let uncut = self.policy.uncut_tools.iter().any(|name| tool.contains(name.as_str()));
        if text.chars() <= limit || uncut {
            return Line::Result(text);
        }
        self.truncated += 1;
        if self.policy.cut_marker == CutMarker::Prefix {
            return Line::Prefixed { text: head(text, limit), original: text.chars() };
        }
        if self.keeps_end(tool, text) {
            self.head_tail += 1;
            let first = head(text, limit.share(self.policy.head_ratio));
            let last = tail(text, limit.share(self.policy.tail_ratio));
            let missing = text.chars() - Chars::of(first) - Chars::of(last);
            return Line::Cut { head: first, missing, tail: Some(last) };
        }
        let first = head(text, limit);
        Line::Cut { head: first, missing: text.chars() - Chars::of(first), tail: None }
    }

    /// Terminals and anything that speaks of an error say the important thing at the end.
    fn keeps_end(&self, tool: &str, text: &Text) -> bool {
        self.policy.head_tail_keywords.iter().any(|word| tool.contains(word.as_str()))
            || self.errors.any_in(text)
    }
}
