//! Permission questions: they show exactly what would be done, and treat any unclear answer as no.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plimsoll_agent::{Asker, PermissionAnswer, PermissionQuestion};
use tokio_util::sync::CancellationToken;

use super::editor::{Input, OpenQuestion, ask_line, hold_terminal};
use super::events::EventView;
use super::messages;
use super::pager::{self, Paged};
use super::question::{QuestionText, Shown, rule_text};
use super::screen::Screen;
use super::signals::Interrupts;

/// Time after a question during which keys were meant for something else.
const TOO_SOON: Duration = Duration::from_millis(400);

/// Asks on the terminal.
pub(super) struct TerminalAsker {
    pub(super) screen: Arc<Screen>,
    pub(super) events: Arc<EventView>,
    pub(super) interrupts: Arc<Interrupts>,
    /// Serialises questions.
    pub(super) turn: tokio::sync::Mutex<()>,
}

/// Interrupts the line that is being read when the question is obsolete.
struct BreakOnDrop(Arc<AtomicBool>);

impl Drop for BreakOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Parsed answer.
#[derive(Debug, PartialEq)]
enum Reply {
    Answer(PermissionAnswer),
    /// Show everything, and ask again.
    View,
}

const NO: PermissionAnswer = PermissionAnswer::No { words: None };

impl Asker for TerminalAsker {
    fn ask<'a>(
        &'a self,
        question: &'a PermissionQuestion,
        _cancel: &'a CancellationToken,
    ) -> Pin<Box<dyn Future<Output = PermissionAnswer> + Send + 'a>> {
        Box::pin(async move {
            let _one_at_a_time = self.turn.lock().await;
            // A task may ask while the prompt is being read, which would take the answer for a prompt.
            let _before_the_prompt = OpenQuestion::raise(&self.interrupts.break_reading);
            self.events.record_question(&question.part, &question.what);
            let ended = BreakOnDrop(Arc::default());
            let answer = self.answer(question, &ended.0).await;
            if answer == PermissionAnswer::Always {
                let rule = rule_text(question);
                self.events.notice(&format!("always allowed in this session: {rule}"));
            }
            answer
        })
    }
}

impl TerminalAsker {
    /// Shows the question and reads answers until one decides.
    async fn answer(&self, question: &PermissionQuestion, ended: &Arc<AtomicBool>) -> PermissionAnswer {
        let task = self.events.active.asking(&question.session);
        let text = Arc::new(QuestionText::new(question, task.as_ref()));
        let brief = text.brief(self.screen.width(), self.screen.height());
        let (mut shown, mut unshown) = (brief.shown, Some(brief.text));
        loop {
            let prompt = match (brief.shown, shown) {
                (Shown::All, _) => "allow? [y/a/N] ",
                (_, Shown::Part) => "allow? [v/N] ",
                (_, Shown::Call) => "allow? [y/v/N] ",
                (_, Shown::All) => "allow? [y/a/v/N] ",
            };
            match self.read(prompt, unshown.take(), ended).await {
                Some(Reply::Answer(PermissionAnswer::Once)) if shown == Shown::Part => {
                    self.events.notice(messages::SEE_COMMAND_FIRST);
                }
                Some(Reply::Answer(PermissionAnswer::Always)) if shown != Shown::All => {
                    self.events.notice(messages::SEE_ALL_FIRST);
                }
                Some(Reply::Answer(answer)) => return answer,
                Some(Reply::View) => match self.view(&text, ended).await {
                    Some(Paged { was_interrupted: false, has_seen_end }) => {
                        if has_seen_end && shown != Shown::All {
                            shown = Shown::All;
                            self.screen.lines(&text.always(self.screen.width()));
                        }
                    }
                    Some(_) => {
                        self.interrupts.cancel_turn();
                        return NO;
                    }
                    None => return NO,
                },
                None => return NO,
            }
        }
    }

    /// Reads one answer, after showing the question if given; `None` if there is no more input.
    async fn read(
        &self,
        prompt: &'static str,
        question: Option<String>,
        ended: &Arc<AtomicBool>,
    ) -> Option<Reply> {
        let (screen, interrupts) = (Arc::clone(&self.screen), Arc::clone(&self.interrupts));
        let broken = Arc::clone(ended);
        let read = tokio::task::spawn_blocking(move || {
            let read = ask_line(prompt, &screen, &broken, || {
                // Only once the terminal is free: otherwise a prompt that is just being interrupted would hold the lines
                // back, and the user would be asked without having seen the question.
                if let Some(question) = question {
                    screen.block(&question);
                    drain_keys(&screen);
                    std::thread::sleep(TOO_SOON);
                }
                drain_keys(&screen);
            });
            if let Input::Interrupt { had_text: false } = read {
                interrupts.cancel_turn();
            }
            read
        });
        match read.await {
            Ok(Input::Line(line)) => Some(reply_of(&line)),
            Ok(Input::Interrupt { .. } | Input::Woken | Input::End) | Err(_) => None,
        }
    }

    /// Shows everything in the pager.
    async fn view(&self, text: &Arc<QuestionText>, ended: &Arc<AtomicBool>) -> Option<Paged> {
        let (screen, text, ended) = (Arc::clone(&self.screen), Arc::clone(text), Arc::clone(ended));
        let shown = tokio::task::spawn_blocking(move || {
            if screen.is_dumb {
                return pager::page(&screen, &ended, |width| text.rows(width));
            }
            hold_terminal(&screen, || pager::page(&screen, &ended, |width| text.rows(width)))
        });
        shown.await.ok()
    }
}

/// Parses an answer. Everything but a clear yes is a no.
fn reply_of(line: &str) -> Reply {
    Reply::Answer(match line.trim().to_lowercase().as_str() {
        "y" | "yes" => PermissionAnswer::Once,
        "a" | "always" => PermissionAnswer::Always,
        "" | "n" | "no" => NO,
        "v" | "view" => return Reply::View,
        _ => PermissionAnswer::No { words: Some(line.trim().to_owned()) },
    })
}

/// Discards keys that were pressed before the question could be read.
fn drain_keys(screen: &Screen) {
    use rustix::termios::{QueueSelector, tcflush};
    let _ = tcflush(io::stdin(), QueueSelector::IFlush);
    // The editor's library would interpret plain lines as keys.
    while !screen.is_dumb
        && let Ok(true) = crossterm::event::poll(Duration::ZERO)
    {
        if crossterm::event::read().is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_agent::PermissionAnswer;

    use super::{Reply, reply_of};

    #[test]
    fn only_a_clear_yes_is_a_yes() {
        let answer_of = |line: &str| match reply_of(line) {
            Reply::Answer(answer) => answer,
            Reply::View => panic!("{line}"),
        };
        for yes in ["y", " Y ", "yes"] {
            assert_eq!(answer_of(yes), PermissionAnswer::Once);
        }
        assert_eq!(answer_of("a"), PermissionAnswer::Always);
        for no in ["", "n", "No"] {
            assert_eq!(answer_of(no), PermissionAnswer::No { words: None });
        }
        for words in ["yy", "ya", "yes please", "use make instead"] {
            assert_eq!(answer_of(words), PermissionAnswer::No { words: Some(words.into()) });
        }
        assert_eq!((reply_of("v"), reply_of(" View ")), (Reply::View, Reply::View));
    }
}
