//! What is on the terminal: one place that writes to it, in order, whatever thread has something to say.
//!
//! Three things share the terminal: the answer as it streams in, whole lines (calls, notices, the meter), and the line that
//! says what is waited for, which is gone before anything else is written. While a line is being read, the editor owns
//! the terminal, and whole lines go through its printer, above what is being typed.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::markdown::Markdown;
use super::plain::is_dumb;
use super::text::{clean, one_line};
use crate::style::{QUIET, paint};

/// How often the waiting line moves.
const TICK: Duration = Duration::from_millis(100);
/// What is waited for is told after so long.
const PATIENCE: Duration = Duration::from_millis(150);
const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Where the size is not known, a page is this large.
const WIDTH: usize = 80;
const HEIGHT: usize = 24;

/// The terminal, or whatever is in its place.
pub(super) struct Screen {
    /// Whether a person sees it: then there is a waiting line, and prose is wrapped.
    pub(super) is_terminal: bool,
    /// Whether it is coloured.
    pub(super) coloured: bool,
    /// Whether it can only show text, one line after the other.
    pub(super) is_dumb: bool,
    state: Mutex<State>,
}

struct State {
    answer: Markdown,
    /// Whether an answer or a thought is in the middle of its text.
    writing: Writing,
    waiting: Option<Waiting>,
    /// Takes whole lines while a line is being read.
    printer: Option<SyncSender<String>>,
    /// Words that came while a line was being read, until their line is whole.
    above: String,
    /// Whether the last line is empty or the first.
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
    /// Standard output as it is.
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
            let weak = Arc::downgrade(&screen);
            // Without this thread nothing moves, which is all that would be missing.
            drop(std::thread::Builder::new().name("plimsoll-screen".into()).spawn(move || tick(&weak)));
        }
        screen
    }

    /// How wide the page is now.
    pub(super) fn width(&self) -> usize {
        let known = console::Term::stdout().size_checked().filter(|_| self.is_terminal);
        known.map_or(WIDTH, |(_, columns)| usize::from(columns).max(10))
    }

    /// How high it is now.
    pub(super) fn height(&self) -> usize {
        let known = console::Term::stdout().size_checked().filter(|_| self.is_terminal);
        known.map_or(HEIGHT, |(rows, _)| usize::from(rows).max(2))
    }

    /// More of the answer.
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
        // A pipe is given the lines as they are; its reader wraps them as it likes.
        let width = if self.is_terminal { self.width() } else { usize::MAX };
        let text = if self.is_terminal { state.answer.push(delta, width) } else { clean(delta) };
        state.put(&text, self);
    }

    /// More of what the model thinks.
    pub(super) fn thoughts(&self, delta: &str) {
        let mut state = self.state();
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

    /// The answer is whole, or something else comes.
    pub(super) fn end_text(&self) {
        let mut state = self.state();
        state.stop_waiting();
        state.end_text(self);
    }

    /// Whole lines, painted already. What comes from models and tools must have been made harmless before.
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

    /// Whole lines with an empty one before them.
    pub(super) fn block(&self, text: &str) {
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

    /// What stands before a line that is typed, on a terminal without an editor.
    pub(super) fn prompt(&self, text: &str) {
        let mut state = self.state();
        state.end_text(self);
        state.put(text, self);
    }

    /// Something is waited for.
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

    /// Nothing is waited for any more.
    pub(super) fn stop_waiting(&self) {
        self.state().stop_waiting();
    }

    /// A line is being read: whole lines go above it from now on.
    pub(super) fn begin_reading(&self, printer: SyncSender<String>) {
        let mut state = self.state();
        state.stop_waiting();
        state.end_text(self);
        state.printer = Some(printer);
    }

    /// The line has been read.
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
            Writing::Answer => self.put("\n", screen),
            Writing::Thought { in_line: true } => self.put("\n", screen),
            Writing::Thought { in_line: false } => {}
        }
    }

    /// An empty line, if there is none.
    fn space(&mut self, screen: &Screen) {
        if !self.is_spaced && screen.is_terminal {
            self.put("\n", screen);
            self.is_spaced = true;
        }
    }

    /// Write what belongs to the conversation.
    fn put(&mut self, text: &str, screen: &Screen) {
        if text.is_empty() {
            return;
        }
        self.is_spaced = false;
        write_to(&mut io::stdout().lock(), text, screen.coloured);
    }

    /// Write what is beside it: to the same terminal, or where a pipe reads the answers, to standard error.
    fn aside(&mut self, text: &str, screen: &Screen) {
        if screen.is_terminal {
            write_to(&mut io::stdout().lock(), text, screen.coloured);
        } else {
            let _ = anstream::stderr().write_all(text.as_bytes());
        }
    }

    fn print_above(&mut self, text: &str, screen: &Screen) {
        let text = if screen.coloured { text.to_owned() } else { plain(text) };
        // A printer that is full is not waited for: the reader may need this very thread to go on.
        if let Some(printer) = &self.printer {
            let _ = printer.try_send(text);
        }
    }

    /// What an agent in the background says is printed line by line above the one that is being typed.
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
        if self.writing == Writing::Answer {
            return;
        }
        waiting.frame = (waiting.frame + 1) % FRAMES.len();
        let time = if seconds > 0 { format!(" {seconds} s") } else { String::new() };
        let rest = if width < 60 { time } else { format!("{time} · Ctrl-C stops it") };
        // One column is left free, or terminals go on to the next line.
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
    // A terminal that went away ends the chat elsewhere: whatever reads from it is told.
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
    fn what_comes_from_elsewhere_goes_above_the_line_that_is_typed() {
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
        // A printer that is full is not waited for.
        let (printer, _printed) = sync_channel(1);
        screen.begin_reading(printer);
        (0..5).for_each(|_| screen.lines("one more"));
    }
}
