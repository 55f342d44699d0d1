//! Lists that commands show: the window, sessions, models, agents, receipts, rules.

use plimsoll::count::block_tokens;
use plimsoll::{Block, Plan, Receipt, Tokens, WindowRole};
use plimsoll_agent::{agent_description, agent_names};
use plimsoll_config::{Action, PermissionRule};
use plimsoll_session::{Counter, Inspection, Window};
use plimsoll_store::{Filter, Session};
use plimsoll_tokens::ModelTable;

use super::complete::Choices;
use super::text::{one_line, wrap};
use super::{Chat, words};
use crate::error::CliError;
use crate::output::{Column, Holds, Table, counted};
use crate::style::{HEADING, QUIET, paint};
use crate::when;

/// So many of the largest pieces of a window are listed.
const LARGEST: usize = 15;
/// So many sessions are listed.
const SESSIONS: u64 = 20;

/// The commands and keys.
pub(super) fn help(width: usize) -> String {
    let mut lines = vec![paint(HEADING, "Commands")];
    for command in &words::COMMANDS {
        lines.push(help_row(&format!("/{} {}", command.name, command.input), command.does, width));
    }
    lines.push(String::new());
    lines.push(paint(HEADING, "Keys"));
    lines.extend(words::KEYS.iter().map(|(key, does)| help_row(key, does, width)));
    lines.join("\n")
}

/// What to type and what it does: beside each other, or where the page is narrow under each other.
fn help_row(typed: &str, does: &str, width: usize) -> String {
    if width < 60 {
        let does = wrap(&format!("    {does}"), width.saturating_sub(1), 0);
        let does: Vec<String> = does.lines().map(|line| paint(QUIET, line)).collect();
        return format!("  {}\n{}", typed.trim_end(), does.join("\n"));
    }
    let row = format!("  {typed:<24}");
    let does = wrap(does, width.saturating_sub(row.len() + 1), 0);
    format!("{row}{}", does.replace('\n', &format!("\n{}", " ".repeat(row.len()))))
}

/// A piece of the window.
pub(super) struct Piece {
    kind: &'static str,
    what: String,
    handle: String,
    tokens: Tokens,
}

/// The largest pieces of a window, the largest first.
pub(super) fn largest(window: &Window, counter: &dyn Counter) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for message in &window.messages {
        for block in &message.blocks {
            let id = |part: &plimsoll::PartId| part.to_string();
            let (kind, what, handle) = match block {
                Block::Text { text, part } => {
                    let kind = match message.role {
                        WindowRole::System => "system",
                        WindowRole::User => "prompt",
                        WindowRole::Assistant | WindowRole::Tool => "answer",
                    };
                    (kind, text.to_string(), part.as_ref().map(id).unwrap_or_default())
                }
                Block::Reasoning { text, part, .. } => ("thought", text.to_string(), id(part)),
                Block::Call { tool, input, part, .. } => {
                    ("call", format!("{tool} {}", input.json()), id(part))
                }
                Block::Result { tool, text, cleared, part, .. } => {
                    let kind = if *cleared { "set aside" } else { "output" };
                    (kind, format!("{tool}: {text}"), id(part))
                }
                Block::Provider { part, .. } => ("block", String::new(), id(part)),
                Block::File { filename, part, .. } => {
                    ("file", filename.clone().unwrap_or_default(), id(part))
                }
            };
            let what = one_line(&what, 100);
            pieces.push(Piece { kind, what, handle, tokens: block_tokens(block, counter) });
        }
    }
    pieces.sort_by_key(|piece| std::cmp::Reverse(piece.tokens));
    pieces
}

/// What is in the window.
pub(super) fn window(inspection: &Inspection, pieces: &[Piece], width: usize) -> String {
    let kinds = &inspection.kinds;
    let shares = [
        ("system prompt and tools", kinds.fixed + kinds.system),
        ("prompts", kinds.user),
        ("answers", kinds.assistant),
        ("thoughts", kinds.thinking),
        ("calls", kinds.calls),
        ("outputs", kinds.results),
        ("files", kinds.files),
        ("what wraps the messages", kinds.framing),
        ("more than is known here, by the provider's count", inspection.scale.hidden()),
        ("of it pinned", inspection.pins),
    ];
    let line = inspection.line.map(|line| format!(" of {}", line.at)).unwrap_or_default();
    let heading = format!("{}{line} tokens, {} messages", inspection.load.tokens, inspection.messages);
    let mut lines = vec![paint(HEADING, &heading)];
    for (name, tokens) in shares.iter().filter(|(_, tokens)| *tokens > Tokens::ZERO) {
        lines.push(format!("  {:>9}  {name}", tokens.to_string()));
    }
    lines.push(String::new());
    let columns = [
        ("TOKENS", Holds::Numbers),
        ("KIND", Holds::Names),
        ("WHAT", Holds::Words(8)),
        ("HANDLE", Holds::Names),
    ];
    let mut table = table_of(columns);
    for piece in pieces.iter().take(LARGEST) {
        let tokens = inspection.scale.piece(piece.tokens);
        table.row([tokens.to_string(), piece.kind.into(), piece.what.clone(), short_id(&piece.handle)]);
    }
    lines.extend(table.lines_or_stacks(width));
    if let more @ 1.. = pieces.len().saturating_sub(LARGEST) {
        lines.push(paint(QUIET, &format!("and {}", counted(more, "smaller one"))));
    }
    lines.join("\n")
}

/// The beginning of an id, long enough to mean one: its time and some letters. How other tools make theirs is not known, so
/// those are whole.
fn short_id(id: &str) -> String {
    let is_own = ["prt_", "msg_"].iter().any(|prefix| id.starts_with(prefix));
    id.chars().take(if is_own { "prt_".len() + 16 } else { usize::MAX }).collect()
}

/// Receipts that can be undone, oldest first.
pub(super) fn undoable(receipts: &[Receipt]) -> Vec<&Receipt> {
    in_force(receipts).filter(|receipt| receipt.can_undo()).collect()
}

/// Whether this names what was cut as it came: there is nothing to put back into the window, all of it is kept elsewhere.
pub(super) fn is_cut(receipts: &[Receipt], id: &str) -> bool {
    let mut like = receipts.iter().filter(|receipt| receipt.id.as_str().starts_with(id));
    like.next().is_some_and(|receipt| matches!(receipt.plan, Plan::Truncate(_)))
}

/// Receipts that were not undone.
fn in_force(receipts: &[Receipt]) -> impl Iterator<Item = &Receipt> {
    let undone: Vec<_> = receipts.iter().filter_map(|receipt| receipt.undoes.as_ref()).collect();
    receipts.iter().filter(move |receipt| receipt.undoes.is_none() && !undone.contains(&&receipt.id))
}

/// What was done to a session.
pub(super) fn receipts(receipts: &[Receipt], width: usize) -> String {
    if receipts.is_empty() {
        return paint(QUIET, "nothing was set aside, summarised or pinned so far");
    }
    let open: Vec<&Receipt> = in_force(receipts).collect();
    let mut table = table_of([
        ("RECEIPT", Holds::Names),
        ("AGE", Holds::Numbers),
        ("TOKENS", Holds::Numbers),
        ("WHAT", Holds::Words(8)),
    ]);
    for receipt in receipts {
        let is_open = open.iter().any(|other| other.id == receipt.id);
        let undone = if is_open || receipt.undoes.is_some() { "" } else { " (undone)" };
        let freed = receipt.before.0.abs_diff(receipt.after.0);
        let sign = if receipt.after > receipt.before { "+" } else { "-" };
        let freed = if freed == 0 { "0".to_owned() } else { format!("{sign}{}", Tokens(freed)) };
        let what = match &receipt.undoes {
            Some(other) => format!("undid {other}"),
            None => format!("{}{undone}", receipt.plan.title()),
        };
        table.row([receipt.id.to_string(), when::age_of(receipt.at), freed, what]);
    }
    table.lines_or_stacks(width).join("\n")
}

/// Handles of what is out of the window; none if everything is in it.
pub(super) fn out_of_window(receipts: &[Receipt], width: usize) -> Option<String> {
    let mut table = table_of([("HANDLE", Holds::Names), ("WHY", Holds::Words(8)), ("RECEIPT", Holds::Names)]);
    let mut is_empty = true;
    for receipt in in_force(receipts) {
        for handle in plimsoll_store::handles(receipt) {
            is_empty = false;
            table.row([handle, receipt.plan.title(), receipt.id.to_string()]);
        }
    }
    let note = match undoable(receipts).is_empty() {
        true => "/recall HANDLE shows one, /recall WORDS searches all",
        false => "/recall HANDLE shows one, /recall WORDS searches all, /undo RECEIPT puts it back",
    };
    let note = paint(QUIET, &wrap(note, width, 2));
    (!is_empty).then(|| format!("{}\n{note}", table.lines_or_stacks(width).join("\n")))
}

/// What is allowed, asked and denied.
pub(super) fn permissions(rules: &[PermissionRule], asks: bool, width: usize) -> String {
    let mut lines = vec![paint(HEADING, "Rules, the last that fits decides")];
    let mut row = |action: &str, what: &str| {
        let what = wrap(what, width.saturating_sub(10), 2);
        lines.push(format!("  {action:<5}  {}", what.replace('\n', "\n         ")));
    };
    row("allow", "reading in this directory, and what belongs to the session");
    row(if asks { "ask" } else { "deny" }, "everything else");
    for rule in rules {
        let action = match rule.action {
            Action::Allow => "allow",
            Action::Ask if asks => "ask",
            Action::Ask | Action::Deny => "deny",
        };
        let origin = paint(QUIET, &format!(" ({})", one_line(&rule.origin.to_string(), 60)));
        row(action, &format!("{}:{}{origin}", one_line(&rule.tool, 40), one_line(&rule.pattern, 80)));
    }
    lines.join("\n")
}

impl Chat<'_> {
    pub(super) fn list_sessions(&self) -> Result<(), CliError> {
        let mut sessions = self.sessions()?;
        if let Some(open) = &self.conversation
            && sessions.iter().all(|listed| listed.id != *open.session())
        {
            // It may be of another directory.
            sessions.insert(0, self.opened.archive.store().session(open.session())?);
        }
        if sessions.is_empty() {
            self.teller.notice("no session of this directory is stored yet");
            return Ok(());
        }
        let open = self.conversation.as_ref().map(|open| open.session().clone());
        let mut table = table_of([
            ("", Holds::Names),
            ("SESSION", Holds::Names),
            ("AGE", Holds::Numbers),
            ("MESSAGES", Holds::Numbers),
            ("TITLE", Holds::Words(8)),
        ]);
        for session in sessions {
            let mark = if Some(&session.id) == open.as_ref() { "›" } else { " " };
            table.row([
                mark.to_owned(),
                session.id.to_string(),
                when::age_of(session.updated),
                Tokens(session.messages).to_string(),
                session.title,
            ]);
        }
        let width = self.screen.width();
        let note =
            paint(QUIET, &wrap("/resume ID goes on with one; the beginning of an id will do", width, 2));
        self.screen.block(&format!("{}\n{note}", table.lines_or_stacks(width).join("\n")));
        Ok(())
    }

    pub(super) fn list_models(&self) -> Result<(), CliError> {
        let now = match &self.conversation {
            Some(conversation) => conversation.agent().model.name.to_string(),
            None => self.agent()?.model.name.to_string(),
        };
        let mut lines = vec![paint(HEADING, "Models")];
        let mut models = self.models();
        if !models.contains(&now) {
            models.insert(0, now.clone());
        }
        for model in models {
            let mark = if model == now { "›" } else { " " };
            lines.push(format!("{mark} {}", one_line(&model, 100)));
        }
        lines.push(paint(QUIET, "/model PROVIDER/MODEL goes on with one, also with one that is not listed"));
        self.screen.block(&lines.join("\n"));
        Ok(())
    }

    pub(super) fn list_agents(&self) -> Result<(), CliError> {
        let now = match &self.conversation {
            Some(conversation) => conversation.agent().profile.name.clone(),
            None => self.agent()?.profile.name,
        };
        let mut lines = vec![paint(HEADING, "Agents")];
        for (name, about) in self.agents() {
            let mark = if name == now { "›" } else { " " };
            let about = paint(QUIET, &one_line(&about, self.screen.width().saturating_sub(20).max(10)));
            lines.push(format!("{mark} {:<14} {about}", one_line(&name, 40)).trim_end().to_owned());
        }
        self.screen.block(&lines.join("\n"));
        Ok(())
    }

    /// What can be completed from now on.
    pub(super) fn refresh_choices(&self) {
        let mut choices = Choices {
            models: self.models(),
            agents: self.agents(),
            sessions: self
                .sessions()
                .unwrap_or_default()
                .into_iter()
                .map(|session| (session.id.to_string(), one_line(&session.title, 60)))
                .collect(),
            ..Choices::default()
        };
        if let Some(conversation) = &self.conversation {
            let all = self.runtime.block_on(super::act::receipts(conversation)).unwrap_or_default();
            for receipt in undoable(&all).into_iter().rev() {
                choices.receipts.push((receipt.id.to_string(), one_line(&receipt.plan.title(), 60)));
            }
            choices.handles = in_force(&all).flat_map(plimsoll_store::handles).collect();
        }
        *self.choices.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = choices;
    }

    pub(super) fn sessions(&self) -> Result<Vec<Session>, CliError> {
        let directory = self.around.directory.to_str().map(str::to_owned);
        let filter = Filter { directory, most: Some(SESSIONS), ..Filter::default() };
        Ok(self.opened.archive.store().sessions(&filter)?)
    }

    /// Models that can be reached: those that are configured, and known ones of providers that are set up.
    fn models(&self) -> Vec<String> {
        let run = &self.setup.run;
        let mut names = Vec::new();
        for (provider, config) in &run.providers {
            names.extend(config.models.keys().map(|model| format!("{provider}/{model}")));
        }
        let table = ModelTable::default();
        for name in table.names() {
            let provider = match name.as_str() {
                name if name.starts_with("claude") => "anthropic",
                name if name.starts_with("gpt") || name.starts_with('o') => "openai",
                _ => continue,
            };
            let full = format!("{provider}/{name}");
            if run.resolve_model(Some(&full)).is_ok() && !names.contains(&full) {
                names.push(full);
            }
        }
        names
    }

    fn agents(&self) -> Vec<(String, String)> {
        let run = &self.setup.run;
        let names = agent_names(run).into_iter();
        names.map(|name| (agent_description(run, &name), name)).map(|(about, name)| (name, about)).collect()
    }
}

fn table_of<const N: usize>(columns: [(&'static str, Holds); N]) -> Table {
    Table::new(columns.map(|(heading, holds)| Column { heading, holds }).to_vec())
}

#[cfg(test)]
mod tests {
    use plimsoll::prune::PrunePlan;
    use plimsoll::{Handle, Millis, Plan, Receipt, Tokens};

    use super::out_of_window;

    fn receipt_of_messages() -> Receipt {
        let ids = ["msg_1e6dc93b0001kcysZPZdBlYvz5", "msg_1e6dcceb1001v66RCpY4Ducl4Z"];
        Receipt {
            id: "rcp_1e6dcdb44005g9FjUVQf2203C8".into(),
            at: Millis(1),
            policy: "plimsoll".into(),
            reason: "a person asked for it".into(),
            before: Tokens(2),
            after: Tokens(1),
            plan: Plan::Prune(PrunePlan::default()),
            handles: vec![Handle::Messages(ids[0].into(), ids[1].into())],
            undoes: None,
        }
    }

    #[test]
    fn handles_and_receipts_are_whole_on_every_page() {
        let receipts = [receipt_of_messages()];
        for width in [40, 64, 80, 100, 120, 200] {
            let seen = anstream::adapter::strip_str(&out_of_window(&receipts, width).unwrap()).to_string();
            assert!(
                seen.contains("msg_1e6dc93b0001kcysZPZdBlYvz5..msg_1e6dcceb1001v66RCpY4Ducl4Z"),
                "{seen}"
            );
            assert!(seen.contains("rcp_1e6dcdb44005g9FjUVQf2203C8"), "{seen}");
            let is_long =
                |line: &&str| console::measure_text_width(line) > width && !line.starts_with("msg_");
            assert_eq!(seen.lines().find(is_long), None, "{width}: {seen}");
        }
        assert_eq!(out_of_window(&[], 80), None);
    }
}
