//! Pager for text that is longer than the screen.
//!
//! `$PAGER` is not used: the text is what the user decides about, so it must not be interpreted, and it must be known
//! whether its end was shown. The pager uses the alternate screen, so the question is still visible afterwards.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers, poll, read};
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use crossterm::{execute, queue};
use plimsoll::Tokens;

use super::screen::Screen;
use super::text::one_line;
use crate::style::{QUIET, paint};

/// Interval at which the pager checks whether the question is obsolete.
const POLL: Duration = Duration::from_millis(50);

/// Whether the alternate screen is active, so that an exit can restore the terminal.
static PAGING: AtomicBool = AtomicBool::new(false);

/// How the pager was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Paged {
    /// Whether the end was on the screen.
    pub(super) has_seen_end: bool,
    /// Whether it was left with Ctrl-C.
    pub(super) was_interrupted: bool,
}

/// Position in the text.
#[derive(Debug, Default, PartialEq)]
struct Position {
    top: usize,
    has_seen_end: bool,
}

/// Action of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    Rows(isize),
    Pages(isize),
    Begin,
    End,
    Leave,
    Interrupt,
}

impl Position {
    /// Moves, on pages of this many rows.
    fn go(&mut self, to: Move, rows: usize, page: usize) {
        let last = rows.saturating_sub(page);
        let by = |top: usize, rows: isize| top.saturating_add_signed(rows);
        // Pages overlap by one row.
        let step = isize::try_from(page.saturating_sub(1).max(1)).unwrap_or(isize::MAX);
        self.top = match to {
            Move::Rows(rows) => by(self.top, rows),
            Move::Pages(pages) => by(self.top, pages.saturating_mul(step)),
            Move::Begin => 0,
            Move::End => last,
            Move::Leave | Move::Interrupt => self.top,
        }
        .min(last);
        self.has_seen_end |= self.top >= last;
    }
}

fn move_of(code: KeyCode, modifiers: KeyModifiers) -> Option<Move> {
    let with_control = modifiers.contains(KeyModifiers::CONTROL);
    Some(match code {
        KeyCode::Char('c' | 'C') if with_control => Move::Interrupt,
        KeyCode::Char('d' | 'f') if with_control => Move::Pages(1),
        KeyCode::Char('u' | 'b') if with_control => Move::Pages(-1),
        // `v` too, because it is the key that opens the pager.
        KeyCode::Char('q' | 'Q' | 'v') | KeyCode::Esc => Move::Leave,
        KeyCode::Char(' ' | 'f') | KeyCode::PageDown => Move::Pages(1),
        KeyCode::Char('b') | KeyCode::PageUp => Move::Pages(-1),
        KeyCode::Char('j') | KeyCode::Down | KeyCode::Enter => Move::Rows(1),
        KeyCode::Char('k') | KeyCode::Up => Move::Rows(-1),
        KeyCode::Char('g') | KeyCode::Home => Move::Begin,
        KeyCode::Char('G') | KeyCode::End => Move::End,
        _ => return None,
    })
}

/// Shows rows until the user leaves, or `ended` is set because the question is obsolete. `rows` formats them for a width.
/// The terminal must be free.
pub(super) fn page(screen: &Screen, ended: &AtomicBool, rows: impl Fn(usize) -> Vec<String>) -> Paged {
    let pages = if screen.is_dumb { None } else { Pages::begin().ok() };
    let Some(pages) = pages else {
        // A terminal without an alternate screen gets all rows at once.
        screen.lines(&rows(screen.width()).join("\n"));
        return Paged { has_seen_end: true, was_interrupted: false };
    };
    let (mut size, mut position) = ((screen.width(), screen.height()), Position::default());
    let mut all = rows(size.0);
    let left = loop {
        let page = size.1.saturating_sub(1).max(1);
        position.go(Move::Rows(0), all.len(), page);
        draw(&all, &position, size, screen.coloured);
        match next_move(ended) {
            Some(Move::Leave) | None => break false,
            Some(Move::Interrupt) => break true,
            Some(to) => position.go(to, all.len(), page),
        }
        let now = (screen.width(), screen.height());
        // Only a new width changes the rows. Formatting a long text again for each key would be slow.
        if now.0 != size.0 {
            all = rows(now.0);
        }
        size = now;
    };
    drop(pages);
    Paged { has_seen_end: position.has_seen_end, was_interrupted: left }
}

/// Returns the next move; `None` if there is no more input. A resize is a move by no rows.
fn next_move(ended: &AtomicBool) -> Option<Move> {
    loop {
        if ended.load(Ordering::Acquire) {
            return None;
        }
        match poll(POLL) {
            Ok(false) => continue,
            Ok(true) => {}
            Err(_) => return None,
        }
        match read() {
            Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                if let Some(to) = move_of(key.code, key.modifiers) {
                    return Some(to);
                }
            }
            Ok(Event::Resize(..)) => return Some(Move::Rows(0)),
            Ok(_) => {}
            Err(_) => return None,
        }
    }
}

fn draw(rows: &[String], position: &Position, (width, height): (usize, usize), coloured: bool) {
    let page = height.saturating_sub(1).max(1);
    let last = (position.top + page).min(rows.len());
    let number = |count: usize| Tokens(count as u64);
    let at = format!("{}-{} of {}", number(position.top + 1), number(last), number(rows.len()));
    let keys = "Space next, b back, G end, q quit";
    let status = one_line(&format!("{at} · {keys}"), width.saturating_sub(1));
    let mut out = io::stdout().lock();
    let plain = |text: &str| {
        if coloured { text.to_owned() } else { anstream::adapter::strip_str(text).to_string() }
    };
    // If writing fails, the terminal is gone, which ends the chat elsewhere.
    let _ = queue!(out, MoveTo(0, 0), Clear(ClearType::All));
    for row in &rows[position.top..last] {
        let _ = write!(out, "{}\r\n", plain(row));
    }
    let down = u16::try_from(height.saturating_sub(1)).unwrap_or(u16::MAX);
    let _ = queue!(out, MoveTo(0, down));
    let _ = write!(out, "{}", plain(&paint(QUIET, &status))).and_then(|()| out.flush());
}

/// The alternate screen, until it is dropped.
struct Pages;

impl Pages {
    fn begin() -> io::Result<Pages> {
        enable_raw_mode()?;
        // Set before the switch: leaving a screen that was not entered does nothing, but an exit in between must restore it.
        PAGING.store(true, Ordering::Release);
        execute!(io::stdout(), EnterAlternateScreen, Hide)?;
        Ok(Pages)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        leave();
        let _ = disable_raw_mode();
    }
}

/// Leaves the alternate screen, if it is active.
pub(super) fn leave() {
    if PAGING.swap(false, Ordering::AcqRel) {
        let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
    }
}

#[cfg(test)]
mod tests {
    use super::{Move, Position};

    #[test]
    fn pages_overlap_by_a_row_and_reaching_the_end_is_recorded() {
        let mut at = Position::default();
        at.go(Move::Rows(0), 100, 20);
        assert_eq!(at, Position { top: 0, has_seen_end: false });
        at.go(Move::Pages(1), 100, 20);
        assert_eq!(at.top, 19);
        at.go(Move::Rows(-50), 100, 20);
        assert_eq!(at.top, 0);
        at.go(Move::Pages(4), 100, 20);
        assert_eq!(at, Position { top: 76, has_seen_end: false });
        at.go(Move::Pages(1), 100, 20);
        assert_eq!(at, Position { top: 80, has_seen_end: true });
        at.go(Move::Begin, 100, 20);
        assert_eq!(at, Position { top: 0, has_seen_end: true });
        let mut short = Position::default();
        short.go(Move::Rows(0), 3, 20);
        assert!(short.has_seen_end);
    }
}
