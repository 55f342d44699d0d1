//! Messages of the chat: notices and help.
//!
//! All of them are in one file so that one test can check them for R106: content that leaves the window is stored, and is
//! never described as lost.

use plimsoll::{Plan, Receipt, Tokens};

use crate::output::counted;

/// An undone reduction. The sizes are of the window before and after the undo, as in the meter: the receipt has those from
/// when it was made, and the conversation has grown since.
pub(super) fn undone(receipt: &Receipt, before: Tokens, after: Tokens) -> String {
    let what = match receipt.plan {
        Plan::Pin(_) => "no longer pinned",
        _ => "back in the window",
    };
    format!("undone, {what}: {before} → {after} tokens (receipt {})", receipt.id)
}

/// A requested compaction found nothing to do.
pub(super) const TOO_LITTLE: &str = "too little to summarise";

/// Nothing is out of the window.
pub(super) const ALL_IN_VIEW: &str = "everything is in the window: nothing was cleared or summarised yet";

/// A command needs a conversation before the first prompt.
pub(super) const NO_CONVERSATION: &str = "the conversation is still empty: send a prompt first";

/// The session has started no tasks, or all of them were cleared.
pub(super) const NO_TASKS: &str = "this session has no background tasks";

/// "Once" for something that does not fit the screen.
pub(super) const SEE_COMMAND_FIRST: &str =
    "the command was not shown completely: press `v` to see it, then `y` is available";

/// "Always" for something that does not fit the screen.
pub(super) const SEE_ALL_FIRST: &str = "not everything was shown: press `v` to see it, then `a` is available";

/// Tasks that were running when the chat ended.
pub(super) fn tasks_stopped(count: usize) -> String {
    let (was, them) = if count == 1 { ("was", "it") } else { ("were", "one") };
    format!("{} {was} stopped; `plimsoll tasks resume` resumes {them}", counted(count, "task"))
}

/// Ctrl-C at an empty prompt.
pub(super) const AGAIN_QUITS: &str = "press Ctrl-C again or Ctrl-D to quit; the session is stored";

/// A command of the chat.
pub(super) struct CommandHelp {
    /// Name.
    pub(super) name: &'static str,
    /// Arguments.
    pub(super) input: &'static str,
    /// Description.
    pub(super) does: &'static str,
}

const fn command(name: &'static str, input: &'static str, does: &'static str) -> CommandHelp {
    CommandHelp { name, input, does }
}

/// All commands, in the order of `/help`.
pub(super) const COMMANDS: [CommandHelp; 20] = [
    command("help", "", "list commands and keys"),
    command("window", "", "show the contents of the window, largest first"),
    command("plan", "", "show what would be cleared or summarised next"),
    command("compact", "[FOCUS]", "summarise older messages now; FOCUS says what matters"),
    command("undo", "[RECEIPT]", "undo the newest reduction or pin, or RECEIPT"),
    command("recall", "[HANDLE|TEXT]", "show or search content outside the window"),
    command("pin", "WHAT", "keep text, a message or a part in the window"),
    command("receipts", "", "list what was cleared, summarised or pinned"),
    command("continue", "", "resume a stopped turn"),
    command("revert", "[TURN|undo]", "restore files to before the last turn that changed any, or TURN"),
    command("todo", "", "show the agent's to-do list"),
    command("fork", "[PROMPT]", "continue in a copy of this session"),
    command("tasks", "[ID|cancel ID]", "list this session's background tasks, show one, or cancel one"),
    command("new", "", "start a new session"),
    command("resume", "[ID]", "switch to another session; without ID, list them"),
    command("sessions", "", "list the sessions of this directory"),
    command("model", "[NAME]", "switch to another model; without NAME, list them"),
    command("agent", "[NAME]", "switch to another agent; without NAME, list them"),
    command("permissions", "", "list permission rules"),
    command("exit", "", "quit; the session is stored"),
];

/// Keys and their descriptions.
pub(super) const KEYS: [(&str, &str); 7] = [
    ("Enter", "send"),
    ("Alt-Enter", "new line; pasting several lines is one prompt"),
    ("Tab", "complete a command, a session, a model, a receipt"),
    ("Up, Ctrl-R", "earlier prompts; one that starts with a space is not recorded"),
    ("Ctrl-C", "stop the answer or the tool; press twice to quit"),
    ("Ctrl-D", "quit; the session is stored"),
    ("//", "at the start of a prompt: a literal slash"),
];
