//! Plans and receipts for people: what leaves the window by file, command and turn, and what the window is then.
//!
//! A part's id says nothing to a reader. It is shown only where something can be done with it: in a receipt, to recall what
//! is out of the window. JSON has all ids.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll::compact::contract::ContractFate;
use plimsoll::prune::{Cleared, PruneItem, PrunePlan};
use plimsoll::receipt::{CompactPlan, CutItem, ShedPlan};
use plimsoll::{
    Limits, Log, Message, MessageId, Millis, Part, PartBody, PartId, Plan, Policy, Receipt, ReceiptId, Tokens,
};
use plimsoll_import::{Extent, transcript};
use plimsoll_session::{ContentKind, Describer, UsageScale, is_user_prompt};
use plimsoll_store::{Session, Store};
use serde_json::{Value, json};

use crate::error::CliError;
use crate::inspect::cut_middle;
use crate::output::{Column, Holds, Table, counted, percent, printable};

/// The parts and messages of a session that a plan names.
#[derive(Default)]
pub(crate) struct Contents {
    parts: BTreeMap<PartId, Named>,
    turns: BTreeMap<MessageId, u32>,
}

/// A part in words.
#[derive(Clone, Default)]
struct Named {
    /// The turn it belongs to, from 1; 0 before the first.
    turn: u32,
    /// The tool, or who said it.
    kind: String,
    /// The command, the path, or the first words.
    about: String,
}

impl Contents {
    /// Looks up what plans name in a session.
    pub(crate) fn of<'p>(
        messages: &[Message],
        directory: Option<&str>,
        plans: impl IntoIterator<Item = &'p Plan>,
    ) -> Contents {
        let (mut parts, mut ids) = (BTreeSet::new(), BTreeSet::new());
        for plan in plans {
            parts.extend(plan.effects().into_iter().map(|(part, _)| part));
            match plan {
                Plan::Compact(plan) => {
                    ids.extend([&plan.first, &plan.last]);
                    ids.extend(plan.tail_start.iter().chain(&plan.prompt));
                }
                Plan::Range(plan) => ids.extend([&plan.first, &plan.last]),
                _ => {}
            }
        }
        let words = Describer { directory };
        let calls = separate_calls(messages);
        let (mut contents, mut turn) = (Contents::default(), 0);
        for message in messages {
            turn += u32::from(is_user_prompt(message));
            if ids.contains(&message.info.id) {
                contents.turns.insert(message.info.id.clone(), turn);
            }
            for part in message.parts.iter().filter(|part| parts.contains(&part.id)) {
                let (kind, about) = described(message, part, words, &calls);
                contents.parts.insert(part.id.clone(), Named { turn, kind, about });
            }
        }
        contents
    }

    /// Looks up what receipts name in a stored session.
    pub(crate) fn stored(
        store: &dyn Store,
        session: &Session,
        receipts: &[Receipt],
    ) -> Result<Contents, CliError> {
        let whole = transcript(store, session, Extent::Whole)?;
        let plans = receipts.iter().map(|receipt| &receipt.plan);
        Ok(Contents::of(&whole.messages, session.directory.as_deref(), plans))
    }

    fn part(&self, id: &PartId) -> Named {
        self.parts.get(id).cloned().unwrap_or_default()
    }

    /// The turn of a message, in words.
    fn turn(&self, id: &MessageId) -> String {
        match self.turns.get(id) {
            Some(0) => "before the first turn".to_owned(),
            Some(turn) => format!("turn {turn}"),
            None => id.to_string(),
        }
    }
}

/// Inputs of calls whose results are parts of their own.
fn separate_calls(messages: &[Message]) -> BTreeMap<&str, (&str, Option<&Value>)> {
    let parts = messages.iter().flat_map(|message| &message.parts);
    let calls = parts.filter_map(|part| match &part.body {
        PartBody::ToolCall(call) => Some((
            call.call_id.as_str(),
            (call.tool.as_str(), call.input.as_ref().map(|input| input.value())),
        )),
        _ => None,
    });
    calls.collect()
}

fn described(
    message: &Message,
    part: &Part,
    words: Describer<'_>,
    calls: &BTreeMap<&str, (&str, Option<&Value>)>,
) -> (String, String) {
    let kind = || ContentKind::of_part(message, part).label().to_owned();
    match &part.body {
        PartBody::Tool(tool) => {
            let input = tool.state.input.as_ref().map(|input| input.value());
            (tool.tool.clone(), words.call(&tool.tool, input))
        }
        PartBody::ToolResult(result) => {
            let (tool, input) = calls.get(result.call_id.as_str()).copied().unwrap_or_default();
            let tool = result.tool.as_deref().unwrap_or(tool);
            (tool.to_owned(), words.call(tool, input))
        }
        PartBody::ToolCall(call) => {
            (call.tool.clone(), words.call(&call.tool, call.input.as_ref().map(|input| input.value())))
        }
        PartBody::Reasoning(reasoning) => (kind(), words.words(&reasoning.text)),
        PartBody::File(file) => (kind(), file.filename.clone().unwrap_or_default()),
        PartBody::Text(text) => (kind(), words.words(&text.text)),
        _ => (String::new(), String::new()),
    }
}

/// The size of a window before a plan and after it, on the scale that `inspect` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowSizes {
    pub(crate) before: Tokens,
    pub(crate) after: Tokens,
    /// Whether `after` is an upper bound: the summary is not written yet.
    is_bound: bool,
    pub(crate) line: Option<Tokens>,
}

impl WindowSizes {
    /// The sizes of a receipt.
    pub(crate) fn of(receipt: &Receipt) -> WindowSizes {
        WindowSizes { before: receipt.before, after: receipt.after, is_bound: false, line: None }
    }

    /// The sizes around a plan for a session that is not changed by it here.
    pub(crate) fn planned(plan: &Plan, log: &Log, policy: &Policy, limits: Limits) -> WindowSizes {
        let scale = UsageScale::shown(log, policy);
        let line = policy.overflow.line(limits).map(|line| line.at);
        let before = scale.window;
        // A summary that is not written yet.
        let replaced = match plan {
            Plan::Compact(plan) => Some(plan.tokens),
            Plan::Range(plan) if plan.text.is_empty() => Some(plan.tokens),
            _ => None,
        };
        if let Some(tokens) = replaced {
            let [tokens, summary] =
                [tokens, policy.compact.longest_summary()].map(|tokens| scale.of_plan(tokens, log, policy));
            let after = (before - tokens) + summary;
            return WindowSizes { before, after, is_bound: true, line };
        }
        let mut reduced = log.clone();
        let after = match plan.mark(&mut reduced, &ReceiptId::new("rcp_plan"), Millis(u64::MAX)) {
            Ok(()) => UsageScale::shown(&reduced, policy).window,
            Err(_) => before,
        };
        WindowSizes { before, after, is_bound: false, line }
    }

    /// The sizes around a plan as a driver reports them.
    pub(crate) fn driven(plan: &Plan, (before, after): (Tokens, Tokens)) -> WindowSizes {
        WindowSizes { before, after, is_bound: matches!(plan, Plan::Compact(_)), line: None }
    }

    fn words(&self) -> String {
        let at_most = if self.is_bound { "at most " } else { "" };
        let share = self.line.filter(|line| *line > Tokens::ZERO).map(|line| {
            let (before, after) = (percent(self.before, line), percent(self.after, line));
            format!(", {before} % → {at_most}{after} % of the line at {line}")
        });
        format!("{} → {at_most}{} tokens{}", self.before, self.after, share.unwrap_or_default())
    }

    /// The share of the difference that each piece has, so that the column adds up to it.
    fn shares(&self, pieces: impl Iterator<Item = Tokens>) -> Vec<Tokens> {
        let pieces: Vec<u64> = pieces.map(|piece| piece.0).collect();
        let all: u128 = pieces.iter().map(|piece| u128::from(*piece)).sum();
        let freed = u128::from((self.before - self.after).0);
        let (mut seen, mut told) = (0_u128, 0_u128);
        let share = |piece: u64| {
            seen += u128::from(piece);
            let until = (freed * seen + all / 2).checked_div(all).unwrap_or(0);
            let own = until.saturating_sub(told);
            told = until;
            Tokens(u64::try_from(own).unwrap_or(u64::MAX))
        };
        pieces.into_iter().map(share).collect()
    }
}

/// How a plan is shown.
pub(crate) struct Page<'a> {
    pub(crate) contents: &'a Contents,
    pub(crate) width: usize,
    /// Whether handles are shown, by which content can be recalled.
    pub(crate) handles: bool,
}

impl Page<'_> {
    /// A plan that was not applied.
    pub(crate) fn plan(&self, plan: &Plan, sizes: WindowSizes) -> String {
        if matches!(plan, Plan::Prune(plan) if plan.items.is_empty()) {
            return plan.to_string();
        }
        let mut lines = vec![plan.title(), row("window", &sizes.words())];
        lines.extend(self.about(plan, sizes));
        lines.join("\n")
    }

    /// A receipt. `more` are rows about it that only its reader knows.
    pub(crate) fn receipt(&self, receipt: &Receipt, more: &[(&str, String)]) -> String {
        let sizes = WindowSizes::of(receipt);
        let undo = if receipt.undoes.is_some() { "undo " } else { "" };
        let mut lines = vec![
            receipt.id.to_string(),
            row("what", &format!("{undo}{}", receipt.plan.title())),
            row("window", &sizes.words()),
            row("reason", &receipt.reason),
            row("policy", &receipt.policy),
        ];
        // Of an output that was cut as it came, these are its own sizes.
        if matches!(receipt.plan, Plan::Truncate(_)) {
            lines[2] = row("output", &sizes.words());
        }
        lines.extend(more.iter().map(|(name, text)| row(name, text)));
        lines.extend(self.about(&receipt.plan, sizes));
        let named = matches!(receipt.plan, Plan::Prune(_) | Plan::Shed(_));
        if !named {
            let handles = plimsoll_store::handles(receipt);
            lines.extend(handles.iter().map(|handle| row("recall", handle)));
        }
        lines.join("\n")
    }

    fn about(&self, plan: &Plan, sizes: WindowSizes) -> Vec<String> {
        match plan {
            Plan::Prune(plan) => self.prune(plan, sizes),
            Plan::Compact(plan) => self.compact(plan),
            Plan::Range(plan) => {
                let (first, last) = (self.contents.turn(&plan.first), self.contents.turn(&plan.last));
                let messages = counted(plan.messages as usize, "message");
                let mut lines = vec![row("summarised", &format!("{messages}, {first} to {last}"))];
                if self.handles {
                    lines.push(row("messages", &format!("{} to {}", plan.first, plan.last)));
                }
                lines.push(row("stays", "everything before and after"));
                lines
            }
            Plan::Shed(plan) => self.shed(plan),
            // They name no part of the window, or one text that the reader has just given.
            other => other.detail().lines().skip(1).map(str::to_owned).collect(),
        }
    }

    fn prune(&self, plan: &PrunePlan, sizes: WindowSizes) -> Vec<String> {
        let mut lines = vec![row("because", &plan.explain())];
        if let Some(choice) = &plan.choice {
            lines.push(row("chosen", &choice.to_string()));
        }
        if plan.too_short > 0 {
            let short = counted(plan.too_short as usize, "output");
            lines.push(row("stay", &format!("{short}, too short to be worth clearing")));
        }
        let freed = sizes.shares(plan.items.iter().map(|item| item.tokens));
        let rows = plan.items.iter().zip(freed).map(|(item, freed)| Row::of_item(item, freed.to_string()));
        lines.extend(self.table("FREES", rows));
        lines
    }

    fn compact(&self, plan: &CompactPlan) -> Vec<String> {
        let contents = self.contents;
        let messages = |count: u64| counted(count as usize, "message");
        let range = match (contents.turn(&plan.first), contents.turn(&plan.last)) {
            (first, last) if first == last => first,
            (first, last) => format!("{first} to {last}"),
        };
        let mut lines = vec![row("summarised", &format!("{}, {range}", messages(plan.messages)))];
        lines.push(match &plan.tail_start {
            Some(start) => {
                row("stays", &format!("{}, from {}", messages(plan.tail_messages), contents.turn(start)))
            }
            None => row("stays", "nothing before the summary"),
        });
        if let Some(prompt) = &plan.prompt {
            lines.push(row("prompt", &format!("that of {} stays in view", contents.turn(prompt))));
        }
        if plan.merges_summary {
            lines.push(row("merges", "the summary before"));
        }
        if !plan.contract.is_empty() {
            let of = |fate| plan.contract.iter().filter(|item| item.fate == fate).count();
            let [found, added, left] =
                [ContractFate::Found, ContractFate::Added, ContractFate::LeftOut].map(of);
            lines.push(row("contract", &format!("{found} found, {added} added, {left} left out")));
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

    /// Parts under headings, each with one figure or word.
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
        let rows: Vec<(Named, String, String)> = rows
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
        for (Named { turn, kind, about }, handle, figure) in rows {
            let turn = if turn == 0 { String::new() } else { turn.to_string() };
            let handle = self.handles.then_some(handle);
            // The end of a path tells it from others; of a command it is the beginning.
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

/// A part in a table, with one figure or word.
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

fn row(name: &str, text: &str) -> String {
    format!("  {name:<10}  {}", printable(text))
}

/// A plan as JSON, with the sizes of the window, and the turn and subject of each item.
pub(crate) fn as_json(plan: &PrunePlan, sizes: WindowSizes, contents: &Contents) -> Value {
    let mut value = json!(plan);
    value["window"] = json!({ "before": sizes.before, "after": sizes.after, "line": sizes.line });
    for (item, told) in plan.items.iter().zip(value["items"].as_array_mut().into_iter().flatten()) {
        let Named { turn, about, .. } = contents.part(&item.part);
        (told["turn"], told["about"]) = (turn.into(), about.into());
    }
    value
}
