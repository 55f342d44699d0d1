//! Cost of commands: memory for 2 GB of output, and the time that Ctrl-C takes. Printed by `just commands`.

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
fn pids_in(directory: &Path) -> Vec<i32> {
    let read = |name: &str| {
        let begun = Instant::now();
        loop {
            let text = std::fs::read_to_string(directory.join(name)).unwrap_or_default();
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
        let directory = tempfile::tempdir().unwrap();
        let mut bare = Command::new("bash");
        bare.args(["-c", GROUP]).current_dir(directory.path()).stdin(Stdio::null()).process_group(0);
        let mut child = bare.spawn().unwrap();
        let pids = pids_in(directory.path());
        let begun = Instant::now();
        kill_process_group(Pid::from_child(&child), Signal::KILL).unwrap();
        await_ended(&pids);
        killed.push(begun.elapsed());
        child.wait().unwrap();

        // The same key for the same group without a chat: what tmux and the kernel take of the time.
        let directory = tempfile::tempdir().unwrap();
        let mut bare = Command::new("bash");
        bare.args(["-c", GROUP]).current_dir(directory.path());
        let tmux = Tmux::start(&bare, 80, 24);
        let pids = pids_in(directory.path());
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

/// Total output of the command whose memory is measured.
const PRINTED: u64 = 2_000_000_000;

/// The most memory that a process has had so far, in bytes; none once it has ended.
fn peak_of(pid: i32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1_024)
}

/// A model that has one command run, and a home for it.
fn with_command(command: &str) -> (Home, ModelServer) {
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    let input = json!({ "command": command, "timeout": 600_000 });
    server.push_all([Reply::new().call("call_1", "bash", input), Reply::new().text("It has ended.")]);
    (home, server)
}

/// Peak memory and time of `plimsoll run` with this command.
fn run_with(command: &str) -> (u64, Duration) {
    let (home, server) = with_command(command);
    let url = server.url();
    let variables = [("ANTHROPIC_API_KEY", "sk-ant-test-0123456789"), ("ANTHROPIC_BASE_URL", url.as_str())];
    let args = ["run", "--model", "anthropic/claude-sonnet-4-6", "--allow", "bash", "Go"];
    let mut command = home.command(&args, &variables);
    let begun = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let (pid, mut peak) = (i32::try_from(child.id()).unwrap(), 0);
    while child.try_wait().unwrap().is_none() {
        peak = peak_of(pid).unwrap_or(peak);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(server.requests().len(), 2, "the model received the result");
    (peak, begun.elapsed())
}

/// Like above, in `plimsoll chat`.
fn chat_with(command: &str) -> (u64, Duration) {
    let (home, server) = with_command(command);
    let tmux = chat::begin(&home, &server, &["--allow", "bash"]);
    let begun = Instant::now();
    tmux.line("Go");
    while !tmux.everything().contains("It has ended.") {
        assert!(begun.elapsed() < Duration::from_secs(900), "{}", tmux.screen());
        std::thread::sleep(Duration::from_millis(50));
    }
    let (peak, time) = (peak_of(tmux.pid()).unwrap(), begun.elapsed());
    tmux.key("C-d");
    (peak, time)
}

#[test]
#[ignore = "a measurement"]
fn memory_for_two_gigabytes_of_output_through_run_and_chat() {
    if is_missing("memory_for_two_gigabytes_of_output_through_run_and_chat") {
        return;
    }
    let printing = format!("yes 'a line of what a command prints' | head -c {PRINTED}");
    for (name, measure) in [("run", run_with as fn(&str) -> (u64, Duration)), ("chat", chat_with)] {
        let (quiet, _) = measure("true");
        let (loud, time) = measure(&printing);
        let ratio = loud as f64 / quiet as f64;
        println!(
            "plimsoll {name}: peak memory {:.0} MB with {:.1} GB of output, {:.0} MB with none ({ratio:.2}x), in {:.1} s",
            loud as f64 / 1e6,
            PRINTED as f64 / 1e9,
            quiet as f64 / 1e6,
            time.as_secs_f64()
        );
        assert!(loud < quiet + PRINTED / 10, "memory grows with the output: {quiet} and {loud}");
    }
}
