//! Arguments of commands on stored sessions: `receipts`, `undo`, `revert`, `recall` and `pin`.

use clap::Args;
use clap::builder::TypedValueParser;

use super::transcripts::PolicyArgs;
use super::values::lines;

pub(super) const RECEIPTS: &str = "\
Examples:
  plimsoll receipts                         of this directory's newest session
  plimsoll receipts ses_5c --json | jq '.[].handles'
  plimsoll receipts rcp_1e0f40599001        details of one receipt";

pub(super) const UNDO: &str = "\
Examples:
  plimsoll undo                             this directory's newest reduction
  plimsoll undo ses_5c                      the newest reduction of a session
  plimsoll undo rcp_1e0f40599001            a receipt; an id prefix is enough";

pub(super) const UNDO_NOTES: &str = "\
Cleared and truncated content is back in the window, and a summary no longer counts. The log itself never changes.";

pub(super) const REVERT: &str = "\
Examples:
  plimsoll revert --plan                    files the last turn changed
  plimsoll revert                           restore them; repeat to go further
  plimsoll revert ses_5c --turn 3           files as before the third prompt
  plimsoll revert --undo                    undo the newest revert";

pub(super) const REVERT_NOTES: &str = "\
Files changed by `write` and `edit` are restored if they still are as the agent left them. Files that were changed since \
are left alone (exit code 1). Calls with unknown effects, such as commands, are listed. Replaced content is kept, so a \
revert can be undone.";

pub(super) const PIN: &str = "\
Examples:
  plimsoll pin ses_1e0f \"never touch the migrations\"
  plimsoll pin ses_1e0f msg_1e0f40599001abc a whole message
  plimsoll pins ses_1e0f                    pins and their receipts
  plimsoll unpin rcp_1e0f4059               remove a pin";

pub(super) const PIN_NOTES: &str = "\
Pinned text survives every reduction. Pins have a budget (`pin.maxTokens`, `pin.maxShare`); a pin beyond it is rejected \
with exit code 1.";

pub(super) const PINS: &str = "\
Examples:
  plimsoll pins                             of this directory's newest session
  plimsoll pins ses_1e0f --json | jq '.[].receipt'";

pub(super) const UNPIN: &str = "\
Examples:
  plimsoll unpin rcp_1e0f4059";

pub(super) const RECALL: &str = "\
Examples:
  plimsoll recall prt_1e0f40599001aQ        a tool output that was cleared
  plimsoll recall spill_9c2f --lines 100-140
  plimsoll recall spill_9c2f --grep 'error|warning' --context-lines 2
  plimsoll recall --session ses_5c --grep TODO --fixed-strings
  plimsoll recall spill_9c2f --raw > output.bin";

pub(super) const RECALL_NOTES: &str = "\
Handles are shown in the window in place of the content, and by `plimsoll receipts`. Exits with 1 if nothing matches or \
the content is gone.";

/// Arguments of `receipts`.
#[derive(Args)]
pub(crate) struct ReceiptsArgs {
    /// Session or receipt (id or prefix) [default: the newest session of this directory].
    #[arg(value_name = "SESSION|RECEIPT")]
    pub(crate) id: Option<String>,
}

/// Arguments of `revert`.
#[derive(Args)]
pub(crate) struct RevertArgs {
    /// Session id or prefix [default: the newest session of this directory].
    pub(crate) session: Option<String>,

    /// Turn to go back to before, counted by prompts from 1 [default: the last turn that changed files].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..).map(|turn| turn as usize))]
    pub(crate) turn: Option<usize>,

    /// Undo the newest revert.
    #[arg(long, conflicts_with = "turn")]
    pub(crate) undo: bool,

    /// Show what would be restored without changing files.
    #[arg(long)]
    pub(crate) plan: bool,

    /// Take over the session even if another process is running it.
    #[arg(long, conflicts_with = "plan")]
    pub(crate) force: bool,
}

/// Arguments of `pin`.
#[derive(Args)]
pub(crate) struct PinArgs {
    /// Session id or prefix.
    pub(crate) session: String,

    /// Text, or the id of a message or part. Text is pinned at its last occurrence, or attached to the newest message if it
    /// does not occur in the session.
    #[arg(value_name = "TEXT|MESSAGE")]
    pub(crate) what: String,

    /// Take over the session even if another process is running it.
    #[arg(long)]
    pub(crate) force: bool,

    /// Policy options.
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
}

/// Arguments of `recall`.
#[derive(Args, Clone)]
pub(crate) struct RecallArgs {
    /// Handle or prefix: a part, a tool input (`prt_…:input`), a message, a range of messages (`first..last`), a spilled
    /// output, or a receipt.
    #[arg(required_unless_present_any = ["session", "grep"])]
    pub(crate) handle: Option<String>,

    /// Only content that this session can see; without HANDLE, search everything outside its window [default: the newest
    /// session of this directory].
    #[arg(short, long, value_name = "ID")]
    pub(crate) session: Option<String>,

    /// Line range, counted from 1: 100-140, 100- or 100.
    #[arg(long, value_name = "A-B", value_parser = lines, requires = "handle")]
    pub(crate) lines: Option<(u64, u64)>,

    /// Only lines that match this regular expression, with line numbers.
    #[arg(short, long, value_name = "PATTERN")]
    pub(crate) grep: Option<String>,

    /// Treat the pattern as literal text.
    #[arg(short = 'F', long, requires = "grep")]
    pub(crate) fixed_strings: bool,

    /// Case-insensitive search.
    #[arg(short, long, requires = "grep")]
    pub(crate) ignore_case: bool,

    /// Number of lines to show before and after each match.
    #[arg(short = 'C', long, value_name = "N", default_value_t = 0, requires = "grep")]
    pub(crate) context_lines: usize,

    /// Maximum number of bytes to print.
    #[arg(long, value_name = "BYTES", default_value_t = 50_000)]
    pub(crate) max_bytes: usize,

    /// Write the stored bytes unchanged and without a limit.
    #[arg(long, requires = "handle", conflicts_with_all = ["grep", "max_bytes"])]
    pub(crate) raw: bool,
}
