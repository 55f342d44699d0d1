//! Runs tests as an ordinary user as well, because root has other permissions.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use tempfile::TempDir;

/// Set in a test process that was started as an ordinary user by the one of root.
const AS_USER: &str = "PLIMSOLL_TEST_AS_USER";

/// Runs tests of the calling test binary as user 1000. The arguments are those of the test binary, such as the names of
/// modules.
///
/// Returns what to print: the output, or why nothing ran, because this process does not run as root. A failed run is an
/// error, and so is one without any tests.
pub fn also_as_user(arguments: &[&str]) -> Result<String, String> {
    if std::env::var_os(AS_USER).is_some() {
        return Ok(String::new());
    }
    if !rustix::process::geteuid().is_root() {
        return Ok("SKIPPED as root: this process is an ordinary user's".into());
    }
    let (mut command, _copy) = user_command().map_err(|error| format!("`setpriv`: {error}"))?;
    let output = command.args(arguments).output().map_err(|error| error.to_string())?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let has_run = printed.contains(" passed") && !printed.contains(" 0 passed");
    if output.status.success() && has_run {
        return Ok(format!("as an ordinary user:\n{printed}"));
    }
    Err(format!("as an ordinary user:\n{printed}{}", String::from_utf8_lossy(&output.stderr)))
}

/// Returns a command that runs the test binary as user 1000, with the directory of a copy if one is needed.
fn user_command() -> std::io::Result<(Command, Option<TempDir>)> {
    let setpriv = || {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=1000", "--regid=1000", "--clear-groups"]);
        command.env(AS_USER, "1").env("TMPDIR", "/tmp").env("HOME", "/nonexistent").current_dir("/");
        command
    };
    let own = std::env::current_exe()?;
    let mut command = setpriv();
    if setpriv().args(["test", "-x"]).arg(&own).status()?.success() {
        command.arg(own);
        return Ok((command, None));
    }
    // The binary may be in a directory that only root can enter.
    let directory = tempfile::tempdir_in("/tmp")?;
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755))?;
    let copy = directory.path().join("it");
    std::fs::copy(&own, &copy)?;
    command.arg(copy);
    Ok((command, Some(directory)))
}
