//! Cost of commands: memory for a long output, time to start and to end. `just commands` prints them.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use plimsoll_agent::tools::Bash;
use plimsoll_agent::{Event, Sandbox};
use plimsoll_config::{SandboxConfig, SandboxMode};
use plimsoll_testkit::server::{ModelServer, Reply};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::Yard;
use crate::support::{Dock, run};

const ROUNDS: usize = 40;

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Peak memory of this process in kilobytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Waits until processes have ended, polling as often as possible.
fn await_ended(pids: &[i32]) {
    let is_alive = |pid: &i32| {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !state.is_empty() && !state.contains(") Z ")
    };
    while pids.iter().any(is_alive) {}
}

/// Returns the numbers that a command has written to a file, once there are enough.
fn read_pids(file: &Path, count: usize) -> Vec<i32> {
    loop {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let pids: Vec<i32> = text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
        if pids.len() == count && text.ends_with('\n') {
            return pids;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn memory_for_two_gigabytes_of_output() {
    let mut yard = Yard::new().await;
    yard.bash("echo warm").await;
    let before = peak();
    let begun = Instant::now();
    let reply = yard
        .bash("yes 'a line of some output that a build might print, again and again' | head -c 2147483648")
        .await;
    assert!(reply.contains("spill_"), "{}", &reply[..200.min(reply.len())]);
    let after = peak();
    println!(
        "2 GB through bash: peak {after} kB, {} kB more than before; {:?}",
        after - before,
        begun.elapsed()
    );
    assert!(after - before < 100_000, "an output of any size needs little memory");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn time_from_a_cancellation_to_dead_processes() {
    let (mut bare, mut whole) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pids");
        let mut command = Command::new("bash");
        command.arg("-c").arg(format!("sleep 600 & echo $$ $! > {}; wait", file.display()));
        let mut child = command.process_group(0).stdin(Stdio::null()).spawn().unwrap();
        let pids = read_pids(&file, 2);
        let begun = Instant::now();
        kill_process_group(Pid::from_raw(pids[0]).unwrap(), Signal::KILL).unwrap();
        child.wait().unwrap();
        await_ended(&pids);
        bare.push(begun.elapsed());

        let yard = Yard::new().await;
        // One in the group, one that has left it.
        let line = "sleep 600 & setsid bash -c 'echo $$ > other; exec sleep 600' & \
                    until [ -s other ]; do sleep 0.01; done; echo $$ $! $(cat other) > pids; wait";
        yard.dock.server.push_all([Reply::new().call("a", "bash", json!({ "command": line }))]);
        let (mut talk, cancel) = (yard.talk, CancellationToken::new());
        let token = cancel.clone();
        let running = tokio::spawn(async move { talk.run("Go", &token).await.unwrap() });
        let pids = read_pids(&yard.dock.directory.path().join("project/pids"), 3);
        let begun = Instant::now();
        cancel.cancel();
        await_ended(&pids);
        whole.push(begun.elapsed());
        running.await.unwrap();
    }
    let (bare, whole) = (median(bare), median(whole));
    let ratio = whole.as_secs_f64() / bare.as_secs_f64();
    println!(
        "median of {ROUNDS}: kill and wait {bare:?}, from a cancellation to dead processes {whole:?} ({ratio:.1}x)"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn time_of_a_command_with_and_without_its_sandbox() {
    let mut medians = Vec::new();
    for mode in [SandboxMode::Off, SandboxMode::Auto] {
        let mut dock = Dock::new(ModelServer::start().unwrap()).allow("bash");
        let bash = Bash::new(Sandbox::new(SandboxConfig::default().mode(mode)));
        dock.agent.profile.tools = dock.agent.profile.tools.clone().with(bash);
        dock.agent.profile.limits.repeats = 0;
        let times: Arc<Mutex<Vec<(Instant, bool)>>> = Arc::default();
        let reply = Arc::clone(&times);
        dock.agent.events = Arc::new(move |event| match event {
            Event::CallStarted { .. } => reply.lock().unwrap().push((Instant::now(), true)),
            Event::CallEnded { .. } => reply.lock().unwrap().push((Instant::now(), false)),
            _ => {}
        });
        let mut talk = dock.begin().await;
        for n in 0..ROUNDS {
            let id = format!("call_{n}");
            let input = json!({ "command": "true" });
            dock.server.push_all([Reply::new().call(&id, "bash", input), Reply::new().text("Thanks.")]);
            run(&mut talk, "Go").await;
        }
        let times = times.lock().unwrap();
        medians.push(median(times.chunks(2).map(|pair| pair[1].0 - pair[0].0).collect()));
    }
    let ratio = medians[1].as_secs_f64() / medians[0].as_secs_f64();
    println!(
        "median of {ROUNDS}: `true` unconfined {:?}, confined {:?} ({ratio:.1}x)",
        medians[0], medians[1]
    );
}
