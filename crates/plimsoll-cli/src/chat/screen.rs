//! The terminal: one place that writes to it, in order, from any thread.
//!
//! Three things share the terminal: the streaming answer, complete lines (calls, notices, the meter), and the status line
//! that shows what the chat waits for, which is cleared before anything else is written. While a line is read, the editor
//! owns the terminal, and complete lines go through its printer, above the input.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::markdown::Markdown;
use super::plain::is_dumb;
use super::text::{clean, one_line};
use crate::style::{QUIET, paint};

/// Interval of the status line's animation.
const TICK: Duration = Duration::from_millis(100);
/// Delay before the status line appears.
const PATIENCE: Duration = Duration::from_millis(150);
const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Page size if the terminal's is unknown.
const WIDTH: usize = 80;
const HEIGHT: usize = 24;

/// Standard output and the properties of its terminal, if it is one.
pub(super) struct Screen {
    /// Whether standard output is a terminal: then there is a status line, and prose is wrapped.
    pub(super) is_terminal: bool,
    /// Whether colours are used.
    pub(super) coloured: bool,
    /// Whether the terminal cannot move the cursor.
    pub(super) is_dumb: bool,
    state: Mutex<State>,
}

struct State {
    answer: Markdown,
    /// Kind of text that is being written.
    writing: Writing,
    waiting: Option<Waiting>,
    /// Receives complete lines while a line is read.
    printer: Option<SyncSender<String>>,
    /// Text that arrived while a line was read, until its line is complete.
    above: String,
    /// Whether the output is at its start or after an empty line.
    is_spaced: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Writing {
    Nothing,
    Answer,
    Thought { in_line: bool },
}

struct Waiting {
    what: String,
    since: Instant,
    is_shown: bool,
    frame: usize,
}

impl Screen {
    /// Creates the screen for standard output.
    pub(super) fn new() -> Arc<Screen> {
        let stdout = io::stdout();
        let coloured = anstream::AutoStream::choice(&stdout) != anstream::ColorChoice::Never;
        let is_terminal = stdout.is_terminal();
        let state = State {
            answer: Markdown::new(coloured),
            writing: Writing::Nothing,
            waiting: None,
            printer: None,
            above: String::new(),
            is_spaced: true,
        };
        let is_dumb = is_terminal && is_dumb(std::env::var_os("TERM").as_deref());
        let screen = Arc::new(Screen { is_terminal, coloured, is_dumb, state: Mutex::new(state) });
        if is_terminal && !is_dumb {
            // A weak reference, so that the thread ends with the screen.
            let weak = Arc::downgrade(&screen);
            // Without this thread, only the animation is missing.
            drop(std::thread::Builder::new().name("plimsoll-screen".into()).spawn(move || tick(&weak)));
        }
        screen
    }

    /// Current width.
    pub(super) fn width(&self) -> usize {
        let known = console::Term::stdout().size_checked().filter(|_| self.is_terminal);
        known.map_or(WIDTH, |(_, columns)| usize::from(columns).max(10))
    }

    /// Current height.
    pub(super) fn height(&self) -> usize {
        let known = console::Term::stdout().size_checked().filter(|_| self.is_terminal);
        known.map_or(HEIGHT, |(rows, _)| usize::from(rows).max(2))
    }

    /// Writes more of the answer.
    pub(super) fn words(&self, delta: &str) {
        let mut state = self.state();
        if state.printer.is_some() {
            return state.words_above(delta, self);
        }
        state.stop_waiting();
        if !matches!(state.writing, Writing::Answer) {
            state.end_text(self);
            state.space(self);
            state.writing = Writing::Answer;
        }
        // In a pipe, lines are not wrapped.
        let width = if self.is_terminal { self.width() } else { usize::MAX };
        let text = if self.is_terminal { state.answer.push(delta, width) } else { clean(delta) };
        state.put(&text, self);
    }

    /// Writes more of the model's reasoning.
    pub(super) fn thoughts(&self, delta: &str) {
        let mut state = self.state();
        // While a line is read, only background agents think, and their reasoning is not shown.
        if state.printer.is_some() {
            return;
        }
        state.stop_waiting();
        if !matches!(state.writing, Writing::Thought { .. }) {
            state.end_text(self);
            state.space(self);
        }
        let text = clean(delta);
        state.writing = Writing::Thought { in_line: !text.ends_with('\n') };
        for (at, piece) in text.split('\n').enumerate() {
            let newline = if at > 0 { "\n" } else { "" };
            state.put(&format!("{newline}{}", paint(QUIET, piece)), self);
        }
    }

    /// Ends the answer, or interrupts it for other output.
    pub(super) fn end_text(&self) {
        let mut state = self.state();
        state.stop_waiting();
        state.end_text(self);
    }

    /// Writes complete, painted lines. Text of models and tools must have been escaped before.
    pub(super) fn lines(&self, text: &str) {
        let mut state = self.state();
        if state.printer.is_some() {
            return state.print_above(text, self);
        }
        state.stop_waiting();
        state.end_text(self);
        state.aside(&format!("{}\n", text.trim_end_matches('\n')), self);
        state.is_spaced = text.is_empty();
    }

    /// Writes complete lines after an empty one.
    pub(super) fn block(&self, text: &str) {
        // In its own scope, because `lines` takes the lock again.
        {
            let mut state = self.state();
            if state.printer.is_none() {
                state.stop_waiting();
                state.end_text(self);
                state.space(self);
            }
        }
        self.lines(text);
    }

    /// Writes the prompt, on a terminal without an editor.
    pub(super) fn prompt(&self, text: &str) {
        let mut state = self.state();
        state.end_text(self);
        state.put(text, self);
    }

    /// Shows what the chat waits for.
    pub(super) fn wait(&self, what: &str) {
        let mut state = self.state();
        match &mut state.waiting {
            Some(waiting) if waiting.what == what => {}
            Some(waiting) => (waiting.what, waiting.since) = (what.to_owned(), Instant::now()),
            None => {
                let since = Instant::now();
                state.waiting = Some(Waiting { what: what.to_owned(), since, is_shown: false, frame: 0 });
            }
        }
    }

    /// Clears the status line.
    pub(super) fn stop_waiting(&self) {
        self.state().stop_waiting();
    }

    /// Begins reading a line: complete lines go above it from now on.
    pub(super) fn begin_reading(&self, printer: SyncSender<String>) {
        let mut state = self.state();
        state.stop_waiting();
        state.end_text(self);
        state.printer = Some(printer);
    }

    /// Ends reading a line.
    pub(super) fn end_reading(&self) {
        let mut state = self.state();
        if !state.above.is_empty() {
            let rest = std::mem::take(&mut state.above);
            state.print_above(&rest, self);
        }
        state.printer = None;
        state.is_spaced = false;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn end_text(&mut self, screen: &Screen) {
        match std::mem::replace(&mut self.writing, Writing::Nothing) {
            Writing::Nothing => {}
            Writing::Answer if screen.is_terminal => {
                let rest = self.answer.finish();
                self.put(&rest, screen);
            }
            // A pipe has no wrapping, so the answer is written unchanged and only its final newline is missing.
            Writing::Answer => self.put("\n", screen),
            Writing::Thought { in_line: true } => self.put("\n", screen),
            Writing::Thought { in_line: false } => {}
        }
    }

    /// Writes an empty line, unless there is one.
    fn space(&mut self, screen: &Screen) {
        if !self.is_spaced && screen.is_terminal {
            self.put("\n", screen);
            self.is_spaced = true;
        }
    }

    /// Writes text of the conversation.
    fn put(&mut self, text: &str, screen: &Screen) {
        if text.is_empty() {
            return;
        }
        self.is_spaced = false;
        write_to(&mut io::stdout().lock(), text, screen.coloured);
    }

    /// Writes other text: to the same terminal, or to standard error if the answers go to a pipe.
    fn aside(&mut self, text: &str, screen: &Screen) {
        if screen.is_terminal {
            write_to(&mut io::stdout().lock(), text, screen.coloured);
        } else {
            let _ = anstream::stderr().write_all(text.as_bytes());
        }
    }

    fn print_above(&mut self, text: &str, screen: &Screen) {
        let text = if screen.coloured { text.to_owned() } else { plain(text) };
        // Does not wait if the printer is full: the reader may need this thread to make progress.
        if let Some(printer) = &self.printer {
            let _ = printer.try_send(text);
        }
    }

    /// Prints text of a background agent line by line above the input.
    fn words_above(&mut self, delta: &str, screen: &Screen) {
        self.above.push_str(&clean(delta));
        while let Some(end) = self.above.find('\n') {
            let line: String = self.above.drain(..=end).collect();
            self.print_above(line.trim_end(), screen);
        }
    }

    fn stop_waiting(&mut self) {
        if self.waiting.take().is_some_and(|waiting| waiting.is_shown) {
            write_to(&mut io::stdout().lock(), "\r\u{1b}[K", true);
        }
    }

    fn tick(&mut self, screen: &Screen) {
        let width = screen.width();
        let is_free = self.printer.is_none() && !matches!(self.writing, Writing::Thought { in_line: true });
        let Some(waiting) = self.waiting.as_mut().filter(|_| is_free) else { return };
        let seconds = waiting.since.elapsed().as_secs();
        if !waiting.is_shown && waiting.since.elapsed() < PATIENCE {
            return;
        }
        // An answer may pause in the middle of a line, which the status line would overwrite.
        if self.writing == Writing::Answer {
            return;
        }
        waiting.frame = (waiting.frame + 1) % FRAMES.len();
        let time = if seconds > 0 { format!(" {seconds} s") } else { String::new() };
        let rest = if width < 60 { time } else { format!("{time} · Ctrl-C to stop") };
        // The last column stays empty, because terminals would wrap.
        let room = width.saturating_sub(console::measure_text_width(&rest) + 3).max(4);
        let text = format!("{} {}{rest}", FRAMES[waiting.frame], one_line(&waiting.what, room));
        waiting.is_shown = true;
        let text = if screen.coloured { paint(QUIET, &text) } else { text };
        write_to(&mut io::stdout().lock(), &format!("\r{text}\u{1b}[K"), true);
    }
}

fn tick(screen: &Weak<Screen>) {
    loop {
        std::thread::sleep(TICK);
        let Some(screen) = screen.upgrade() else { return };
        screen.state().tick(&screen);
    }
}

fn write_to(to: &mut impl Write, text: &str, coloured: bool) {
    let bytes = if coloured { text.to_owned() } else { plain(text) };
    // If writing fails, the terminal is gone, which ends the chat elsewhere.
    let _ = to.write_all(bytes.as_bytes()).and_then(|()| to.flush());
}

fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::Screen;

    #[test]
    fn output_of_other_threads_is_printed_above_the_input_line() {
        let screen = Screen::new();
        let (printer, printed) = sync_channel(2);
        screen.begin_reading(printer);
        screen.words("half a li");
        screen.lines("a task has ended");
        assert_eq!(printed.try_recv().unwrap(), "a task has ended");
        screen.words("ne\u{1b}[2J of another agent\nand");
        assert_eq!(printed.try_recv().unwrap(), "half a line[2J of another agent");
        screen.wait("something");
        screen.end_reading();
        assert_eq!(printed.try_recv().unwrap(), "and");
        // A full printer does not block.
        let (printer, _printed) = sync_channel(1);
        screen.begin_reading(printer);
        (0..5).for_each(|_| screen.lines("one more"));
    }
}
