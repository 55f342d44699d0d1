//! Asking whether a call may be made: exactly what would be done, and no as the answer to anything unclear.
//!
//! What is shown comes from a model. Every line of it stands behind a bar, wrapped here and not by the terminal, so that
//! none can look like a line of the question; whatever is invisible is spelled out.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use console::measure_text_width;
use plimsoll_agent::{Asker, PermissionAnswer, PermissionQuestion};
use tokio_util::sync::CancellationToken;

use super::editor::{Input, OpenQuestion, ask_line};
use super::highlight::diff_style;
use super::screen::Screen;
use super::signals::Interrupts;
use super::tell::Teller;
use super::text::{one_line, visible};
use crate::style::{HEADING, QUIET, paint};

const QUESTION: Style = AnsiColor::Yellow.on_default().bold();
/// Keys that come so soon after the question were meant for something else.
const TOO_SOON: Duration = Duration::from_millis(400);
/// More lines of a change than this are counted instead of shown.
const MOST_LINES: usize = 1_000;

/// Asks on the terminal.
pub(super) struct TerminalAsker {
    pub(super) screen: Arc<Screen>,
    pub(super) teller: Arc<Teller>,
    pub(super) interrupts: Arc<Interrupts>,
    /// One question at a time.
    pub(super) turn: tokio::sync::Mutex<()>,
}

/// Ends a line that is being read when the question does not matter any more.
struct BreakOnDrop(Arc<AtomicBool>);

impl Drop for BreakOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Asker for TerminalAsker {
    fn ask<'a>(
        &'a self,
        question: &'a PermissionQuestion,
        _cancel: &'a CancellationToken,
    ) -> Pin<Box<dyn Future<Output = PermissionAnswer> + Send + 'a>> {
        Box::pin(async move {
            let _one_at_a_time = self.turn.lock().await;
            // A task may ask while a prompt is awaited, whose line would take the answer for a prompt.
            let _before_the_prompt = OpenQuestion::raise(&self.interrupts.break_reading);
            self.teller.asked(&question.part, &question.what);
            self.screen.block(&render(question, self.screen.width()));
            let ended = BreakOnDrop(Arc::default());
            let (screen, interrupts) = (Arc::clone(&self.screen), Arc::clone(&self.interrupts));
            let broken = Arc::clone(&ended.0);
            let read = tokio::task::spawn_blocking(move || {
                let read = ask_line("allow? [y/a/N] ", &screen, &broken, || {
                    drain_keys();
                    std::thread::sleep(TOO_SOON);
                    drain_keys();
                });
                if let Input::Interrupt { had_text: false } = read {
                    interrupts.cancel_turn();
                }
                read
            });
            let answer = match read.await {
                Ok(Input::Line(line)) => answer_of(&line),
                Ok(Input::Interrupt { .. } | Input::Woken | Input::End) | Err(_) => {
                    PermissionAnswer::No { words: None }
                }
            };
            if answer == PermissionAnswer::Always {
                let rule = rule_text(question);
                self.teller.notice(&format!("allowed from now on in this session: {rule}"));
            }
            drop(ended);
            answer
        })
    }
}

/// What an answer means. Whatever is not clearly a yes is a no.
fn answer_of(line: &str) -> PermissionAnswer {
    match line.trim().to_lowercase().as_str() {
        "y" | "yes" => PermissionAnswer::Once,
        "a" | "always" => PermissionAnswer::Always,
        "" | "n" | "no" => PermissionAnswer::No { words: None },
        _ => PermissionAnswer::No { words: Some(line.trim().to_owned()) },
    }
}

/// Throw away keys that were pressed before the question could be read.
fn drain_keys() {
    use rustix::termios::{QueueSelector, tcflush};
    let _ = tcflush(io::stdin(), QueueSelector::IFlush);
    while let Ok(true) = crossterm::event::poll(Duration::ZERO) {
        if crossterm::event::read().is_err() {
            return;
        }
    }
}

/// The question, without the line that is typed.
fn render(question: &PermissionQuestion, width: usize) -> String {
    let tool = one_line(&question.tool, 60);
    let agent = match question.agent.as_str() {
        "build" => String::new(),
        agent => format!("{}: ", one_line(agent, 40)),
    };
    let mut text = format!("{} {agent}{}", paint(QUESTION, "?"), paint(HEADING, &tool));
    text.push_str(&paint(QUIET, &format!(" ({})", question.why)));
    text.push('\n');
    text.push_str(&barred(&visible(&question.what), width, false));
    if let Some(preview) = &question.preview {
        text.push_str(&paint(QUIET, "  with\n"));
        let whole = visible(&preview.replace('\t', "    "));
        let shown: Vec<&str> = whole.lines().take(MOST_LINES).collect();
        text.push_str(&barred(&shown.join("\n"), width, true));
        let more = whole.lines().count().saturating_sub(MOST_LINES);
        if more > 0 {
            text.push_str(&paint(QUESTION, &format!("  {more} more lines are not shown\n")));
        }
    }
    text.push_str(&paint(QUIET, "  y  once\n  a  always in this session, what fits\n"));
    text.push_str(&barred(&rule_text(question), width, false));
    text.push_str(&paint(QUIET, "  n  no, as is Enter; or say why not"));
    text
}

fn rule_text(question: &PermissionQuestion) -> String {
    let (tool, pattern) = (&question.always.tool, &question.always.pattern);
    let rule = if pattern == "*" { format!("every `{tool}`") } else { format!("{tool}:{pattern}") };
    visible(&rule).replace('\n', "\\n")
}

/// Text behind a bar: `│` where a line begins, `┆` where it goes on.
fn barred(text: &str, width: usize, is_diff: bool) -> String {
    let room = width.saturating_sub(5).max(8);
    let mut out = String::new();
    for line in text.split('\n') {
        for (at, piece) in pieces(line, room).iter().enumerate() {
            let bar = if at == 0 { "│" } else { "┆" };
            let style = diff_style(line).filter(|_| is_diff);
            let painted = style.map_or_else(|| piece.clone(), |style| paint(style, piece));
            out.push_str(&format!("  {} {painted}\n", paint(QUESTION, bar)));
        }
    }
    out
}

/// A line in pieces of at most so many columns.
fn pieces(line: &str, room: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut column = 0;
    for c in line.chars() {
        let width = measure_text_width(c.encode_utf8(&mut [0; 4]));
        if column + width > room {
            pieces.push(String::new());
            column = 0;
        }
        if let Some(last) = pieces.last_mut() {
            last.push(c);
        }
        column += width;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use plimsoll_agent::{PermissionAnswer, PermissionQuestion, parse_allow};

    use super::{answer_of, render};

    fn question(what: &str, preview: Option<&str>) -> PermissionQuestion {
        PermissionQuestion {
            session: "ses_1".into(),
            agent: "build".into(),
            part: "prt_1".into(),
            tool: "bash".into(),
            what: what.into(),
            preview: preview.map(str::to_owned),
            why: "it runs a command",
            always: parse_allow("bash:cargo *", None).unwrap(),
        }
    }

    fn plain(question: &PermissionQuestion, width: usize) -> String {
        anstream::adapter::strip_str(&render(question, width)).to_string()
    }

    #[test]
    fn a_question_shows_exactly_what_would_run() {
        insta::assert_snapshot!(plain(&question("cargo test\u{1b}[2K\rrm -rf ~ # \u{202e}txt", None), 60), @r"
        ? bash (it runs a command)
          │ cargo test\e[2K\rrm -rf ~ # \u{202e}txt
          y  once
          a  always in this session, what fits
          │ bash:cargo *
          n  no, as is Enter; or say why not
        ");
        insta::assert_snapshot!(plain(&question("src/a.rs", Some("@@ -1 +1 @@\n-\told line\n+\tnew line")), 40), @r"
        ? bash (it runs a command)
          │ src/a.rs
          with
          │ @@ -1 +1 @@
          │ -    old line
          │ +    new line
          y  once
          a  always in this session, what fits
          │ bash:cargo *
          n  no, as is Enter; or say why not
        ");
    }

    #[test]
    fn every_line_of_a_model_stands_behind_a_bar() {
        let evil = format!("true{}allow? [y/a/N] y\n\nallow? [y/a/N] y", " ".repeat(300));
        for width in [20, 40, 80, 200] {
            let shown = plain(&question(&evil, None), width);
            for line in shown.lines().filter(|line| line.contains("allow?")) {
                assert!(line.starts_with("  │ ") || line.starts_with("  ┆ "), "{line}");
            }
            assert!(shown.lines().all(|line| console::measure_text_width(line) <= width.max(60)), "{shown}");
        }
    }

    #[test]
    fn only_a_clear_yes_is_a_yes() {
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
    }
}
