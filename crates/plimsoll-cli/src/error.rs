//! Errors for the person at the terminal: what happened, on what, and what to do.

use std::io::{self, Write};
use std::process::ExitCode;

use crate::output::printable;
use crate::style::{ERROR, HINT, paint};

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
    /// The answer is no.
    No,
    /// It was asked wrongly.
    Usage,
    /// It failed.
    Failed,
}

impl CliError {
    /// The answer is no.
    pub(crate) fn no(message: impl Into<String>) -> CliError {
        CliError { kind: Kind::No, message: message.into(), hint: None, io: None }
    }

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

    /// The kind of failure, if a file or a pipe failed.
    pub(crate) fn io_kind(&self) -> Option<io::ErrorKind> {
        self.io
    }

    /// Whether the reader of our output went away.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        self.io == Some(io::ErrorKind::BrokenPipe)
    }

    /// Whether something failed, rather than the answer being no.
    pub(crate) fn is_failure(&self) -> bool {
        self.kind != Kind::No
    }

    /// Whether it was asked wrongly.
    pub(crate) fn is_usage(&self) -> bool {
        self.kind == Kind::Usage
    }

    /// What happened and the next step, for a program: one line, without colour.
    pub(crate) fn plain(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}; {hint}", self.message),
            None => self.message.clone(),
        }
    }

    /// What happened, without the next step.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Tell it on standard error.
    pub(crate) fn tell(&self) {
        // Where standard error is closed too, the error cannot be told.
        let _ = anstream::stderr().write_all(self.text().as_bytes());
    }

    /// What a person is told, painted, a line or several.
    pub(crate) fn text(&self) -> String {
        let mut told = match self.kind {
            Kind::No => String::new(),
            Kind::Usage | Kind::Failed => paint(ERROR, "error:") + " ",
        };
        told.push_str(&printable(&self.message));
        told.push('\n');
        if let Some(hint) = &self.hint {
            told.push_str(&format!("{} {}\n", paint(HINT, "hint:"), printable(hint)));
        }
        told
    }

    /// What the shell is told.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self.kind {
            Kind::No => 1,
            Kind::Usage => 2,
            Kind::Failed => 3,
        })
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> CliError {
        CliError { io: Some(error.kind()), ..CliError::failed(error.to_string()) }
    }
}

/// Why something with a file failed, without the system's number for it.
pub(crate) fn reason(error: &io::Error) -> String {
    plain_reason(&error.to_string())
}

/// The same of what the system said.
pub(crate) fn plain_reason(text: &str) -> String {
    let told = text.split(" (os error ").next().unwrap_or_default();
    let mut letters = told.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}
