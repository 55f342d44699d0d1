//! Reductions that need no model: planned for a transcript, and applied to a stored session.

use std::collections::BTreeMap;

use plimsoll::compact::{CompactionContext, Outcome, Summariser, Trigger};
use plimsoll::plan::CompactPlan;
use plimsoll::prune::{self, Pressure, PruneChoice, PrunePlan, PruneReason};
use plimsoll::{
    Limits, Load, Log, Millis, Plan, Policy, Receipt, RequestOverhead, Role, Tokens, VisibleRange, Window,
    WindowRole, window_message_tokens,
};
use plimsoll_session::{Pruned, UsageScale};

use crate::config::HostConfig;
use crate::drive::StoredSession;
use crate::error::HostError;
use crate::host::Host;
use crate::input::WholeSession;
use crate::words::counted;

/// Result of a reduction.
#[derive(Debug)]
pub enum Reduced {
    /// Receipts of a completed reduction, and a remark if the window is still over its line.
    Done(Vec<Receipt>, Option<String>),
    /// There was nothing to reduce.
    Nothing {
        /// The reason.
        why: String,
        /// Tools with outputs that may be pruned, and the number of these.
        others: Vec<(String, usize)>,
        /// Tokens that pruning repeated reads would free.
        repeated: Tokens,
    },
}

impl Reduced {
    fn nothing(why: String) -> Reduced {
        Reduced::Nothing { why, others: Vec::new(), repeated: Tokens::ZERO }
    }
}

/// Returns the tokens that pruning repeated reads would free. A policy selects by age, so it leaves reads that
/// `inspect` reports as repeated if they are too new, or too few.
pub fn repeated_reads(log: &Log, limits: Limits, policy: &Policy) -> Tokens {
    let choice = PruneChoice { repeated: true, ..PruneChoice::default() };
    plan_prune(log, limits, policy, Some(&choice)).freed_tokens
}

fn plan_prune(log: &Log, limits: Limits, policy: &Policy, choice: Option<&PruneChoice>) -> PrunePlan {
    // Computing the scale counts the whole session, so it is only done for a selection.
    if let Some(choice) = choice
        && let Some(scale) = UsageScale::of(log, policy)
    {
        return scale.plan_choice(log, policy, choice, limits);
    }
    let load = Load::of(log, policy, RequestOverhead::default(), &policy.count);
    let pressure = Some(Pressure { load: load.tokens, limits });
    match choice {
        Some(choice) => prune::plan_choice(log, policy, choice, pressure),
        None => prune::plan(log, policy, pressure),
    }
}

impl WholeSession {
    /// Plans a prune of selected outputs, or by the policy.
    pub fn plan_prune(&self, policy: &Policy, choice: Option<&PruneChoice>) -> PrunePlan {
        plan_prune(&self.log, self.limits, policy, choice)
    }

    /// Plans a compaction; `None` if there is too little to summarise.
    pub fn plan_compaction(&self, policy: &Policy) -> Option<CompactPlan> {
        self.context(policy, Some(Summariser::own(self.limits))).plan_compaction(&self.log)
    }

    /// Returns the context of a compaction that the user requested. Its time only stamps appended messages, which are discarded
    /// here.
    pub(crate) fn context(&self, policy: &Policy, summariser: Option<Summariser>) -> CompactionContext {
        let context = CompactionContext {
            trigger: Trigger::Manual,
            ..CompactionContext::new(policy, self.limits, Millis(0))
        };
        let mut context = CompactionContext { summariser, ..context };
        if let Some(scale) = UsageScale::of(&self.log, policy) {
            scale.apply_to(&mut context);
        }
        context
    }
}

impl StoredSession {
    /// Clears old tool outputs: selected ones, or by the policy.
    pub fn prune(
        &self,
        choice: Option<&PruneChoice>,
        config: &HostConfig,
        force: bool,
        host: &Host,
    ) -> Result<Reduced, HostError> {
        host.during("pruning", || {
            let mut driver = self.drive(config, force, None, host)?;
            let pruned = match choice {
                Some(choice) => driver.prune_choice(choice, &format!("chosen by the user: {choice}"))?,
                None => driver.prune("requested by the user")?,
            };
            let reduced = match pruned {
                Pruned::Done(receipt) => Reduced::Done(vec![*receipt], None),
                Pruned::Nothing(plan) => {
                    let others = other_tools(&plan, driver.log(), &config.policy);
                    let repeated = match choice {
                        Some(_) => Tokens::ZERO,
                        None => repeated_reads(driver.log(), driver.limits(), &config.policy),
                    };
                    Reduced::Nothing { why: Plan::Prune(*plan).to_string(), others, repeated }
                }
                Pruned::NotSmaller => {
                    Reduced::nothing("nothing pruned: the window would not get smaller".to_owned())
                }
            };
            driver.close()?;
            Ok(reduced)
        })
    }

    /// Replaces older messages by a summary that is made without a model.
    pub fn compact_offline(
        &self,
        config: &HostConfig,
        force: bool,
        host: &Host,
    ) -> Result<Reduced, HostError> {
        host.during("compacting", || {
            let mut driver = self.drive(config, force, None, host)?;
            let nothing = too_little(driver.log(), &config.policy);
            let outcome = driver.compact(|_| Err("offline: no model is used".to_owned()))?;
            driver.close()?;
            let Outcome { reduction, verdict, .. } = outcome;
            Ok(compacted(reduction.receipts, &verdict, nothing))
        })
    }
}

/// Returns the result of a compaction.
pub(crate) fn compacted(
    receipts: Vec<Receipt>,
    verdict: &plimsoll::compact::FitResult,
    nothing: String,
) -> Reduced {
    if receipts.is_empty() {
        return Reduced::nothing(nothing);
    }
    let fits = *verdict == plimsoll::compact::FitResult::Fits;
    Reduced::Done(receipts, (!fits).then(|| verdict.to_string()))
}

/// If no output belongs to a selected tool, returns the tools with outputs that may be pruned, most outputs first.
pub fn other_tools(plan: &PrunePlan, log: &Log, policy: &Policy) -> Vec<(String, usize)> {
    let is_by_name = plan.choice.as_ref().is_some_and(|choice| !choice.tools.is_empty());
    if plan.reason != PruneReason::NoneChosen || !is_by_name {
        return Vec::new();
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for item in prune::plan_choice(log, policy, &PruneChoice::default(), None).items {
        *counts.entry(item.tool).or_default() += 1;
    }
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

/// Explains that there is too little to compact, with the size of the conversation, of which system messages are never
/// summarised.
pub fn too_little(log: &Log, policy: &Policy) -> String {
    let window = Window::of(log, policy);
    let said = || window.messages.iter().filter(|message| message.role != WindowRole::System);
    let tokens: Tokens = said().map(|message| window_message_tokens(message, &policy.count)).sum();
    let is_said = |place: &&usize| log[**place].info.role != Some(Role::System);
    let messages = counted(VisibleRange::of(log).places.iter().filter(is_said).count(), "message");
    format!("too little to summarise: {messages}, {tokens} tokens")
}
