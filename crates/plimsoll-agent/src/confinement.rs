//! Text about the sandbox: for the model, for the user, and for programs that failed in it.

use std::path::{Path, PathBuf};

use plimsoll_sandbox::{Guard, Sandbox};

/// Describes for the user that commands reach only parts of a project, because files of the user's own in it stay closed.
pub(crate) fn closed_notice(sandbox: &Sandbox, directory: &Path) -> Option<String> {
    if !sandbox.closes_parts_of(directory) {
        return None;
    }
    let closed = &sandbox.config().closed;
    let within: Vec<&PathBuf> = closed.iter().filter(|place| place.starts_with(directory)).collect();
    let held = match (sandbox.confinement().holds(Guard::Writes), within.is_empty()) {
        (false, _) => {
            "changes of them by `write` and `edit` are asked about, but commands can change them".to_owned()
        }
        (true, true) => "commands can write nothing there".to_owned(),
        (true, false) => {
            "commands do not reach them, and so cannot make new files in the folders that lead to them"
                .to_owned()
        }
    };
    Some(format!(
        "`{}` holds files of your own, such as plimsoll's configuration and sessions or what your shell runs when it \
         starts: {held}; work in a folder of its own to have neither",
        directory.display()
    ))
}

/// Describes the same for the model, if commands are confined.
pub(crate) fn closed_text_for_model(sandbox: &Sandbox, directory: &Path) -> Option<&'static str> {
    let is_told = sandbox.confinement().holds(Guard::Writes) && sandbox.closes_parts_of(directory);
    is_told.then_some(
        " In this project commands cannot make new files or folders at the top, only in folders that are there already, \
         and files of the user's own settings are closed to them.",
    )
}

/// Describes for the model how commands are confined; empty if they are not.
pub(crate) fn text_for_model(sandbox: &Sandbox) -> String {
    let (confinement, config) = (sandbox.confinement(), sandbox.config());
    let mut text = String::new();
    if confinement.holds(Guard::Writes) {
        text.push_str(
            " Commands are confined: writing works in the project's directory and in $TMPDIR and fails elsewhere \
             with \"Permission denied\"",
        );
        if !config.write.is_empty() {
            let more: Vec<String> = config.write.iter().map(|path| path.display().to_string()).collect();
            text.push_str(&format!(", but for {}", more.join(", ")));
        }
        text.push('.');
    }
    match (confinement.holds(Guard::Network), confinement.holds(Guard::UnixSockets)) {
        (true, true) => text.push_str(" There is no network, not even to this machine."),
        (true, false) => text.push_str(" There is no network."),
        (false, _) => {}
    }
    if !text.is_empty() {
        text.push_str(" Do not work around this; tell the user what you would need.");
    }
    text
}

/// Returns what to add to the failure of a hook or a server: that it ran confined, and which settings grant more. `place` is where
/// the settings are written. `None` if it was not confined.
pub(crate) fn failure_hint(sandbox: &Sandbox, place: &str) -> Option<String> {
    let settings = [
        (Guard::Network, "`network = true`"),
        (Guard::UnixSockets, "`unix_sockets = true`"),
        (Guard::Writes, "`write = [\"PATH\"]`"),
    ];
    let held = settings.into_iter().filter(|(guard, _)| sandbox.confinement().holds(*guard));
    let settings = held.map(|(_, setting)| setting).collect::<Vec<_>>().join(", ");
    let settings = match settings.rsplit_once(", ") {
        Some((first, last)) => format!("{first} or {last}"),
        None if settings.is_empty() => return None,
        None => settings,
    };
    Some(format!(" (confined to the project: {settings} {place} grants more)"))
}

#[cfg(test)]
mod tests {
    use plimsoll_sandbox::{Sandbox, SandboxConfig, SandboxMode};

    use super::{failure_hint, text_for_model};

    #[test]
    fn of_a_program_that_is_not_confined_nothing_is_said() {
        let sandbox = Sandbox::new(SandboxConfig::default().mode(SandboxMode::Off));
        assert_eq!(failure_hint(&sandbox, "here"), None);
        assert_eq!(text_for_model(&sandbox), "");
    }
}
