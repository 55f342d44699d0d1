//! Thrift: clear old tool outputs under the line where that saves money.
//!
//! A provider keeps the beginning of a request in its cache. What is read from there costs a tenth of plain input or
//! less, what is written to it as much as plain input or more. Clearing an output changes the request from that output
//! on, so everything behind it is written anew:
//!
//! - **The cache is cold**, because the last request is older than the cache's lifetime: all of the window is written
//!   anew in any case. What is cleared now is not written, and not read by any call to come.
//! - **The cache is warm**: the break costs `(write - read) × what stands behind`, and each call to come saves
//!   `read × what was cleared`. So outputs go in batches, when that pays: the best place to begin is where the difference
//!   is largest.
//!
//! How many calls will come is not known; a session that has made many will make more. What is cleared may be needed
//! again, and a recall costs a request: outputs that the newest calls refer to stay, and small ones are not worth it.
//!
//! A compaction is weighed in the same way: [`Compaction::pays`].

use std::collections::BTreeMap;

use aho_corasick::AhoCorasick;

use crate::count::{Tokens, part_tokens};
use crate::log::{Message, Millis, Part, PartBody};
use crate::pivot::Visible;
use crate::policy::{Policy, ThriftPolicy};
use crate::prune::{PruneItem, PrunePlan, PruneReason, candidate, worth_clearing};

/// What a provider's cache costs and how long it lives. Only the ratio of the prices matters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CacheTerms {
    /// Reading a token from it.
    pub read: f64,
    /// Writing a token to it.
    pub write: f64,
    /// A token of the model's answers.
    pub output: f64,
    /// How long it lives after its last use.
    pub lifetime: Millis,
}

impl CacheTerms {
    /// What a policy takes for granted where the host knows no better.
    pub fn usual(policy: &ThriftPolicy) -> CacheTerms {
        let lifetime = Millis(policy.cache_minutes.saturating_mul(60_000));
        let ThriftPolicy { read_price: read, write_price: write, output_price: output, .. } = *policy;
        CacheTerms { read, write, output, lifetime }
    }
}

/// A compaction that could be made now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compaction {
    /// What the request weighs without it.
    pub load: Tokens,
    /// What of that is neither summarised nor kept word for word: the system prompt and the tools.
    pub fixed: Tokens,
    /// What would be summarised.
    pub head: Tokens,
    /// How many tool outputs are in the head.
    pub outputs: usize,
    /// Whether the summary is asked for on the session's own request, most of which is in the cache.
    pub is_appended: bool,
}

impl Compaction {
    /// Whether the calls to come are expected to save more by it than it costs.
    ///
    /// It is asked for in a request of its own. The next request writes what stays, and each one after it reads less. Only
    /// the session's own rate says how many there will be, so `margin` asks for so many times the cost.
    pub fn pays(&self, messages: &[Message], policy: &Policy, terms: Option<CacheTerms>) -> bool {
        let thrift = &policy.thrift;
        let CacheTerms { read, write, output, .. } = terms.unwrap_or_else(|| CacheTerms::usual(thrift));
        let summary = policy.compact.max_summary_tokens.unwrap_or(policy.compact.extractive_tokens);
        let price = |price: f64, tokens: Tokens| price * tokens.0 as f64;
        let gone = self.head - summary;
        let stays = self.load - self.fixed - gone;
        // On the session's own request it reads, or writes if the cache is cold, what the next call does not have to.
        let request = if self.is_appended { 0.0 } else { price(write, self.head) };
        let at_once = request + price(output, summary) + price(read, self.fixed) + price(write, stays);
        let recall =
            price(read, self.load - gone) + price(write, policy.count.of_chars(policy.recall.max_chars));
        let recalls = self.outputs as f64 * thrift.recall_chance * recall;
        let visible = Visible::of(messages);
        let calls = calls_to_come(messages, &visible, thrift);
        price(read, gone) * calls > at_once * thrift.compact_margin + recalls
    }
}

/// How many calls are expected, by how many there were in the window.
fn calls_to_come(messages: &[Message], visible: &Visible, thrift: &ThriftPolicy) -> f64 {
    let made = visible.places.iter().filter(|place| messages[**place].is_assistant()).count();
    (made as f64 * thrift.calls_to_come).min(thrift.max_calls_to_come as f64)
}

/// An output that could go.
struct Candidate {
    item: PruneItem,
    /// Its place among the messages and the parts.
    at: (usize, usize),
    /// What stands behind it.
    behind: Tokens,
}

/// Plan what to clear before a request that weighs `load` and is made `now`; an empty plan where it does not pay.
pub fn plan(
    messages: &[Message],
    policy: &Policy,
    terms: Option<CacheTerms>,
    load: Tokens,
    now: Millis,
) -> PrunePlan {
    let thrift = &policy.thrift;
    let nothing = |reason| PrunePlan { reason, ..PrunePlan::default() };
    if !thrift.enabled || !policy.prune.enabled {
        return nothing(PruneReason::Off);
    }
    let visible = Visible::of(messages);
    let answers =
        || visible.places.iter().map(|place| &messages[*place]).filter(|message| message.is_assistant());
    let used = answers().next_back().and_then(|message| message.info.time.as_ref());
    let Some(used) = used.and_then(|time| time.completed.or(time.created)) else {
        return nothing(PruneReason::NotNeeded);
    };
    let terms = terms.unwrap_or_else(|| CacheTerms::usual(thrift));
    let is_cold = now.0.saturating_sub(used.0) > terms.lifetime.0;
    let calls = calls_to_come(messages, &visible, thrift);
    let scales = Scales { terms, thrift, calls, load, is_cold };
    let mut found = candidates(messages, &visible, policy);
    found.retain(|candidate| scales.is_worth_its_risk(candidate.item.tokens));
    // Reading the outputs is the expensive part, so it comes last.
    if found.is_empty() || scales.best(&found).is_none() {
        return nothing(PruneReason::AllProtected);
    }
    let kept = in_use(messages, &visible, &found, thrift);
    let mut number = 0;
    found.retain(|_| {
        number += 1;
        !kept[number - 1]
    });
    let Some(count) = scales.best(&found) else { return nothing(PruneReason::BelowMinimum) };
    let items: Vec<PruneItem> = found.into_iter().take(count).map(|candidate| candidate.item).collect();
    let freed_tokens: Tokens = items.iter().map(|item| item.tokens).sum();
    let reason = if is_cold { PruneReason::ColdCache } else { PruneReason::Pays };
    PrunePlan { items, freed_tokens, reason, ..PrunePlan::default() }
}

/// What is weighed against what.
struct Scales<'a> {
    terms: CacheTerms,
    thrift: &'a ThriftPolicy,
    /// Calls to come.
    calls: f64,
    load: Tokens,
    is_cold: bool,
}

impl Scales<'_> {
    /// What is saved by so many tokens less.
    fn saving(&self, tokens: Tokens) -> f64 {
        let CacheTerms { read, write, .. } = self.terms;
        let at_once = if self.is_cold { write - read } else { 0.0 };
        (at_once + read * self.calls) * tokens.0 as f64
    }

    /// What it costs on average that an output may be needed again: the window once more, and the output.
    fn risk(&self, tokens: Tokens) -> f64 {
        let CacheTerms { read, write, .. } = self.terms;
        self.thrift.recall_chance * (read * self.load.0 as f64 + write * tokens.0 as f64)
    }

    fn is_worth_its_risk(&self, tokens: Tokens) -> bool {
        self.saving(tokens) > self.risk(tokens)
    }

    /// How many of the candidates, newest first, are best cleared; none if it does not pay.
    fn best(&self, found: &[Candidate]) -> Option<usize> {
        let CacheTerms { read, write, .. } = self.terms;
        let (mut freed, mut risk) = (Tokens::ZERO, 0.0);
        let mut best: Option<(f64, usize)> = None;
        for (number, candidate) in found.iter().enumerate() {
            let rewritten = candidate.behind - freed;
            freed += candidate.item.tokens;
            risk += self.risk(candidate.item.tokens);
            let cost = if self.is_cold { 0.0 } else { (write - read).max(0.0) * rewritten.0 as f64 };
            let gain = self.saving(freed) - risk - cost * self.thrift.margin;
            if freed >= self.thrift.min_tokens && gain > 0.0 && best.is_none_or(|(most, _)| gain > most) {
                best = Some((gain, number + 1));
            }
        }
        best.map(|(_, count)| count)
    }
}

/// Outputs that are not protected, newest first. Those of the newest step the model has not been shown yet: they stay,
/// however large they are.
fn candidates(messages: &[Message], visible: &Visible, policy: &Policy) -> Vec<Candidate> {
    let thrift = &policy.thrift;
    let mut found = Vec::new();
    let (mut turns, mut seen, mut behind) = (0, Tokens::ZERO, Tokens::ZERO);
    let newest_step = visible.places.iter().rev().copied().find(|place| messages[*place].is_assistant());
    for place in visible.places.iter().rev().copied() {
        let message = &messages[place];
        let was_shown = newest_step.is_some_and(|newest| place < newest);
        for (at, part) in message.parts.iter().enumerate().rev().filter(|(_, part)| !part.is_hidden()) {
            let mut tokens = part_tokens(part, &policy.count);
            if let Some((tool, whole)) = candidate(part, policy) {
                // What was cut weighs only what is left of it.
                let freed = match (part.cleared(), part.cut()) {
                    (Some(_), _) => Tokens::ZERO,
                    (None, Some(cut)) => whole.min(policy.count.of_chars(cut.keep())),
                    (None, None) => whole,
                };
                tokens = tokens - (whole - freed);
                seen += freed;
                if part.cleared().is_none()
                    && was_shown
                    && seen > thrift.protect_tokens
                    && turns >= thrift.active_turns
                    && worth_clearing(part, freed, policy)
                {
                    let (part, message, tool) = (part.id.clone(), message.info.id.clone(), tool.to_owned());
                    let item = PruneItem { part, message, tool, tokens: freed };
                    found.push(Candidate { item, at: (place, at), behind });
                }
            }
            behind += tokens;
        }
        if message.is_turn() {
            turns += 1;
        }
    }
    found
}

/// Which of the candidates the inputs of the newest calls refer to. A name that many outputs contain says nothing about
/// any of them.
fn in_use(messages: &[Message], visible: &Visible, found: &[Candidate], thrift: &ThriftPolicy) -> Vec<bool> {
    let mut kept = vec![false; found.len()];
    let newest = visible.places.iter().rev().map(|place| &messages[*place]);
    let newest = newest.filter(|message| message.is_assistant());
    let mut words: Vec<&str> = Vec::new();
    for message in newest.take(usize::try_from(thrift.used_calls).unwrap_or(usize::MAX)) {
        for input in message.parts.iter().filter_map(input) {
            words.extend(names(input));
        }
    }
    words.sort_unstable();
    words.dedup();
    let Ok(finder) = AhoCorasick::new(&words) else { return kept };
    if words.is_empty() {
        return kept;
    }
    let mut holders: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (number, candidate) in found.iter().enumerate() {
        let Some(text) = output(&messages[candidate.at.0].parts[candidate.at.1]) else { continue };
        let mut met: Vec<usize> =
            finder.find_overlapping_iter(text).map(|found| found.pattern().as_usize()).collect();
        met.sort_unstable();
        met.dedup();
        met.into_iter().for_each(|word| holders.entry(word).or_default().push(number));
    }
    for holders in holders.into_values().filter(|holders| holders.len() as u64 <= thrift.used_most) {
        holders.into_iter().for_each(|number| kept[number] = true);
    }
    kept
}

fn input(part: &Part) -> Option<&str> {
    match &part.body {
        PartBody::Tool(tool) => tool.state.input.as_ref().map(|input| input.json().as_str()),
        PartBody::ToolCall(call) => call.input.as_ref().map(|input| input.json().as_str()),
        _ => None,
    }
}

fn output(part: &Part) -> Option<&str> {
    match &part.body {
        PartBody::Tool(tool) => tool.state.output.as_ref().map(|text| text.as_str()),
        PartBody::ToolResult(result) => Some(result.text.as_str()),
        _ => None,
    }
}

/// Shortest name that is told apart from a word.
const SHORTEST: usize = 8;

/// Names in a text that are not words of a language: paths, identifiers, numbers.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let inside = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '/' | '-');
    let runs = text.split(move |c| !inside(c)).map(|run| run.trim_matches(['.', '/', '-']));
    runs.filter(|run| {
        let odd = |c: char| !c.is_lowercase() && c != '-';
        run.len() >= SHORTEST && run.chars().skip(1).any(odd)
    })
}
