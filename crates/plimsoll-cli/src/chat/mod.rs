//! `plimsoll chat`: a conversation with an agent, in the terminal.
//!
//! | part | does |
//! |---|---|
//! | `screen`, `markdown`, `table`, `highlight`, `text` | write to the terminal, and let nothing untrusted do so |
//! | `tell`, `words`, `meter` | what happens, in words |
//! | `editor`, `plain`, `complete`, `command` | what is typed |
//! | `ask`, `question`, `pager` | whether a call may be made |
//! | `signals` | Ctrl-C, a request to end, the terminal's modes |
//! | `act`, `lists`, `tasks`, `todo` | the commands |

mod act;
mod ask;
mod command;
mod complete;
mod editor;
mod highlight;
mod lists;
mod markdown;
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
mod tell;
mod text;
mod todo;
mod words;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use plimsoll::SessionId;
use plimsoll_agent::{
    Agent, AgentError, Asker, Conversation, DEFAULT_AGENT, RunOverrides, RunReport, TaskBoard,
};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::agent::{self, Setup};
use crate::args::ChatArgs;
use crate::error::CliError;
use crate::interrupt::{self, INTERRUPTED_CODE};
use crate::output::Output;
use crate::store::{self, Opened};
use crate::style::{HEADING, QUIET, paint};
use crate::surroundings::Surroundings;

use act::Next;
use ask::TerminalAsker;
use complete::Choices;
use editor::{Editor, Input, Reader};
use meter::Meter;
use screen::Screen;
use signals::{Interrupts, QuietTerminal};
use tell::Teller;
use text::{one_line, visible, wrap};

/// The file beside the database in which prompts are remembered.
const HISTORY: &str = "chat-history";
/// So much of the last answer is shown when a session goes on.
const RECAP: usize = 1_200;

/// A chat.
pub(super) struct Chat<'a> {
    setup: &'a Setup<'a>,
    around: &'a Surroundings,
    opened: Opened,
    board: Arc<TaskBoard>,
    runtime: Runtime,
    screen: Arc<Screen>,
    teller: Arc<Teller>,
    interrupts: Arc<Interrupts>,
    asker: Option<Arc<dyn Asker>>,
    /// What the person has chosen besides what is configured.
    overrides: RunOverrides,
    /// The agent that the flags of the command line were given for.
    flags_for: String,
    /// None until something is said: a chat that is left at once leaves no session behind.
    conversation: Option<Conversation>,
    choices: Arc<Mutex<Choices>>,
    /// Whether a turn has failed, for scripts.
    has_failed: bool,
}

/// Talk to an agent.
pub(crate) fn run(args: &ChatArgs, around: &Surroundings, output: &mut Output) -> Result<ExitCode, CliError> {
    if output.json {
        return Err(CliError::usage("a chat is for people and has no `--json`")
            .hint("`plimsoll run --json` prints what an agent does as events"));
    }
    let setup = Setup::load(&args.agent, around)?;
    let (opened, session) = setup.open()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let screen = Screen::new();
    let teller = Arc::new(Teller::new(&screen, args.agent.thinking));
    let is_interactive = screen.is_terminal && io::stdin().is_terminal();
    let interrupts = Interrupts::watch(runtime.handle(), is_interactive);
    let asker = is_interactive.then(|| {
        let (screen, teller, interrupts) =
            (Arc::clone(&screen), Arc::clone(&teller), Arc::clone(&interrupts));
        Arc::new(TerminalAsker { screen, teller, interrupts, turn: tokio::sync::Mutex::default() })
            as Arc<dyn Asker>
    });
    let overrides = match &session {
        Some(id) => setup.overrides_for(&opened, id)?,
        None => setup.overrides(),
    };
    let flags_for = overrides.agent.clone().unwrap_or_else(|| DEFAULT_AGENT.to_owned());
    let told = Arc::clone(&teller);
    let board = setup.board(&opened, asker.clone(), Arc::new(move |event| told.tell(event)));
    let mut chat = Chat {
        setup: &setup,
        around,
        opened,
        board,
        runtime,
        screen,
        teller,
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
                &chat.teller.active,
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
        // A thread may still be reading from it, and never comes back.
        signals::quit_now();
    }
    done
}

impl<'a> Chat<'a> {
    /// Open the session that goes on, and say where one is.
    fn begin(&mut self, session: Option<&SessionId>) -> Result<(), CliError> {
        let agent = match session {
            Some(id) => self.agent_for(self.agent()?, id)?,
            None => self.agent()?,
        };
        let name = agent.model.name.to_string();
        let about = match session {
            Some(id) => {
                self.open(&agent, id).map_err(|error| agent::failed(&error, "plimsoll chat --continue"))?;
                format!("session {id}")
            }
            None => "a new session".to_owned(),
        };
        let directory = self.around.short(&self.around.directory);
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

    /// Read and answer until it is enough.
    fn talk(&mut self, first: String, reader: &mut Reader) -> Result<ExitCode, CliError> {
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
                    self.teller.notice(words::AGAIN_QUITS);
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

    /// Give the session back, and say how to come back to it.
    fn end(&mut self) {
        self.stop_tasks();
        if let Some(conversation) = self.conversation.take() {
            let id = conversation.session().clone();
            // What cannot be given back is free once its lease has run out.
            let _ = self.runtime.block_on(conversation.close());
            // `--continue` takes the newest session of the directory it is typed in.
            let here = self.sessions().is_ok_and(|here| here.first().is_some_and(|newest| newest.id == id));
            let back = if here { "--continue".to_owned() } else { format!("--session {id}") };
            self.teller.notice(&format!("session {id} is stored; `plimsoll chat {back}` goes on"));
        }
    }

    /// An agent as it was last chosen, that talks to this terminal.
    fn agent(&self) -> Result<Agent, CliError> {
        let mut overrides = self.overrides.clone();
        if !self.has_flags(&overrides) {
            overrides.allow.clear();
        }
        let mut agent = self.setup.agent(&self.opened, &overrides)?;
        let teller = Arc::clone(&self.teller);
        agent.events = Arc::new(move |event| teller.tell(event));
        agent.asker = self.asker.clone();
        if self.board.limits().depth > 0 {
            agent = agent.with_tasks(&self.board);
        }
        // Where lines come from a pipe, nothing tells the model later what has come of its tasks.
        agent.profile.awaits_tasks = self.asker.is_none();
        Ok(agent)
    }

    /// Whether `--allow` of the command line holds for the chosen agent. What was allowed to the one that the chat began with
    /// would undo what another, such as `plan`, is for.
    fn has_flags(&self, overrides: &RunOverrides) -> bool {
        overrides.agent.as_deref().unwrap_or(DEFAULT_AGENT) == self.flags_for
    }

    /// Open a session in place of the one that is open.
    fn open(&mut self, agent: &Agent, id: &SessionId) -> Result<(), AgentError> {
        self.close()?;
        let conversation = self.runtime.block_on(agent::open(agent, id))?;
        self.hold(conversation)
    }

    /// Give the open session back.
    fn close(&mut self) -> Result<(), AgentError> {
        match self.conversation.take() {
            Some(conversation) => self.runtime.block_on(conversation.close()),
            None => Ok(()),
        }
    }

    fn hold(&mut self, conversation: Conversation) -> Result<(), AgentError> {
        let lease = self.runtime.block_on(conversation.handle().lease())?;
        if let Some(holder) = store::taken_from_living(&lease) {
            self.teller.notice(&format!("the session was taken from `{}`", one_line(&holder, 100)));
        }
        interrupt::hold(&self.opened.archive, &lease);
        self.conversation = Some(conversation);
        Ok(())
    }

    /// Say something to the model, or go on where it was stopped, and tell what comes of it.
    fn turn(&mut self, prompt: Option<&str>) {
        let cancel = self.interrupts.begin_turn();
        self.screen.wait("starting");
        let done = self.take_turn(prompt, &cancel);
        self.interrupts.end_turn();
        self.screen.end_text();
        match done {
            Ok(Some(report)) => self.after_turn(&report),
            Ok(None) => self.teller.notice("stopped before anything was said"),
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
    ) -> Result<Option<RunReport>, CliError> {
        if self.conversation.is_none() {
            let agent = self.agent()?;
            // Beginning starts MCP servers, which may take their time.
            let begun = self.runtime.block_on(async {
                tokio::select! {
                    biased;
                    () = cancel.cancelled() => None,
                    begun = agent.begin("") => Some(begun),
                }
            });
            let Some(begun) = begun else { return Ok(None) };
            let held = begun.and_then(|conversation| self.hold(conversation));
            held.map_err(|error| agent::failed(&error, "/continue"))?;
        }
        let Some(conversation) = self.conversation.as_mut() else { return Ok(None) };
        let done = self.runtime.block_on(async {
            match prompt {
                Some(prompt) => conversation.run(prompt, cancel).await,
                // Tasks that have ended since are answered first.
                None => match conversation.take_notes().await? {
                    true => conversation.go_on(cancel).await,
                    false => conversation.resume(cancel).await,
                },
            }
        });
        done.map(Some).map_err(|error| agent::failed(&error, "/continue"))
    }

    fn after_turn(&mut self, report: &RunReport) {
        if let Some(why) = words::ended(&report.end) {
            self.teller.notice(&why);
        }
    }

    /// Tell how full the window is.
    fn show_meter(&self) {
        let Some(conversation) = &self.conversation else { return };
        let read = self.runtime.block_on(async {
            let inspection = conversation.inspect().await?;
            let receipts = act::receipts_in_view(conversation).await?;
            Ok::<_, AgentError>(Meter::new(&inspection, &receipts))
        });
        // A window that cannot be weighed now is told of when the next request cannot be made.
        if let Ok(meter) = read {
            self.screen.block(&meter.line(self.screen.width()));
        }
    }

    /// The end of what was said before.
    fn recap(&mut self) -> Result<(), CliError> {
        let Some(conversation) = &self.conversation else { return Ok(()) };
        let handle = conversation.handle();
        let prompt = handle.with_log(|log| {
            log.iter().rev().find(|message| message.is_prompt()).map(|message| message.text())
        });
        let prompt = self.runtime.block_on(prompt)?;
        let answer = self.runtime.block_on(handle.last_word())?.map(|message| message.text());
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
            None => self.teller.notice("the last turn was not finished; `/continue` goes on with it"),
        }
        self.show_meter();
        Ok(())
    }

    fn history_file(&self) -> Option<PathBuf> {
        self.opened.path.parent().map(|folder| folder.join(HISTORY))
    }

    fn fail(&self, error: &CliError) {
        self.screen.end_text();
        self.teller.failure(error);
    }
}
