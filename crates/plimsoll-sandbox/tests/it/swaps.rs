//! Commands that prepare the next start: a program along `PATH`, a link in place of a granted directory or of `TMPDIR`.

use std::ffi::OsString;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use plimsoll_sandbox::{Grants, Guard, Sandbox, SandboxConfig};
use rstest::rstest;

use crate::support::{Yard, can};

/// Set in a test process that the same test has started in another environment.
const AGAIN: &str = "PLIMSOLL_TEST_AGAIN";

/// Runs a test again in a new process with other variables, because this process must not change its own. Returns the
/// project in the new process, `None` in the outer one.
fn again(test: &str, variables: impl Fn(&Yard) -> Vec<(&'static str, OsString)>) -> Option<PathBuf> {
    if let Some(project) = std::env::var_os(AGAIN) {
        return Some(project.into());
    }
    let yard = Yard::new();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).current_dir(&yard.project);
    let output = command.env(AGAIN, &yard.project).envs(variables(&yard)).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}{errors}");
    None
}

/// Writes a program that leaves `ran` in the project and `escaped` next to it, if it can.
fn trap(project: &Path, path: &str) {
    let outside = project.parent().unwrap().join("outside");
    let path = project.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let ran = project.join("ran");
    let text = format!(
        "#!/bin/sh\necho x > '{}'\necho x > '{}/escaped'\nexec /bin/sleep 0\n",
        ran.display(),
        outside.display()
    );
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn has_escaped(project: &Path) -> bool {
    project.parent().unwrap().join("outside/escaped").exists()
}

/// Runs a program to its end, and returns its output.
fn run(sandbox: &Sandbox, project: &Path, program: &str, arguments: &[&str]) -> std::io::Result<String> {
    let path = std::env::var_os("PATH");
    let mut command = sandbox.command(program, project, path.as_deref())?;
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut group = sandbox.spawn(&mut command, project)?;
    let mut output = String::new();
    let mut pipe = group.child().stdout.take().unwrap();
    std::io::Read::read_to_string(&mut pipe, &mut output).unwrap();
    group.waiter().wait();
    group.end();
    Ok(output)
}

fn path_with_project(yard: &Yard) -> Vec<(&'static str, OsString)> {
    let project = yard.project.display();
    let path = format!("{project}/.venv/bin:bin:.::{}", std::env::var("PATH").unwrap());
    vec![("PATH", path.into())]
}

#[test]
fn programs_that_a_command_put_along_path_do_not_run_outside_the_sandbox() {
    let test = "swaps::programs_that_a_command_put_along_path_do_not_run_outside_the_sandbox";
    let Some(project) = again(test, path_with_project).filter(|_| can(&[Guard::Writes])) else { return };
    for directory in [".venv/bin", "bin", "."] {
        for program in ["bash", "sh", "setsid", "env", "kill", "sleep", "true"] {
            trap(&project, &format!("{directory}/{program}"));
        }
    }
    let sandbox = Sandbox::new(SandboxConfig::default());
    for program in ["bash", "/bin/bash"] {
        run(&sandbox, &project, program, &["-c", "exec true"]).unwrap();
        assert!(!has_escaped(&project), "{program}");
    }
    // The command itself is looked up there, and confined.
    assert!(project.join("ran").exists());
}

/// Processes of a command must still end with it: the program that does it was not replaced.
#[test]
fn a_reaper_is_the_systems_shell_and_not_one_along_path() {
    let test = "swaps::a_reaper_is_the_systems_shell_and_not_one_along_path";
    let Some(project) = again(test, path_with_project).filter(|_| can(&[Guard::Processes])) else { return };
    trap(&project, ".venv/bin/bash");
    let sandbox = Sandbox::new(SandboxConfig::default());
    run(&sandbox, &project, "/bin/bash", &["-c", "echo done"]).unwrap();
    assert!(!project.join("ran").exists(), "the shell along PATH was started");
}

#[rstest]
#[case::network(Grants::default().network(true))]
#[case::write(Grants::default().write(["OUT"]))]
#[case::unconfined(Grants::default().unconfined(true))]
#[test]
fn a_program_with_grants_is_not_looked_up_in_the_project(#[case] grants: Grants) {
    let case = std::thread::current().name().unwrap().to_owned();
    let Some(project) = again(&case, path_with_project).filter(|_| can(&[Guard::Writes])) else { return };
    let outside = project.parent().unwrap().join("outside");
    let write: Vec<PathBuf> = grants.write.iter().map(|_| outside.clone()).collect();
    let sandbox = Sandbox::new(SandboxConfig::default()).granting(&grants.write(write));
    for directory in [".venv/bin", "bin", "."] {
        for program in ["bash", "setsid", "date", "only-here"] {
            trap(&project, &format!("{directory}/{program}"));
        }
    }
    let output = run(&sandbox, &project, "bash", &["-c", "date > /dev/null; echo $PATH"]).unwrap();
    assert!(!project.join("ran").exists() && !has_escaped(&project), "{output}");
    assert!(!output.contains(project.to_str().unwrap()), "{output}");
    assert!(output.trim().split(':').all(|directory| directory.starts_with('/')), "{output}");
    let error = run(&sandbox, &project, "only-here", &[]).unwrap_err().to_string();
    assert!(error.contains("only-here") && error.contains("those which commands can change"), "{error}");
    // By its path it is meant.
    run(&sandbox, &project, "./bin/only-here", &[]).unwrap();
    assert!(project.join("ran").exists());
}

/// Without a grant a program gets no further than a command, so that it is looked up as everywhere.
#[test]
fn a_program_without_grants_is_looked_up_in_the_project() {
    let test = "swaps::a_program_without_grants_is_looked_up_in_the_project";
    let Some(project) = again(test, path_with_project).filter(|_| can(&[Guard::Writes])) else { return };
    trap(&project, ".venv/bin/only-here");
    let sandbox = Sandbox::new(SandboxConfig::default()).granting(&Grants::default());
    run(&sandbox, &project, "only-here", &[]).unwrap();
    assert!(project.join("ran").exists() && !has_escaped(&project));
}

/// Libraries and modules of the project are no more part of a granted program than programs are.
#[test]
fn a_program_with_grants_gets_no_search_path_into_the_project() {
    let test = "swaps::a_program_with_grants_gets_no_search_path_into_the_project";
    const LISTS: [&str; 5] = ["LD_LIBRARY_PATH", "PYTHONPATH", "PERL5LIB", "NODE_PATH", "BASH_ENV"];
    let variables = |yard: &Yard| {
        let inside = yard.project.join("lib").into_os_string();
        LISTS.iter().map(|name| (*name, inside.clone())).collect()
    };
    let Some(project) = again(test, variables).filter(|_| can(&[Guard::Writes])) else { return };
    let sandbox = Sandbox::new(SandboxConfig::default());
    let inside = project.join("lib");
    for (sandbox, expected) in
        [(sandbox.granting(&Grants::default().network(true)), 0), (sandbox, LISTS.len())]
    {
        let output = run(&sandbox, &project, "/usr/bin/env", &[]).unwrap();
        let found = LISTS.iter().filter(|name| output.contains(&format!("{name}={}", inside.display())));
        assert_eq!(found.count(), expected, "{output}");
    }
}

/// A directory of the project that is granted, and the ways in which a command replaces it.
#[rstest]
#[case::itself("granted", "mv granted old; ln -s OUT granted")]
#[case::by_a_relative_link("granted", "mv granted old; ln -s ../outside granted")]
#[case::a_directory_above("sub/granted", "mv sub old; mkdir -p OUT/granted 2> /dev/null; ln -s OUT sub")]
#[case::two_links("granted", "mv granted old; ln -s OUT second; ln -s second granted")]
#[case::the_root("granted", "mv granted old; ln -s / granted")]
#[case::to_what_appears_later("granted", "mv granted old; ln -s OUT/later granted")]
#[test]
fn a_grant_in_the_project_does_not_follow_a_link(#[case] granted: &str, #[case] act: &str) {
    if !can(&[Guard::Writes]) {
        return;
    }
    for of_commands in [false, true] {
        let yard = Yard::new();
        std::fs::create_dir(yard.outside.join("granted")).unwrap();
        let place = yard.project.join(granted);
        std::fs::create_dir_all(&place).unwrap();
        let base = Sandbox::new(SandboxConfig::default());
        let sandbox = if of_commands {
            base.with_config(SandboxConfig::default().write([&place]))
        } else {
            base.granting(&Grants::default().write([&place]))
        };
        let attempt = format!(
            "echo x > {0}/escaped; echo x > {0}/granted/escaped; echo x > {0}/later/escaped; echo x > granted/own",
            yard.outside.display()
        );
        let escaped =
            || ["escaped", "granted/escaped", "later/escaped"].map(|name| yard.outside.join(name).exists());
        run(&sandbox, &yard.project, "bash", &["-c", &format!("cd {granted} && echo x > own")]).unwrap();
        assert!(place.join("own").exists(), "as long as it is a directory it is granted");
        yard.bash(&format!("{act}; ls -l"));
        std::fs::create_dir(yard.outside.join("later")).unwrap();
        let error = run(&sandbox, &yard.project, "bash", &["-c", &attempt]).unwrap_err().to_string();
        assert_eq!(escaped(), [false; 3], "of commands: {of_commands}");
        assert!(error.contains("is a symbolic link") && error.contains(granted), "{error}");
    }
}

/// Like a grant in the project, in a directory outside that commands may write to.
#[test]
fn a_grant_in_another_writable_directory_does_not_follow_a_link() {
    if !can(&[Guard::Writes]) {
        return;
    }
    let yard = Yard::new();
    let cache = yard.directory().join("cache");
    std::fs::create_dir(&cache).unwrap();
    let sandbox = Sandbox::new(SandboxConfig::default().write([&cache]));
    let granted = sandbox.granting(&Grants::default().write([cache.join("deep")]));
    run(&sandbox, &yard.project, "ln", &["-s", yard.outside.to_str().unwrap(), "../cache/deep"]).unwrap();
    let attempt = format!("echo x > {}/escaped", yard.outside.display());
    assert!(run(&granted, &yard.project, "bash", &["-c", &attempt]).is_err());
    assert!(!has_escaped(&yard.project));
}

/// Links of the user's own, in places that commands do not reach, are followed.
#[test]
fn a_grant_follows_links_outside_of_what_commands_write_to() {
    if !can(&[Guard::Writes]) {
        return;
    }
    let yard = Yard::new();
    let link = yard.directory().join("link");
    symlink(&yard.outside, &link).unwrap();
    let sandbox = Sandbox::new(SandboxConfig::default()).granting(&Grants::default().write([&link]));
    run(&sandbox, &yard.project, "bash", &["-c", "echo x > ../link/new"]).unwrap();
    assert!(yard.outside.join("new").exists());
}

#[rstest]
#[case::in_the_project("tmp", &[])]
#[case::in_a_granted_directory("../cache", &["../cache"])]
#[test]
fn a_temporary_directory_that_a_command_replaced_opens_nothing(#[case] place: &str, #[case] write: &[&str]) {
    let case = std::thread::current().name().unwrap().to_owned();
    let place = move |project: &Path| project.join(place);
    let variables = |yard: &Yard| {
        std::fs::create_dir(place(&yard.project)).unwrap();
        vec![("TMPDIR", place(&yard.project).canonicalize().unwrap().into_os_string())]
    };
    let Some(project) = again(&case, variables).filter(|_| can(&[Guard::Writes])) else { return };
    let outside = project.parent().unwrap().join("outside");
    let write: Vec<PathBuf> = write.iter().map(|name| project.join(name).canonicalize().unwrap()).collect();
    let sandbox = Sandbox::new(SandboxConfig::default().write(write));
    for act in [
        "mv $TMPDIR $TMPDIR-old; ln -s OUT $TMPDIR",
        "cd ${TMPDIR%/*}/..; name=${TMPDIR%/*}; mv $name $name-old; ln -s OUT $name; mkdir OUT/${TMPDIR##*/}",
    ] {
        let act = act.replace("OUT", outside.to_str().unwrap());
        run(&sandbox, &project, "bash", &["-c", &act]).unwrap();
        let attempt =
            format!("echo x > {0}/escaped; echo x > {0}/*/escaped; echo x > $TMPDIR/own", outside.display());
        run(&sandbox, &project, "bash", &["-c", &attempt]).unwrap();
        assert!(!has_escaped(&project), "{act}");
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0, "{act}");
        let works = run(&sandbox, &project, "bash", &["-c", "echo x > $TMPDIR/a && cat $TMPDIR/a"]).unwrap();
        assert_eq!(works.trim(), "x", "{act}");
    }
}

/// Every parent that is usual for temporary directories is open to commands here, so that one of them has to do.
#[test]
fn a_temporary_directory_in_a_writable_place_is_held_by_its_handle() {
    let Ok(outside) = tempfile::tempdir_in("/dev/shm") else {
        return println!("SKIPPED: there is no /dev/shm");
    };
    if !can(&[Guard::Writes]) {
        return;
    }
    let yard = Yard::with(SandboxConfig::default().write(["/tmp", "/var/tmp"]));
    let outside = outside.path().display();
    let first = yard.bash("echo $TMPDIR; touch $TMPDIR/kept");
    assert_eq!(yard.bash("echo $TMPDIR; ls $TMPDIR"), format!("{first}kept\n"));
    yard.bash(&format!("mv $TMPDIR $TMPDIR-old && ln -s {outside} $TMPDIR"));
    let output = yard.bash(&format!(
        "echo x > {outside}/escaped; touch $TMPDIR/new && echo $TMPDIR; rm -r {}*",
        first.trim()
    ));
    assert!(!std::path::Path::new(&format!("{outside}/escaped")).exists(), "{output}");
    assert!(!output.contains(first.trim_end()) || output.contains("Permission denied"), "{output}");
    assert!(output.lines().last().unwrap().contains("/plimsoll-commands-"), "{output}");
}

/// The project is named by its canonical path. One that was replaced by a link is not opened.
#[test]
fn a_project_that_became_a_link_is_not_opened() {
    if !can(&[Guard::Writes]) {
        return;
    }
    let yard = Yard::new();
    let inner = yard.project.join("inner");
    std::fs::create_dir(&inner).unwrap();
    yard.bash("mv inner old; ln -s OUT inner");
    let sandbox = Sandbox::new(SandboxConfig::default());
    let attempt = format!("echo x > {}/escaped", yard.outside.display());
    assert!(run(&sandbox, &inner, "bash", &["-c", &attempt]).is_err());
    assert!(!has_escaped(&yard.project));
}

#[test]
fn the_target_of_a_private_link_is_closed_too() {
    if !can(&[Guard::Reads]) {
        return;
    }
    let mut yard = Yard::new();
    let real = yard.directory().join("real");
    std::fs::create_dir(&real).unwrap();
    symlink(&real, yard.directory().join("second")).unwrap();
    symlink(yard.directory().join("second"), yard.directory().join("store")).unwrap();
    symlink(real.join("sessions.db"), yard.directory().join("linked.db")).unwrap();
    const FILES: [&str; 9] = [
        "sessions.db",
        "sessions.db-wal",
        "sessions.db-shm",
        "sessions.db-journal",
        "sessions.db-newest",
        "sessions.db.v3.bak",
        "sessions.db.v3.2.bak",
        ".sessions.db.upgrade-x1",
        "sessions.db-later",
    ];
    let (directory, file) = (yard.directory().join("store"), yard.directory().join("linked.db"));
    let by_name = yard.directory().join("store/sessions.db");
    for private in [directory, file, by_name] {
        let config = SandboxConfig::default();
        // Configured before anything exists, as on the first start.
        yard.confine(config.closed([&private]).private([&private]));
        FILES.iter().for_each(|name| std::fs::write(real.join(name), "secret").unwrap());
        std::fs::write(real.join("other"), "open").unwrap();
        for name in FILES {
            for directory in ["real", "second", "store"] {
                let output = yard.bash(&format!("cat ../{directory}/{name}"));
                assert!(!output.contains("secret"), "{} by {directory}/{name}: {output}", private.display());
            }
        }
        assert!(!yard.bash("cat ../linked.db").contains("secret"), "{}", private.display());
        std::fs::remove_dir_all(&real).unwrap();
        std::fs::create_dir(&real).unwrap();
    }
}

/// A dotfile of the user may be a link into a repository that is worked on.
#[test]
fn the_target_of_a_closed_link_stays_writable() {
    if !can(&[Guard::Writes]) {
        return;
    }
    let mut yard = Yard::new();
    let link = yard.directory().join(".vimrc");
    symlink(yard.project.join("vimrc"), &link).unwrap();
    yard.write("vimrc", "old");
    yard.confine(SandboxConfig::default().closed([&link]));
    assert_eq!(yard.bash("echo new > vimrc && echo x > other && cat vimrc").trim(), "new");
}

/// A second mount of the project shows the links that commands make in it.
#[test]
fn a_grant_by_another_mount_of_the_project_does_not_follow_a_link() {
    let test = "swaps::a_grant_by_another_mount_of_the_project_does_not_follow_a_link";
    if !can(&[Guard::Writes]) {
        return;
    }
    if std::env::var_os(AGAIN).is_none() {
        if !rustix::process::geteuid().is_root() {
            return println!("SKIPPED: only root mounts something");
        }
        let mut inner = Command::new("unshare");
        inner.args(["--mount", "--propagation", "private"]).arg(std::env::current_exe().unwrap());
        let output = inner.args(["--exact", test, "--nocapture"]).env(AGAIN, "/").output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(printed.contains("1 passed"), "{printed}{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let yard = Yard::new();
    let alias = yard.directory().join("alias");
    std::fs::create_dir(&alias).unwrap();
    std::fs::create_dir(yard.project.join("granted")).unwrap();
    let mounted = Command::new("mount").arg("--bind").args([&yard.project, &alias]).status();
    assert!(mounted.unwrap().success());
    trap(&yard.project, "bin/only-here");
    let grants = Grants::default().write([alias.join("granted")]);
    let sandbox = Sandbox::new(SandboxConfig::default()).granting(&grants);
    run(&sandbox, &yard.project, "/bin/bash", &["-c", "echo x > granted/own"]).unwrap();
    yard.bash("rm -r granted; ln -s OUT granted");
    let attempt = format!("echo x > {}/escaped", yard.outside.display());
    assert!(run(&sandbox, &yard.project, "/bin/bash", &["-c", &attempt]).is_err());
    assert!(!has_escaped(&yard.project));
    // Nor is a program looked up there.
    let path = OsString::from(format!("{}/bin:/usr/bin:/bin", alias.display()));
    let sandbox = Sandbox::new(SandboxConfig::default()).granting(&Grants::default().unconfined(true));
    let mut command = sandbox.command("only-here", &yard.project, Some(&path)).unwrap();
    assert!(sandbox.spawn(command.env("PATH", path), &yard.project).is_err());
}
