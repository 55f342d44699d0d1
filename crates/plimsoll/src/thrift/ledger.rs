//! Running sums over a window that prove, without reading it again, that no reduction under the line can pay.
//!
//! [`plan`](super::plan) reads the whole window before every request, so a session of n requests would read O(n²)
//! messages. A ledger is updated in constant time for each appended message, and its sums bound what a plan could
//! find: outputs become candidates from the oldest on, so the candidates are a prefix, and the [purse](crate::purse)
//! gains the same amount with every request until something is reduced. The bounds are one-sided: "no" is certain,
//! and anything else needs a plan.

use super::{Account, CALLS_TO_COME, MAX_CALLS_TO_COME, Rules, weigh};
use crate::log::{Message, Millis};
use crate::policy::Policy;
use crate::prune::input_item;
use crate::purse::{self, CacheTerms, Purse};
use crate::tokens::Tokens;

/// Sums are added up in another order than those of a plan, so results that are this close count as equal.
const ROUNDING: f64 = 1e-6;

/// An output or input that could be cleared once it is old enough.
struct Clearable {
    /// Number of its message among those in view.
    message: usize,
    /// Tokens that clearing all earlier ones frees.
    before: u64,
    /// Tokens that clearing it frees.
    freed: u64,
    /// Tokens of all parts in view up to and including its own.
    end: u64,
}

/// Sums over the messages in view.
pub(crate) struct Ledger {
    messages: usize,
    answers: usize,
    newest_answer: usize,
    /// Messages that begin a turn.
    turns: Vec<usize>,
    outputs: Vec<Clearable>,
    inputs: Vec<Clearable>,
    largest_output: u64,
    /// Tokens of all parts.
    tokens: u64,
    /// When the newest answer was given.
    last_use: Option<Millis>,
    /// The newest known time of an answer.
    used: Option<Millis>,
    /// The purse when the ledger was opened, split into the part that is proportional to the factor of estimates, and
    /// the rest (`unscaled`).
    purse: Purse,
    unscaled: f64,
    /// Sum of the prices of a repeated token in all requests since then.
    repeated: f64,
    /// Whether the purse assumed that the cache is cold for the next request. `None` once an answer has shown whether
    /// it was.
    assumed_cold: Option<bool>,
    /// Whether that assumption was wrong, so that the purse is not valid.
    is_wrong: bool,
}

impl Ledger {
    /// Opens a ledger over a session. `is_answered` is whether its newest answer came after every reduction.
    pub(crate) fn of(account: &Account<'_>, is_answered: bool) -> Ledger {
        let Account { messages, visible, policy, terms, now, .. } = *account;
        let purse = |factor| purse::purse(messages, visible, policy, terms, factor, now);
        let unscaled = purse(0.0).balance;
        let whole = purse(1.0);
        let mut ledger = Ledger {
            messages: 0,
            answers: 0,
            newest_answer: 0,
            turns: Vec::new(),
            outputs: Vec::new(),
            inputs: Vec::new(),
            largest_output: 0,
            tokens: 0,
            last_use: None,
            used: None,
            purse: Purse { balance: whole.balance - unscaled, ..whole },
            unscaled,
            repeated: 0.0,
            assumed_cold: None,
            is_wrong: false,
        };
        for place in &visible.places {
            ledger.add(&messages[*place], policy, terms);
        }
        ledger.repeated = 0.0;
        // A session that was never reduced has not paid for writing anything again, whether the cache was cold or
        // warm.
        ledger.assumed_cold = (!is_answered && whole != Purse::default()).then(|| account.is_cold());
        ledger
    }

    /// Adds a message at the end of the view.
    pub(crate) fn add(&mut self, message: &Message, policy: &Policy, terms: CacheTerms) {
        for part in message.parts.iter().filter(|part| !part.is_hidden()) {
            let weight = weigh(part, policy);
            self.tokens += weight.tokens.0;
            if weight.output.is_some() {
                self.largest_output = self.largest_output.max(weight.freed.0);
                push(&mut self.outputs, self.messages, weight.freed, self.tokens);
            }
            if let Some(item) = input_item(part, message, policy) {
                push(&mut self.inputs, self.messages, item.tokens, self.tokens);
            }
        }
        if message.is_turn() {
            self.turns.push(self.messages);
        }
        if message.is_assistant() {
            let time = message.info.time.as_ref();
            let begun = time.and_then(|time| time.created.or(time.completed));
            let is_cold = match (self.used, begun) {
                (Some(used), Some(begun)) => begun.0.saturating_sub(used.0) > terms.lifetime.0,
                _ => self.answers == 0,
            };
            self.repeated += terms.repeat(is_cold);
            self.is_wrong |= self.assumed_cold.take().is_some_and(|assumed| assumed != is_cold);
            self.last_use = time.and_then(|time| time.completed.or(time.created));
            self.used = self.last_use.or(self.used);
            (self.newest_answer, self.answers) = (self.messages, self.answers + 1);
        }
        self.messages += 1;
    }

    /// Whether clearing something may be worth it; `false` is certain.
    pub(crate) fn may_clear(&self, account: &Account<'_>, rules: &Rules) -> bool {
        if !account.policy.prune.enabled {
            return false;
        }
        let (outputs, inputs) = self.candidates(rules);
        let freed = total(outputs) + total(inputs);
        if (outputs.is_empty() && inputs.is_empty()) || Tokens(freed) < rules.min_tokens {
            return false;
        }
        if self.last_use.is_some_and(|used| account.now.0.saturating_sub(used.0) > account.terms.lifetime.0) {
            return true;
        }
        let newest =
            outputs.last().into_iter().chain(inputs.last()).map(|spot| spot.end).max().unwrap_or_default();
        // The output and the input of one part have the same position, so the largest output is not counted as
        // rewritten.
        let behind = self.tokens.saturating_sub(newest).saturating_sub(self.largest_output);
        let real = |tokens: u64| tokens as f64 * account.factor;
        let at_once = account.terms.rewrite() * real(behind) - account.terms.read * real(freed);
        self.may_afford(account, rules, at_once, account.terms.read * self.calls() * real(freed))
    }

    /// Whether a compaction may be worth it if its request is appended to the session's own; `false` is certain.
    /// `summary` is the size of the summary, `fixed` that of the system prompt and the tools.
    pub(crate) fn may_compact(
        &self,
        account: &Account<'_>,
        rules: &Rules,
        summary: Tokens,
        fixed: Tokens,
    ) -> bool {
        let at_once = account.terms.output * summary.0 as f64 + account.terms.read * fixed.0 as f64;
        let later = account.terms.read * self.calls() * account.load.0 as f64;
        self.may_afford(account, rules, at_once, later)
    }

    /// Whether a reduction may be allowed that costs at least `at_once` and saves at most `later`.
    fn may_afford(&self, account: &Account<'_>, rules: &Rules, at_once: f64, later: f64) -> bool {
        let load = account.load.0 as f64;
        let freed = self.purse.freed * account.factor;
        let saved = (self.purse.balance + self.purse.freed * self.repeated) * account.factor;
        let balance = saved + self.unscaled;
        let sum = balance + later * rules.credit - at_once - account.recall(load);
        let size = saved.abs() + self.unscaled.abs() + later + at_once.abs() + account.recall(load);
        let is_unknown = self.is_wrong || self.assumed_cold.is_some();
        is_unknown || load + freed > account.context.0 as f64 * (1.0 - ROUNDING) || sum >= -size * ROUNDING
    }

    fn calls(&self) -> f64 {
        (self.answers as f64 * CALLS_TO_COME).min(MAX_CALLS_TO_COME)
    }

    /// Outputs and inputs that are not protected.
    fn candidates(&self, rules: &Rules) -> (&[Clearable], &[Clearable]) {
        let active = usize::try_from(rules.active_turns).unwrap_or(usize::MAX);
        let settled = match active {
            0 => self.messages,
            _ => self.turns.len().checked_sub(active).map_or(0, |turn| self.turns[turn]),
        };
        let seen = total(&self.outputs[..self.outputs.partition_point(|spot| spot.message < settled)]);
        let may_go = |spot: &Clearable| spot.message < settled && spot.message < self.newest_answer;
        let is_old = |spot: &Clearable| may_go(spot) && seen - spot.before > rules.protect_tokens.0;
        let outputs = self.outputs.partition_point(is_old);
        let inputs = self.inputs.partition_point(may_go);
        (&self.outputs[..outputs], &self.inputs[..inputs])
    }
}

fn push(spots: &mut Vec<Clearable>, message: usize, freed: Tokens, end: u64) {
    let before = total(spots);
    spots.push(Clearable { message, before, freed: freed.0, end });
}

/// Tokens that clearing all of these frees.
fn total(spots: &[Clearable]) -> u64 {
    spots.last().map_or(0, |spot| spot.before + spot.freed)
}
