//! Reading lines: with an editor on a terminal, unchanged from anything else.

use std::borrow::Cow;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use reedline::{
    ColumnarMenu, DefaultHinter, EditCommand, Emacs, ExternalPrinter, FileBackedHistory, Highlighter,
    KeyCode, KeyModifiers, MenuBuilder, Prompt, PromptEditMode, PromptHistorySearch,
    PromptHistorySearchStatus, Reedline, ReedlineEvent, ReedlineMenu, Signal, StyledText,
    default_emacs_keybindings,
};

use plimsoll_host::create_private_directory;

use super::complete::{Choices, CommandCompleter};
use super::plain;
use super::screen::Screen;
use super::signals::Interrupts;
use super::tasks::ActiveTasks;

/// Maximum number of prompts in the history.
const REMEMBERED: usize = 2_000;
/// Maximum number of queued lines to print above the line that is being edited.
const PRINTER_LINES: usize = 1_000;
/// Interval at which the editor checks for lines to print and for interruption.
pub(super) const POLL: Duration = Duration::from_millis(50);
const MENU: &str = "commands";
const PROMPT: &str = "› ";

/// Held while a line is read, because there is one terminal.
pub(super) static READING: Mutex<()> = Mutex::new(());

/// Number of open questions, and the signal that one was answered. Questions take precedence over the prompt.
static QUESTIONS: Mutex<usize> = Mutex::new(0);
static ANSWERED: Condvar = Condvar::new();

/// A question that has to be answered before the next prompt is read.
pub(super) struct OpenQuestion;

impl OpenQuestion {
    /// Registers a question. A prompt that is being read is interrupted, and its text comes back with the next one.
    pub(super) fn raise(break_reading: &AtomicBool) -> OpenQuestion {
        *QUESTIONS.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        break_reading.store(true, Ordering::Release);
        OpenQuestion
    }

    /// Waits until no question is open.
    fn await_none() {
        let open = QUESTIONS.lock().unwrap_or_else(PoisonError::into_inner);
        drop(ANSWERED.wait_while(open, |open| *open > 0).unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        let mut open = QUESTIONS.lock().unwrap_or_else(PoisonError::into_inner);
        *open = open.saturating_sub(1);
        ANSWERED.notify_all();
    }
}

/// Result of reading a line.
#[derive(Debug, PartialEq)]
pub(super) enum Input {
    /// Text of one or several lines.
    Line(String),
    /// Ctrl-C.
    Interrupt {
        /// Whether text had been typed, which is now discarded.
        had_text: bool,
    },
    /// Interrupted because something must be handled now.
    Woken,
    /// Ctrl-D, the end of the input, or a request to quit.
    End,
}

/// Interrupts a read from another thread, unless the user is typing.
#[derive(Clone)]
pub(super) struct EditorWaker {
    pub(super) break_reading: Arc<AtomicBool>,
    has_text: Arc<AtomicBool>,
    /// Set if the chat must end; otherwise an interrupted read made way for something else.
    quits: Option<Arc<AtomicBool>>,
}

impl EditorWaker {
    /// Interrupts the read; returns whether it will end.
    pub(super) fn end_read(&self) -> bool {
        if self.has_text.load(Ordering::Acquire) {
            return false;
        }
        self.break_reading.store(true, Ordering::Release);
        true
    }

    /// Whether the interrupted read ended the chat.
    pub(super) fn is_over(&self) -> bool {
        self.quits.as_ref().is_none_or(|quits| quits.load(Ordering::Acquire))
    }
}

/// Reads prompts.
pub(super) enum Reader {
    /// From a terminal.
    Editor(Box<Editor>),
    /// From a terminal that has no room for an editor.
    Plain(Arc<Screen>, EditorWaker),
    /// From anything else, a line at a time.
    Lines,
}

/// A line editor with history and completion.
pub(super) struct Editor {
    line: Reedline,
    printer: std::sync::mpsc::SyncSender<String>,
    wake: EditorWaker,
    screen: Arc<Screen>,
    active: Arc<ActiveTasks>,
}

impl Reader {
    /// Reads lines that the terminal edits.
    pub(super) fn plain(screen: &Arc<Screen>, interrupts: &Interrupts) -> Reader {
        let (break_reading, quits) = (Arc::clone(&interrupts.break_reading), Arc::clone(&interrupts.quits));
        // Only the terminal knows what is being typed, and keeps it.
        let wake = EditorWaker { break_reading, has_text: Arc::default(), quits: Some(quits) };
        Reader::Plain(Arc::clone(screen), wake)
    }

    /// Returns the handle that interrupts a read; `None` for a pipe, which cannot be interrupted.
    pub(super) fn wake(&self) -> Option<EditorWaker> {
        match self {
            Reader::Editor(editor) => Some(editor.wake.clone()),
            Reader::Plain(_, wake) => Some(wake.clone()),
            Reader::Lines => None,
        }
    }

    /// Reads one prompt.
    pub(super) fn read(&mut self) -> Input {
        match self {
            Reader::Editor(editor) => editor.read(),
            Reader::Plain(screen, wake) => {
                OpenQuestion::await_none();
                plain::read_line(PROMPT, screen, wake, || {})
            }
            Reader::Lines => {
                let mut line = String::new();
                match io::stdin().lock().read_line(&mut line) {
                    Ok(1..) => Input::Line(line.trim_end_matches(['\n', '\r']).to_owned()),
                    Ok(0) | Err(_) => Input::End,
                }
            }
        }
    }
}

impl Editor {
    /// Creates an editor whose history file is only readable by its user.
    pub(super) fn new(
        screen: &Arc<Screen>,
        interrupts: &Interrupts,
        history: Option<&Path>,
        choices: &Arc<Mutex<Choices>>,
        active: &Arc<ActiveTasks>,
    ) -> Editor {
        let mut keys = default_emacs_keybindings();
        let completes =
            ReedlineEvent::UntilFound(vec![ReedlineEvent::Menu(MENU.to_owned()), ReedlineEvent::MenuNext]);
        keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, completes);
        keys.add_binding(KeyModifiers::SHIFT, KeyCode::BackTab, ReedlineEvent::MenuPrevious);
        let newline = ReedlineEvent::Edit(vec![EditCommand::InsertNewline]);
        for (modifiers, key) in [
            (KeyModifiers::ALT, KeyCode::Enter),
            (KeyModifiers::SHIFT, KeyCode::Enter),
            (KeyModifiers::CONTROL, KeyCode::Char('j')),
        ] {
            keys.add_binding(modifiers, key, newline.clone());
        }
        let menu = ColumnarMenu::default().with_name(MENU).with_columns(1);
        let mut line = Reedline::create()
            .with_edit_mode(Box::new(Emacs::new(keys)))
            .with_completer(Box::new(CommandCompleter(Arc::clone(choices))))
            .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
            .with_partial_completions(true)
            .with_quick_completions(true)
            // As in shells: a line that begins with a space, such as one with a secret, is not stored.
            .with_history_exclusion_prefix(Some(" ".into()));
        // Without colours, a hint looks like typed text.
        if screen.coloured {
            let quiet = nu_ansi_term::Style::new().dimmed();
            line = line.with_hinter(Box::new(DefaultHinter::default().with_style(quiet)));
        }
        // If the history cannot be stored, it lasts as long as the chat.
        let stored = history.and_then(private_history);
        if let Some(history) = stored {
            line = line.with_history(Box::new(history));
        }
        let (line, printer, has_text) = shared(line, screen, interrupts);
        let break_reading = Arc::clone(&interrupts.break_reading);
        let wake = EditorWaker { break_reading, has_text, quits: Some(Arc::clone(&interrupts.quits)) };
        Editor { line, printer, wake, screen: Arc::clone(screen), active: Arc::clone(active) }
    }

    fn read(&mut self) -> Input {
        let prompt = PlainPrompt { indicator: PROMPT, active: Some(Arc::clone(&self.active)) };
        OpenQuestion::await_none();
        let input = read_line(&mut self.line, &prompt, &self.printer, &self.wake, &self.screen, || {});
        // A failure to write the history must not end the chat.
        let _ = self.line.sync_history();
        input
    }
}

/// Reads one line without history and completion. `before` runs once the terminal is free.
pub(super) fn ask_line(
    prompt: &'static str,
    screen: &Arc<Screen>,
    break_reading: &Arc<AtomicBool>,
    before: impl FnOnce(),
) -> Input {
    if screen.is_dumb {
        let (break_reading, has_text) = (Arc::clone(break_reading), Arc::default());
        return plain::read_line(
            prompt,
            screen,
            &EditorWaker { break_reading, has_text, quits: None },
            before,
        );
    }
    let line = Reedline::create().with_edit_mode(Box::new(Emacs::new(default_emacs_keybindings())));
    let (mut line, printer, has_text) = with_printer(line, screen, break_reading);
    let wake = EditorWaker { break_reading: Arc::clone(break_reading), has_text, quits: None };
    let prompt = PlainPrompt { indicator: prompt, active: None };
    read_line(&mut line, &prompt, &printer, &wake, screen, before)
}

/// Runs `work` with exclusive access to the terminal. Lines printed meanwhile appear afterwards.
pub(super) fn hold_terminal<T>(screen: &Screen, work: impl FnOnce() -> T) -> T {
    let _one_at_a_time = READING.lock().unwrap_or_else(PoisonError::into_inner);
    let (printer, held) = std::sync::mpsc::sync_channel(PRINTER_LINES);
    screen.begin_reading(printer);
    let done = work();
    screen.end_reading();
    // After `end_reading`: until then the screen would send the lines to the same queue.
    held.try_iter().for_each(|text| screen.lines(&text));
    done
}

fn shared(
    line: Reedline,
    screen: &Arc<Screen>,
    interrupts: &Interrupts,
) -> (Reedline, std::sync::mpsc::SyncSender<String>, Arc<AtomicBool>) {
    with_printer(line, screen, &interrupts.break_reading)
}

/// Creates an editor that prints queued lines above its own and can be interrupted.
fn with_printer(
    line: Reedline,
    screen: &Arc<Screen>,
    break_reading: &Arc<AtomicBool>,
) -> (Reedline, std::sync::mpsc::SyncSender<String>, Arc<AtomicBool>) {
    let printer = ExternalPrinter::new(PRINTER_LINES);
    let (sender, has_text) = (printer.sender(), Arc::new(AtomicBool::new(false)));
    let noticing = NoticeText { has_text: Arc::clone(&has_text), coloured: screen.coloured };
    let line = line
        .use_bracketed_paste(true)
        .with_external_printer(printer)
        .with_poll_interval(POLL)
        .with_break_signal(Arc::clone(break_reading))
        .with_highlighter(Box::new(noticing))
        .with_ansi_colors(screen.coloured);
    (line, sender, has_text)
}

fn read_line(
    line: &mut Reedline,
    prompt: &PlainPrompt,
    printer: &std::sync::mpsc::SyncSender<String>,
    wake: &EditorWaker,
    screen: &Screen,
    before: impl FnOnce(),
) -> Input {
    let _one_at_a_time = READING.lock().unwrap_or_else(PoisonError::into_inner);
    before();
    wake.has_text.store(false, Ordering::Release);
    screen.begin_reading(printer.clone());
    let read = line.read_line(prompt);
    screen.end_reading();
    match read {
        Ok(Signal::Success(text)) => Input::Line(text),
        Ok(Signal::CtrlC) => Input::Interrupt { had_text: wake.has_text.load(Ordering::Acquire) },
        Ok(Signal::ExternalBreak(_)) if !wake.is_over() => {
            // The prompt does not move; text typed meanwhile is in the editor and comes back with the next prompt.
            let _ = io::stdout().write_all(b"\r\x1b[K").and_then(|()| io::stdout().flush());
            Input::Woken
        }
        // If the terminal is gone there is no more input.
        Ok(_) | Err(_) => Input::End,
    }
}

/// Opens the history file, readable only by its user.
fn private_history(path: &Path) -> Option<FileBackedHistory> {
    use std::os::unix::fs::OpenOptionsExt;
    create_private_directory(path.parent()?).ok()?;
    std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path).ok()?;
    FileBackedHistory::with_file(REMEMBERED, path.to_owned()).ok()
}

/// Records whether the line has text: the editor clears it before it reports Ctrl-C.
struct NoticeText {
    has_text: Arc<AtomicBool>,
    coloured: bool,
}

impl Highlighter for NoticeText {
    fn highlight(&self, line: &str, _cursor: usize) -> StyledText {
        if !line.is_empty() {
            self.has_text.store(true, Ordering::Release);
        }
        let is_command = line.starts_with('/') && !line.starts_with("//") && self.coloured;
        let style = if is_command {
            nu_ansi_term::Style::new().fg(nu_ansi_term::Color::Cyan)
        } else {
            nu_ansi_term::Style::new()
        };
        let mut styled = StyledText::new();
        styled.push((style, line.to_owned()));
        styled
    }
}

struct PlainPrompt {
    indicator: &'static str,
    /// Right prompt: the number of running tasks.
    active: Option<Arc<ActiveTasks>>,
}

impl Prompt for PlainPrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        "".into()
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        self.active.as_ref().map(|active| active.status()).unwrap_or_default().into()
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        self.indicator.into()
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        "  ".into()
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        let failing = match search.status {
            PromptHistorySearchStatus::Passing => "",
            PromptHistorySearchStatus::Failing => "no match for ",
        };
        format!("(history: {failing}{}) ", search.term).into()
    }
}
