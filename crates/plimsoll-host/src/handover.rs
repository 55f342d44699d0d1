//! Handover of a session to Claude Code, Codex or OpenCode.
//!
//! Creates a new session. The original, stored or of another tool, is only read.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use plimsoll::compact::CompactionContext;
use plimsoll::policy::Thrift;
use plimsoll::{Limits, Log, Millis, Policy, Receipt, SessionId, Tokens, UsageTrust, Window};
use plimsoll_formats::{ConversionLoss, Format, NewSession, Transcript, write_counting, write_session};
use plimsoll_import::{Scope, Tool};
use plimsoll_session::{Climb, UsageScale};
use plimsoll_store::random_ids;
use serde::Serialize;
use uuid::{NoContext, Timestamp, Uuid};

use crate::config::HostConfig;
use crate::error::{HostError, reason};
use crate::files::{self, Existing};
use crate::host::Host;
use crate::input::InputSpec;
use crate::inspect::weigh_window;
use crate::recorded::{RecordedFigures, SessionWindow};
use crate::shell::quoted;
use crate::summarise::climb_alone;

/// Parameters of a handover.
pub struct HandoverRequest {
    /// The session.
    pub input: InputSpec,
    /// The tool that continues it.
    pub to: Tool,
    /// Directory to write below, instead of the tool's own.
    pub dir: Option<PathBuf>,
    /// Do not reduce the copy.
    pub as_is: bool,
}

/// A session that was written for another tool.
#[derive(Debug)]
#[non_exhaustive]
pub struct Handover {
    /// Id of the new session.
    pub session: String,
    /// The file.
    pub path: PathBuf,
    /// The directory its agent worked in.
    pub directory: PathBuf,
    /// The command that continues it there; `None` if the tool would not find it.
    pub command: Option<String>,
    /// Content that the format cannot represent.
    pub lost: Vec<ConversionLoss>,
    /// How the copy was reduced, if it had to be.
    pub reduced: Option<Fitted>,
    /// Whether the original is a stored session.
    pub is_stored: bool,
    /// Name of the original for other commands: its file if the user named one, otherwise its id.
    pub original: Option<String>,
}

/// Reductions of the copy, so that it fits its tool. The original is unchanged.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Fitted {
    /// Tokens before.
    pub before: Tokens,
    /// Tokens after, scaled by the usage that the original recorded.
    pub after: Tokens,
    /// Tokens of the copy as `plimsoll inspect` estimates it before the tool has recorded usage.
    pub estimated: Option<Tokens>,
    /// The line.
    pub line: Tokens,
    /// Receipts of the reductions.
    pub receipts: Vec<Receipt>,
}

impl Host {
    /// Writes a session so that another tool can continue it.
    pub fn hand_over(&self, request: HandoverRequest) -> Result<Handover, HostError> {
        let HandoverRequest { input, to, dir, as_is } = request;
        let flags = input.flags.clone();
        let input = self.input(input, Scope::All)?;
        let file = input.path.clone();
        let (origin, mut transcript) = input.read_sound()?;
        let original = match &file {
            Some(path) => Some(quoted(path)),
            None => transcript.info.id.clone(),
        };
        if transcript.messages.is_empty() {
            return Err(HostError::negative("the session is empty: nothing to hand over"));
        }
        let config = self.config(&flags)?;
        let mut reduced = self.fit(&mut transcript, &config, to, flags.context, as_is)?;
        // The parent of a task is not part of the handover, so its id would refer to nothing there.
        transcript.info.parent = None;
        let directory = transcript.info.directory.as_deref().map(PathBuf::from);
        let directory = directory.filter(|path| path.is_absolute() && path.is_dir());
        let directory = directory.unwrap_or_else(|| self.directory().to_owned());
        let written = match to {
            Tool::Opencode => self.write_opencode(&transcript, dir)?,
            _ => self.write_lines(to, dir, origin.as_ref(), &transcript, &directory, &config)?,
        };
        if let Some(reduced) = &mut reduced {
            // If the copy cannot be read, only the estimate is missing from the report.
            let copy = std::fs::File::open(&written.path).ok();
            let copy = copy.and_then(|file| plimsoll_formats::read(std::io::BufReader::new(file)).ok());
            reduced.estimated = copy.map(|copy| weigh_window(copy, &config, flags.context).0.window);
        }
        let command = written.command.map(|command| match directory == self.directory() {
            true => command,
            false => format!("cd {} && {command}", quoted(&directory)),
        });
        let Written { session, path, lost, .. } = written;
        let is_stored = origin.is_some();
        Ok(Handover { session, path, directory, command, lost, reduced, is_stored, original })
    }

    /// Reduces the messages of the copy until they fit, by the rules for a window at its line. `None` if they fit already, or
    /// if the copy must not be reduced.
    fn fit(
        &self,
        transcript: &mut Transcript,
        config: &HostConfig,
        to: Tool,
        asked: Option<u64>,
        as_is: bool,
    ) -> Result<Option<Fitted>, HostError> {
        let figures = RecordedFigures::of(&transcript.recorded);
        let mut limits = SessionWindow::of(transcript, &figures, config, asked).limits;
        if let (None, Some(default)) = (asked, default_window(to)) {
            limits.context = limits.context.min(default);
            limits.input = limits.input.map(|input| input.min(default));
        }
        let policy = &config.policy;
        let mut log = Log::from_messages(std::mem::take(&mut transcript.messages));
        let scale = UsageScale::shown(&log, policy);
        let (before, line) =
            (scale.window, policy.overflow.line(limits).filter(|line| line.is_over(scale.window)));
        let fitted = match line {
            None => None,
            Some(line) if as_is => {
                self.note(format!("the window exceeds the line ({before} of {} tokens)", line.at));
                None
            }
            Some(line) => {
                let receipts =
                    self.during("reducing", || reduced(&mut log, policy, limits, &scale, self.now()))?;
                let after = UsageScale::shown(&log, policy).window;
                if line.is_over(after) {
                    let message = format!(
                        "the window exceeds the line ({before} of {} tokens), and the policy `{}` only reduces it to {after}",
                        line.at, policy.name
                    );
                    let hint =
                        "hand it over unchanged with `--as-is`, or set a larger window with `--context`";
                    let more =
                        if policy.shed.enabled { "" } else { ", or reduce more with `--policy plimsoll`" };
                    return Err(HostError::negative(message).hint(format!("{hint}{more}")));
                }
                Some(Fitted { before, after, estimated: None, line: line.at, receipts })
            }
        };
        transcript.messages = log.messages().to_vec();
        Ok(fitted)
    }

    /// Writes a JSONL file in the tool's own directory.
    fn write_lines(
        &self,
        tool: Tool,
        dir: Option<PathBuf>,
        origin: Option<&SessionId>,
        transcript: &Transcript,
        directory: &Path,
        config: &HostConfig,
    ) -> Result<Written, HostError> {
        let window = Window::of(&transcript.messages, &config.policy);
        let (now, place) = (self.now(), directory.to_string_lossy());
        let id = uuid(now);
        let (model, origin) = (transcript.info.model.as_deref(), origin.map(SessionId::as_str));
        // Without a title, the tool's own list shows the first words of the conversation. Stored sessions always have one.
        let title = transcript.info.title.as_deref();
        let session = NewSession { id: &id, now, directory: &place, model, title, origin };
        let format = if tool == Tool::Codex { Format::Codex } else { Format::ClaudeCode };
        let (text, lost) = write_session(format, &session, &window).map_err(HostError::usage_of)?;
        let (dir, before) = match dir {
            Some(dir) => (dir.clone(), self.setting_for(tool, &dir)),
            None => (self.own_directory(tool)?, Some(String::new())),
        };
        let (path, command) = if tool == Tool::Codex {
            // From `2026-05-02T09:18:36.730Z`; the name of the file ends at the seconds and has no colons.
            let time = plimsoll_formats::rfc3339(now);
            let day = dir.join(&time[..4]).join(&time[5..7]).join(&time[8..10]);
            let name = format!("rollout-{}-{id}.jsonl", time[..19].replace(':', "-"));
            (day.join(name), format!("codex resume {id}"))
        } else {
            let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
            let project: String = place.chars().map(plain).collect();
            (dir.join(project).join(format!("{id}.jsonl")), format!("claude --resume {id}"))
        };
        save(&path, text.as_bytes())?;
        let command = before.map(|before| format!("{before}{command}"));
        Ok(Written { session: id, path, command, lost })
    }

    /// Writes an export for `opencode import`, which knows how to write OpenCode's database.
    fn write_opencode(&self, transcript: &Transcript, dir: Option<PathBuf>) -> Result<Written, HostError> {
        let (export, lost) = write_counting(Format::OpencodeExport, &transcript.info, &transcript.messages)
            .map_err(HostError::usage_of)?;
        let session = export["info"]["id"].as_str().unwrap_or_default().to_owned();
        let dir = dir.unwrap_or_else(|| self.directory().to_owned());
        let path = dir.join(format!("{}.json", session.replace(['/', '\\'], "_")));
        let mut bytes = serde_json::to_vec(&export).map_err(HostError::failed_of)?;
        bytes.push(b'\n');
        save(&path, &bytes)?;
        let command = Some(format!("opencode import {} && opencode --session {session}", quoted(&path)));
        Ok(Written { session, path, command, lost })
    }

    /// Returns the environment variable to put before the command, so that a tool finds sessions below a directory; empty for the
    /// tool's own directory. `None` if no variable makes it find them.
    fn setting_for(&self, tool: Tool, dir: &Path) -> Option<String> {
        let dir = self.directory().join(dir);
        // Resolved, because `DIR/.` and a symbolic link to it are the same directory.
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if self.own_directory(tool).is_ok_and(|own| real(&own) == real(&dir)) {
            return Some(String::new());
        }
        let [variable, name] = own_place(tool);
        let above = dir.parent().filter(|_| dir.file_name().is_some_and(|last| last == name))?;
        Some(format!("{variable}={} ", quoted(above)))
    }

    fn own_directory(&self, tool: Tool) -> Result<PathBuf, HostError> {
        let mut own = self.places().directories.into_iter().filter(|(of, _)| *of == tool);
        own.next().map(|(_, dir)| dir).ok_or_else(|| {
            HostError::usage(format!("cannot find the sessions of {}: no home directory", tool.name()))
                .hint("pass the directory with `--dir DIR`")
        })
    }
}

/// A session that was written, and the command that continues it in its directory.
struct Written {
    session: String,
    path: PathBuf,
    command: Option<String>,
    lost: Vec<ConversionLoss>,
}

/// Context window of the models that a tool usually runs; `None` if it depends on the model chosen there.
fn default_window(tool: Tool) -> Option<Tokens> {
    match tool {
        Tool::ClaudeCode => Some(Tokens(200_000)),
        Tool::Codex => Some(Tokens(272_000)),
        _ => None,
    }
}

/// Climbs the ladder on a copy, without a model.
fn reduced(
    log: &mut Log,
    policy: &Policy,
    limits: Limits,
    scale: &UsageScale,
    now: Millis,
) -> Result<Vec<Receipt>, HostError> {
    // Without reductions that only save money: the copy has no cache yet, and what pays depends on the next agent.
    let mut spec = policy.clone().into_spec();
    spec.thrift = Thrift::Off;
    let policy = Policy::new(spec).unwrap_or_else(|_| policy.clone());
    let mut context = CompactionContext::new(&policy, limits, now);
    scale.apply_to(&mut context);
    // As for `scale`: the recorded usage of another tool's last answer may be that of another window.
    context.believed = UsageTrust::Own;
    let climbed = climb_alone(Climb::of_log(log.clone(), context, random_ids()))?;
    climbed.outcome.reduction.commit(log)?;
    Ok(climbed.outcome.reduction.receipts)
}

/// Returns the variable that sets a tool's directory, and the name of the directory in it with the sessions.
pub fn own_place(tool: Tool) -> [&'static str; 2] {
    match tool {
        Tool::Codex => ["CODEX_HOME", "sessions"],
        _ => ["CLAUDE_CONFIG_DIR", "projects"],
    }
}

/// Writes a file that only the user can read. Fails if it exists.
fn save(path: &Path, bytes: &[u8]) -> Result<(), HostError> {
    let saved = || {
        let dir = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(dir)?;
        let mut file = files::private(dir)?;
        file.write_all(bytes)?;
        files::keep(file, path, Existing::Keep)
    };
    saved().map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => HostError::usage(format!("`{}` already exists", path.display()))
            .hint("remove it, or pass another directory with `--dir DIR`"),
        _ => HostError::failed(format!("cannot write `{}`: {}", path.display(), reason(&error)))
            .caused_by(error),
    })
}

/// Creates a UUID of version 7, which begins with the time. Codex uses these, and Claude Code accepts any.
fn uuid(now: Millis) -> String {
    let nanos = u32::try_from(now.0 % 1_000).unwrap_or_default() * 1_000_000;
    Uuid::new_v7(Timestamp::from_unix(NoContext, now.0 / 1_000, nanos)).to_string()
}
