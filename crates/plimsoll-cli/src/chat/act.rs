//! Actions of the chat's commands.

use std::sync::Arc;
use std::time::Duration;

use plimsoll::recall::RecallQuery;
use plimsoll::{Plan, Receipt, ReceiptId, SessionId};
use plimsoll_agent::{Agent, AgentError, Conversation, RevertTarget, RunOverrides};
use plimsoll_host::{HostError, PlanContents, WindowSizes, agent_failed, too_little};
use plimsoll_session::SessionError;
use plimsoll_store::{StoreError, TakeOver};

use super::command::{Typed, parse};
use super::text::{clean, one_line, visible, wrap};
use super::{Chat, lists, messages, todo};
use crate::plans::Page;
use crate::revert;
use crate::style::{HEADING, QUIET, paint};

/// Next step after a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Read another line.
    Read,
    /// Quit.
    Quit,
}

/// Length of a complete id of our own.
const WHOLE_ID: usize = 30;
/// Duration of the renewal that checks whether a lease is still ours.
const LEASE: Duration = Duration::from_secs(60);

type Done = Result<(), HostError>;

impl Chat<'_> {
    /// Runs a line: a prompt or a command.
    pub(super) fn handle(&mut self, line: &str) -> Next {
        let done = match parse(line) {
            Typed::Nothing => Ok(()),
            Typed::Words(words) => {
                self.turn(Some(words));
                Ok(())
            }
            Typed::Command("exit", _) => return Next::Quit,
            Typed::Command(name, input) => self.command(name, input),
            Typed::Unknown(name, near) => {
                let name = one_line(name, 40);
                let error = HostError::usage(format!("unknown command `/{name}`"));
                Err(match near {
                    Some(near) => {
                        error.hint(format!("did you mean `/{near}`? `//{name}` sends it to the model"))
                    }
                    None => error.hint(format!("`/help` lists commands; `//{name}` sends it to the model")),
                })
            }
        };
        if let Err(error) = done {
            self.fail(&error);
        }
        if self.interrupts.quits() { Next::Quit } else { Next::Read }
    }

    fn command(&mut self, name: &str, input: &str) -> Done {
        match (name, input) {
            ("help", _) => {
                self.screen.block(&lists::help(self.screen.width()));
                Ok(())
            }
            ("window", _) => self.window(),
            ("plan", _) => self.plan(),
            ("compact", focus) => self.compact(focus),
            ("undo", receipt) => self.undo(receipt),
            ("recall", what) => self.recall(what),
            ("pin", what) => self.pin(what),
            ("receipts", _) => self.list_receipts(),
            ("continue", _) => {
                self.require()?;
                self.turn(None);
                Ok(())
            }
            ("revert", turn) => self.revert(turn),
            ("todo", _) => self.todo(),
            ("fork", prompt) => self.fork(prompt),
            ("tasks", input) => self.tasks(input),
            ("new", _) => self.start_new(),
            ("resume", "") | ("sessions", _) => self.list_sessions(),
            ("resume", id) => self.resume(id),
            ("model", "") => self.list_models(),
            ("model", name) => self.switch_model(name),
            ("agent", "") => self.list_agents(),
            ("agent", name) => self.switch_agent(name),
            ("permissions", _) => self.list_permissions(),
            (other, _) => Err(HostError::failed(format!("`/{other}` is not implemented"))),
        }
    }

    /// Returns the conversation, which exists from the first prompt on.
    pub(super) fn require(&self) -> Result<&Conversation, HostError> {
        self.conversation.as_ref().ok_or_else(|| HostError::negative(messages::NO_CONVERSATION))
    }

    fn window(&self) -> Done {
        let conversation = self.require()?;
        let width = self.screen.width();
        let report = self.runtime.block_on(conversation.inspect()).map_err(failed)?;
        self.screen.block(&lists::window(&report, width));
        Ok(())
    }

    fn plan(&self) -> Done {
        let plan = self.runtime.block_on(self.require()?.plan()).map_err(failed)?;
        let width = self.screen.width().saturating_sub(1);
        let planned = Plan::Prune(plan.prune.clone());
        let compaction = plan.compaction.map(Plan::Compact);
        let directory = self.host.env.directory.to_string_lossy();
        let contents =
            PlanContents::of(&plan.messages, Some(&*directory), [&planned].into_iter().chain(&compaction));
        let page = Page { contents: &contents, width, handles: false };
        let prune = match plan.prune.items.len() {
            0 => format!("no output would be cleared: {}", plan.prune.explain()),
            _ => page.plan(&planned, WindowSizes::driven(&planned, plan.pruned)),
        };
        let compaction = match compaction.zip(plan.compacted) {
            None => self.too_little(),
            Some((plan, sizes)) => page.plan(&plan, WindowSizes::driven(&plan, sizes)),
        };
        let heading =
            paint(HEADING, &wrap("Next reduction, when the window is full or with /compact", width, 0));
        let note = "Nothing was changed. Cleared and summarised content stays stored.";
        let note = paint(QUIET, &wrap(note, width, 0));
        let body = clean(&format!("{}\n{}", prune.trim_end(), compaction.trim_end()));
        let body = wrap(&body, width, 4);
        self.screen.block(&format!("{heading}\n{body}\n{note}"));
        Ok(())
    }

    /// Explains why nothing is summarised, with the sizes of the conversation.
    fn too_little(&self) -> String {
        let Some(conversation) = &self.conversation else { return messages::TOO_LITTLE.to_owned() };
        let policy = Arc::clone(conversation.handle().policy());
        let text = conversation.handle().with_log(move |log| too_little(log, &policy));
        self.runtime.block_on(text).unwrap_or_else(|_| messages::TOO_LITTLE.to_owned())
    }

    fn compact(&mut self, focus: &str) -> Done {
        self.require()?;
        let Some(conversation) = self.conversation.as_mut() else { return Ok(()) };
        let cancel = self.interrupts.begin_turn();
        self.screen.wait("choosing messages to summarise");
        let focus = Some(focus).filter(|focus| !focus.is_empty());
        let done = self.runtime.block_on(conversation.compact_on(focus, &cancel));
        self.interrupts.end_turn();
        self.screen.stop_waiting();
        let figures = done.map_err(failed)?;
        if cancel.is_cancelled() {
            self.events.notice("stopped; nothing was changed");
        } else if figures.is_empty() {
            self.events.notice(&self.too_little());
        }
        self.show_meter();
        Ok(())
    }

    fn undo(&mut self, requested: &str) -> Done {
        let conversation = self.require()?;
        let receipts = self.opened.receipts(conversation.session())?;
        let open = lists::undoable(&receipts);
        let found = match requested {
            "" => open.last().copied(),
            requested => {
                let requested = requested.trim_matches('`');
                let like: Vec<&&Receipt> =
                    open.iter().filter(|receipt| receipt.id.as_str().starts_with(requested)).collect();
                if like.len() > 1 && like.iter().all(|receipt| receipt.id.as_str() != requested) {
                    return Err(HostError::usage(format!("receipt id `{requested}` is ambiguous"))
                        .hint("`/receipts` lists them"));
                }
                like.into_iter().copied().find(|receipt| receipt.id.as_str().starts_with(requested))
            }
        };
        let Some(receipt) = found else {
            let error = match requested {
                "" => HostError::negative("nothing to undo"),
                requested if lists::is_truncation(&receipts, requested.trim_matches('`')) => {
                    let cut = format!(
                        "`{}` truncated an output on arrival and cannot be undone",
                        one_line(requested, 60)
                    );
                    return Err(HostError::negative(cut)
                        .hint("`/recall` lists its handle; the full output is stored"));
                }
                requested => HostError::negative(format!("no receipt `{}` to undo", one_line(requested, 60))),
            };
            return Err(error.hint("`/receipts` lists receipts"));
        };
        let id: ReceiptId = receipt.id.clone();
        let undone = self.runtime.block_on(async {
            let before = conversation.load().await?.load.tokens;
            let undone = conversation.undo(&id).await?;
            let after = conversation.load().await?.load.tokens;
            Ok(messages::undone(&undone, before, after))
        });
        self.events.reduction(&undone.map_err(failed)?);
        self.show_meter();
        Ok(())
    }

    fn recall(&self, what: &str) -> Done {
        let conversation = self.require()?;
        let mut what = what.trim_matches('`').to_owned();
        if what.is_empty() || what.starts_with("rcp_") {
            let mut all = self.opened.receipts(conversation.session())?;
            all.retain(|receipt| receipt.id.as_str().starts_with(&what));
            match all.as_slice() {
                [receipt] if !what.is_empty() && receipt.handles.len() == 1 => {
                    what = plimsoll_store::handles(receipt).concat();
                }
                all => {
                    let list = lists::out_of_window(all, self.screen.width());
                    self.screen.block(&list.unwrap_or_else(|| paint(QUIET, messages::ALL_IN_VIEW)));
                    return Ok(());
                }
            }
        }
        let found = self.opened.id_in_view(conversation.session(), &what)?;
        let is_handle =
            found.is_some() || ["prt_", "msg_", "spill_"].iter().any(|prefix| what.starts_with(prefix));
        let what = found.unwrap_or(what);
        let query = if is_handle {
            RecallQuery { handle: Some(what), ..RecallQuery::default() }
        } else {
            RecallQuery { search: Some(regex::escape(&what)), ..RecallQuery::default() }
        };
        let answer = self.runtime.block_on(conversation.handle().recall(query));
        // Notes are wrapped; recalled content is shown unchanged.
        let (answer, width) = (clean(&answer?.text), self.screen.width().saturating_sub(1));
        let lines = answer.trim_end().split('\n');
        let lines: Vec<String> = lines
            .map(|line| {
                let is_note = line.starts_with('[') && line.ends_with(']');
                if is_note { wrap(line, width, 2) } else { line.to_owned() }
            })
            .collect();
        self.screen.block(&lines.join("\n"));
        Ok(())
    }

    fn pin(&self, what: &str) -> Done {
        let conversation = self.require()?;
        if what.is_empty() {
            return Err(HostError::usage(
                "nothing to pin: pass text from the conversation, or the id of a message or part",
            ));
        }
        let found = self.opened.id_in_view(conversation.session(), what)?;
        // A complete id can belong to something outside the window, which only the id finds.
        let is_id = ["prt_", "msg_"].iter().any(|prefix| what.starts_with(prefix)) && what.len() < WHOLE_ID;
        let verbatim = (!is_id || what.contains(char::is_whitespace)).then(|| what.to_owned());
        let Some(what) = found.or(verbatim) else {
            let error = HostError::negative(format!("unknown id `{}` in this session", one_line(what, 60)));
            return Err(error.hint("`/window` lists ids; a prefix is enough"));
        };
        let receipt = self.runtime.block_on(conversation.pin(&what)).map_err(failed)?;
        let Plan::Pin(plan) = &receipt.plan else { return Ok(()) };
        self.events.reduction(&format!(
            "pinned: stays in the window verbatim; pins use {} of {} tokens; undo with `/undo {}`",
            plan.total, plan.budget, receipt.id
        ));
        Ok(())
    }

    fn revert(&mut self, requested: &str) -> Done {
        self.require()?;
        let target = match requested {
            "" => RevertTarget::LastTurn,
            "undo" => RevertTarget::LastRevert,
            number => RevertTarget::Turn(number.parse().map_err(|_| {
                HostError::usage(format!("invalid turn `{}`", one_line(number, 40)))
                    .hint("`/revert` reverts the last turn that changed files, `/revert 3` everything from the third prompt on, `/revert undo` undoes a revert")
            })?),
        };
        let Some(conversation) = self.conversation.as_mut() else { return Ok(()) };
        let done = self.runtime.block_on(async {
            match target {
                RevertTarget::LastTurn => conversation.revert(None).await,
                RevertTarget::Turn(turn) => conversation.revert(Some(turn)).await,
                RevertTarget::LastRevert => conversation.undo_revert().await,
            }
        });
        let done = done?;
        let report = clean(&revert::format_report(&done, false));
        // Paths in the project are shown relative to it.
        let report = report.replace(&format!("{}/", self.host.env.directory.display()), "");
        let report = wrap(&report, self.screen.width().saturating_sub(1), 4);
        // If this changed nothing, `/revert undo` would undo another revert.
        let back = match done.undoes_revert {
            false => "/revert undo".to_owned(),
            true => format!("/revert {}", done.turn),
        };
        let note = match &done.notice {
            None => "No file was changed.".to_owned(),
            Some(_) => format!("Replaced content is stored; `{back}` restores it. The model is informed."),
        };
        let note = wrap(&note, self.screen.width().saturating_sub(1), 0);
        self.screen.block(&format!("{report}\n{}", paint(QUIET, &note)));
        Ok(())
    }

    fn fork(&mut self, prompt: &str) -> Done {
        let from = self.require()?.session().clone();
        let title = self.opened.archive.store().session(&from)?.title;
        let Some(conversation) = self.conversation.as_mut() else { return Ok(()) };
        let branched = self.runtime.block_on(conversation.branch(&format!("{title} (fork)")));
        let id = branched.map_err(failed)?;
        let agent = self.agent()?;
        self.open(&agent, &id).map_err(failed)?;
        self.events.notice(&format!(
            "session {id} continues with the context of {from}, which is unchanged: `/resume {from}`"
        ));
        if !prompt.is_empty() {
            self.turn(Some(prompt));
        }
        Ok(())
    }

    fn start_new(&mut self) -> Done {
        let before = self.conversation.as_ref().map(|conversation| conversation.session().clone());
        self.close().map_err(failed)?;
        let previous =
            before.map(|id| format!("; the previous one is stored: `/resume {id}`")).unwrap_or_default();
        self.events.notice(&format!("new session{previous}"));
        Ok(())
    }

    fn resume(&mut self, id: &str) -> Done {
        let id = self.setup.find_session(&self.opened, id)?;
        if self.conversation.as_ref().is_some_and(|open| *open.session() == id) {
            if !self.has_lost_session() {
                self.events.notice("this session is already open");
                return Ok(());
            }
            return self.take_back(&id);
        }
        let overrides = self.setup.overrides_for(&self.opened, &id)?;
        self.reopen(overrides, &id)?;
        self.events.notice(&format!("session {id}"));
        self.recap()
    }

    /// Whether another process has taken over the open session.
    fn has_lost_session(&self) -> bool {
        let Some(open) = &self.conversation else { return false };
        let lease = self.runtime.block_on(open.handle().lease());
        let renewed = lease.map(|lease| self.opened.archive.store().renew(&lease, LEASE));
        matches!(renewed, Ok(Err(StoreError::Fenced { .. })))
    }

    /// Takes the open session back from the process that took it over.
    fn take_back(&mut self, id: &SessionId) -> Done {
        // Its writes are fenced, so closing it fails.
        let _ = self.close();
        let agent = self.agent_for(self.agent()?, id)?;
        self.open(&Agent { take_over: TakeOver::Always, ..agent }, id).map_err(failed)?;
        self.events.notice(&format!("session {id}"));
        self.recap()
    }

    fn switch_model(&mut self, name: &str) -> Done {
        let overrides = RunOverrides { model: Some(name.to_owned()), ..self.overrides.clone() };
        let model = self.setup.agent(&self.opened, &overrides)?.model;
        let model_name = one_line(&model.name.to_string(), 80);
        if let Some(conversation) = self.conversation.as_mut() {
            self.runtime.block_on(conversation.switch_model(model)).map_err(failed)?;
        }
        self.overrides = overrides;
        self.events.notice(&format!("switched to {model_name}"));
        self.show_meter();
        Ok(())
    }

    fn switch_agent(&mut self, name: &str) -> Done {
        let overrides = RunOverrides { agent: Some(name.to_owned()), ..self.overrides.clone() };
        // An unknown agent is rejected before anything is closed.
        self.setup.agent(&self.opened, &overrides)?;
        match self.conversation.as_ref().map(|open| open.session().clone()) {
            Some(id) => {
                if self.opened.archive.store().task(id.as_str()).is_ok() {
                    return Err(HostError::negative("the agent of a background task cannot be changed"));
                }
                self.reopen(overrides, &id)?;
                // Tasks of this session that are resumed later are bounded by the agent that it has then.
                let stored = self.require()?.handle().set_agent(name);
                self.runtime.block_on(stored).map_err(|error| failed(error.into()))?;
            }
            None => self.overrides = overrides,
        }
        let flags = match self.has_flags(&self.overrides) || self.overrides.allow.is_empty() {
            true => String::new(),
            false => format!("; `--allow` applied to {} only", one_line(&self.flags_for, 60)),
        };
        self.events.notice(&format!("switched to agent {} with its own rules{flags}", one_line(name, 60)));
        Ok(())
    }

    /// Opens a session with another agent, or another session. If that fails, the previous one is opened again.
    fn reopen(&mut self, overrides: RunOverrides, id: &SessionId) -> Done {
        let before = self.conversation.as_ref().map(|open| open.session().clone());
        let chosen = std::mem::replace(&mut self.overrides, overrides);
        let opened = self.agent().and_then(|agent| {
            let agent = self.agent_for(agent, id)?;
            self.open(&agent, id).map_err(failed)
        });
        if opened.is_err() {
            self.overrides = chosen;
            if let Some(before) = before {
                let agent = self.agent_for(self.agent()?, &before)?;
                self.open(&agent, &before).map_err(failed)?;
            }
        }
        opened
    }

    fn todo(&self) -> Done {
        let list = self.runtime.block_on(self.require()?.todos()).map_err(failed)?;
        if list.is_empty() {
            self.events.notice("the agent has not written a to-do list");
        } else {
            self.screen.block(&todo::render(&list));
        }
        Ok(())
    }

    fn list_permissions(&self) -> Done {
        let rules = match &self.conversation {
            Some(conversation) => conversation.agent().profile.permissions.rules.clone(),
            None => self.agent()?.profile.permissions.rules,
        };
        self.screen.block(&lists::permissions(&rules, self.asker.is_some(), self.screen.width()));
        Ok(())
    }

    fn list_receipts(&self) -> Done {
        let all = self.opened.receipts(self.require()?.session())?;
        self.screen.block(&lists::receipts(&all, self.screen.width()));
        Ok(())
    }
}

/// Converts an agent error for the user.
pub(super) fn failed(error: AgentError) -> HostError {
    match error {
        AgentError::Session(SessionError::Pin(why)) => HostError::negative(visible(&why.to_string())),
        other => agent_failed(other, "/continue"),
    }
}
