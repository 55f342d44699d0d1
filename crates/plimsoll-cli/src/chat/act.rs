//! What the commands do.

use std::sync::Arc;
use std::time::Duration;

use plimsoll::recall::RecallQuery;
use plimsoll::{Plan, Receipt, ReceiptId, SessionId};
use plimsoll_agent::{Agent, AgentError, Conversation, RevertTarget, RunOverrides};
use plimsoll_session::SessionError;
use plimsoll_store::{StoreError, TakeOver};

use super::command::{Typed, parse};
use super::text::{clean, one_line, visible, wrap};
use super::{Chat, lists, todo, words};
use crate::agent::failed;
use crate::error::CliError;
use crate::plans::{Contents, Page, WindowSizes};
use crate::reduce;
use crate::revert;
use crate::style::{HEADING, QUIET, paint};

/// What comes after a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Another line.
    Read,
    /// The end.
    Quit,
}

/// So much of an id is needed for it to be one: words are shorter.
const LEAST_ID: usize = 12;
/// So many forks of forks are looked at.
const MOST_FORKS: usize = 100;
/// An id of ours is this long.
const WHOLE_ID: usize = 30;
/// Duration of the renewal that checks whether a lease is still ours.
const LEASE: Duration = Duration::from_secs(60);

type Done = Result<(), CliError>;

impl Chat<'_> {
    /// Do what a line asks for.
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
                let error = CliError::usage(format!("there is no command `/{name}`"));
                Err(match near {
                    Some(near) => {
                        error.hint(format!("did you mean `/{near}`? `//{name}` is sent to the model"))
                    }
                    None => error.hint(format!("`/help` lists them; `//{name}` is sent to the model")),
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
            (other, _) => Err(CliError::failed(format!("`/{other}` does nothing"))),
        }
    }

    /// The conversation, which there is once something was said.
    pub(super) fn require(&self) -> Result<&Conversation, CliError> {
        self.conversation.as_ref().ok_or_else(|| CliError::no(words::NOTHING_SAID))
    }

    fn window(&self) -> Done {
        let conversation = self.require()?;
        let width = self.screen.width();
        let shown = self.runtime.block_on(async {
            let inspection = conversation.inspect().await?;
            let (window, counter) =
                (conversation.handle().window().await?, conversation.handle().counter().await?);
            let largest = lists::largest(&window, &*counter);
            Ok(lists::window(&inspection, &largest, width))
        });
        self.screen.block(&shown.map_err(|error| told(&error))?);
        Ok(())
    }

    fn plan(&self) -> Done {
        let plan = self.runtime.block_on(self.require()?.plan()).map_err(|error| told(&error))?;
        let width = self.screen.width().saturating_sub(1);
        let planned = Plan::Prune(plan.prune.clone());
        let compaction = plan.compaction.map(Plan::Compact);
        let directory = self.around.directory.to_string_lossy();
        let contents =
            Contents::of(&plan.messages, Some(&*directory), [&planned].into_iter().chain(&compaction));
        let page = Page { contents: &contents, width, handles: false };
        let prune = match plan.prune.items.len() {
            0 => format!("no output would be set aside: {}", plan.prune.explain()),
            _ => page
                .plan(&planned, WindowSizes::driven(&planned, plan.pruned))
                .replace("cleared", "set aside"),
        };
        let compaction = match compaction.zip(plan.compacted) {
            None => self.too_little(),
            Some((plan, sizes)) => page.plan(&plan, WindowSizes::driven(&plan, sizes)),
        };
        let heading = paint(HEADING, &wrap("Next, when the window is full or with /compact", width, 0));
        let note = "Nothing was done. What is set aside or summarised stays stored.";
        let note = paint(QUIET, &wrap(note, width, 0));
        let body = clean(&format!("{}\n{}", prune.trim_end(), compaction.trim_end()));
        let body = wrap(&body, width, 4);
        self.screen.block(&format!("{heading}\n{body}\n{note}"));
        Ok(())
    }

    /// Why nothing is summarised, with what there is of the conversation.
    fn too_little(&self) -> String {
        let Some(conversation) = &self.conversation else { return words::TOO_LITTLE.to_owned() };
        let policy = Arc::clone(conversation.handle().policy());
        let told = conversation.handle().with_log(move |log| reduce::too_little(log, &policy));
        self.runtime.block_on(told).unwrap_or_else(|_| words::TOO_LITTLE.to_owned())
    }

    fn compact(&mut self, focus: &str) -> Done {
        self.require()?;
        let Some(conversation) = self.conversation.as_mut() else { return Ok(()) };
        let cancel = self.interrupts.begin_turn();
        self.screen.wait("looking for what to summarise");
        let focus = Some(focus).filter(|focus| !focus.is_empty());
        let done = self.runtime.block_on(conversation.compact_on(focus, &cancel));
        self.interrupts.end_turn();
        self.screen.stop_waiting();
        let figures = done.map_err(|error| told(&error))?;
        if cancel.is_cancelled() {
            self.teller.notice("stopped; nothing was changed");
        } else if figures.is_empty() {
            self.teller.notice(&self.too_little());
        }
        self.show_meter();
        Ok(())
    }

    fn undo(&mut self, wanted: &str) -> Done {
        let conversation = self.require()?;
        let receipts = self.runtime.block_on(receipts(conversation)).map_err(|error| told(&error))?;
        let open = lists::undoable(&receipts);
        let found = match wanted {
            "" => open.last().copied(),
            wanted => {
                let wanted = wanted.trim_matches('`');
                let like: Vec<&&Receipt> =
                    open.iter().filter(|receipt| receipt.id.as_str().starts_with(wanted)).collect();
                if like.len() > 1 && like.iter().all(|receipt| receipt.id.as_str() != wanted) {
                    return Err(CliError::usage(format!("more than one receipt begins with `{wanted}`"))
                        .hint("`/receipts` lists them"));
                }
                like.into_iter().copied().find(|receipt| receipt.id.as_str().starts_with(wanted))
            }
        };
        let Some(receipt) = found else {
            let error = match wanted {
                "" => CliError::no("there is nothing to undo"),
                wanted if lists::is_cut(&receipts, wanted.trim_matches('`')) => {
                    let cut = format!("`{}` is of an output that was cut as it came", one_line(wanted, 60));
                    return Err(CliError::no(cut).hint("`/recall` lists its handle; the whole of it is kept"));
                }
                wanted => CliError::no(format!("there is no receipt `{}` to undo", one_line(wanted, 60))),
            };
            return Err(error.hint("`/receipts` lists what was done"));
        };
        let id: ReceiptId = receipt.id.clone();
        let undone = self.runtime.block_on(async {
            let before = conversation.inspect().await?.load.tokens;
            let undone = conversation.undo(&id).await?;
            let after = conversation.inspect().await?.load.tokens;
            Ok(words::undone(&undone, before, after))
        });
        self.teller.left_window(&undone.map_err(|error| told(&error))?);
        self.show_meter();
        Ok(())
    }

    fn recall(&self, what: &str) -> Done {
        let conversation = self.require()?;
        let mut what = what.trim_matches('`').to_owned();
        if what.is_empty() || what.starts_with("rcp_") {
            let mut all = self.runtime.block_on(receipts(conversation)).map_err(|error| told(&error))?;
            all.retain(|receipt| receipt.id.as_str().starts_with(&what));
            match all.as_slice() {
                [receipt] if !what.is_empty() && receipt.handles.len() == 1 => {
                    what = plimsoll_store::handles(receipt).concat();
                }
                all => {
                    let told = lists::out_of_window(all, self.screen.width());
                    self.screen.block(&told.unwrap_or_else(|| paint(QUIET, words::ALL_IN_VIEW)));
                    return Ok(());
                }
            }
        }
        let found = self.runtime.block_on(find_id(conversation, &what)).map_err(|error| told(&error))?;
        let is_handle =
            found.is_some() || ["prt_", "msg_", "spill_"].iter().any(|prefix| what.starts_with(prefix));
        let what = found.unwrap_or(what);
        let query = if is_handle {
            RecallQuery { handle: Some(what), ..RecallQuery::default() }
        } else {
            RecallQuery { search: Some(regex::escape(&what)), ..RecallQuery::default() }
        };
        let answer = self.runtime.block_on(conversation.handle().recall(query));
        // Notes are wrapped; what is recalled is shown as it is.
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
            return Err(CliError::usage(
                "say what to pin: words that were said, or the id of a message or part",
            ));
        }
        let found = self.runtime.block_on(find_id(conversation, what)).map_err(|error| told(&error))?;
        // A whole id may be of something that is out of view, which is found by it alone.
        let is_id = ["prt_", "msg_"].iter().any(|prefix| what.starts_with(prefix)) && what.len() < WHOLE_ID;
        let as_it_is = (!is_id || what.contains(char::is_whitespace)).then(|| what.to_owned());
        let Some(what) = found.or(as_it_is) else {
            let error = CliError::no(format!("nothing in this session has the id `{}`", one_line(what, 60)));
            return Err(error.hint("`/window` lists ids; their beginning will do"));
        };
        let receipt = self.runtime.block_on(conversation.pin(&what)).map_err(|error| told(&error))?;
        let Plan::Pin(plan) = &receipt.plan else { return Ok(()) };
        self.teller.left_window(&format!(
            "pinned, it stays in view word for word: {} of {} tokens of pins; undo with `/undo {}`",
            plan.total, plan.budget, receipt.id
        ));
        Ok(())
    }

    fn revert(&mut self, wanted: &str) -> Done {
        self.require()?;
        let target = match wanted {
            "" => RevertTarget::LastTurn,
            "undo" => RevertTarget::LastRevert,
            number => RevertTarget::Turn(number.parse().map_err(|_| {
                CliError::usage(format!("`{}` is no turn", one_line(number, 40)))
                    .hint("`/revert` takes the last turn that changed files, `/revert 3` all from the third prompt on, `/revert undo` takes a revert back")
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
        let done = done.map_err(revert::told)?;
        let report = clean(&revert::rendered(&done, false));
        // Paths of the project are known by their names in it.
        let report = report.replace(&format!("{}/", self.around.directory.display()), "");
        let report = wrap(&report, self.screen.width().saturating_sub(1), 4);
        // `/revert undo` would take back another one where this has touched nothing.
        let back = match done.undoes_revert {
            false => "/revert undo".to_owned(),
            true => format!("/revert {}", done.turn),
        };
        let note = match &done.notice {
            None => "No file was touched.".to_owned(),
            Some(_) => format!("What was replaced is kept: `{back}` takes this back. The model is told."),
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
        let id = branched.map_err(|error| told(&error))?;
        let agent = self.agent()?;
        self.open(&agent, &id).map_err(|error| told(&error))?;
        self.teller
            .notice(&format!("session {id} knows all of {from}, which stays as it is: `/resume {from}`"));
        if !prompt.is_empty() {
            self.turn(Some(prompt));
        }
        Ok(())
    }

    fn start_new(&mut self) -> Done {
        let before = self.conversation.as_ref().map(|conversation| conversation.session().clone());
        self.close().map_err(|error| told(&error))?;
        let told = before.map(|id| format!("; the one before is stored: `/resume {id}`")).unwrap_or_default();
        self.teller.notice(&format!("a new session{told}"));
        Ok(())
    }

    fn resume(&mut self, id: &str) -> Done {
        let id = self.setup.find_session(&self.opened, id)?;
        if self.conversation.as_ref().is_some_and(|open| *open.session() == id) {
            if !self.has_lost_session() {
                self.teller.notice("that is this session");
                return Ok(());
            }
            return self.take_back(&id);
        }
        let overrides = self.setup.overrides_for(&self.opened, &id)?;
        self.reopen(overrides, &id)?;
        self.teller.notice(&format!("session {id}"));
        self.recap()
    }

    /// Whether another process has taken the open session from this chat.
    fn has_lost_session(&self) -> bool {
        let Some(open) = &self.conversation else { return false };
        let lease = self.runtime.block_on(open.handle().lease());
        let renewed = lease.map(|lease| self.opened.archive.store().renew(&lease, LEASE));
        matches!(renewed, Ok(Err(StoreError::Fenced { .. })))
    }

    /// Takes the open session back from the process that took it.
    fn take_back(&mut self, id: &SessionId) -> Done {
        // Its writes are refused, so closing it fails.
        let _ = self.close();
        let agent = self.agent_for(self.agent()?, id)?;
        self.open(&Agent { take_over: TakeOver::Always, ..agent }, id).map_err(|error| told(&error))?;
        self.teller.notice(&format!("session {id}"));
        self.recap()
    }

    fn switch_model(&mut self, name: &str) -> Done {
        let overrides = RunOverrides { model: Some(name.to_owned()), ..self.overrides.clone() };
        let model = self.setup.agent(&self.opened, &overrides)?.model;
        let told_name = one_line(&model.name.to_string(), 80);
        if let Some(conversation) = self.conversation.as_mut() {
            self.runtime.block_on(conversation.switch_model(model)).map_err(|error| told(&error))?;
        }
        self.overrides = overrides;
        self.teller.notice(&format!("{told_name} answers from now on"));
        self.show_meter();
        Ok(())
    }

    fn switch_agent(&mut self, name: &str) -> Done {
        let overrides = RunOverrides { agent: Some(name.to_owned()), ..self.overrides.clone() };
        // An unknown agent is told of before anything is closed.
        self.setup.agent(&self.opened, &overrides)?;
        match self.conversation.as_ref().map(|open| open.session().clone()) {
            Some(id) => {
                if self.opened.archive.store().task(id.as_str()).is_ok() {
                    return Err(CliError::no("a background task keeps its agent"));
                }
                self.reopen(overrides, &id)?;
                // What bounds tasks of this session that are taken up later is the agent that it has then.
                let kept = self.require()?.handle().set_agent(name);
                self.runtime.block_on(kept).map_err(|error| told(&error.into()))?;
            }
            None => self.overrides = overrides,
        }
        let flags = match self.has_flags(&self.overrides) || self.overrides.allow.is_empty() {
            true => String::new(),
            false => format!("; `--allow` was for {} and does not hold", one_line(&self.flags_for, 60)),
        };
        self.teller.notice(&format!("agent {} from now on, with its own rules{flags}", one_line(name, 60)));
        Ok(())
    }

    /// Open a session with another agent, or another one with its own. Where that fails, the one before is opened again.
    fn reopen(&mut self, overrides: RunOverrides, id: &SessionId) -> Done {
        let before = self.conversation.as_ref().map(|open| open.session().clone());
        let chosen = std::mem::replace(&mut self.overrides, overrides);
        let opened = self.agent().and_then(|agent| {
            let agent = self.agent_for(agent, id)?;
            self.open(&agent, id).map_err(|error| told(&error))
        });
        if opened.is_err() {
            self.overrides = chosen;
            if let Some(before) = before {
                let agent = self.agent_for(self.agent()?, &before)?;
                self.open(&agent, &before).map_err(|error| told(&error))?;
            }
        }
        opened
    }

    fn todo(&self) -> Done {
        let list = self.runtime.block_on(self.require()?.todos()).map_err(|error| told(&error))?;
        if list.is_empty() {
            self.teller.notice("the agent has written no list of things to do");
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
        let all = self.runtime.block_on(receipts(self.require()?)).map_err(|error| told(&error))?;
        self.screen.block(&lists::receipts(&all, self.screen.width()));
        Ok(())
    }
}

/// What was done to a session so far, oldest first.
pub(super) async fn receipts(conversation: &Conversation) -> Result<Vec<Receipt>, AgentError> {
    Ok(conversation.handle().receipts().await?)
}

/// What was done to a session and, before it was forked from them, to those above it.
pub(super) async fn receipts_in_view(conversation: &Conversation) -> Result<Vec<Receipt>, AgentError> {
    let mut id = conversation.session().clone();
    let all = conversation.handle().with_archive(move |archive| {
        let (store, mut all) = (archive.store(), Vec::new());
        let mut until = None;
        // As deep as anyone forks, and an end to whatever a damaged database says.
        for _ in 0..MOST_FORKS {
            let session = store.session(&id)?;
            let mut receipts = store.receipts(&id, None, u64::MAX)?;
            receipts.retain(|receipt| until.is_none_or(|until| receipt.at <= until));
            all.splice(0..0, receipts);
            let Some(point) = session.forked_from else { break };
            until = Some(until.map_or(session.created, |until| session.created.min(until)));
            id = point.session;
        }
        Ok(all)
    });
    Ok(all.await?)
}

/// The id of a message or part that begins so, because lists show the beginning alone. Sessions of other tools have ids of
/// their own, which are known by being there.
async fn find_id(conversation: &Conversation, what: &str) -> Result<Option<String>, AgentError> {
    if what.len() < LEAST_ID || what.contains(char::is_whitespace) {
        return Ok(None);
    }
    let what = what.to_owned();
    let found = conversation.handle().with_log(move |log| {
        let parts = log.iter().flat_map(|message| message.parts.iter().map(|part| part.id.as_str()));
        let mut ids = log.iter().map(|message| message.info.id.as_str()).chain(parts);
        ids.find(|id| id.starts_with(&what)).map(str::to_owned)
    });
    Ok(found.await?)
}

/// Why something did not work, for the person at the terminal.
pub(super) fn told(error: &AgentError) -> CliError {
    match error {
        AgentError::Session(SessionError::Pin(why)) => CliError::no(visible(&why.to_string())),
        other => failed(other, "/continue"),
    }
}
