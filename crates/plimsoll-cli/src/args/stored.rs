//! What can be done to a stored session: `receipts`, `undo`, `revert`, `recall` and `pin`.

use clap::Args;
use clap::builder::TypedValueParser;

use super::transcripts::PolicyArgs;
use super::values::lines;

pub(super) const RECEIPTS: &str = "\
Examples:
  plimsoll receipts                         of the newest stored session of this directory
  plimsoll receipts ses_5c --json | jq '.[].handles'
  plimsoll receipts rcp_1e0f40599001        everything about one";

pub(super) const UNDO: &str = "\
Examples:
  plimsoll undo                             the newest reduction of this directory's newest session
  plimsoll undo ses_5c                      the newest of another session
  plimsoll undo rcp_1e0f40599001            the beginning of an id is enough";

pub(super) const REVERT: &str = "\
Examples:
  plimsoll revert --plan                    what the last turn changed, and what would be put back
  plimsoll revert                           put it back; once more goes further back
  plimsoll revert ses_5c --turn 3           files as they were before the third prompt
  plimsoll revert --undo                    take the newest revert back";

pub(super) const PIN: &str = "\
Examples:
  plimsoll pin ses_1e0f \"never touch the migrations\"
  plimsoll pin ses_1e0f msg_1e0f40599001abc   a whole message
  plimsoll pins ses_1e0f                      what is pinned, and with which receipts
  plimsoll unpin rcp_1e0f4059                 let it go again";

pub(super) const RECALL: &str = "\
Examples:
  plimsoll recall prt_1e0f40599001aQ        a tool output that was cleared
  plimsoll recall spill_9c2f --lines 100-140
  plimsoll recall spill_9c2f --grep 'error|warning' --context-lines 2
  plimsoll recall --session ses_5c --grep TODO --literal
  plimsoll recall spill_9c2f --raw > output.bin

Handles are in what the window shows in place of content, and in `plimsoll receipts`. The answer is no, exit code \
1, where nothing matches or the content is gone.";

/// For `receipts`.
#[derive(Args)]
pub(crate) struct ReceiptsArgs {
    /// A stored session, or a receipt, by its id or the beginning of it; the newest session of this directory if
    /// none is given.
    #[arg(value_name = "SESSION|RECEIPT")]
    pub(crate) id: Option<String>,
}

/// For `revert`.
#[derive(Args)]
pub(crate) struct RevertArgs {
    /// A stored session, by its id or the beginning of it; the newest of this directory if none is given.
    pub(crate) session: Option<String>,

    /// Back to before this turn, counted by your prompts from 1; the last that changed files if left out.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..).map(|turn| turn as usize))]
    pub(crate) turn: Option<usize>,

    /// Take the newest revert back.
    #[arg(long, conflicts_with = "turn")]
    pub(crate) undo: bool,

    /// Tell what would be done, and do nothing.
    #[arg(long)]
    pub(crate) plan: bool,

    /// Do it although another process runs the session; that one is named, and can write no more.
    #[arg(long, conflicts_with = "plan")]
    pub(crate) force: bool,
}

/// For `pin`.
#[derive(Args)]
pub(crate) struct PinArgs {
    /// The stored session, by its id or the beginning of it.
    pub(crate) session: String,

    /// What to pin: the id of a message or a part, or words. Words are pinned where they were last said, or beside the
    /// newest message if they stand nowhere in the session.
    #[arg(value_name = "TEXT|MESSAGE")]
    pub(crate) what: String,

    /// Do it although another process runs the session; that one is named, and can write no more.
    #[arg(long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
}

/// For `recall`.
#[derive(Args, Clone)]
pub(crate) struct RecallArgs {
    /// What to bring back, or the beginning of it: a part, what its tool was given (`prt_…:input`), a message, a run of
    /// messages (`first..last`) or a spilled output; or a receipt, whose handles are listed if it has several.
    #[arg(required_unless_present_any = ["session", "grep"])]
    pub(crate) handle: Option<String>,

    /// Look for HANDLE in what this stored session can see, not in all sessions. Without HANDLE search everything that
    /// is out of its window; of the newest of this directory if neither is given.
    #[arg(short, long, value_name = "ID")]
    pub(crate) session: Option<String>,

    /// These lines alone, counted from 1: 100-140, 100- or 100.
    #[arg(long, value_name = "A-B", value_parser = lines, requires = "handle")]
    pub(crate) lines: Option<(u64, u64)>,

    /// Lines that match this regular expression alone, with their numbers.
    #[arg(short, long, value_name = "PATTERN")]
    pub(crate) grep: Option<String>,

    /// Take the pattern as it is, not as a regular expression.
    #[arg(short = 'F', long, requires = "grep")]
    pub(crate) literal: bool,

    /// Take upper and lower case as the same.
    #[arg(short, long, requires = "grep")]
    pub(crate) ignore_case: bool,

    /// So many lines before and after each match.
    #[arg(short = 'C', long, value_name = "N", default_value_t = 0, requires = "grep")]
    pub(crate) context_lines: usize,

    /// No more than so many bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 50_000)]
    pub(crate) most: usize,

    /// Write the content as it was stored, byte for byte and without a bound.
    #[arg(long, requires = "handle", conflicts_with_all = ["grep", "most"])]
    pub(crate) raw: bool,
}
