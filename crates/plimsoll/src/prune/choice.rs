//! A prune by choice: a person says which outputs go, and the policy's rules about that do not hold.
//!
//! Protected amounts, active turns and the least that must be freed are there so that nothing is cleared that the model
//! still needs and that no cache is broken for little. A person who names tools or files has weighed that. Tools that the
//! policy protects stay all the same unless they are named.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Pressure, PruneItem, PrunePlan, PruneReason, Shortfall, finished_output, freed_by, is_protected,
};
use super::{keep_names, worth_clearing};
use crate::chars::thousands;
use crate::compact::extract::paths;
use crate::count::Counter;
use crate::log::{Input, Message, Part, PartBody};
use crate::pivot::Visible;
use crate::policy::Policy;

/// Which outputs a person wants cleared. What is left out chooses nothing; all that is given has to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PruneChoice {
    /// Outputs of these tools.
    pub tools: Vec<String>,
    /// Outputs of calls that name one of these files, whole or by the end of its path.
    pub files: Vec<String>,
    /// How many of the newest of them stay.
    pub keep: Option<u64>,
    /// Only as many, the oldest first, as it takes until the window is at most this full, in percent.
    pub to: Option<u8>,
}

impl PruneChoice {
    /// Whether nothing is chosen, so that the policy decides.
    pub fn is_empty(&self) -> bool {
        *self == PruneChoice::default()
    }

    fn takes_tool(&self, tool: &str) -> bool {
        self.tools.is_empty() || self.tools.iter().any(|name| name.eq_ignore_ascii_case(tool))
    }

    fn takes_input(&self, input: Option<&Value>) -> bool {
        let named = |path: &String| self.files.iter().any(|file| is_same_file(path, file));
        self.files.is_empty() || input.is_some_and(|input| paths(input).iter().any(named))
    }
}

/// Whether a path of a call is the file that is meant: the same, or one is the end of the other by whole names. Agents
/// write absolute paths and relative ones for the same file.
fn is_same_file(path: &str, file: &str) -> bool {
    let bare = |path: &str| path.trim_start_matches("./").to_owned();
    let (path, file) = (bare(path), bare(file));
    let ends_with = |whole: &str, end: &str| {
        whole.strip_suffix(end).is_some_and(|before| before.is_empty() || before.ends_with('/'))
    };
    !path.is_empty() && !file.is_empty() && (ends_with(&path, &file) || ends_with(&file, &path))
}

/// How it was chosen, in words.
impl fmt::Display for PruneChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted =
            |names: &[String]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let mut told = Vec::new();
        if !self.tools.is_empty() {
            told.push(format!("outputs of {}", quoted(&self.tools)));
        }
        if !self.files.is_empty() {
            told.push(format!("about {}", quoted(&self.files)));
        }
        if let Some(keep) = self.keep {
            told.push(format!("all but the newest {}", thousands(keep)));
        }
        if let Some(to) = self.to {
            told.push(format!("until the window is at most {to} % full"));
        }
        f.write_str(&told.join(", "))
    }
}

/// Plan a prune of what is chosen. `pressure` is how full the window is; without it nothing is left to
/// [`PruneChoice::to`], and all that is chosen goes.
///
/// ```
/// use plimsoll::prune::{self, PruneChoice};
/// use plimsoll::Policy;
/// let choice = PruneChoice { tools: vec!["bash".into()], keep: Some(3), ..PruneChoice::default() };
/// assert_eq!(choice.to_string(), "outputs of `bash`, all but the newest 3");
/// assert!(prune::plan_choice(&[], &Policy::default(), &choice, None).items.is_empty());
/// ```
pub fn plan_choice(
    messages: &[Message],
    policy: &Policy,
    choice: &PruneChoice,
    pressure: Option<Pressure>,
) -> PrunePlan {
    plan_choice_by(messages, policy, choice, pressure, &policy.count)
}

/// Like [`plan_choice`], for a window that is not weighed by the policy's characters over four. Outputs are weighed by
/// `counter`, which has to be on the scale of `pressure`: else a window is cleared further than was asked for, or not as far.
pub fn plan_choice_by(
    messages: &[Message],
    policy: &Policy,
    choice: &PruneChoice,
    pressure: Option<Pressure>,
    counter: &dyn Counter,
) -> PrunePlan {
    let mut plan = PrunePlan { choice: Some(choice.clone()), ..PrunePlan::default() };
    let target = choice.to.zip(pressure).map(|(percent, pressure)| {
        (pressure.load, pressure.limits.context.share(f64::from(percent) / 100.0))
    });
    if let Some((load, most)) = target.filter(|(load, most)| load <= most) {
        plan.shortfall = Some(Shortfall { found: load, needed: most });
        plan.reason = PruneReason::SmallEnough;
        return plan;
    }
    let inputs = inputs(messages);
    let mut found: Vec<PruneItem> = Vec::new();
    for place in Visible::of(messages).places {
        let message = &messages[place];
        for part in &message.parts {
            let Some((tool, _)) = finished_output(part) else { continue };
            let is_named = !choice.tools.is_empty();
            let may_go = part.cleared().is_none() && (is_named || !is_protected(tool, policy));
            if may_go && choice.takes_tool(tool) && choice.takes_input(input_of(part, &inputs)) {
                let tokens = freed_by(part, policy, counter);
                found.push(PruneItem::output(part.id.clone(), message.info.id.clone(), tool, tokens));
            }
        }
    }
    let chosen = found.len().saturating_sub(usize::try_from(choice.keep.unwrap_or(0)).unwrap_or(usize::MAX));
    let stays = found.split_off(chosen);
    plan.kept_tokens = stays.iter().map(|item| item.tokens).sum();
    let parts: BTreeMap<_, &Part> =
        messages.iter().flat_map(|message| &message.parts).map(|part| (&part.id, part)).collect();
    let is_done = |plan: &PrunePlan| target.is_some_and(|(load, most)| load - plan.freed_tokens <= most);
    for item in found {
        let is_worth = parts.get(&item.part).is_some_and(|part| worth_clearing(part, item.tokens, policy));
        if is_done(&plan) || !is_worth {
            plan.too_short += u64::from(!is_done(&plan));
            plan.kept_tokens += item.tokens;
            continue;
        }
        plan.freed_tokens += item.tokens;
        plan.items.push(item);
    }
    keep_names(&mut plan, messages, policy);
    if let Some((load, most)) = target.filter(|_| !is_done(&plan)) {
        plan.shortfall = Some(Shortfall { found: load - plan.freed_tokens, needed: most });
    }
    plan.reason = if plan.items.is_empty() { PruneReason::NoneChosen } else { PruneReason::Chosen };
    plan
}

/// What tools were given, by the names of calls whose results stand apart.
fn inputs(messages: &[Message]) -> BTreeMap<&str, &Value> {
    let parts = messages.iter().flat_map(|message| &message.parts);
    let calls = parts.filter_map(|part| match &part.body {
        PartBody::ToolCall(call) => Some((call.call_id.as_str(), call.input.as_ref()?.value())),
        _ => None,
    });
    calls.collect()
}

fn input_of<'a>(part: &'a Part, inputs: &BTreeMap<&str, &'a Value>) -> Option<&'a Value> {
    match &part.body {
        PartBody::Tool(tool) => tool.state.input.as_ref().map(Input::value),
        PartBody::ToolResult(result) => inputs.get(result.call_id.as_str()).copied(),
        _ => None,
    }
}
