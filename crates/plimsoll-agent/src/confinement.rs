//! Text about the sandbox for the model, the user, and failed programs.

use std::path::{Path, PathBuf};

use plimsoll_sandbox::{Guard, Sandbox};

/// Describes to the user that commands reach only parts of a project, because the user's own files in it stay closed.
pub(crate) fn closed_notice(sandbox: &Sandbox, directory: &Path) -> Option<String> {
    if !sandbox.closes_parts_of(directory) {
        return None;
    }
    let closed = &sandbox.config().closed;
    let within: Vec<&PathBuf> = closed.iter().filter(|place| place.starts_with(directory)).collect();
    let held = match (sandbox.confinement().holds(Guard::Writes), within.is_empty()) {
        (false, _) => {
            "`write` and `edit` ask before they change these, but commands can change them".to_owned()
        }
        (true, true) => "commands cannot write there".to_owned(),
        (true, false) => {
            "commands cannot access these, and so cannot create files in the folders that contain them"
                .to_owned()
        }
    };
    Some(format!(
        "`{}` contains your own files, such as Plimsoll's configuration and sessions or files that your shell runs at \
         start: {held}; work in a subdirectory to avoid this",
        directory.display()
    ))
}

/// Describes the same to the model, if commands are confined.
pub(crate) fn closed_text_for_model(sandbox: &Sandbox, directory: &Path) -> Option<&'static str> {
    let is_reported = sandbox.confinement().holds(Guard::Writes) && sandbox.closes_parts_of(directory);
    is_reported.then_some(
        " In this project commands cannot create files or directories at the top level, only in existing directories, \
         and cannot access the user's settings.",
    )
}

/// Describes to the model how commands are confined; empty if they are not.
pub(crate) fn text_for_model(sandbox: &Sandbox) -> String {
    let (confinement, config) = (sandbox.confinement(), sandbox.config());
    let mut text = String::new();
    if confinement.holds(Guard::Writes) {
        text.push_str(
            " Commands run in a sandbox: they can write in the project directory and in $TMPDIR, and writes elsewhere fail \
             with \"Permission denied\"",
        );
        if !config.write.is_empty() {
            let more: Vec<String> = config.write.iter().map(|path| path.display().to_string()).collect();
            text.push_str(&format!(", except in {}", more.join(", ")));
        }
        text.push('.');
    }
    match (confinement.holds(Guard::Network), confinement.holds(Guard::UnixSockets)) {
        (true, true) => text.push_str(" Network access is disabled, including connections to this machine."),
        (true, false) => text.push_str(" Network access is disabled."),
        (false, _) => {}
    }
    if !text.is_empty() {
        text.push_str(" Do not work around this; tell the user what you need instead.");
    }
    text
}

/// Returns a hint for the failure of a hook or a server: that it ran confined, and which settings grant more. `place`
/// says where to write them. `None` if it was not confined.
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
    fn there_is_no_text_about_an_unconfined_program() {
        let sandbox = Sandbox::new(SandboxConfig::default().mode(SandboxMode::Off));
        assert_eq!(failure_hint(&sandbox, "here"), None);
        assert_eq!(text_for_model(&sandbox), "");
    }
}
