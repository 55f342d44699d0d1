//! Thrift: reductions under the line, made to save money.
//!
//! A reduction must pass two checks. It must be expected to pay: later calls save more than the change costs,
//! including the risk of a recall. And it must be paid for: the [purse](crate::purse) covers its immediate cost. So a
//! session that ends with the next message has not cost more than it would have without Plimsoll.
//!
//! - **The cache is cold**, because the last request is older than the cache's lifetime: all of the window has to be
//!   written again, so clearing costs nothing and saves at once.
//! - **The cache is warm**: clearing costs `(write - read) × what follows the first change`, and each call to come
//!   saves `read × what was cleared`. So outputs go in batches, and the batch begins where the difference is largest.
//!
//! The rules about what may be cleared come first, and money does not change them: see [`Rules`].

mod ledger;

use crate::count::part_tokens;
use crate::log::{Message, Millis, Part};
use crate::pivot::VisibleRange;
use crate::policy::{Policy, Thrift};
use crate::prune::{PruneItem, PrunePlan, PruneReason, candidate, input_item, worth_clearing};
use crate::purse::{self, CacheTerms, Purse};
use crate::tokens::Tokens;

pub(crate) use ledger::Ledger;

/// Number of further calls to expect for each call in the window: a session that has made many calls makes more.
const CALLS_TO_COME: f64 = 0.5;
/// Maximum number of further calls to expect.
const MAX_CALLS_TO_COME: f64 = 60.0;
/// Probability that content which left the window has to be recalled.
pub(crate) const RECALL_CHANCE: f64 = 0.03;
/// Tokens of a call of the recall tool.
pub(crate) const RECALL_CALL: f64 = 60.0;

/// Number of calls that are expected after this many.
pub(crate) fn calls_to_come(made: u64) -> f64 {
    (made as f64 * CALLS_TO_COME).min(MAX_CALLS_TO_COME)
}

/// Limits for reductions under the line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Amount of newest tool output that stays.
    protect_tokens: Tokens,
    /// Number of newest user turns that stay whole.
    active_turns: u64,
    /// Minimum to free.
    min_tokens: Tokens,
    /// Share of the line above which a compaction is considered.
    pub(crate) compact_share: f64,
    /// Maximum tokens that stay verbatim after a summary made to save money. `None` for the policy's tail.
    pub(crate) tail: Option<Tokens>,
    /// Whether the running turn stays whole.
    pub(crate) keeps_turn: bool,
    /// Share of the expected savings that may be spent in advance.
    credit: f64,
}

impl Rules {
    /// The rules of a policy; `None` if nothing is reduced under the line.
    pub(crate) fn of(policy: &Policy) -> Option<Rules> {
        let prune = &policy.prune;
        match policy.thrift {
            Thrift::Off => None,
            Thrift::Careful => Some(Rules {
                protect_tokens: prune.protect_tokens,
                active_turns: prune.active_turns,
                min_tokens: prune.min_tokens + Tokens(u64::from(!prune.min_inclusive)),
                compact_share: 0.5,
                tail: None,
                keeps_turn: true,
                credit: 0.0,
            }),
            Thrift::Frugal => Some(Rules {
                protect_tokens: Tokens(5_000),
                active_turns: 0,
                min_tokens: Tokens(5_000),
                compact_share: 0.3,
                tail: Some(Tokens(4_000)),
                keeps_turn: false,
                credit: 0.25,
            }),
        }
    }
}

/// A session before a request, with everything that costs and savings depend on.
#[derive(Clone, Copy)]
pub(crate) struct Account<'a> {
    pub(crate) messages: &'a [Message],
    pub(crate) visible: &'a VisibleRange,
    pub(crate) policy: &'a Policy,
    pub(crate) terms: CacheTerms,
    /// Tokens of the request, as the provider counts them.
    pub(crate) load: Tokens,
    /// The context window. Without reductions, the session could not have grown beyond it.
    pub(crate) context: Tokens,
    /// Converts estimated tokens to the provider's.
    pub(crate) factor: f64,
    pub(crate) now: Millis,
}

impl Account<'_> {
    fn is_cold(&self) -> bool {
        purse::is_cold(self.messages, self.visible, self.terms, self.now)
    }

    /// Returns the number of further calls to expect.
    fn calls(&self) -> f64 {
        let made = self.visible.places.iter().filter(|place| self.messages[**place].is_assistant()).count();
        calls_to_come(made as u64)
    }

    /// Returns the price of a recall when the window has `load` tokens: a request, the call, and the recalled
    /// content.
    fn recall(&self, load: f64) -> f64 {
        let CacheTerms { read, write, output, .. } = self.terms;
        let bounds = self.policy.recall.for_context(self.context, &self.policy.count);
        let content = self.policy.count.of_chars(bounds.max_chars).0 as f64;
        read * load + output * RECALL_CALL + write * content
    }

    /// Whether a reduction is expected to pay and is paid for. `at_once` is its price in addition to the next
    /// request, negative if that gets cheaper. `later` is what the calls after that save.
    fn allows(&self, at_once: f64, later: f64, rules: &Rules, purse: &Purse) -> bool {
        let load = self.load.0 as f64;
        // Without reductions the request would not fit, so there is no cheaper session to compare with.
        let is_needed = load + purse.freed > self.context.0 as f64;
        later > at_once && (is_needed || purse.balance + later * rules.credit - at_once >= self.recall(load))
    }

    pub(crate) fn purse(&self) -> Purse {
        purse::purse(self.messages, self.visible, self.policy, self.terms, self.factor, self.now)
    }
}

/// A compaction that could be made now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Compaction {
    /// Tokens that would be summarised.
    pub(crate) head: Tokens,
    /// Number of tool outputs among them.
    pub(crate) outputs: usize,
    /// Tokens of the system prompt and the tools.
    pub(crate) fixed: Tokens,
    /// Tokens of the summary as the model writes it.
    pub(crate) summary: Tokens,
    /// Tokens that the engine adds to it.
    pub(crate) completed: Tokens,
    /// Whether the summary request is appended to the session's own, most of which is cached.
    pub(crate) is_appended: bool,
}

impl Compaction {
    /// Whether it is expected to pay and is paid for.
    pub(crate) fn pays(&self, account: &Account<'_>, rules: &Rules) -> bool {
        let CacheTerms { read, write, output, .. } = account.terms;
        let real = |tokens: Tokens| tokens.0 as f64;
        let (load, head, summary) = (real(account.load), real(self.head), real(self.summary));
        let gone = (head - summary - real(self.completed)).max(0.0);
        let stays = (load - real(self.fixed) - gone).max(0.0);
        // An appended request reads the window from the cache, or writes it if the cache is cold, in place of the
        // next call.
        let request = if self.is_appended {
            0.0
        } else {
            write * head - account.terms.repeat(account.is_cold()) * load
        };
        let at_once = request + output * summary + read * real(self.fixed) + write * stays;
        let recalls = self.outputs as f64 * RECALL_CHANCE * account.recall(load - gone);
        account.allows(at_once, read * gone * account.calls() - recalls, rules, &account.purse())
    }
}

/// Content that could be cleared.
struct Candidate {
    item: PruneItem,
    /// Tokens that follow it.
    behind: Tokens,
}

/// Plans what to clear before a request, without names; empty if it does not pay.
pub(crate) fn plan(account: &Account<'_>) -> PrunePlan {
    let nothing = |reason| PrunePlan { reason, ..PrunePlan::default() };
    let Some(rules) = Rules::of(account.policy).filter(|_| account.policy.prune.enabled) else {
        return nothing(PruneReason::Off);
    };
    // Nothing was sent yet, or it is unknown when, and so is the state of the cache.
    if purse::last_use(account.messages, account.visible).is_none() {
        return nothing(PruneReason::NotNeeded);
    }
    let is_cold = account.is_cold();
    let scales = Scales { account, rules: &rules, calls: account.calls(), is_cold };
    let mut found = candidates(account, &rules);
    found.retain(|candidate| scales.is_worth_its_risk(candidate.item.tokens));
    let freed: Tokens = found.iter().map(|candidate| candidate.item.tokens).sum();
    if found.is_empty() {
        return nothing(PruneReason::AllProtected);
    }
    // Computing the balance reads the whole window, so it is done last.
    let Some(count) = Some(()).filter(|()| freed >= rules.min_tokens).and_then(|()| scales.best(&found))
    else {
        return nothing(PruneReason::BelowMinimum);
    };
    let items: Vec<PruneItem> = found.into_iter().take(count).map(|candidate| candidate.item).collect();
    let freed_tokens: Tokens = items.iter().map(|item| item.tokens).sum();
    let reason = if is_cold { PruneReason::ColdCache } else { PruneReason::Pays };
    PrunePlan { items, freed_tokens, reason, ..PrunePlan::default() }
}

/// Weighs savings against costs.
struct Scales<'a> {
    account: &'a Account<'a>,
    rules: &'a Rules,
    calls: f64,
    is_cold: bool,
}

impl Scales<'_> {
    fn real(&self, tokens: Tokens) -> f64 {
        tokens.0 as f64 * self.account.factor
    }

    /// Returns the savings of the calls after the next one if these tokens are removed.
    fn later(&self, tokens: Tokens) -> f64 {
        self.account.terms.read * self.calls * self.real(tokens)
    }

    /// Returns the expected price of recalling a cleared output.
    fn risk(&self) -> f64 {
        RECALL_CHANCE * self.account.recall(self.account.load.0 as f64)
    }

    fn is_worth_its_risk(&self, tokens: Tokens) -> bool {
        let now = self.account.terms.repeat(self.is_cold) * self.real(tokens);
        now + self.later(tokens) > self.risk()
    }

    /// Returns the number of candidates, newest first, that is best to clear. `None` if no number is allowed.
    fn best(&self, found: &[Candidate]) -> Option<usize> {
        let terms = &self.account.terms;
        let purse = self.account.purse();
        let (mut freed, mut risk) = (Tokens::ZERO, 0.0);
        let mut best: Option<(f64, usize)> = None;
        for (number, candidate) in found.iter().enumerate() {
            // What follows this candidate includes the newer candidates, which are cleared with it.
            let rewritten = self.real(candidate.behind - freed);
            freed += candidate.item.tokens;
            risk += self.risk();
            let broken = if self.is_cold { 0.0 } else { terms.rewrite() * rewritten };
            let at_once = broken - terms.repeat(self.is_cold) * self.real(freed);
            let later = self.later(freed) - risk;
            let gain = later - at_once;
            let is_allowed =
                freed >= self.rules.min_tokens && self.account.allows(at_once, later, self.rules, &purse);
            if is_allowed && best.is_none_or(|(most, _)| gain > most) {
                best = Some((gain, number + 1));
            }
        }
        best.map(|(_, count)| count)
    }
}

/// Outputs and inputs that are not protected, newest first. Results of the newest step have not been sent yet: they stay,
/// however large they are.
fn candidates(account: &Account<'_>, rules: &Rules) -> Vec<Candidate> {
    let Account { messages, visible, policy, .. } = *account;
    let mut found = Vec::new();
    let (mut turns, mut seen, mut behind) = (0, Tokens::ZERO, Tokens::ZERO);
    let newest_step = visible.places.iter().rev().copied().find(|place| messages[*place].is_assistant());
    for place in visible.places.iter().rev().copied() {
        let message = &messages[place];
        let was_sent = newest_step.is_some_and(|newest| place < newest);
        for part in message.parts.iter().rev().filter(|part| !part.is_hidden()) {
            let Weight { output, freed, tokens } = weigh(part, policy);
            let may_go = was_sent && turns >= rules.active_turns;
            if let Some(tool) = output {
                // As in the source documents, the amount is protected in addition to the newest turns.
                seen += if turns >= rules.active_turns { freed } else { Tokens::ZERO };
                let is_old = may_go && seen > rules.protect_tokens && part.cleared().is_none();
                if is_old && worth_clearing(part, freed, policy) {
                    let item = PruneItem::output(part.id.clone(), message.info.id.clone(), tool, freed);
                    found.push(Candidate { item, behind });
                }
            }
            if let Some(item) = input_item(part, message, policy).filter(|_| may_go) {
                found.push(Candidate { item, behind });
            }
            behind += tokens;
        }
        if message.is_turn() {
            turns += 1;
        }
    }
    found
}

/// Tokens of a part, and how many of them clearing its output would free.
struct Weight<'a> {
    /// The tool, if the part has an output that is not protected.
    output: Option<&'a str>,
    /// Tokens that clearing the output frees.
    freed: Tokens,
    /// Tokens of the part as the window shows it.
    tokens: Tokens,
}

fn weigh<'a>(part: &'a Part, policy: &Policy) -> Weight<'a> {
    let tokens = part_tokens(part, &policy.count);
    let Some((tool, whole)) = candidate(part, policy) else {
        return Weight { output: None, freed: Tokens::ZERO, tokens };
    };
    let freed = match (part.cleared(), part.cut()) {
        (Some(_), _) => Tokens::ZERO,
        // Of an output that was cut, only the visible rest can be cleared.
        (None, Some(cut)) => whole.min(policy.count.of_chars(cut.keep())),
        (None, None) => whole,
    };
    Weight { output: Some(tool), freed, tokens: tokens - (whole - freed) }
}
