//! Sessions whose process was killed or interrupted are free at once.

use std::process::{Child, Command, Stdio};

use plimsoll_store::LeaseRecord;
use plimsoll_testkit::server::{Gate, ModelServer, Reply};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Home, chat};

const MODEL: &str = "anthropic/claude-sonnet-4-6";
const KEY: &str = "sk-ant-test-0123456789abcdefghij";

/// A run whose model stalls in the middle of an answer, and the id of its session.
fn waiting_run(home: &Home, server: &ModelServer, gate: &Gate) -> (Child, String) {
    server.push(Reply::new().text("Half an answer").piece_size(Some(3)).gate(5, gate));
    let url = server.url();
    let variables = [("ANTHROPIC_API_KEY", KEY), ("ANTHROPIC_BASE_URL", url.as_str())];
    let mut command = home.command(&["run", "--model", MODEL, "Talk"], &variables);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    assert!(gate.wait_reached());
    let leases = leases(home);
    (child, leases[0].session.to_string())
}

fn leases(home: &Home) -> Vec<LeaseRecord> {
    home.archive().store().leases(None, 0).unwrap()
}

#[test]
fn the_session_of_a_killed_process_can_be_changed_at_once() {
    for command in [
        &["compact", "--apply", "--offline", "--session"][..],
        &["prune", "--apply", "--session"],
        &["sessions", "rm"],
    ] {
        let (home, server, gate) = (Home::new(), ModelServer::start().unwrap(), Gate::new());
        let (mut child, session) = waiting_run(&home, &server, &gate);
        let while_it_runs = home.run(&[command, &[session.as_str()]].concat());
        assert!(while_it_runs.contains(&format!("process {}` until", child.id())), "{while_it_runs}");
        // Not waited for: until its parent does that, the process number is still taken.
        kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        assert!((0..1_000_000).any(|_| state().contains(") Z ")), "{}", state());
        let printed = home.run(&[command, &[session.as_str()]].concat());
        assert!(!printed.contains("is being run by") && !printed.contains("took over"), "{printed}");
        assert!(leases(&home).is_empty());
        child.wait().unwrap();
        gate.release();
    }
}

#[test]
fn a_process_in_another_process_namespace_is_waited_for() {
    let (home, server, gate) = (Home::new(), ModelServer::start().unwrap(), Gate::new());
    let (mut child, session) = waiting_run(&home, &server, &gate);
    // Alive or not, it cannot be seen from in there, and its number is given to another process or to none.
    let compact = home.command(&["compact", "--apply", "--offline", "--session", &session], &[]);
    let mut inside = Command::new("unshare");
    inside.args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]);
    inside.arg(compact.get_program()).args(compact.get_args());
    let output = inside.env_clear().env("HOME", &home.path).current_dir(&home.project).output();
    let is_allowed = Command::new("unshare")
        .args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "true"])
        .status()
        .is_ok_and(|status| status.success());
    if is_allowed {
        let printed = home.output_text(&output.unwrap());
        assert!(printed.contains("is being run by"), "{printed}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    gate.release();
}

/// The interrupt may come at any moment; what counts is a round in which it comes between the taking of the lease and
/// its release.
#[test]
fn an_interrupted_compaction_releases_the_session() {
    let home = Home::new();
    let transcript = home.write("chat.json", &chat(40));
    let path = transcript.to_str().unwrap();
    let interrupted = (0..20).any(|_| {
        let printed = home.run(&["sessions", "import", "--duplicate", path]);
        let session = printed.lines().find(|line| line.starts_with("ses_")).unwrap();
        let mut command = home.command(&["compact", "--apply", "--offline", "--session", session], &[]);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let archive = home.archive();
        while archive.store().leases(None, 0).unwrap().is_empty() && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        let _ = kill_process(Pid::from_child(&child), Signal::INT);
        let status = child.wait().unwrap();
        assert!(archive.store().leases(None, 0).unwrap().is_empty() || status.code().is_none(), "{status}");
        let taken = home.run(&["compact", "--apply", "--offline", "--session", session]);
        assert!(!taken.contains("is being run by"), "{taken}");
        status.code() == Some(130)
    });
    assert!(interrupted);
}
