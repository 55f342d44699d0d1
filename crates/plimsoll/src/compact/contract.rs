//! The contract: content that every summary must have, whether or not a model wrote it.
//!
//! After a compaction the agent knows only what the summary says, and the usual complaint about such systems is that
//! they forget the user's rules. So each summary is checked for the user's standing instructions, open todos, open
//! errors and changed files. Missing items are appended under their own heading, within a budget. Items that do not fit
//! are listed in the receipt with the message they come from.
//!
//! Instructions and todos are carried from pivot to pivot, because the next summary is made from the previous summary
//! and not from the messages it replaced. Pins are listed for completeness; the window itself keeps them.

use std::collections::{BTreeMap, BTreeSet};

use super::extract::listed_files;
use crate::chars::Text;
use crate::counter::Counter;
use crate::facts::Facts;
use crate::log::{ContractFate, ContractItem, ContractKind, Message, MessageId, pins};
use crate::policy::Policy;
use crate::prose::normal;
use crate::tokens::Tokens;
use crate::work;

/// Heading of the section that is appended to a summary.
pub const CONTRACT_HEADING: &str = "## Kept word for word";

/// Label of the items of a kind.
fn label(kind: ContractKind) -> &'static str {
    match kind {
        ContractKind::Pin => "Pinned:",
        ContractKind::Instruction => "Instructions of the user:",
        ContractKind::Todo => "Still to do:",
        ContractKind::Error => "Still failing:",
        ContractKind::File => "Files changed:",
    }
}

/// Messages around a summary, and the budget for completing it.
pub struct ContractTerms<'a> {
    /// All messages of the log, for their pins.
    pub messages: &'a [Message],
    /// The messages that the summary replaces.
    pub replaced: &'a [&'a Message],
    /// The messages that stay in view after it.
    pub in_view: &'a [&'a Message],
    /// Items of the previous pivot.
    pub carried: &'a [ContractItem],
    /// Maximum number of tokens to append.
    pub budget: Tokens,
}

/// Appends missing items to a summary. Idempotent.
pub fn complete_summary(
    summary: &Text,
    terms: &ContractTerms<'_>,
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

/// Removes the section that an earlier completion appended, if it is the last one.
fn without_section(summary: &str) -> &str {
    match summary.rfind(CONTRACT_HEADING) {
        Some(at) if !summary[at + CONTRACT_HEADING.len()..].contains("\n## ") => &summary[..at],
        _ => summary,
    }
}

/// Maximum number of items of each kind that are checked, the newest. A summary has room for fewer, and the whole
/// summary is searched for each one.
const MAX_PER_KIND: usize = 200;

/// All items to check, by importance, the newest of each kind last.
fn items(terms: &ContractTerms<'_>, policy: &Policy, counter: &dyn Counter) -> Vec<ContractItem> {
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
    // Without this, an instruction that the user has withdrawn would be repeated as a rule.
    let still_holds = |order: &str| !newer.supersedes(order);
    let rules = carried(ContractKind::Instruction)
        .filter(|rule| !facts.supersedes(&rule.text) && still_holds(&rule.text));
    items.extend(rules);
    let new = facts.instructions.iter().filter(|rule| still_holds(&rule.text));
    items.extend(new.map(|rule| item(ContractKind::Instruction, &rule.text, &rule.source)));
    // A todo list that stays in view, or else the newest one, supersedes older lists.
    match (newer.todos, &facts.todos) {
        (Some(_), _) => {}
        (None, Some(list)) => {
            items.extend(list.open().map(|todo| item(ContractKind::Todo, &todo.text, &list.source)));
        }
        (None, None) => items.extend(carried(ContractKind::Todo)),
    }
    items.extend(facts.errors.iter().map(|error| item(ContractKind::Error, &error.text, &error.source)));
    items.extend(facts.files.iter().map(|file| item(ContractKind::File, &file.path, &file.source)));
    // Of duplicates, only the newest counts.
    let mut seen = BTreeSet::new();
    let mut counts: BTreeMap<ContractKind, usize> = BTreeMap::new();
    items.reverse();
    items.retain(|item| {
        let is_new = !item.text.trim().is_empty() && seen.insert((item.kind, normal(&item.text)));
        let count = counts.entry(item.kind).or_default();
        *count += usize::from(is_new);
        is_new && (item.kind == ContractKind::Pin || *count <= MAX_PER_KIND)
    });
    items.reverse();
    items
}

/// Expands grouped paths of a summary, one per line: `src/{a,b}.rs`, and the names after a directory in the list of
/// changed files.
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
    // The last two names of a path are enough to identify it.
    let mut ends = item.text.rsplitn(3, '/');
    match (item.kind, ends.next(), ends.next()) {
        (ContractKind::File, Some(name), Some(directory)) => {
            work::read(carries).contains(&normal(&format!("{directory}/{name}")))
        }
        _ => false,
    }
}

/// Writes the section with as many missing items as fit, the newest of each kind first, and sets the fate of each.
fn append(items: &mut [ContractItem], budget: Tokens, counter: &dyn Counter) -> Option<String> {
    let mut left = budget - counter.count(CONTRACT_HEADING);
    let kinds = [ContractKind::Instruction, ContractKind::Todo, ContractKind::Error, ContractKind::File];
    let mut section = String::from(CONTRACT_HEADING);
    for kind in kinds {
        let mut lines: Vec<String> = Vec::new();
        let label = format!("\n{}", label(kind));
        let mut price = counter.count(&label);
        let missing = |item: &&mut ContractItem| item.kind == kind && item.fate == ContractFate::LeftOut;
        for item in items.iter_mut().rev().filter(missing) {
            let line = format!("\n- {}", item.text.replace('\n', "\n  "));
            let tokens = counter.count(&line) + price;
            // Does not end the list: a shorter item may still fit.
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
    (section.len() > CONTRACT_HEADING.len()).then_some(section)
}
