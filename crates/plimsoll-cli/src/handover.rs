//! `plimsoll sessions handover`: a session as one that Claude Code, Codex or OpenCode goes on with.
//!
//! A new session is made. The one it is made from, here or in another tool, is only read.

use std::hash::{BuildHasher, RandomState};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use plimsoll::compact::ladder::Situation;
use plimsoll::policy::Thrift;
use plimsoll::{BelievedUsage, Limits, Log, Millis, Policy, Receipt, SessionId, Tokens, Window};
use plimsoll_formats::{Format, Lost, NewSession, Transcript, write_counting, write_session};
use plimsoll_import::{Places, Tool};
use plimsoll_session::{Climb, ClimbStep, UsageScale};
use serde::Serialize;
use serde_json::json;

use crate::args::HandoverArgs;
use crate::config::Config;
use crate::error::{CliError, reason};
use crate::files::{self, Existing};
use crate::input;
use crate::output::{Output, note, printable};
use crate::progress::Progress;
use crate::recorded::{RecordedFigures, SessionWindow};
use crate::store;
use crate::surroundings::Surroundings;
use crate::when;

/// A session that was written for another tool.
struct Handover {
    id: String,
    path: PathBuf,
    /// What a person types to go on there; none where the tool would not find it.
    command: Option<String>,
    lost: Vec<Lost>,
}

/// Write the session, and print the line to type.
pub(crate) fn run(
    args: &HandoverArgs,
    around: &Surroundings,
    output: &mut Output,
) -> Result<ExitCode, CliError> {
    let (origin, mut transcript) = input::with_stored_id(&args.input, around)?;
    if transcript.messages.is_empty() {
        return Err(CliError::no("there is nothing in the session to go on with"));
    }
    let config = Config::load(&args.input.policy, around)?;
    let fitted = fit(&mut transcript, &config, args)?;
    // The session it works for is not handed over with it.
    transcript.info.parent = None;
    if let Some(fitted) = &fitted {
        fitted.tell(origin.is_some());
    }
    let directory = directory(&transcript, around);
    let done = match args.to {
        Tool::Opencode => opencode(args, &transcript, around)?,
        tool => lines(tool, args, origin.as_ref(), &transcript, &directory, (&config, around))?,
    };
    if !done.lost.is_empty() {
        let lost: Vec<String> = done.lost.iter().map(told).collect();
        note(&format!("lost: {}", lost.join(", ")));
    }
    let command = done.command.map(|command| match directory == around.directory {
        true => command,
        false => format!("cd {} && {command}", quoted(&directory)),
    });
    if output.json {
        let lost: Vec<_> =
            done.lost.iter().map(|lost| json!({ "count": lost.count, "what": lost.one })).collect();
        output.json(&json!({ "session": done.id, "tool": args.to.key(), "path": done.path,
            "directory": directory, "command": command, "lost": lost, "reduced": fitted }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let path = around.short(&done.path);
    match command {
        Some(command) => {
            note(&format!("wrote `{path}`; go on with:"));
            output.text(&printable(&command))?;
        }
        None => {
            let (tool, [variable, folder]) = (args.to.name(), own_place(args.to));
            note(&format!(
                "wrote `{path}`; {tool} finds it below its own folder alone, `{folder}` in the directory that \
                 `{variable}` names"
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A reduction of the copy that is handed over, so that it fits its tool. The session itself is unchanged.
#[derive(Serialize)]
struct Fitted {
    before: Tokens,
    after: Tokens,
    line: Tokens,
    receipts: Vec<Receipt>,
}

impl Fitted {
    fn tell(&self, is_stored: bool) {
        let Fitted { before, after, line, receipts } = self;
        note(&format!("{before} tokens are over the line at {line}; the copy is reduced to {after} tokens:"));
        receipts.iter().for_each(|receipt| note(&format!("  {}", receipt.plan.title())));
        note(match is_stored {
            true => {
                "the session itself is unchanged, and `plimsoll mcp` lets the tool recall what was left out"
            }
            false => {
                "the session itself is unchanged; store it first (`plimsoll sessions import`) to recall what was left out"
            }
        });
    }
}

/// The window of the models that a tool usually runs; `None` if it depends on the model that is chosen there.
fn usual_window(tool: Tool) -> Option<Tokens> {
    match tool {
        Tool::ClaudeCode => Some(Tokens(200_000)),
        Tool::Codex => Some(Tokens(272_000)),
        _ => None,
    }
}

/// Reduces the messages that are handed over until they fit, by the rules that hold at the line. `None` if they fit, or if
/// no reduction is wanted.
fn fit(
    transcript: &mut Transcript,
    config: &Config,
    args: &HandoverArgs,
) -> Result<Option<Fitted>, CliError> {
    let figures = RecordedFigures::of(&transcript.recorded);
    let asked = args.input.policy.context;
    let mut limits = SessionWindow::of(transcript, &figures, config, asked).limits;
    if let (None, Some(usual)) = (asked, usual_window(args.to)) {
        limits.context = limits.context.min(usual);
        limits.input = limits.input.map(|input| input.min(usual));
    }
    let policy = &config.policy;
    let mut log = Log::from_messages(std::mem::take(&mut transcript.messages));
    let scale = UsageScale::shown(&log, policy);
    let (before, line) =
        (scale.window, policy.overflow.line(limits).filter(|line| line.is_over(scale.window)));
    let fitted = match line {
        None => None,
        Some(line) if args.as_is => {
            note(&format!("note: {before} tokens are over the line at {}", line.at));
            None
        }
        Some(line) => {
            let receipts = Progress::during("reducing", || reduced(&mut log, policy, limits, &scale))?;
            let after = UsageScale::shown(&log, policy).window;
            if line.is_over(after) {
                let message = format!(
                    "{before} tokens are over the line at {}, and the policy `{}` leaves {after}",
                    line.at, policy.name
                );
                let hint = "`--as-is` hands it over unchanged, `--context` names a larger window";
                let more = if policy.shed.enabled { "" } else { ", `--policy plimsoll` reduces more" };
                return Err(CliError::no(message).hint(format!("{hint}{more}")));
            }
            Some(Fitted { before, after, line: line.at, receipts })
        }
    };
    transcript.messages = log.messages().to_vec();
    Ok(fitted)
}

/// Climbs the ladder on a copy, without a model.
fn reduced(
    log: &mut Log,
    policy: &Policy,
    limits: Limits,
    scale: &UsageScale,
) -> Result<Vec<Receipt>, CliError> {
    // Only what has to leave: what would save money is the next host's to decide.
    let mut spec = policy.clone().into_spec();
    spec.thrift = Thrift::Off;
    let policy = Policy::new(spec).unwrap_or_else(|_| policy.clone());
    let mut situation = Situation::new(&policy, limits, when::now());
    scale.weigh_in(&mut situation);
    // Weighed as `scale` is: what the last answer of another tool was charged for may be of another window.
    situation.believed = BelievedUsage::Own;
    let mut climb = Climb::of_log(log.clone(), situation, store::ids());
    loop {
        match climb.step()? {
            ClimbStep::Ask(_) => drop(climb.answer(Err("no model is asked here".to_owned()))?),
            ClimbStep::Done(climbed) => {
                climbed.outcome.reduction.commit(log)?;
                return Ok(climbed.outcome.reduction.receipts);
            }
        }
    }
}

fn told(lost: &Lost) -> String {
    let noun = if lost.count == 1 { lost.one } else { lost.more };
    format!("{} {noun}", plimsoll::Tokens(lost.count as u64))
}

/// Where the session's agent worked, if that is there; otherwise here.
fn directory(transcript: &Transcript, around: &Surroundings) -> PathBuf {
    let named = transcript.info.directory.as_deref().map(PathBuf::from);
    named.filter(|path| path.is_absolute() && path.is_dir()).unwrap_or_else(|| around.directory.clone())
}

/// A file of lines in the tool's own folder.
fn lines(
    tool: Tool,
    args: &HandoverArgs,
    origin: Option<&SessionId>,
    transcript: &Transcript,
    directory: &Path,
    (config, around): (&Config, &Surroundings),
) -> Result<Handover, CliError> {
    let window = Window::of(&transcript.messages, &config.policy);
    let (now, place) = (when::now(), directory.to_string_lossy());
    let id = uuid(now);
    let (model, origin) = (transcript.info.model.as_deref(), origin.map(SessionId::as_str));
    // A stored session always has one; the first words of a conversation name it in the tool's own list.
    let title = transcript.info.title.as_deref();
    let session = NewSession { id: &id, now, directory: &place, model, title, origin };
    let format = if tool == Tool::Codex { Format::Codex } else { Format::ClaudeCode };
    let (text, lost) =
        write_session(format, &session, &window).map_err(|error| CliError::usage(error.to_string()))?;
    let (folder, before) = match &args.folder {
        Some(folder) => (folder.clone(), setting(tool, folder, around)),
        None => (own_folder(tool, around)?, Some(String::new())),
    };
    let (path, command) = if tool == Tool::Codex {
        // `2026-05-02T09:18:36.730Z`, of which the file's name has the seconds without colons.
        let time = plimsoll_formats::rfc3339(now);
        let day = folder.join(&time[..4]).join(&time[5..7]).join(&time[8..10]);
        let name = format!("rollout-{}-{id}.jsonl", time[..19].replace(':', "-"));
        (day.join(name), format!("codex resume {id}"))
    } else {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let project: String = place.chars().map(plain).collect();
        (folder.join(project).join(format!("{id}.jsonl")), format!("claude --resume {id}"))
    };
    save(&path, text.as_bytes())?;
    let command = before.map(|before| format!("{before}{command}"));
    Ok(Handover { id, path, command, lost })
}

/// What must stand before the command so that a tool finds its sessions below a folder: nothing for its own. None where
/// no setting would lead there.
fn setting(tool: Tool, folder: &Path, around: &Surroundings) -> Option<String> {
    let folder = around.directory.join(folder);
    // By what they are, not by how they are written: `DIR/.` and a link to it are the same place.
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if own_folder(tool, around).is_ok_and(|own| real(&own) == real(&folder)) {
        return Some(String::new());
    }
    let [variable, name] = own_place(tool);
    let above = folder.parent().filter(|_| folder.file_name().is_some_and(|last| last == name))?;
    Some(format!("{variable}={} ", quoted(above)))
}

/// The variable that names a tool's directory, and the folder with sessions in it.
fn own_place(tool: Tool) -> [&'static str; 2] {
    match tool {
        Tool::Codex => ["CODEX_HOME", "sessions"],
        _ => ["CLAUDE_CONFIG_DIR", "projects"],
    }
}

/// An export that `opencode import` takes; what is in its database is its own affair.
fn opencode(
    args: &HandoverArgs,
    transcript: &Transcript,
    around: &Surroundings,
) -> Result<Handover, CliError> {
    let (export, lost) = write_counting(Format::OpencodeExport, &transcript.info, &transcript.messages)
        .map_err(|error| CliError::usage(error.to_string()))?;
    let id = export["info"]["id"].as_str().unwrap_or_default().to_owned();
    let folder = args.folder.clone().unwrap_or_else(|| around.directory.clone());
    let path = folder.join(format!("{}.json", id.replace(['/', '\\'], "_")));
    let mut bytes = serde_json::to_vec(&export).map_err(|error| CliError::failed(error.to_string()))?;
    bytes.push(b'\n');
    save(&path, &bytes)?;
    let command = Some(format!("opencode import {} && opencode --session {id}", quoted(&path)));
    Ok(Handover { id, path, command, lost })
}

fn own_folder(tool: Tool, around: &Surroundings) -> Result<PathBuf, CliError> {
    let places = Places::new(around.home.as_deref(), |name| around.variable(name).map(str::to_owned));
    let mut folders = places.folders.into_iter().filter(|(of, _)| *of == tool);
    folders.next().map(|(_, folder)| folder).ok_or_else(|| {
        CliError::usage(format!(
            "cannot tell where {} keeps its sessions: there is no home directory",
            tool.name()
        ))
        .hint("name the folder with `--folder DIR`")
    })
}

/// Write a file that the user alone can read, and never over one that is there.
fn save(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    let saved = || {
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)?;
        let mut file = files::private(folder)?;
        file.write_all(bytes)?;
        files::keep(file, path, Existing::Keep)
    };
    saved().map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            CliError::usage(format!("`{}` is there already", path.display()))
                .hint("remove it, or name another place with `--folder DIR`")
        }
        _ => CliError::failed(format!("cannot write `{}`: {}", path.display(), reason(&error))),
    })
}

/// A new UUID that begins with the time (version 7), as Codex makes them; Claude Code takes any.
fn uuid(now: Millis) -> String {
    let random = || RandomState::new().hash_one(());
    let (high, low) = (random(), random());
    format!(
        "{:08x}-{:04x}-7{:03x}-{:x}{:03x}-{:012x}",
        now.0 >> 16 & 0xffff_ffff,
        now.0 & 0xffff,
        high & 0xfff,
        8 + (high >> 12 & 3),
        high >> 16 & 0xfff,
        low & 0xffff_ffff_ffff
    )
}

/// A path as a shell takes it.
pub(crate) fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-~+:@".contains(c);
    if text.chars().all(is_plain) { text.into_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}
