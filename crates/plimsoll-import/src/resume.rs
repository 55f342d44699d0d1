//! Incremental reads of transcripts that have grown. Claude Code, Codex and pi append to their files, so known messages are
//! only read again if a new record refers to them.

use std::collections::VecDeque;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use plimsoll::{Message, Millis, Policy};
use plimsoll_formats::{Chain, Format, Recorded, Restart, SessionInfo, Transcript, visit, visit_from};
use serde::{Deserialize, Serialize};

use crate::error::ImportError;
use crate::weighed::{Checkpoint, Weighed, Weighing};

/// Maximum number of messages held in memory, between the resume point and the end.
const MAX_TAIL: usize = 512;

/// A resume point, and the figures up to it.
#[derive(Serialize, Deserialize)]
pub(crate) struct Resume {
    restart: Restart,
    before: Checkpoint,
    /// Number of recorded responses.
    responses: usize,
    id: Option<String>,
    title: Option<String>,
}

/// Reads a transcript from its beginning.
pub(crate) fn read(path: &Path, policy: &Policy) -> Result<(Weighed, Option<Resume>), ImportError> {
    let mut reader = ResumeReader { before: Weighing::default(), tail: VecDeque::new() };
    let transcript = visit(open(path)?, &mut |chain, message| reader.add(chain, message))?;
    let Transcript { info, recorded, restart, .. } = transcript;
    reader.end(path, policy, &info, recorded, restart)
}

/// Reads the appended part of a transcript. Returns `None` if it refers to earlier records or cannot be read. The transcript must
/// then be read from its beginning.
pub(crate) fn read_on(
    path: &Path,
    known: &Weighed,
    resume: Resume,
    policy: &Policy,
) -> Option<(Weighed, Option<Resume>)> {
    let Resume { restart, before, responses, id, title } = resume;
    let mut reader = ResumeReader { before: before.into(), tail: VecDeque::new() };
    let gained = visit_from(&restart, open(path).ok()?, &mut |chain, message| reader.add(chain, message));
    let gained = gained.ok()??;
    // A resumed session of Claude Code has several ids.
    let is_other = gained.info.id.is_some() && gained.info.id != id;
    if is_other && gained.format != Format::ClaudeCode {
        return None;
    }
    let started = known.started.map(Millis).into_iter().chain(gained.info.started).min();
    let info = SessionInfo {
        id,
        title: gained.info.title.or(title),
        model: gained.info.model.or_else(|| known.model.clone()),
        context: gained.info.context.or(known.context),
        tool: gained.info.tool.or(known.tool),
        started,
        ..SessionInfo::default()
    };
    let mut recorded = known.recorded.clone();
    recorded.truncate(responses);
    recorded.append(&gained.recorded);
    reader.end(path, policy, &info, recorded, Some(gained.restart.unwrap_or(restart))).ok()
}

/// Collects the figures of a session. Holds the newest messages, because the resume point is only known at the end.
struct ResumeReader {
    before: Weighing,
    tail: VecDeque<Message>,
}

impl ResumeReader {
    fn add(&mut self, chain: Chain, message: Message) {
        if chain != Chain::Main {
            return;
        }
        self.tail.push_back(message);
        if self.tail.len() > MAX_TAIL
            && let Some(oldest) = self.tail.pop_front()
        {
            self.before.add(oldest);
        }
    }

    fn end(
        self,
        path: &Path,
        policy: &Policy,
        info: &SessionInfo,
        recorded: Recorded,
        restart: Option<Restart>,
    ) -> Result<(Weighed, Option<Resume>), ImportError> {
        let ResumeReader { mut before, tail } = self;
        let is_first =
            |message: &Message| restart.as_ref().is_some_and(|at| message.info.id == *at.message());
        let place = tail.iter().position(is_first).unwrap_or(tail.len());
        let mut tail: Vec<Message> = tail.into();
        let rest = tail.split_off(place);
        tail.into_iter().for_each(|message| before.add(message));
        let resume = restart.filter(|_| !rest.is_empty()).and_then(|restart| {
            let before = before.checkpoint()?;
            let responses = recorded.len().checked_sub(responses_from(path, &restart, rest.len())?)?;
            let (id, title) = (info.id.clone(), info.title.clone());
            Some(Resume { restart, before, responses, id, title })
        });
        let mut whole = before;
        rest.into_iter().for_each(|message| whole.add(message));
        let again = || read_messages(path);
        Ok((whole.end(policy, info, recorded, again)?, resume))
    }
}

/// Returns the number of responses recorded after a resume point. `None` if the number of messages differs from `messages`.
fn responses_from(path: &Path, restart: &Restart, messages: usize) -> Option<usize> {
    let mut count = 0;
    let rest =
        visit_from(restart, open(path).ok()?, &mut |chain, _| count += usize::from(chain == Chain::Main));
    let rest = rest.ok()??;
    (count == messages).then_some(rest.recorded.len())
}

fn read_messages(path: &Path) -> Result<Vec<Message>, ImportError> {
    Ok(plimsoll_formats::read(open(path)?)?.messages)
}

fn open(path: &Path) -> std::io::Result<BufReader<File>> {
    Ok(BufReader::new(File::open(path)?))
}
