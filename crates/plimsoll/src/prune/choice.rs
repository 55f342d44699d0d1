//! Pruning by choice: the user selects the outputs, and the policy's rules do not apply.
//!
//! Protected amounts, active turns and minimum sizes exist so that a prune clears nothing that the model still needs,
//! and does not invalidate the cache for little. A user who names tools or files has considered that. Tools that the
//! policy protects stay unless they are named.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Pressure, PruneItem, PrunePlan, PruneReason, Shortfall, finished_output, freed_by, is_protected,
};
use super::{keep_names, worth_clearing};
use crate::counter::Counter;
use crate::facts::{FileRead, SeenLines, ShellReads, file_reads, paths};
use crate::log::{Input, Message, Part, PartBody, PartId};
use crate::numbers::thousands;
use crate::pivot::VisibleRange;
use crate::policy::Policy;

/// A user's choice of outputs to clear. An output must match all conditions that are set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PruneChoice {
    /// Outputs of these tools.
    pub tools: Vec<String>,
    /// Outputs of calls that name or show one of these files, given by its path or the end of it.
    pub files: Vec<String>,
    /// Only outputs that show nothing but files, and only lines that a later output in the window shows again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
    /// Number of newest matches that stay. With `files`, it counts reads of each file: the newest reads stay, and
    /// everything about the file after the oldest of these.
    pub keep: Option<u64>,
    /// Clear the oldest outputs only until the window is at most this full, in percent.
    pub to: Option<u8>,
}

impl PruneChoice {
    /// Whether no condition is set, so that the policy decides.
    pub fn is_empty(&self) -> bool {
        *self == PruneChoice::default()
    }

    fn takes_tool(&self, tool: &str) -> bool {
        self.tools.is_empty() || self.tools.iter().any(|name| name.eq_ignore_ascii_case(tool))
    }

    /// The chosen files that a call is about, as positions in `files`, and whether the call shows the file.
    fn files_of(&self, input: Option<&Value>, shown: &ShellReads) -> Vec<(usize, bool)> {
        let named = input.map(paths).unwrap_or_default();
        let about = |file: &str| {
            let is_read = shown.files.iter().any(|read| is_same_file(&read.path, file));
            (is_read || named.iter().any(|path| is_same_file(path, file))).then_some(is_read)
        };
        let files = self.files.iter().enumerate();
        files.filter_map(|(at, file)| about(file).map(|is_read| (at, is_read))).collect()
    }
}

/// An output that matches a choice.
struct Chosen<'a> {
    item: PruneItem,
    part: &'a Part,
    /// The chosen files that the output is about, and whether it shows them.
    files: Vec<(usize, bool)>,
}

/// Returns for each chosen output whether it stays because it is among the newest.
fn newest(found: &[Chosen<'_>], choice: &PruneChoice) -> Vec<bool> {
    let keep = usize::try_from(choice.keep.unwrap_or(0)).unwrap_or(usize::MAX);
    if choice.files.is_empty() {
        let first = found.len().saturating_sub(keep);
        return (0..found.len()).map(|at| at >= first).collect();
    }
    let mut stays = vec![false; found.len()];
    for file in 0..choice.files.len() {
        let about = |at: &usize| found[*at].files.iter().find(|(of, _)| *of == file).copied();
        let all: Vec<usize> = (0..found.len()).filter(|at| about(at).is_some()).collect();
        // The result of an edit does not show the file. If only the edit counted as newest, the last read would be
        // cleared, and the model would no longer see the file.
        let reads: Vec<usize> =
            all.iter().copied().filter(|at| about(at).is_some_and(|(_, read)| read)).collect();
        let counted = if reads.is_empty() { &all } else { &reads };
        let Some(first) = counted.iter().rev().take(keep).next_back() else { continue };
        all.iter().filter(|at| *at >= first).for_each(|at| stays[*at] = true);
    }
    stays
}

/// Returns the outputs that show nothing but files, and only lines that a later output shows again.
fn repeated(shown: &[(PartId, ShellReads)]) -> BTreeSet<&PartId> {
    let mut seen: BTreeMap<&str, SeenLines> = BTreeMap::new();
    let mut found = BTreeSet::new();
    for (part, reads) in shown.iter().rev().filter(|(_, reads)| !reads.files.is_empty()) {
        let path = |read: &'_ FileRead| read.path.trim_start_matches("./").to_owned();
        let is_shown = |read: &FileRead| seen.get(&*path(read)).is_some_and(|seen| seen.cover(&read.lines));
        if reads.is_all && reads.files.iter().all(is_shown) {
            found.insert(part);
        }
        for read in &reads.files {
            seen.entry(read.path.trim_start_matches("./")).or_default().add(&read.lines);
        }
    }
    found
}

/// Whether two paths mean the same file: they are equal, or one is the end of the other by whole names. Agents use
/// absolute and relative paths for the same file.
fn is_same_file(path: &str, file: &str) -> bool {
    let bare = |path: &str| path.trim_start_matches("./").to_owned();
    let (path, file) = (bare(path), bare(file));
    let ends_with = |whole: &str, end: &str| {
        whole.strip_suffix(end).is_some_and(|before| before.is_empty() || before.ends_with('/'))
    };
    !path.is_empty() && !file.is_empty() && (ends_with(&path, &file) || ends_with(&file, &path))
}

/// Describes the choice.
impl fmt::Display for PruneChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted =
            |names: &[String]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let mut conditions = Vec::new();
        if !self.tools.is_empty() {
            conditions.push(format!("outputs of {}", quoted(&self.tools)));
        }
        if !self.files.is_empty() {
            conditions.push(format!("about {}", quoted(&self.files)));
        }
        if self.repeated {
            conditions.push("reads that a later one shows again".to_owned());
        }
        match self.keep {
            Some(1) if !self.files.is_empty() => conditions.push("all but the newest read".to_owned()),
            Some(keep) if !self.files.is_empty() => {
                conditions.push(format!("all but the newest {} reads", thousands(keep)));
            }
            Some(keep) => conditions.push(format!("all but the newest {}", thousands(keep))),
            None => {}
        }
        if let Some(to) = self.to {
            conditions.push(format!("until the window is at most {to} % full"));
        }
        f.write_str(&conditions.join(", "))
    }
}

/// Plans a prune of the chosen outputs. `pressure` is how full the window is. Without it, [`PruneChoice::to`] is
/// ignored.
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

/// Like [`plan_choice`], for a window that is not weighed with the policy's estimate. Outputs are weighed with
/// `counter`, which must use the scale of `pressure`; otherwise too much or too little would be cleared.
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
    let found = chosen(messages, policy, choice, counter);
    let stays = newest(&found, choice);
    let is_done = |plan: &PrunePlan| target.is_some_and(|(load, most)| load - plan.freed_tokens <= most);
    for (Chosen { item, part, .. }, stays) in found.into_iter().zip(stays) {
        let is_worth = worth_clearing(part, item.tokens, policy);
        if stays || is_done(&plan) || !is_worth {
            plan.too_short += u64::from(!stays && !is_done(&plan));
            plan.kept_tokens += item.tokens;
            continue;
        }
        plan.freed_tokens += item.tokens;
        plan.items.push(item);
    }
    keep_names(&mut plan, messages, policy, &|| counter.is_stopped());
    if let Some((load, most)) = target.filter(|_| !is_done(&plan)) {
        plan.shortfall = Some(Shortfall { found: load - plan.freed_tokens, needed: most });
    }
    plan.reason = if plan.items.is_empty() { PruneReason::NoneChosen } else { PruneReason::Chosen };
    plan
}

/// The outputs in the window that match a choice, oldest first.
fn chosen<'a>(
    messages: &'a [Message],
    policy: &Policy,
    choice: &PruneChoice,
    counter: &dyn Counter,
) -> Vec<Chosen<'a>> {
    let inputs = inputs(messages);
    let outputs = || {
        let places = VisibleRange::of(messages).places.into_iter().map(|place| &messages[place]);
        let parts = places.flat_map(|message| message.parts.iter().map(move |part| (message, part)));
        parts.filter_map(|(message, part)| Some((message, part, finished_output(part)?.0)))
    };
    let reads = |tool: &str, part: &Part| {
        input_of(part, &inputs).map(|input| file_reads(tool, input)).unwrap_or_default()
    };
    let shown: Vec<(PartId, ShellReads)> = match choice.repeated {
        true => {
            let outputs = outputs().filter(|(_, part, _)| part.cleared().is_none());
            outputs.map(|(_, part, tool)| (part.id.clone(), reads(tool, part))).collect()
        }
        false => Vec::new(),
    };
    let repeated = repeated(&shown);
    let mut found = Vec::new();
    for (message, part, tool) in outputs() {
        let is_named = !choice.tools.is_empty();
        let may_go = part.cleared().is_none() && (is_named || !is_protected(tool, policy));
        if !may_go || !choice.takes_tool(tool) || (choice.repeated && !repeated.contains(&part.id)) {
            continue;
        }
        let files = match choice.files.is_empty() {
            true => Vec::new(),
            false => choice.files_of(input_of(part, &inputs), &reads(tool, part)),
        };
        if files.is_empty() && !choice.files.is_empty() {
            continue;
        }
        let tokens = freed_by(part, policy, counter);
        let item = PruneItem::output(part.id.clone(), message.info.id.clone(), tool, tokens);
        found.push(Chosen { item, part, files });
    }
    found
}

/// Inputs by call id, for calls whose results are separate parts.
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
