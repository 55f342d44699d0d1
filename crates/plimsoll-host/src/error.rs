//! Errors for users of a host: the problem, the value, and the next step.

use std::error::Error;
use std::fmt;
use std::io;

use plimsoll::LogError;
use plimsoll::receipt::UndoError;
use plimsoll_agent::tasks::TaskError;
use plimsoll_agent::{AgentSetupError, RevertError};
use plimsoll_config::{ConfigError, LedgerError};
use plimsoll_import::ImportError;
use plimsoll_session::SessionError;
use plimsoll_store::{StoreError, utc};

pub use plimsoll_import::reason;

/// Maximum number of sessions that are listed if an id is ambiguous.
const LISTED: usize = 10;

/// Error of a host operation.
///
/// A command maps [`HostError::kind`] to its exit code, a server to a status. The message has one or more plain lines. Each
/// hint is a next step.
#[derive(Debug)]
pub struct HostError {
    kind: ErrorKind,
    message: String,
    hints: Vec<String>,
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// Kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// A negative result: the request was valid, and the answer is no.
    Negative,
    /// The request is invalid: unknown names, contradicting options.
    Usage,
    /// Something failed.
    Failure,
}

impl HostError {
    /// Creates an error for a negative result.
    pub fn negative(message: impl Into<String>) -> HostError {
        HostError::new(ErrorKind::Negative, message)
    }

    /// Creates an error for an invalid request.
    pub fn usage(message: impl Into<String>) -> HostError {
        HostError::new(ErrorKind::Usage, message)
    }

    /// Creates an error for a failure.
    pub fn failed(message: impl Into<String>) -> HostError {
        HostError::new(ErrorKind::Failure, message)
    }

    fn new(kind: ErrorKind, message: impl Into<String>) -> HostError {
        HostError { kind, message: message.into(), hints: Vec::new(), source: None }
    }

    /// Creates an error with the message of its cause.
    fn of(kind: ErrorKind, source: impl Error + Send + Sync + 'static) -> HostError {
        HostError::new(kind, source.to_string()).caused_by(source)
    }

    /// Creates an error for an invalid request, with the message of its cause.
    pub(crate) fn usage_of(source: impl Error + Send + Sync + 'static) -> HostError {
        HostError::of(ErrorKind::Usage, source)
    }

    /// Creates an error for a failure, with the message of its cause.
    pub(crate) fn failed_of(source: impl Error + Send + Sync + 'static) -> HostError {
        HostError::of(ErrorKind::Failure, source)
    }

    /// Adds a next step.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> HostError {
        self.hints.push(hint.into());
        self
    }

    /// Sets the cause.
    #[must_use]
    pub fn caused_by(mut self, source: impl Error + Send + Sync + 'static) -> HostError {
        self.source = Some(Box::new(source));
        self
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether something failed or the request is invalid, rather than the answer being no.
    pub fn is_failure(&self) -> bool {
        self.kind != ErrorKind::Negative
    }

    /// Returns the message without the hints.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the next steps.
    pub fn hints(&self) -> &[String] {
        &self.hints
    }

    /// Returns the kind of I/O error, if the cause is one.
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        self.source.as_ref()?.downcast_ref::<io::Error>().map(io::Error::kind)
    }

    /// Returns the message and the hints on one line, for a program.
    pub fn one_line(&self) -> String {
        std::iter::once(&self.message).chain(&self.hints).cloned().collect::<Vec<_>>().join("; ")
    }
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for HostError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}

impl From<io::Error> for HostError {
    fn from(error: io::Error) -> HostError {
        HostError::of(ErrorKind::Failure, error)
    }
}

impl From<LogError> for HostError {
    fn from(error: LogError) -> HostError {
        HostError::of(ErrorKind::Failure, error)
    }
}

impl From<StoreError> for HostError {
    fn from(error: StoreError) -> HostError {
        match error {
            StoreError::Expired { ref handle, at, ref shown } => {
                let (at, shown) = (utc(at), shown.trim_end());
                let message =
                    format!("the content of `{handle}` expired at {at}; the window still shows:\n{shown}");
                HostError::negative(message)
                    .hint("to keep future spilled outputs, set `keep = true` under `[spills]` in `plimsoll.toml`")
                    .caused_by(error)
            }
            StoreError::Lost { .. } | StoreError::Undo(UndoError::Final(_)) => {
                HostError::of(ErrorKind::Negative, error)
            }
            StoreError::Ambiguous { ref handle, ref candidates } => {
                HostError::usage(format!("handle `{handle}` is ambiguous"))
                    .hint(format!("candidates: {}", candidates.join(", ")))
                    .caused_by(error)
            }
            StoreError::Missing { .. } | StoreError::Refused(_) => HostError::of(ErrorKind::Usage, error),
            StoreError::Damaged { .. } => HostError::of(ErrorKind::Failure, error).hint(
                "list all damage with `plimsoll sessions check`, or export what is readable with `plimsoll sessions export ID --salvage`",
            ),
            StoreError::Io { what, source } => {
                HostError::failed(format!("{what}: {}", reason(&source))).caused_by(source)
            }
            other => HostError::of(ErrorKind::Failure, other),
        }
    }
}

impl From<SessionError> for HostError {
    fn from(error: SessionError) -> HostError {
        match error {
            SessionError::Store(error) => error.into(),
            SessionError::Log(error) => error.into(),
            SessionError::Pin(_) => HostError::of(ErrorKind::Negative, error),
            SessionError::OutOfView(_) => {
                HostError::of(ErrorKind::Usage, error).hint("`plimsoll recall` shows the message of a part")
            }
            other => HostError::of(ErrorKind::Failure, other),
        }
    }
}

impl From<ImportError> for HostError {
    fn from(error: ImportError) -> HostError {
        match error {
            ImportError::Ambiguous { id, candidates } => {
                ambiguous(&id, candidates.iter().map(|(id, what)| (id.as_str(), what.as_str())))
            }
            ImportError::Store(error) => error.into(),
            other => HostError::of(ErrorKind::Failure, other),
        }
    }
}

impl From<ConfigError> for HostError {
    fn from(error: ConfigError) -> HostError {
        HostError::from(&error).caused_by(error)
    }
}

impl From<&ConfigError> for HostError {
    fn from(error: &ConfigError) -> HostError {
        let message = match error {
            ConfigError::Unreadable { path, source } => {
                format!("cannot read `{}`: {}", path.display(), reason(source))
            }
            other => other.to_string(),
        };
        // Escaped, because the message quotes keys and values of untrusted files.
        let shown = HostError::usage(escaped(&message));
        error.hint().into_iter().fold(shown, |shown, hint| shown.hint(escaped(&hint)))
    }
}

impl From<LedgerError> for HostError {
    fn from(error: LedgerError) -> HostError {
        HostError::failed(ledger_message(&error))
            .hint(format!("{}, then try again", error.remedy()))
            .caused_by(error)
    }
}

impl From<AgentSetupError> for HostError {
    fn from(error: AgentSetupError) -> HostError {
        let hint = match &error {
            AgentSetupError::Model(error) => Some(error.hint()),
            AgentSetupError::UnknownAgent { .. } => {
                Some("configure agents under `[agents.NAME]`, or in `opencode.json`".to_owned())
            }
            AgentSetupError::NotConfined(_) => {
                Some("`--sandbox auto` confines commands as far as this system allows".to_owned())
            }
            _ => None,
        };
        let is_failure = matches!(error, AgentSetupError::Client(_));
        let kind = if is_failure { ErrorKind::Failure } else { ErrorKind::Usage };
        hint.into_iter().fold(HostError::of(kind, error), HostError::hint)
    }
}

impl From<RevertError> for HostError {
    fn from(error: RevertError) -> HostError {
        match error {
            RevertError::Nothing | RevertError::NoRevert => HostError::of(ErrorKind::Negative, error),
            RevertError::NoTurn { .. } => HostError::of(ErrorKind::Usage, error)
                .hint("turns are counted by prompts; `plimsoll sessions show SESSION` lists them"),
            RevertError::TasksAtWork(_) => HostError::of(ErrorKind::Negative, error).hint(
                "wait for them, or cancel them: `plimsoll tasks cancel ID`, in a chat `/tasks cancel ID`",
            ),
            RevertError::Session(error) => error.into(),
            error => HostError::of(ErrorKind::Failure, error),
        }
    }
}

impl From<TaskError> for HostError {
    fn from(error: TaskError) -> HostError {
        match error {
            TaskError::NotFound(id) => HostError::usage(format!("unknown background task `{id}`"))
                .hint("`plimsoll tasks --all --cleared` lists all tasks"),
            TaskError::Ambiguous { given, candidates } => {
                let list: String = candidates.iter().map(|candidate| format!("\n  {candidate}")).collect();
                HostError::usage(format!("task id `{given}` is ambiguous:{list}"))
                    .hint("pass a longer prefix of the id")
            }
            TaskError::NotRunning { status } => {
                HostError::negative(format!("the task is {status}; only a running task can be cancelled"))
            }
            TaskError::NotSteerable { status } => {
                HostError::negative(format!("the task is {status}; only a running task can be steered"))
                    .hint("continue it with `plimsoll tasks resume`")
            }
            TaskError::ResumePending => HostError::negative("a resume of the task is already queued").hint(
                "send a message to the current run with `plimsoll tasks steer`, or stop it with `cancel`",
            ),
            TaskError::SessionGone => HostError::negative(
                "the session of the task was removed, so it cannot be resumed; its result is still stored",
            ),
            TaskError::TooDeep { .. } => HostError::of(ErrorKind::Negative, error)
                .hint("the limit is `depth` under `[tasks]` in the configuration"),
            TaskError::Agent(_) => HostError::of(ErrorKind::Usage, error),
            TaskError::Store(error) => error.into(),
            TaskError::Session(error) => error.into(),
            other => HostError::of(ErrorKind::Failure, other),
        }
    }
}

/// Creates an error for an ambiguous prefix of a session id.
pub(crate) fn ambiguous<'a>(id: &str, candidates: impl Iterator<Item = (&'a str, &'a str)>) -> HostError {
    let mut list: Vec<String> = candidates.map(|(id, what)| format!("\n  {id}  {what}")).collect();
    let more = list.len().saturating_sub(LISTED);
    list.truncate(LISTED);
    if more > 0 {
        list.push(format!("\n  … and {more} more"));
    }
    HostError::usage(format!("session id `{id}` is ambiguous:{}", list.concat()))
        .hint("pass a longer prefix of the id")
}

/// Escapes line breaks, control characters and invisible characters in untrusted text, so that it cannot imitate a line of our
/// own output. Quotes and backslashes are unchanged.
pub fn escaped(text: &str) -> String {
    let is_quote = |c| matches!(c, '\'' | '"' | '\\');
    text.chars().map(|c| if is_quote(c) { c.to_string() } else { c.escape_debug().to_string() }).collect()
}

pub(crate) fn ledger_message(error: &LedgerError) -> String {
    match error {
        LedgerError::Read { path, source } => {
            format!("cannot read `{}`: {}", path.display(), reason(source))
        }
        LedgerError::Write { path, source } => {
            format!("cannot write `{}`: {}", path.display(), reason(source))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::io;

    use plimsoll_store::StoreError;

    use super::{ErrorKind, HostError, escaped};

    #[test]
    fn an_error_keeps_its_cause() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let error = HostError::from(StoreError::Io { what: "cannot write `a`".to_owned(), source: full });
        assert_eq!((error.kind(), error.io_kind()), (ErrorKind::Failure, Some(io::ErrorKind::StorageFull)));
        assert!(error.message().starts_with("cannot write `a`: "), "{error}");
        assert!(error.source().is_some());
        let error = HostError::usage("no such session").hint("list them").hint("or import one");
        assert_eq!(error.one_line(), "no such session; list them; or import one");
    }

    #[test]
    fn untrusted_text_stays_on_one_line() {
        assert_eq!(escaped("it's \"a\\b\" é\n\u{1b}[2J\u{202e}"), "it's \"a\\b\" é\\n\\u{1b}[2J\\u{202e}");
    }
}
