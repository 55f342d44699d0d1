//! The purse: what reductions have saved so far in a session, less what they cost.
//!
//! A provider keeps the beginning of a request in its cache. Reading from it costs a tenth of plain input or less, writing
//! to it as much as plain input or more. A reduction changes the request at some point, so everything after that point is
//! written again; from then on every request is shorter. The purse compares the session with the same session without
//! reductions:
//!
//! - each request since a reduction saves the tokens that are gone, at the price of reading, or at the price of writing if
//!   the cache had expired and all of the window had to be written again;
//! - a reduction costs the difference between writing and reading for what follows the change, unless the cache had expired;
//! - a summary costs its request and its answer, a recall costs a request and the content it brings back.
//!
//! Reductions that are made to save money are paid only out of the purse. So at no moment has the session cost more than
//! it would have without a policy: the next message may be the last. A rule that bets on the number of calls to come
//! does not have this property, and over recorded sessions it was not cheaper.
//!
//! The purse is a function of the log, like the window: no state has to be stored, and an undo or a fork needs nothing
//! new. Only what is in view counts, so savings from before the newest summary are forgotten.

use std::collections::BTreeMap;

use crate::count::part_tokens;
use crate::log::{Effect, Message, MessageId, Millis, Part, PartBody, ReceiptId, Usage};
use crate::pivot::{Pivot, VisibleRange, without_index};
use crate::policy::{CachePolicy, Policy};
use crate::recall;
use crate::tokens::Tokens;

/// Prices and lifetime of a provider's cache. Only the ratio of the prices matters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CacheTerms {
    /// Price of a token read from the cache.
    pub read: f64,
    /// Price of a token written to the cache.
    pub write: f64,
    /// Price of a token of output.
    pub output: f64,
    /// Lifetime of the cache after its last use.
    pub lifetime: Millis,
}

impl CacheTerms {
    /// The policy's assumptions for a host that does not know prices.
    pub fn assumed(policy: &CachePolicy) -> CacheTerms {
        let lifetime = Millis(policy.minutes.saturating_mul(60_000));
        CacheTerms {
            read: policy.read_price,
            write: policy.write_price,
            output: policy.output_price,
            lifetime,
        }
    }

    /// Extra price of a token that has to be written again although it was in the cache.
    pub(crate) fn rewrite(&self) -> f64 {
        (self.write - self.read).max(0.0)
    }

    /// Price of a token that every request repeats.
    pub(crate) fn repeat(&self, is_cold: bool) -> f64 {
        if is_cold { self.write } else { self.read }
    }

    /// Price of a request and its answer.
    fn of(&self, usage: &Usage, is_cold: bool) -> f64 {
        let counts_cache = usage.cache_read + usage.cache_write > Tokens::ZERO;
        // Without cache figures in the usage, whether the input was read from the cache follows only from the time.
        let fresh = if counts_cache { self.write } else { self.repeat(is_cold) };
        fresh * (usage.input + usage.cache_write).0 as f64
            + self.read * usage.cache_read.0 as f64
            + self.output * (usage.output + usage.reasoning).0 as f64
    }
}

/// The visible requests of a session, and the prices at which each resent earlier content.
struct Requests {
    /// Places of the answers, ascending.
    places: Vec<usize>,
    /// Whether the cache had expired when the request was sent.
    cold: Vec<bool>,
    /// Sum of the repeat prices of all requests before the one at the same index.
    rates: Vec<f64>,
    terms: CacheTerms,
    /// Whether the cache has expired by now.
    is_cold_now: bool,
}

impl Requests {
    fn of(messages: &[Message], visible: &VisibleRange, terms: CacheTerms, now: Millis) -> Requests {
        let mut requests = Requests {
            places: Vec::new(),
            cold: Vec::new(),
            rates: vec![0.0],
            terms,
            is_cold_now: is_cold(messages, visible, terms, now),
        };
        let mut used: Option<Millis> = None;
        for &place in &visible.places {
            let message = &messages[place];
            if !message.is_assistant() {
                continue;
            }
            let time = message.info.time.as_ref();
            let begun = time.and_then(|time| time.created.or(time.completed));
            let is_cold = match (used, begun) {
                (Some(used), Some(begun)) => begun.0.saturating_sub(used.0) > terms.lifetime.0,
                // The first request finds nothing in the cache. Later ones without times count as warm: a cold cache
                // would credit the purse with savings that may not exist.
                _ => requests.places.is_empty(),
            };
            used = time.and_then(|time| time.completed.or(time.created)).or(used);
            let sum = requests.rates.last().copied().unwrap_or_default() + terms.repeat(is_cold);
            requests.places.push(place);
            requests.cold.push(is_cold);
            requests.rates.push(sum);
        }
        requests
    }

    /// Returns the index of the first request after a place.
    fn first_after(&self, place: usize) -> usize {
        self.places.partition_point(|known| *known <= place)
    }

    /// Returns the price of a token that all requests after a place repeat.
    fn rate_after(&self, place: usize) -> f64 {
        self.rates.last().copied().unwrap_or_default() - self.rates[self.first_after(place)]
    }

    /// Whether the cache had expired at the first request after a place; the next one if none was made yet.
    fn is_cold_after(&self, place: usize) -> bool {
        self.cold.get(self.first_after(place)).copied().unwrap_or(self.is_cold_now)
    }
}

/// Returns whether the cache of the newest request in view has expired. Unknown times count as not expired.
pub(crate) fn is_cold(messages: &[Message], visible: &VisibleRange, terms: CacheTerms, now: Millis) -> bool {
    let used = last_use(messages, visible);
    used.is_some_and(|used| now.0.saturating_sub(used.0) > terms.lifetime.0)
}

/// Returns when the newest request in view was answered.
pub(crate) fn last_use(messages: &[Message], visible: &VisibleRange) -> Option<Millis> {
    let newest =
        visible.places.iter().rev().map(|place| &messages[*place]).find(|message| message.is_assistant());
    newest.and_then(|message| message.info.time.as_ref()).and_then(|time| time.completed.or(time.created))
}

/// A part in view, in order.
struct VisiblePart<'m> {
    place: usize,
    part: &'m Part,
}

/// An active reduction of one part.
struct Reduced<'m> {
    /// Index of the part among those in view.
    spot: usize,
    /// Tokens that are gone, by estimate.
    freed: f64,
    /// Place of the newest message when it was made.
    after: usize,
    receipt: Option<&'m ReceiptId>,
}

/// Savings of the reductions in a session.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Purse {
    /// Savings less costs: tokens times their price in [`CacheTerms`].
    pub balance: f64,
    /// Tokens of the log that are not in the window.
    pub freed: f64,
}

/// Computes the purse of a session. `factor` converts estimated tokens to the provider's.
pub(crate) fn purse(
    messages: &[Message],
    visible: &VisibleRange,
    policy: &Policy,
    terms: CacheTerms,
    factor: f64,
    now: Millis,
) -> Purse {
    let spots: Vec<VisiblePart<'_>> = visible
        .places
        .iter()
        .flat_map(|&place| messages[place].parts.iter().map(move |part| VisiblePart { place, part }))
        .collect();
    let reduced = reductions(&spots, messages, policy);
    let requests = Requests::of(messages, visible, terms, now);
    let mut balance = -recalls(&spots, messages, &requests, policy, factor);
    let mut freed: f64 = reduced.iter().map(|one| one.freed * factor).sum();
    if reduced.is_empty() && visible.pivot.is_none() {
        return Purse { balance, freed };
    }
    // Sizes at the time of each reduction, oldest first.
    let mut sizes = Sums::new(spots.iter().map(|spot| part_tokens(spot.part, &policy.count).0 as f64));
    if let Some(pivot) = visible.pivot {
        let (saved, gone) = pivot_balance(messages, pivot, &spots, &sizes, &requests, policy, factor);
        balance += saved;
        freed += gone;
    }
    // Marks of one receipt change the request once: what follows the first of them is written again.
    let mut groups: BTreeMap<(usize, Option<&ReceiptId>), Vec<&Reduced<'_>>> = BTreeMap::new();
    for one in &reduced {
        groups.entry((one.after, one.receipt)).or_default().push(one);
    }
    for ((after, _), group) in groups {
        let mut first = usize::MAX;
        for one in &group {
            sizes.add(one.spot, -one.freed);
            balance += one.freed * factor * requests.rate_after(after);
            first = first.min(one.spot);
        }
        if !requests.is_cold_after(after) {
            let end = spots.partition_point(|spot| spot.place <= after);
            balance -= terms.rewrite() * sizes.between(first, end).max(0.0) * factor;
        }
    }
    Purse { balance, freed }
}

/// Returns the active reductions of the parts in view.
fn reductions<'m>(spots: &[VisiblePart<'m>], messages: &[Message], policy: &Policy) -> Vec<Reduced<'m>> {
    let mut found = Vec::new();
    let mut places: Option<BTreeMap<&MessageId, usize>> = None;
    for (number, spot) in spots.iter().enumerate() {
        let mut left = part_tokens(spot.part, &policy.count).0 as f64;
        for mark in spot.part.active_marks() {
            let kept = shown(spot.part, &mark.effect, left, policy);
            let Some(kept) = kept.filter(|kept| *kept < left) else { continue };
            // Built on first use: most sessions have no reductions, and the map has an entry for each message.
            let places = places.get_or_insert_with(|| {
                messages.iter().enumerate().map(|(place, message)| (&message.info.id, place)).collect()
            });
            let after = mark.set.after.as_ref().and_then(|id| places.get(id)).copied();
            let after = after.unwrap_or(spot.place);
            found.push(Reduced { spot: number, freed: left - kept, after, receipt: mark.receipt.as_ref() });
            left = kept;
        }
    }
    found
}

/// Tokens that the window shows of a part with `left` tokens once a mark is set; `None` if the mark takes nothing away.
fn shown(part: &Part, effect: &Effect, left: f64, policy: &Policy) -> Option<f64> {
    let names = |names: &crate::Text| policy.count.of_chars(names.chars()).0 as f64 + PLACEHOLDER_TOKENS;
    match effect {
        Effect::Clear(kept) => {
            let output = match &part.body {
                PartBody::Tool(tool) => tool.state.result().map(|text| text.chars()),
                PartBody::ToolResult(result) => Some(result.text.chars()),
                _ => None,
            };
            let output = policy.count.of_chars(output?).0 as f64;
            Some((left - output).max(0.0) + names(kept).min(output))
        }
        Effect::ClearInput(kept) => {
            let gone: Tokens = crate::prune::clearable_texts(part, policy)
                .iter()
                .map(|text| policy.count.of_chars(crate::Chars::of(text)))
                .sum();
            let gone = gone.0 as f64;
            Some((left - gone).max(0.0) + names(kept).min(gone))
        }
        Effect::Cut(keep) => Some(policy.count.of_chars(*keep).0 as f64),
        Effect::Hide => Some(0.0),
        Effect::Replace(text) | Effect::Edit(text) => Some(policy.count.of_chars(text.chars()).0 as f64),
        Effect::Pin(_) | Effect::Unpin => None,
    }
}

/// Approximate tokens of a placeholder.
const PLACEHOLDER_TOKENS: f64 = 15.0;

/// Returns the savings of the summary in view, less its cost, and the tokens that it removed.
fn pivot_balance(
    messages: &[Message],
    pivot: Pivot,
    spots: &[VisiblePart<'_>],
    sizes: &Sums,
    requests: &Requests,
    policy: &Policy,
    factor: f64,
) -> (f64, f64) {
    let terms = requests.terms;
    let marker = messages[pivot.marker].marker();
    let head = marker.and_then(|marker| marker.tokens).unwrap_or_default() as f64;
    let text = pivot.text(messages);
    let summary = policy.count.of_chars(text.chars()).0 as f64;
    let end = spots.partition_point(|spot| spot.place <= pivot.marker);
    let stays = summary + sizes.between(0, end);
    let is_cold = requests.is_cold_after(pivot.marker);
    let rewritten = if is_cold { 0.0 } else { terms.rewrite() * stays * factor };
    let is_extracted = marker.is_some_and(|marker| marker.extractive == Some(true));
    let asked = match &messages[pivot.summary].info.tokens {
        _ if is_extracted => 0.0,
        Some(usage) => terms.of(usage, is_cold),
        None => {
            // The engine wrote the index, not the model.
            let answer = policy.count.of_chars(crate::Chars::of(without_index(&text))).0 as f64;
            factor * (terms.repeat(is_cold) * (head + stays) + terms.output * answer)
        }
    };
    let gone = (head - summary).max(0.0) * factor;
    (gone * requests.rate_after(pivot.marker) - rewritten - asked, gone)
}

/// Returns the cost of recalls in view: the requests that were made only for them, and their content in every later request.
fn recalls(
    spots: &[VisiblePart<'_>],
    messages: &[Message],
    requests: &Requests,
    policy: &Policy,
    factor: f64,
) -> f64 {
    let is_recall = |part: &Part| matches!(&part.body, PartBody::Tool(tool) if tool.tool == recall::NAME);
    let mut cost = 0.0;
    let mut counted = None;
    for spot in spots.iter().filter(|spot| is_recall(spot.part)) {
        let content = part_tokens(spot.part, &policy.count).0 as f64 * factor;
        cost += content * (requests.rate_after(spot.place) + requests.terms.rewrite());
        let mut calls =
            messages[spot.place].parts.iter().filter(|part| matches!(part.body, PartBody::Tool(_)));
        // A request that also called other tools would have been sent anyway. One with several recalls is paid for
        // once.
        if counted != Some(spot.place) && calls.all(is_recall) {
            let is_cold = requests.is_cold_after(spot.place.saturating_sub(1));
            let usage = messages[spot.place].info.tokens.as_ref();
            cost += usage.map(|usage| requests.terms.of(usage, is_cold)).unwrap_or_default();
            counted = Some(spot.place);
        }
    }
    cost
}

/// Sums over ranges of numbers that change: a Fenwick tree, so that many reductions of a long session stay cheap.
struct Sums(Vec<f64>);

impl Sums {
    fn new(numbers: impl ExactSizeIterator<Item = f64>) -> Sums {
        let mut tree = vec![0.0; numbers.len() + 1];
        for (at, number) in numbers.enumerate() {
            tree[at + 1] += number;
            let parent = (at + 1) + ((at + 1) & (at + 1).wrapping_neg());
            if parent < tree.len() {
                tree[parent] += tree[at + 1];
            }
        }
        Sums(tree)
    }

    fn add(&mut self, at: usize, number: f64) {
        let mut node = at + 1;
        while node < self.0.len() {
            self.0[node] += number;
            node += node & node.wrapping_neg();
        }
    }

    fn before(&self, end: usize) -> f64 {
        let (mut node, mut sum) = (end.min(self.0.len() - 1), 0.0);
        while node > 0 {
            sum += self.0[node];
            node -= node & node.wrapping_neg();
        }
        sum
    }

    fn between(&self, start: usize, end: usize) -> f64 {
        self.before(end) - self.before(start)
    }
}

#[cfg(test)]
mod tests {
    use super::Sums;

    #[test]
    fn sums_of_ranges_follow_changes() {
        let mut sums = Sums::new([1.0, 2.0, 3.0, 4.0, 5.0].into_iter());
        assert_eq!((sums.between(0, 5), sums.between(1, 3), sums.between(4, 9)), (15.0, 5.0, 5.0));
        sums.add(2, -3.0);
        assert_eq!((sums.between(0, 5), sums.between(2, 3)), (12.0, 0.0));
        assert_eq!(Sums::new([].into_iter()).between(0, 3), 0.0);
    }
}
