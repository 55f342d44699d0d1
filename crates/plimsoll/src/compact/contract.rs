//! The contract: what every summary must carry, by a model or without.
//!
//! After a compaction the agent knows what the summary says and no more, and users complain of every such system that
//! a rule is forgotten then. So each summary is checked for the standing instructions of the user, the open todos,
//! what still fails, and the files changed. What it lacks is appended under a heading of its own, within a budget;
//! what does not fit is named in the receipt, with the message it comes from. Instructions and todos are carried from
//! pivot to pivot, because the next summary is made from the last one and not from the messages behind it. Pins are
//! listed too: the window keeps them by itself.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::extract::listed_files;
use super::facts::Facts;
use super::prose::normal;
use crate::chars::Text;
use crate::count::{Counter, Tokens};
use crate::log::{Message, MessageId};
use crate::pin::pins;
use crate::policy::Policy;
use crate::work;

/// Stands before what is appended to a summary.
pub const HEADING: &str = "## Kept word for word";

/// Something that a summary must carry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContractItem {
    /// What it is.
    pub kind: ContractKind,
    /// What it says.
    pub text: String,
    /// The message it comes from; also the handle by which more is recalled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<MessageId>,
    /// What became of it.
    pub fate: ContractFate,
}

/// Kinds of things that a summary must carry, the most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ContractKind {
    /// Text that somebody pinned.
    Pin,
    /// A standing instruction of the user.
    Instruction,
    /// Something still to do.
    Todo,
    /// Something that failed and has not succeeded since.
    Error,
    /// A file that was changed since the last summary.
    File,
}

impl ContractKind {
    fn label(self) -> &'static str {
        match self {
            ContractKind::Pin => "Pinned:",
            ContractKind::Instruction => "The user laid down:",
            ContractKind::Todo => "Still to do:",
            ContractKind::Error => "Still failing:",
            ContractKind::File => "Files changed:",
        }
    }
}

/// What became of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ContractFate {
    /// The summary carries it, or a message that stays in view does.
    Found,
    /// It was appended.
    Added,
    /// There was no room for it.
    LeftOut,
}

/// What a summary is made of and stands beside.
pub struct Terms<'a> {
    /// All messages of the log, for their pins.
    pub messages: &'a [Message],
    /// The messages it replaces.
    pub replaced: &'a [&'a Message],
    /// The messages that stay in view behind it.
    pub in_view: &'a [&'a Message],
    /// The items of the pivot before.
    pub carried: &'a [ContractItem],
    /// Most that may be appended.
    pub budget: Tokens,
}

/// Complete a summary with what it lacks. Doing it twice changes nothing more.
pub fn complete(
    summary: &Text,
    terms: &Terms<'_>,
    policy: &Policy,
    counter: &dyn Counter,
) -> (Text, Vec<ContractItem>) {
    let said = without_section(summary);
    let mut items = items(terms, policy, counter);
    let mut carries = normal(said);
    carries.push('\n');
    carries.push_str(&normal(&named_paths(said)));
    for message in terms.in_view {
        carries.push('\n');
        carries.push_str(&normal(&message.text()));
    }
    for item in items.iter_mut().filter(|item| item.kind != ContractKind::Pin) {
        item.fate = if is_carried(item, &carries) { ContractFate::Found } else { ContractFate::LeftOut };
    }
    let section = append(&mut items, terms.budget, counter);
    let text = match section {
        Some(section) => Text::from(format!("{}\n\n{section}", said.trim_end())),
        None => Text::from(said.trim_end()),
    };
    (text, items)
}

/// The summary without a section that an earlier completion appended, if that is its last.
fn without_section(summary: &str) -> &str {
    match summary.rfind(HEADING) {
        Some(at) if !summary[at + HEADING.len()..].contains("\n## ") => &summary[..at],
        _ => summary,
    }
}

/// Items of each kind that are checked, the newest. A summary has room for fewer, and each is looked for in all that it says.
const MOST_OF_A_KIND: usize = 200;

/// Everything that is checked, in the order of importance, the newest of a kind last.
fn items(terms: &Terms<'_>, policy: &Policy, counter: &dyn Counter) -> Vec<ContractItem> {
    let gather =
        |messages: &[&Message]| Facts::gather_unless(&|| counter.is_stopped(), messages, &policy.summary);
    let facts = gather(terms.replaced);
    let item = |kind, text: &str, source: &MessageId| ContractItem {
        kind,
        text: text.to_owned(),
        source: Some(source.clone()).filter(|id| !id.is_empty()),
        fate: ContractFate::Found,
    };
    let mut items: Vec<ContractItem> = pins(terms.messages)
        .map(|(message, _, text)| item(ContractKind::Pin, text, &message.info.id))
        .collect();
    let carried = |kind| terms.carried.iter().filter(move |item| item.kind == kind).cloned();
    let newer = gather(terms.in_view);
    // An order that was superseded since would be repeated as a rule.
    let still_holds = |order: &str| !newer.supersedes(order);
    let rules = carried(ContractKind::Instruction)
        .filter(|rule| !facts.supersedes(&rule.text) && still_holds(&rule.text));
    items.extend(rules);
    let new = facts.instructions.iter().filter(|rule| still_holds(&rule.text));
    items.extend(new.map(|rule| item(ContractKind::Instruction, &rule.text, &rule.source)));
    // A list that stays in view, or a newer one, takes the place of an older.
    match (newer.todos, &facts.todos) {
        (Some(_), _) => {}
        (None, Some(list)) => {
            items.extend(list.open().map(|todo| item(ContractKind::Todo, &todo.text, &list.source)));
        }
        (None, None) => items.extend(carried(ContractKind::Todo)),
    }
    items.extend(facts.errors.iter().map(|error| item(ContractKind::Error, &error.text, &error.source)));
    items.extend(facts.files.iter().map(|file| item(ContractKind::File, &file.path, &file.source)));
    // The newest saying of the same thing counts.
    let mut seen = BTreeSet::new();
    let mut counts: BTreeMap<ContractKind, usize> = BTreeMap::new();
    items.reverse();
    items.retain(|item| {
        let is_new = !item.text.trim().is_empty() && seen.insert((item.kind, normal(&item.text)));
        let count = counts.entry(item.kind).or_default();
        *count += usize::from(is_new);
        is_new && (item.kind == ContractKind::Pin || *count <= MOST_OF_A_KIND)
    });
    items.reverse();
    items
}

/// Writes out the paths that a summary names in groups, one per line: `src/{a,b}.rs`, and the names after a directory in
/// the list of changed files.
fn named_paths(summary: &str) -> String {
    let mut paths = listed_files(summary);
    for word in summary.split_whitespace() {
        let word = word.trim_matches(['`', ',', ';', '(', ')', '"']);
        let braces = word.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
        if let Some((before, (stems, ending))) = braces {
            paths.extend(stems.split(',').map(|stem| format!("{before}{stem}{ending}")));
        }
    }
    paths.join("\n")
}

fn is_carried(item: &ContractItem, carries: &str) -> bool {
    let wanted = normal(&item.text);
    if work::read(carries).contains(&wanted) {
        return true;
    }
    // A path may be told by its end, as long as that says where it is.
    let mut ends = item.text.rsplitn(3, '/');
    match (item.kind, ends.next(), ends.next()) {
        (ContractKind::File, Some(name), Some(folder)) => {
            work::read(carries).contains(&normal(&format!("{folder}/{name}")))
        }
        _ => false,
    }
}

/// The section with as many of the missing items as fit, those of a kind from its newest on; each gets its fate.
fn append(items: &mut [ContractItem], budget: Tokens, counter: &dyn Counter) -> Option<String> {
    let mut left = budget - counter.count(HEADING);
    let kinds = [ContractKind::Instruction, ContractKind::Todo, ContractKind::Error, ContractKind::File];
    let mut section = String::from(HEADING);
    for kind in kinds {
        let mut lines: Vec<String> = Vec::new();
        let label = format!("\n{}", kind.label());
        let mut price = counter.count(&label);
        let missing = |item: &&mut ContractItem| item.kind == kind && item.fate == ContractFate::LeftOut;
        for item in items.iter_mut().rev().filter(missing) {
            let line = format!("\n- {}", item.text.replace('\n', "\n  "));
            let tokens = counter.count(&line) + price;
            if tokens > left {
                continue;
            }
            (left, price) = (left - tokens, Tokens::ZERO);
            item.fate = ContractFate::Added;
            lines.push(line);
        }
        if !lines.is_empty() {
            section.push_str(&label);
            section.extend(lines.into_iter().rev());
        }
    }
    (section.len() > HEADING.len()).then_some(section)
}
