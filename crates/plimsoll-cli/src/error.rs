//! Errors on a terminal: what happened, to what, and what to do.

use std::io::{self, Write};
use std::process::ExitCode;

use plimsoll_host::{ErrorKind, HostError};

use crate::output::printable;
use crate::style::{ERROR, HINT, paint};

/// Result of a command.
pub(crate) type CommandResult = Result<ExitCode, HostError>;

/// Whether the reader of standard output has closed it.
pub(crate) fn is_closed_pipe(error: &HostError) -> bool {
    // An error about another pipe has its own message.
    let is_plain = std::error::Error::source(error).is_some_and(|io| io.to_string() == error.message());
    is_plain && error.io_kind() == Some(io::ErrorKind::BrokenPipe)
}

/// Prints an error on standard error.
pub(crate) fn print_error(error: &HostError) {
    // If standard error is closed too, the error cannot be shown.
    let _ = anstream::stderr().write_all(error_text(error).as_bytes());
}

/// Prints all errors but the one that decides the exit code, which is returned: a failure rather than a negative result.
pub(crate) fn print_all_but_worst(mut errors: Vec<HostError>) -> Option<HostError> {
    errors.sort_by_key(HostError::is_failure);
    let worst = errors.pop();
    errors.iter().for_each(print_error);
    worst
}

/// Formats an error with its hints and colours.
pub(crate) fn error_text(error: &HostError) -> String {
    let mut text = match error.kind() {
        ErrorKind::Negative => String::new(),
        ErrorKind::Usage | ErrorKind::Failure => paint(ERROR, "error:") + " ",
    };
    text.push_str(&printable(error.message()));
    text.push('\n');
    for hint in error.hints() {
        text.push_str(&format!("{} {}\n", paint(HINT, "hint:"), printable(hint)));
    }
    text
}

/// The exit code of an error.
pub(crate) fn exit_code(error: &HostError) -> ExitCode {
    ExitCode::from(match error.kind() {
        ErrorKind::Negative => 1,
        ErrorKind::Usage => 2,
        ErrorKind::Failure => 3,
    })
}
