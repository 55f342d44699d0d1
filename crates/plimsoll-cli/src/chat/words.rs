//! What a person is told, in words: notices, greetings, help.
//!
//! All of it is here so that one test can hold all of it against R106: what leaves the window is kept, and is never spoken
//! of as if it were not.

use plimsoll::{Plan, Receipt, Tokens};

use crate::output::counted;

/// A reduction was undone. The sizes are those of the window around the undoing, as the meter has them: the receipt knows
/// those from when it was made, and more was said since.
pub(super) fn undone(receipt: &Receipt, before: Tokens, after: Tokens) -> String {
    let what = match receipt.plan {
        Plan::Pin(_) => "it is no longer pinned",
        _ => "it is in the window again",
    };
    format!("undone: {what}; {before} → {after} tokens (receipt {})", receipt.id)
}

/// Nothing was reduced although a person asked for it.
pub(super) const TOO_LITTLE: &str = "there is too little to summarise";

/// Nothing is out of the window.
pub(super) const ALL_IN_VIEW: &str =
    "everything is in the window: nothing was set aside or summarised so far";

/// Nothing was said yet.
pub(super) const NOTHING_SAID: &str = "nothing was said yet";

/// The session has launched nothing, or all of it was cleared.
pub(super) const NO_TASKS: &str = "this session has no background tasks";

/// A yes to something that does not fit the screen.
pub(super) const SEE_COMMAND_FIRST: &str =
    "not all of what would run was shown: `v` shows it, then `y` can be answered";

/// A yes for good to something that does not fit the screen.
pub(super) const SEE_ALL_FIRST: &str =
    "not everything was shown: `v` shows all of it, then `a` can be answered";

/// Tasks that were at work when the chat ended.
pub(super) fn tasks_stopped(count: usize) -> String {
    let (was, them) = if count == 1 { ("was", "it") } else { ("were", "one") };
    format!("{} {was} stopped; `plimsoll tasks resume` takes {them} up again", counted(count, "task"))
}

/// Ctrl-C at an empty prompt.
pub(super) const AGAIN_QUITS: &str = "Ctrl-C again quits, or Ctrl-D; the session is stored";

/// A command of the chat.
pub(super) struct CommandHelp {
    /// Its name.
    pub(super) name: &'static str,
    /// What may follow it.
    pub(super) input: &'static str,
    /// What it does.
    pub(super) does: &'static str,
}

const fn command(name: &'static str, input: &'static str, does: &'static str) -> CommandHelp {
    CommandHelp { name, input, does }
}

/// All commands, as `/help` lists them.
pub(super) const COMMANDS: [CommandHelp; 20] = [
    command("help", "", "list the commands and keys"),
    command("window", "", "show what is in the model's window, largest first"),
    command("plan", "", "show what would be set aside or summarised next"),
    command("compact", "[FOCUS]", "summarise older messages now; FOCUS says what to keep"),
    command("undo", "[RECEIPT]", "put back what was set aside or summarised last; a pin goes"),
    command("recall", "[HANDLE|WORDS]", "show or search what is out of the window"),
    command("pin", "WHAT", "keep words, a message or a part in view whatever happens"),
    command("receipts", "", "list what was set aside, summarised or pinned"),
    command("continue", "", "go on with a turn that was stopped"),
    command("revert", "[TURN|undo]", "put files back as before the last turn that changed some, or TURN"),
    command("todo", "", "show the agent's list of things to do"),
    command("fork", "[PROMPT]", "go on in a new session that knows this one; this one stays"),
    command("tasks", "[ID|cancel ID]", "list the background tasks of this session, show one, or cancel one"),
    command("new", "", "begin a new session"),
    command("resume", "[ID]", "go on with another session; without ID, list them"),
    command("sessions", "", "list the sessions of this directory"),
    command("model", "[NAME]", "go on with another model; without NAME, list them"),
    command("agent", "[NAME]", "go on with another agent; without NAME, list them"),
    command("permissions", "", "list what is allowed, asked and denied"),
    command("exit", "", "quit; the session is stored"),
];

/// What the keys do.
pub(super) const KEYS: [(&str, &str); 7] = [
    ("Enter", "send"),
    ("Alt-Enter", "begin a new line; a paste of many lines is one prompt"),
    ("Tab", "complete a command, a session, a model, a receipt"),
    ("Up, Ctrl-R", "earlier prompts; one that begins with a space is not remembered"),
    ("Ctrl-C", "stop the answer or the tool; pressed again, quit"),
    ("Ctrl-D", "quit; the session is stored"),
    ("//", "at the beginning: send the prompt with one slash"),
];
