//! Lists: the window, sessions, models, agents, receipts, rules.

use plimsoll::{Plan, Receipt, Tokens};
use plimsoll_config::{Action, PermissionRule};
use plimsoll_host::{HostError, in_force};
use plimsoll_session::WindowReport;
use plimsoll_store::{Filter, Session};

use super::complete::Choices;
use super::text::{one_line, wrap};
use super::{Chat, messages};
use crate::output::{Holds, Table, counted};
use crate::style::{HEADING, QUIET, paint};
use crate::when;

/// Maximum number of items of a window.
const LARGEST: usize = 15;
/// Maximum number of sessions.
const SESSIONS: u64 = 20;

/// Formats the commands and keys.
pub(super) fn help(width: usize) -> String {
    let mut lines = vec![paint(HEADING, "Commands")];
    for command in &messages::COMMANDS {
        lines.push(help_row(&format!("/{} {}", command.name, command.input), command.does, width));
    }
    lines.push(String::new());
    lines.push(paint(HEADING, "Keys"));
    lines.extend(messages::KEYS.iter().map(|(key, does)| help_row(key, does, width)));
    lines.join("\n")
}

/// Formats a key or command with its description, in one row, or in two if the page is narrow.
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

/// Formats the contents of the window.
pub(super) fn window(report: &WindowReport, width: usize) -> String {
    let heading = format!("{}, {} messages", report.fullness(false), report.request_messages);
    let mut lines = vec![paint(HEADING, &wrap(&heading, width.saturating_sub(1), 2))];
    let pinned = Some(("of it pinned", report.pinned)).filter(|(_, tokens)| *tokens > Tokens::ZERO);
    let kinds = report.kinds();
    for (name, tokens) in kinds.iter().map(|kind| (kind.name.as_str(), kind.tokens)).chain(pinned) {
        let name = wrap(name, width.saturating_sub(14).max(10), 0).replace('\n', "\n             ");
        lines.push(format!("  {:>9}  {name}", tokens.to_string()));
    }
    lines.push(String::new());
    let columns = [
        ("TOKENS", Holds::Numbers),
        ("KIND", Holds::Names),
        ("WHAT", Holds::Words(8)),
        ("HANDLE", Holds::Names),
    ];
    let mut table = Table::of(columns);
    let shown = report.items.iter().take(LARGEST);
    for item in shown.clone() {
        let handle = item.part.as_ref().map(|part| short_id(part.as_str())).unwrap_or_default();
        table.row([item.tokens.to_string(), one_line(&item.kind, 40), one_line(&item.about, 100), handle]);
    }
    lines.extend(table.lines_or_stacks(width));
    if let more @ 1.. = report.item_count.saturating_sub(shown.len()) {
        lines.push(paint(QUIET, &format!("{} not shown", counted(more, "smaller item"))));
    }
    lines.join("\n")
}

/// Shortens an id to its time and some letters. Ids of other tools may not be unique then, so they stay whole.
fn short_id(id: &str) -> String {
    let is_own = ["prt_", "msg_"].iter().any(|prefix| id.starts_with(prefix));
    id.chars().take(if is_own { "prt_".len() + 16 } else { usize::MAX }).collect()
}

/// Receipts that can be undone, oldest first.
pub(super) fn undoable(receipts: &[Receipt]) -> Vec<&Receipt> {
    in_force(receipts).filter(|receipt| receipt.can_undo()).collect()
}

/// Whether this receipt truncated an output on arrival. The window never had more of it, so there is nothing to undo.
pub(super) fn is_truncation(receipts: &[Receipt], id: &str) -> bool {
    let mut like = receipts.iter().filter(|receipt| receipt.id.as_str().starts_with(id));
    like.next().is_some_and(|receipt| matches!(receipt.plan, Plan::Truncate(_)))
}

/// Formats the receipts of a session.
pub(super) fn receipts(receipts: &[Receipt], width: usize) -> String {
    if receipts.is_empty() {
        return paint(QUIET, "nothing was cleared, summarised or pinned yet");
    }
    let open: Vec<&Receipt> = in_force(receipts).collect();
    let mut table = Table::of([
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

/// Formats the handles of content outside the window; `None` if everything is in it.
pub(super) fn out_of_window(receipts: &[Receipt], width: usize) -> Option<String> {
    let mut table =
        Table::of([("HANDLE", Holds::Names), ("WHY", Holds::Words(8)), ("RECEIPT", Holds::Names)]);
    let mut is_empty = true;
    for receipt in in_force(receipts) {
        for handle in plimsoll_store::handles(receipt) {
            is_empty = false;
            table.row([handle, receipt.plan.title(), receipt.id.to_string()]);
        }
    }
    let note = match undoable(receipts).is_empty() {
        true => "/recall HANDLE shows one, /recall TEXT searches all",
        false => "/recall HANDLE shows one, /recall TEXT searches all, /undo RECEIPT puts it back",
    };
    let note = paint(QUIET, &wrap(note, width, 2));
    (!is_empty).then(|| format!("{}\n{note}", table.lines_or_stacks(width).join("\n")))
}

/// Formats the permission rules.
pub(super) fn permissions(rules: &[PermissionRule], asks: bool, width: usize) -> String {
    let mut lines = vec![paint(HEADING, "Rules (the last match applies)")];
    let mut row = |action: &str, what: &str| {
        let what = wrap(what, width.saturating_sub(10), 2);
        lines.push(format!("  {action:<5}  {}", what.replace('\n', "\n         ")));
    };
    row("allow", "reading in this directory, and the session's own tools");
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
    pub(super) fn list_sessions(&self) -> Result<(), HostError> {
        let mut sessions = self.sessions()?;
        if let Some(open) = &self.conversation
            && sessions.iter().all(|listed| listed.id != *open.session())
        {
            // The open session may belong to another directory.
            sessions.insert(0, self.opened.archive.store().session(open.session())?);
        }
        if sessions.is_empty() {
            self.events.notice("no stored sessions in this directory");
            return Ok(());
        }
        let open = self.conversation.as_ref().map(|open| open.session().clone());
        let mut table = Table::of([
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
        let note = paint(QUIET, &wrap("/resume ID continues one; an id prefix is enough", width, 2));
        self.screen.block(&format!("{}\n{note}", table.lines_or_stacks(width).join("\n")));
        Ok(())
    }

    pub(super) fn list_models(&self) -> Result<(), HostError> {
        let now = match &self.conversation {
            Some(conversation) => conversation.agent().model.name.to_string(),
            None => self.agent()?.model.name.to_string(),
        };
        let mut lines = vec![paint(HEADING, "Models")];
        let mut models = self.setup.models();
        if !models.contains(&now) {
            models.insert(0, now.clone());
        }
        for model in models {
            let mark = if model == now { "›" } else { " " };
            lines.push(format!("{mark} {}", one_line(&model, 100)));
        }
        lines.push(paint(QUIET, "/model PROVIDER/MODEL switches to any model, listed or not"));
        self.screen.block(&lines.join("\n"));
        Ok(())
    }

    pub(super) fn list_agents(&self) -> Result<(), HostError> {
        let now = match &self.conversation {
            Some(conversation) => conversation.agent().profile.name.clone(),
            None => self.agent()?.profile.name,
        };
        let mut lines = vec![paint(HEADING, "Agents")];
        for (name, about) in self.setup.agents() {
            let mark = if name == now { "›" } else { " " };
            let about = paint(QUIET, &one_line(&about, self.screen.width().saturating_sub(20).max(10)));
            lines.push(format!("{mark} {:<14} {about}", one_line(&name, 40)).trim_end().to_owned());
        }
        self.screen.block(&lines.join("\n"));
        Ok(())
    }

    /// Updates the candidates for completion.
    pub(super) fn refresh_choices(&self) {
        let mut choices = Choices {
            models: self.setup.models(),
            agents: self.setup.agents(),
            sessions: self
                .sessions()
                .unwrap_or_default()
                .into_iter()
                .map(|session| (session.id.to_string(), one_line(&session.title, 60)))
                .collect(),
            ..Choices::default()
        };
        if let Some(conversation) = &self.conversation {
            let all = self.opened.receipts(conversation.session()).unwrap_or_default();
            for receipt in undoable(&all).into_iter().rev() {
                choices.receipts.push((receipt.id.to_string(), one_line(&receipt.plan.title(), 60)));
            }
            choices.handles = in_force(&all).flat_map(plimsoll_store::handles).collect();
        }
        *self.choices.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = choices;
    }

    pub(super) fn sessions(&self) -> Result<Vec<Session>, HostError> {
        let directory = self.host.directory().to_str().map(str::to_owned);
        let filter = Filter { directory, most: Some(SESSIONS), ..Filter::default() };
        Ok(self.opened.archive.store().sessions(&filter)?)
    }
}

#[cfg(test)]
mod tests {
    use plimsoll::prune::PrunePlan;
    use plimsoll::{Handle, Millis, Plan, Receipt, Tokens};

    use super::out_of_window;

    fn receipt_of_messages() -> Receipt {
        let ids = ["msg_1e6dc93b0001kcysZPZdBlYvz5", "msg_1e6dcceb1001v66RCpY4Ducl4Z"];
        let (id, plan) = ("rcp_1e6dcdb44005g9FjUVQf2203C8".into(), Plan::Prune(PrunePlan::default()));
        let mut receipt = Receipt::new(id, Millis(1), plan, (Tokens(2), Tokens(1)));
        receipt.handles = vec![Handle::Messages(ids[0].into(), ids[1].into())];
        receipt
    }

    #[test]
    fn handles_and_receipts_are_never_cut() {
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
