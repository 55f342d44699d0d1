//! The log of a child: each step before it is made, and its result.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use plimsoll::{Message, MessageId, Millis, Part, PartId, Receipt, ReceiptId, SessionId};
use plimsoll_store::Store;
use serde::{Deserialize, Serialize};

use super::imports::ImportStep;

/// A step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Step {
    Create {
        session: SessionId,
    },
    Lease {
        session: SessionId,
    },
    Append {
        session: SessionId,
        messages: Vec<Message>,
    },
    AppendPart {
        session: SessionId,
        message: MessageId,
        part: Part,
    },
    Advance {
        session: SessionId,
        part: Part,
    },
    /// A text grew by a delta; the part is the result.
    Extend {
        session: SessionId,
        part: Part,
    },
    Finish {
        session: SessionId,
        message: MessageId,
    },
    /// The lease of another process was taken over.
    TakeOver {
        session: SessionId,
    },
    Send {
        session: SessionId,
        note: String,
    },
    TakeNotes {
        session: SessionId,
        notes: Vec<String>,
    },
    PutTask {
        session: SessionId,
        task: String,
    },
    MoveTask {
        session: SessionId,
        task: String,
        to: String,
    },
    Take {
        session: SessionId,
        part: PartId,
        hash: String,
    },
    Reduce {
        session: SessionId,
        appended: Vec<Message>,
        marked: Vec<Part>,
        receipts: Vec<Receipt>,
    },
    Undo {
        session: SessionId,
        receipt: ReceiptId,
        parts: Vec<PartId>,
        marker: Option<MessageId>,
    },
    Fork {
        session: SessionId,
        child: SessionId,
    },
    Remove {
        session: SessionId,
    },
    Sweep,
    /// A secret in a part was destroyed.
    Purge {
        session: SessionId,
        part: PartId,
        secret: String,
    },
    Import(Box<ImportStep>),
}

impl Step {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Step::Create { .. } => "create",
            Step::Lease { .. } => "lease",
            Step::Append { .. } => "append",
            Step::AppendPart { .. } => "append part",
            Step::Advance { .. } => "advance",
            Step::Extend { .. } => "extend",
            Step::TakeOver { .. } => "take over",
            Step::Send { .. } => "send",
            Step::TakeNotes { .. } => "take notes",
            Step::PutTask { .. } => "put task",
            Step::MoveTask { .. } => "move task",
            Step::Finish { .. } => "finish",
            Step::Take { .. } => "take output",
            Step::Reduce { .. } => "reduce",
            Step::Undo { .. } => "undo",
            Step::Fork { .. } => "fork",
            Step::Remove { .. } => "remove",
            Step::Sweep => "sweep",
            Step::Purge { .. } => "purge",
            Step::Import(_) => "import",
        }
    }
}

/// Results that are known only afterwards.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct StepOutcome {
    /// The receipt of a truncated output or of an undo.
    pub(super) receipt: Option<ReceiptId>,
    /// The handle of a spilled output.
    pub(super) handle: Option<String>,
    /// The last message that a fork shares.
    pub(super) point: Option<MessageId>,
    /// Rest of a part after a purge.
    pub(super) left: Option<Box<Part>>,
    /// The marks after an undo: cleared, cut, lifted.
    pub(super) marks: Vec<(PartId, Marks)>,
}

/// The marks on a part: cleared, cut, last lifted, left out.
pub(super) type Marks = (Option<Millis>, Option<u64>, Option<Millis>, bool);

pub(super) fn marks_of(part: &Part) -> Marks {
    let lifted = part.marks.iter().filter_map(|mark| mark.lifted.as_ref()).map(|(moment, _)| moment.at).max();
    (part.cleared(), part.cut().map(|cut| cut.keep.0), lifted, part.is_hidden())
}

impl StepOutcome {
    /// The current marks on parts.
    pub(super) fn marks(store: &dyn Store, session: &SessionId, parts: &[PartId]) -> Vec<(PartId, Marks)> {
        let marks = |id: &PartId| (id.clone(), marks_of(&store.part(session, id).unwrap()));
        parts.iter().map(marks).collect()
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Line {
    Begun(Box<Step>),
    Done(StepOutcome),
    Refused(String),
}

/// The child's side.
pub(super) struct Journal(File);

impl Journal {
    pub(super) fn open(directory: &Path, round: u64, thread: u64) -> Journal {
        Journal(OpenOptions::new().append(true).create(true).open(path(directory, round, thread)).unwrap())
    }

    /// Written to the system when this returns, so that it outlives the process.
    pub(super) fn write(&mut self, line: &Line) {
        let mut text = serde_json::to_vec(line).unwrap();
        text.push(b'\n');
        self.0.write_all(&text).unwrap();
    }
}

fn path(directory: &Path, round: u64, thread: u64) -> PathBuf {
    directory.join(format!("journal-{round}-{thread}"))
}

pub(super) fn is_empty(directory: &Path, round: u64, thread: u64) -> bool {
    std::fs::metadata(path(directory, round, thread)).map_or(true, |found| found.len() == 0)
}

/// The parent's side. A line that was cut off does not count.
pub(super) fn read(directory: &Path, round: u64, thread: u64) -> Vec<Line> {
    let text = std::fs::read_to_string(path(directory, round, thread)).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
