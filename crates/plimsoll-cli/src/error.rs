//! Errors for the person at the terminal: what happened, on what, and what to do.

use std::fmt;
use std::io;
use std::process::ExitCode;

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub(crate) struct CliError {
    kind: Kind,
    message: String,
    hint: Option<String>,
    io: Option<io::ErrorKind>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// It was asked wrongly.
    Usage,
    /// It failed.
    Failed,
}

impl CliError {
    /// It was asked wrongly.
    pub(crate) fn usage(message: impl Into<String>) -> CliError {
        CliError { kind: Kind::Usage, message: message.into(), hint: None, io: None }
    }

    /// It failed.
    pub(crate) fn failed(message: impl Into<String>) -> CliError {
        CliError { kind: Kind::Failed, message: message.into(), hint: None, io: None }
    }

    /// The same with a next step.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> CliError {
        self.hint = Some(hint.into());
        self
    }

    /// Whether the reader of our output went away.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        self.io == Some(io::ErrorKind::BrokenPipe)
    }

    /// Tell it on standard error.
    pub(crate) fn tell(&self) {
        // Where standard error is gone too, there is nobody to tell.
        let _ = io::Write::write_all(&mut io::stderr(), self.to_string().as_bytes());
    }

    /// What the shell is told.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self.kind {
            Kind::Usage => 2,
            Kind::Failed => 3,
        })
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}", self.message)?;
        match &self.hint {
            Some(hint) => writeln!(f, "hint: {hint}"),
            None => Ok(()),
        }
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> CliError {
        CliError { io: Some(error.kind()), ..CliError::failed(error.to_string()) }
    }
}
