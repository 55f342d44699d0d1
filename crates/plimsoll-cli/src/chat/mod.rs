//! `plimsoll chat`: a conversation with an agent in the terminal.
//!
//! | part | does |
//! |---|---|
//! | `screen`, `markdown`, `table`, `highlight`, `text` | write to the terminal, and escape untrusted text |
//! | `events`, `messages`, `meter` | report what happens |
//! | `editor`, `plain`, `complete`, `command` | read input |
//! | `ask`, `question`, `pager` | ask for permission |
//! | `signals` | Ctrl-C, termination, the terminal's modes |
//! | `act`, `lists`, `tasks`, `todo` | run commands |

mod act;
mod ask;
mod command;
mod complete;
mod editor;
mod events;
mod highlight;
mod lists;
mod markdown;
mod messages;
mod meter;
mod pager;
mod plain;
mod question;
#[cfg(test)]
mod r106_tests;
mod screen;
mod signals;
mod table;
mod tasks;
mod text;
mod todo;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use plimsoll::SessionId;
use plimsoll_agent::{
    Agent, AgentError, Asker, Conversation, DEFAULT_AGENT, RunOverrides, RunReport, TaskBoard,
};
use plimsoll_host::{AgentSetup, Host, HostError, OpenStore, agent_failed, taken_from_living};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::args::ChatArgs;
use crate::error::CommandResult;
use crate::interrupt::{self, INTERRUPTED_CODE};
use crate::notices::{Commands, end_notice};
use crate::output::Output;
use crate::style::{HEADING, QUIET, paint};

use act::Next;
use ask::TerminalAsker;
use complete::Choices;
use editor::{Editor, Input, Reader};
use events::EventView;
use meter::Meter;
use screen::Screen;
use signals::{Interrupts, QuietTerminal};
use text::{one_line, visible, wrap};

/// Name of the prompt history file, next to the database.
const HISTORY: &str = "chat-history";
/// Number of characters of the last answer that are shown when a session is continued.
const RECAP: usize = 1_200;

/// A chat.
pub(super) struct Chat<'a> {
    setup: &'a AgentSetup,
    host: &'a Host,
    opened: OpenStore,
    board: Arc<TaskBoard>,
    runtime: Runtime,
    screen: Arc<Screen>,
    events: Arc<EventView>,
    interrupts: Arc<Interrupts>,
    asker: Option<Arc<dyn Asker>>,
    /// Choices of the user in addition to the configuration.
    overrides: RunOverrides,
    /// Agent that the flags of the command line apply to.
    flags_for: String,
    /// `None` until the first prompt: a chat that is quit at once leaves no session.
    conversation: Option<Conversation>,
    choices: Arc<Mutex<Choices>>,
    /// Whether a turn has failed, for the exit code.
    has_failed: bool,
}

/// Runs a chat.
pub(crate) fn run(args: &ChatArgs, host: &Host, output: &mut Output) -> CommandResult {
    if output.json {
        return Err(HostError::usage("`plimsoll chat` does not support `--json`")
            .hint("`plimsoll run --json` prints events as JSON lines"));
    }
    // A chat handles signals itself.
    let host = &host.clone().with_leases(interrupt::leases_without_signals());
    let setup = host.agent_setup(args.agent.options())?;
    let (opened, session) = setup.open()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let screen = Screen::new();
    let events = Arc::new(EventView::new(&screen, args.agent.thinking));
    let is_interactive = screen.is_terminal && io::stdin().is_terminal();
    let interrupts = Interrupts::watch(runtime.handle(), is_interactive);
    let asker = is_interactive.then(|| {
        let (screen, events, interrupts) =
            (Arc::clone(&screen), Arc::clone(&events), Arc::clone(&interrupts));
        Arc::new(TerminalAsker { screen, events, interrupts, turn: tokio::sync::Mutex::default() })
            as Arc<dyn Asker>
    });
    let overrides = match &session {
        Some(id) => setup.overrides_for(&opened, id)?,
        None => setup.overrides(),
    };
    let flags_for = overrides.agent.clone().unwrap_or_else(|| DEFAULT_AGENT.to_owned());
    let listener = Arc::clone(&events);
    let board = setup.board(&opened, asker.clone(), Arc::new(move |event| listener.event(event)));
    let mut chat = Chat {
        setup: &setup,
        host,
        opened,
        board,
        runtime,
        screen,
        events,
        interrupts,
        asker,
        overrides,
        flags_for,
        conversation: None,
        choices: Arc::default(),
        has_failed: false,
    };
    let has_editor = is_interactive && !chat.screen.is_dumb;
    let quiet = has_editor.then(QuietTerminal::enter);
    let done = chat.begin(session.as_ref()).and_then(|()| {
        let mut reader = if is_interactive && !has_editor {
            Reader::plain(&chat.screen, &chat.interrupts)
        } else if has_editor {
            let history = chat.history_file();
            let editor = Editor::new(
                &chat.screen,
                &chat.interrupts,
                history.as_deref(),
                &chat.choices,
                &chat.events.active,
            );
            Reader::Editor(Box::new(editor))
        } else {
            Reader::Lines
        };
        chat.talk(args.prompt.join(" "), &mut reader)
    });
    chat.end();
    drop(quiet);
    if chat.interrupts.has_lost_terminal() {
        // A thread may be blocked in a read from it that never returns.
        signals::quit_now();
    }
    done
}

impl<'a> Chat<'a> {
    /// Opens the session to continue, if any, and prints the heading.
    fn begin(&mut self, session: Option<&SessionId>) -> Result<(), HostError> {
        let agent = match session {
            Some(id) => self.agent_for(self.agent()?, id)?,
            None => self.agent()?,
        };
        let name = agent.model.name.to_string();
        let about = match session {
            Some(id) => {
                self.open(&agent, id).map_err(|error| agent_failed(error, "plimsoll chat --continue"))?;
                format!("session {id}")
            }
            None => "new session".to_owned(),
        };
        let directory = self.host.short(self.host.directory());
        let width = self.screen.width().saturating_sub(1);
        let first =
            paint(HEADING, &one_line(&name, 60)) + &paint(QUIET, &format!(" in {}", visible(&directory)));
        self.screen.lines(&wrap(&first, width, 2));
        let agent = agent.profile.name;
        let agent =
            if agent == DEFAULT_AGENT { String::new() } else { format!(", agent {}", visible(&agent)) };
        let second = format!("{about}{agent}; /help lists commands, Ctrl-D quits");
        self.screen.lines(&paint(QUIET, &wrap(&second, width, 2)));
        if session.is_some() {
            self.recap()?;
        }
        Ok(())
    }

    /// Reads and handles lines until the chat ends.
    fn talk(&mut self, first: String, reader: &mut Reader) -> CommandResult {
        let mut first = Some(first).filter(|first| !first.trim().is_empty());
        let mut has_hinted = false;
        while !self.interrupts.quits() {
            let input = match first.take() {
                Some(prompt) => {
                    self.screen.block(&format!("› {}", text::clean(prompt.trim())));
                    Input::Line(prompt)
                }
                None => {
                    self.refresh_choices();
                    let waking = reader.wake().and_then(|wake| self.wake_for_notes(wake));
                    let input = reader.read();
                    if let Some(waking) = waking {
                        waking.abort();
                    }
                    input
                }
            };
            match input {
                Input::Line(line) => {
                    has_hinted = false;
                    if self.handle(&line) == Next::Quit {
                        break;
                    }
                }
                Input::Interrupt { had_text: true } => {
                    has_hinted = false;
                    self.interrupts.forget_press();
                }
                Input::Interrupt { had_text: false } => {
                    if self.interrupts.pressed_twice() || has_hinted {
                        break;
                    }
                    self.events.notice(messages::AGAIN_QUITS);
                    has_hinted = true;
                }
                Input::Woken => self.answer_notes(),
                Input::End => break,
            }
        }
        Ok(match (self.interrupts.quits(), self.has_failed && self.asker.is_none()) {
            (true, _) => ExitCode::from(INTERRUPTED_CODE),
            (false, true) => ExitCode::from(3),
            (false, false) => ExitCode::SUCCESS,
        })
    }

    /// Closes the session, and prints how to continue it.
    fn end(&mut self) {
        self.stop_tasks();
        if let Some(conversation) = self.conversation.take() {
            let id = conversation.session().clone();
            // A lease that cannot be released expires.
            let _ = self.runtime.block_on(conversation.close());
            // `--continue` opens the newest session of the directory in which it is run.
            let here = self.sessions().is_ok_and(|here| here.first().is_some_and(|newest| newest.id == id));
            let back = if here { "--continue".to_owned() } else { format!("--session {id}") };
            self.events.notice(&format!("session {id} is stored; continue with `plimsoll chat {back}`"));
        }
    }

    /// Returns the chosen agent, connected to this terminal.
    fn agent(&self) -> Result<Agent, HostError> {
        let mut overrides = self.overrides.clone();
        if !self.has_flags(&overrides) {
            overrides.allow.clear();
        }
        let mut agent = self.setup.agent(&self.opened, &overrides)?;
        let events = Arc::clone(&self.events);
        agent.events = Arc::new(move |event| events.event(event));
        agent.asker = self.asker.clone();
        if self.board.limits().depth > 0 {
            agent = agent.with_tasks(&self.board);
        }
        // Input from a pipe cannot wake the model later, so the turn waits for its tasks.
        agent.profile.awaits_tasks = self.asker.is_none();
        Ok(agent)
    }

    /// Whether `--allow` on the command line applies to the chosen agent. Applied to another agent, such as `plan`, it would
    /// defeat that agent's restrictions.
    fn has_flags(&self, overrides: &RunOverrides) -> bool {
        overrides.agent.as_deref().unwrap_or(DEFAULT_AGENT) == self.flags_for
    }

    /// Opens a session in place of the open one.
    fn open(&mut self, agent: &Agent, id: &SessionId) -> Result<(), AgentError> {
        self.close()?;
        let conversation = self.runtime.block_on(self.setup.open_conversation(agent, id))?;
        self.hold(conversation)
    }

    /// Closes the open session.
    fn close(&mut self) -> Result<(), AgentError> {
        match self.conversation.take() {
            Some(conversation) => self.runtime.block_on(conversation.close()),
            None => Ok(()),
        }
    }

    fn hold(&mut self, conversation: Conversation) -> Result<(), AgentError> {
        let lease = self.runtime.block_on(conversation.handle().lease())?;
        if let Some(holder) = taken_from_living(&lease) {
            self.events.notice(&format!("took over the session from `{}`", one_line(&holder, 100)));
        }
        self.host.leases.hold(&self.opened.archive, &lease);
        self.conversation = Some(conversation);
        Ok(())
    }

    /// Sends a prompt to the model, or resumes a stopped turn, and shows the result.
    fn turn(&mut self, prompt: Option<&str>) {
        let cancel = self.interrupts.begin_turn();
        self.screen.wait("starting");
        let done = self.take_turn(prompt, &cancel);
        self.interrupts.end_turn();
        self.screen.end_text();
        match done {
            Ok(Some(report)) => self.after_turn(&report),
            Ok(None) => self.events.notice("stopped before the first answer"),
            Err(error) => {
                self.has_failed = true;
                self.fail(&error);
            }
        }
        self.show_meter();
    }

    fn take_turn(
        &mut self,
        prompt: Option<&str>,
        cancel: &CancellationToken,
    ) -> Result<Option<RunReport>, HostError> {
        if self.conversation.is_none() {
            let agent = self.agent()?;
            // MCP servers start here, which can take a while.
            let begun = self.runtime.block_on(async {
                tokio::select! {
                    biased;
                    () = cancel.cancelled() => None,
                    begun = agent.begin("") => Some(begun),
                }
            });
            let Some(begun) = begun else { return Ok(None) };
            let held = begun.and_then(|conversation| self.hold(conversation));
            held.map_err(|error| agent_failed(error, "/continue"))?;
        }
        let Some(conversation) = self.conversation.as_mut() else { return Ok(None) };
        let done = self.runtime.block_on(async {
            match prompt {
                Some(prompt) => conversation.run(prompt, cancel).await,
                // Results of tasks that have ended since come first.
                None => match conversation.take_notes().await? {
                    true => conversation.continue_run(cancel).await,
                    false => conversation.resume(cancel).await,
                },
            }
        });
        done.map(Some).map_err(|error| agent_failed(error, "/continue"))
    }

    fn after_turn(&mut self, report: &RunReport) {
        if let Some(why) = end_notice(&report.end, Commands::Chat) {
            self.events.notice(&one_line(&why, 400));
        }
    }

    /// Shows the meter.
    fn show_meter(&self) {
        let Some(conversation) = &self.conversation else { return };
        let load = self.runtime.block_on(conversation.load());
        let receipts = self.opened.receipts_in_view(conversation.session());
        // If the window cannot be weighed, the next request reports why.
        if let (Ok(load), Ok(receipts)) = (load, receipts) {
            self.screen.block(&Meter::new(&load, &receipts).line(self.screen.width()));
        }
    }

    /// Shows the last prompt and the end of the last answer.
    fn recap(&mut self) -> Result<(), HostError> {
        let Some(conversation) = &self.conversation else { return Ok(()) };
        let handle = conversation.handle();
        let prompt = handle.with_log(|log| {
            log.iter().rev().find(|message| message.is_prompt()).map(|message| message.text())
        });
        let prompt = self.runtime.block_on(prompt)?;
        let answer = self.runtime.block_on(handle.final_answer())?.map(|message| message.text());
        let width = self.screen.width();
        if let Some(prompt) = prompt {
            self.screen.block(&paint(QUIET, &format!("› {}", one_line(&prompt, width.saturating_sub(3)))));
        }
        match answer {
            Some(answer) => {
                let skipped = answer.chars().count().saturating_sub(RECAP);
                let tail: String = answer.chars().skip(skipped).collect();
                let tail = if skipped > 0 { format!("… {tail}") } else { tail };
                self.screen.words(&tail);
                self.screen.end_text();
            }
            None => self.events.notice("the last turn did not finish; `/continue` resumes it"),
        }
        self.show_meter();
        Ok(())
    }

    fn history_file(&self) -> Option<PathBuf> {
        self.opened.path.parent().map(|directory| directory.join(HISTORY))
    }

    fn fail(&self, error: &HostError) {
        self.screen.end_text();
        self.events.failure(error);
    }
}
