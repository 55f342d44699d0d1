//! Plans and receipts as text: what leaves the window by file, command and turn, and its size afterwards.
//!
//! Part ids are only shown in receipts, where they are handles to recall content. JSON has all ids.

use plimsoll::compact::ContractFate;
use plimsoll::plan::{CompactPlan, CutItem, ShedPlan};
use plimsoll::prune::{Cleared, PruneItem, PrunePlan};
use plimsoll::{MessageId, PartId, Plan, Receipt, Tokens};
use plimsoll_host::{PartSubject, PlanContents, WindowSizes};
use serde_json::{Value, json};

use crate::inspect::cut_middle;
use crate::output::{Column, Holds, Table, counted, percent, printable};
use crate::wrap::wrap;

/// Width of the names of rows, with the space around them.
const ROW: usize = 14;

/// Formats the turn of a message.
fn turn_of(contents: &PlanContents, id: &MessageId) -> String {
    match contents.turn(id) {
        Some(0) => "before the first turn".to_owned(),
        Some(turn) => format!("turn {turn}"),
        None => id.to_string(),
    }
}

fn format_sizes(sizes: WindowSizes) -> String {
    let WindowSizes { before, after, is_bound, line, .. } = sizes;
    let at_most = if is_bound { "at most " } else { "" };
    let share = line.filter(|line| *line > Tokens::ZERO).map(|line| {
        let (before, after) = (percent(before, line), percent(after, line));
        format!(", {before} % → {at_most}{after} % of the line at {line}")
    });
    format!("{before} → {at_most}{after} tokens{}", share.unwrap_or_default())
}

/// Contents and layout of a plan.
pub(crate) struct Page<'a> {
    pub(crate) contents: &'a PlanContents,
    pub(crate) width: usize,
    /// Whether handles are shown, by which content can be recalled.
    pub(crate) handles: bool,
}

impl Page<'_> {
    /// Formats a row, wrapped to the page with its text aligned.
    fn row(&self, name: &str, text: &str) -> String {
        let text = wrap(&printable(text), self.width.saturating_sub(ROW), 0);
        format!("  {name:<10}  {}", text.replace('\n', &format!("\n{:ROW$}", "")))
    }

    /// Formats a plan that was not applied.
    pub(crate) fn plan(&self, plan: &Plan, sizes: WindowSizes) -> String {
        if matches!(plan, Plan::Prune(plan) if plan.items.is_empty()) {
            return plan.to_string();
        }
        let mut lines = vec![plan.title(), self.row("window", &format_sizes(sizes))];
        lines.extend(self.about(plan, sizes));
        lines.join("\n")
    }

    /// Formats a receipt. `more` are additional rows.
    pub(crate) fn receipt(&self, receipt: &Receipt, more: &[(&str, String)]) -> String {
        let sizes = WindowSizes::of(receipt);
        let undo = if receipt.undoes.is_some() { "undo " } else { "" };
        let mut lines = vec![
            receipt.id.to_string(),
            self.row("what", &format!("{undo}{}", receipt.plan.title())),
            self.row("window", &format_sizes(sizes)),
            self.row("reason", &receipt.reason),
            self.row("policy", &receipt.policy),
        ];
        // For an output that was truncated on arrival, these are the sizes of the output.
        if matches!(receipt.plan, Plan::Truncate(_)) {
            lines[2] = self.row("output", &format_sizes(sizes));
        }
        lines.extend(more.iter().map(|(name, text)| self.row(name, text)));
        lines.extend(self.about(&receipt.plan, sizes));
        let named = matches!(receipt.plan, Plan::Prune(_) | Plan::Shed(_));
        if !named {
            let handles = plimsoll_store::handles(receipt);
            lines.extend(handles.iter().map(|handle| self.row("recall", handle)));
        }
        lines.join("\n")
    }

    fn about(&self, plan: &Plan, sizes: WindowSizes) -> Vec<String> {
        match plan {
            Plan::Prune(plan) => self.prune(plan, sizes),
            Plan::Compact(plan) => self.compact(plan),
            Plan::Range(plan) => {
                let (first, last) = (turn_of(self.contents, &plan.first), turn_of(self.contents, &plan.last));
                let messages = counted(plan.messages as usize, "message");
                let mut lines = vec![self.row("summarised", &format!("{messages}, {first} to {last}"))];
                if self.handles {
                    lines.push(self.row("messages", &format!("{} to {}", plan.first, plan.last)));
                }
                lines.push(self.row("stays", "everything before and after"));
                lines
            }
            Plan::Shed(plan) => self.shed(plan),
            // Other plans name no part of the window, or a text that the user has just given.
            other => other.detail().lines().skip(1).map(str::to_owned).collect(),
        }
    }

    fn prune(&self, plan: &PrunePlan, sizes: WindowSizes) -> Vec<String> {
        let mut lines = vec![self.row("target", &plan.explain())];
        if let Some(choice) = &plan.choice {
            lines.push(self.row("chosen", &choice.to_string()));
        }
        if plan.too_short > 0 {
            let short = counted(plan.too_short as usize, "output");
            lines.push(self.row("skipped", &format!("{short}, too short to be worth clearing")));
        }
        let freed = sizes.shares(plan.items.iter().map(|item| item.tokens));
        let rows = plan.items.iter().zip(freed).map(|(item, freed)| Row::of_item(item, freed.to_string()));
        lines.extend(self.table("FREES", rows));
        lines
    }

    fn compact(&self, plan: &CompactPlan) -> Vec<String> {
        let contents = self.contents;
        let messages = |count: u64| counted(count as usize, "message");
        let range = match (turn_of(contents, &plan.first), turn_of(contents, &plan.last)) {
            (first, last) if first == last => first,
            (first, last) => format!("{first} to {last}"),
        };
        let mut lines = vec![self.row("summarised", &format!("{}, {range}", messages(plan.messages)))];
        lines.push(match &plan.tail_start {
            Some(start) => self.row(
                "stays",
                &format!("{}, from {}", messages(plan.tail_messages), turn_of(contents, start)),
            ),
            None => self.row("stays", "nothing before the summary"),
        });
        if let Some(prompt) = &plan.prompt {
            lines.push(
                self.row(
                    "prompt",
                    &format!("the prompt of {} stays in the window", turn_of(contents, prompt)),
                ),
            );
        }
        if plan.merges_summary {
            lines.push(self.row("merges", "the previous summary"));
        }
        if !plan.contract.is_empty() {
            let of = |fate| plan.contract.iter().filter(|item| item.fate == fate).count();
            let [found, added, left] =
                [ContractFate::Found, ContractFate::Added, ContractFate::LeftOut].map(of);
            lines.push(self.row("contract", &format!("{found} found, {added} added, {left} left out")));
        }
        lines.extend(self.table("CHARS", plan.cut.iter().map(Row::of_cut)));
        lines
    }

    fn shed(&self, plan: &ShedPlan) -> Vec<String> {
        let cleared = plan.cleared.iter().map(|item| Row::of_item(item, "cleared".to_owned()));
        let hidden = plan.hidden.iter().map(|item| Row::of_part(&item.part, "left out".to_owned()));
        let unpinned = plan.unpinned.iter().map(|part| Row::of_part(part, "unpinned".to_owned()));
        let cut = plan.cut.iter().map(Row::of_cut);
        self.table("BECOMES", cleared.chain(cut).chain(hidden).chain(unpinned))
    }

    /// Formats parts as a table, each with one figure or word.
    fn table<'p>(&self, heading: &'static str, rows: impl Iterator<Item = Row<'p>>) -> Vec<String> {
        let mut columns = vec![
            Column { heading: "TURN", holds: Holds::Numbers },
            Column { heading: "TOOL", holds: Holds::Words(6) },
            Column { heading: "WHAT", holds: Holds::Words(16) },
            Column { heading, holds: Holds::Numbers },
        ];
        if self.handles {
            columns.push(Column { heading: "RECALL", holds: Holds::Names });
        }
        let mut table = Table::new(columns);
        let rows: Vec<(PartSubject, String, String)> = rows
            .map(|Row { part, is_input, figure }| {
                let mut named = self.contents.part(part);
                named.kind.push_str(if is_input { " input" } else { "" });
                (named, if is_input { format!("{part}:input") } else { part.to_string() }, figure)
            })
            .collect();
        let is_empty = rows.is_empty();
        let widest = |cells: &mut dyn Iterator<Item = usize>| cells.max().unwrap_or(0);
        let others = widest(&mut rows.iter().map(|(named, ..)| named.kind.chars().count())).max(4)
            + widest(&mut rows.iter().map(|(.., figure)| figure.chars().count())).max(heading.len())
            + widest(&mut rows.iter().filter(|_| self.handles).map(|(_, handle, _)| handle.len() + 2))
            + "TURN".len()
            + 3 * 2;
        let room = self.width.saturating_sub(2 + others).max(16);
        for (PartSubject { turn, kind, about, .. }, handle, figure) in rows {
            let turn = if turn == 0 { String::new() } else { turn.to_string() };
            let handle = self.handles.then_some(handle);
            // The end of a path identifies it; the beginning of a command does.
            let about = if about.contains(' ') { about } else { cut_middle(&about, room) };
            table.row([turn, kind, about, figure].into_iter().chain(handle));
        }
        if is_empty {
            Vec::new()
        } else {
            table
                .lines_or_stacks(self.width.saturating_sub(2))
                .iter()
                .map(|line| format!("  {line}"))
                .collect()
        }
    }
}

/// A part in a table, with a figure or word.
struct Row<'p> {
    part: &'p PartId,
    is_input: bool,
    figure: String,
}

impl<'p> Row<'p> {
    fn of_part(part: &'p PartId, figure: String) -> Row<'p> {
        Row { part, is_input: false, figure }
    }

    fn of_item(item: &'p PruneItem, figure: String) -> Row<'p> {
        Row { part: &item.part, is_input: item.what == Cleared::Input, figure }
    }

    fn of_cut(item: &'p CutItem) -> Row<'p> {
        let becomes = match item.keep.0 {
            0 => "left out".to_owned(),
            _ => format!("{} → {}", item.chars, item.keep),
        };
        Row::of_part(&item.part, becomes)
    }
}

/// Converts a plan to JSON, with the sizes of the window, and the turn and subject of each item.
pub(crate) fn as_json(plan: &PrunePlan, sizes: WindowSizes, contents: &PlanContents) -> Value {
    let mut value = json!(plan);
    value["window"] = json!({ "before": sizes.before, "after": sizes.after, "line": sizes.line });
    for (item, fields) in plan.items.iter().zip(value["items"].as_array_mut().into_iter().flatten()) {
        let PartSubject { turn, about, .. } = contents.part(&item.part);
        (fields["turn"], fields["about"]) = (turn.into(), about.into());
    }
    value
}
