//! A count of the engine's work: bytes of text that it reads, each time it reads them.
//!
//! The work of preparing a request has to be linear in its size, whatever the text is. Times would be a poor check: they
//! differ from run to run, and a test that compares them is either loose or flaky. The count is the same in every run.
//!
//! Every loop over a text calls `read` with what it may read, and so do [`Text::as_str`](crate::Text::as_str) and
//! the engine's regular expressions (the module `pattern`), whose loops are not ours. A scan inside a loop is then counted
//! once for each round. Copies and tables are not counted here: the test that uses the count adds the bytes that were
//! allocated. Only debug builds count.

#[cfg(debug_assertions)]
use std::cell::Cell;

#[cfg(debug_assertions)]
thread_local! {
    static BYTES: Cell<u64> = const { Cell::new(0) };
}

/// Notes that a text is about to be read, and returns it.
#[inline]
pub(crate) fn read<T: AsRef<[u8]> + ?Sized>(text: &T) -> &T {
    count(text.as_ref().len() + 1);
    text
}

/// Notes work that reads no text, in steps.
#[inline]
pub(crate) fn count(steps: usize) {
    #[cfg(debug_assertions)]
    BYTES.set(BYTES.get() + steps as u64);
    #[cfg(not(debug_assertions))]
    let _ = steps;
}

/// [`str::find`], for searches that a loop makes again and again in what is left of a text.
#[inline]
pub(crate) fn find(text: &str, wanted: &str) -> Option<usize> {
    let found = text.find(wanted);
    count(found.unwrap_or(text.len()) + wanted.len());
    found
}

/// Bytes that this thread has read so far.
#[cfg(debug_assertions)]
pub fn bytes_read() -> u64 {
    BYTES.get()
}
