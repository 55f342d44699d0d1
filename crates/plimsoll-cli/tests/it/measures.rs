//! How long Ctrl-C takes in a chat. `just commands` prints it.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll_testkit::server::{ModelServer, Reply};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::json;

use crate::chat;
use crate::support::Home;
use crate::tmux::{Tmux, is_missing};

const ROUNDS: usize = 20;

/// Two processes of one group that note who they are, as a build with a pipe is.
const GROUP: &str = "sh -c 'echo $$ > one; exec sleep 600' | sh -c 'echo $$ > two; exec sleep 600'";

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// The processes of [`GROUP`], once both are there.
fn pids_in(folder: &Path) -> Vec<i32> {
    let read = |name: &str| {
        let begun = Instant::now();
        loop {
            let text = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
            if let Some(pid) = text.strip_suffix('\n') {
                return pid.parse().unwrap();
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{name} does not begin");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    vec![read("one"), read("two")]
}

/// Wait until all have ended. One that has ended counts although nothing has waited for it.
fn await_ended(pids: &[i32]) {
    let is_alive = |pid: &i32| {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !state.is_empty() && !state.contains(") Z ")
    };
    while pids.iter().any(is_alive) {
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
#[ignore = "a measurement"]
fn time_from_ctrl_c_in_a_terminal_to_a_dead_process_group() {
    if is_missing("time_from_ctrl_c_in_a_terminal_to_a_dead_process_group") {
        return;
    }
    let (mut killed, mut bare_key, mut chat_key) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let folder = tempfile::tempdir().unwrap();
        let mut bare = Command::new("bash");
        bare.args(["-c", GROUP]).current_dir(folder.path()).stdin(Stdio::null()).process_group(0);
        let mut child = bare.spawn().unwrap();
        let pids = pids_in(folder.path());
        let begun = Instant::now();
        kill_process_group(Pid::from_child(&child), Signal::KILL).unwrap();
        await_ended(&pids);
        killed.push(begun.elapsed());
        child.wait().unwrap();

        // The same key for the same group without a chat: what tmux and the kernel take of the time.
        let folder = tempfile::tempdir().unwrap();
        let mut bare = Command::new("bash");
        bare.args(["-c", GROUP]).current_dir(folder.path());
        let tmux = Tmux::start(&bare, 80, 24);
        let pids = pids_in(folder.path());
        let begun = Instant::now();
        tmux.key("C-c");
        await_ended(&pids);
        bare_key.push(begun.elapsed());

        let (home, server) = (Home::new(), ModelServer::start().unwrap());
        server.push(Reply::new().call("call_1", "bash", json!({ "command": GROUP })));
        let tmux = chat::begin(&home, &server, &["--allow", "bash"]);
        tmux.line("Begin");
        let pids = pids_in(&home.project);
        let begun = Instant::now();
        tmux.key("C-c");
        await_ended(&pids);
        chat_key.push(begun.elapsed());
        tmux.wait("stopped");
    }
    let (killed, bare_key, chat_key) = (median(killed), median(bare_key), median(chat_key));
    let ratio = |to: Duration| chat_key.as_secs_f64() / to.as_secs_f64();
    println!(
        "median of {ROUNDS}: kill of a group {killed:?}; Ctrl-C in tmux to a dead group without a chat {bare_key:?}, in a chat \
         {chat_key:?} ({:.1}x the kill, {:.1}x the key)",
        ratio(killed),
        ratio(bare_key)
    );
}
