//! How `plimsoll chat` ends and is stopped, and what it does to the terminal.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll_testkit::server::{Gate, ModelServer, Reply};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::json;

use crate::chat::{KEY, MODEL, assert_screen, begin, command};
use crate::support::Home;
use crate::tmux::{Tmux, is_missing};

/// Whether a process still does something. One that has ended counts as ended although nothing has waited for it.
fn is_running(pid: Pid) -> bool {
    match std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())) {
        Ok(stat) => stat.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with('Z')),
        Err(_) => !std::path::Path::new("/proc/self").exists() && test_kill_process(pid).is_ok(),
    }
}

fn await_end(pid: Pid) {
    let begun = Instant::now();
    while is_running(pid) {
        assert!(begun.elapsed() < Duration::from_secs(20), "it does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn ctrl_c_stops_a_stream_and_a_tool_and_twice_quits() {
    if is_missing("ctrl_c_stops_a_stream_and_a_tool_and_twice_quits") {
        return;
    }
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    let gate = Gate::new();
    server.push(
        Reply::new().text("A long answer that takes its time and more").piece_size(Some(4)).gate(8, &gate),
    );
    let tmux = begin(&home, &server, &["--allow", "bash"]);
    tmux.line("Talk");
    assert!(gate.wait_reached());
    tmux.wait("A long answer that");
    tmux.key("C-c");
    tmux.prompt_after("stopped; everything so far is stored");
    gate.release();
    // A tool and what it has started.
    let command = "sleep 300 & echo $! > child; echo $$ > parent; sleep 300";
    server.push(Reply::new().call("call_1", "bash", json!({ "command": command })));
    tmux.line("Sleep");
    tmux.wait("Ctrl-C to stop");
    let pid = |name: &str| {
        let path = home.project.join(name);
        let begun = Instant::now();
        loop {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            if let Ok(pid) = text.trim().parse() {
                return Pid::from_raw(pid).unwrap();
            }
            assert!(begun.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let (child, parent) = (pid("child"), pid("parent"));
    tmux.key("C-c");
    tmux.prompt_after("· stopped");
    for process in [child, parent] {
        let begun = Instant::now();
        while is_running(process) {
            assert!(begun.elapsed() < Duration::from_secs(10), "a process outlives its call");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    assert_screen("stopped", &tmux.screen());
    // At a prompt with text it clears the line, at an empty one it hints, then quits.
    tmux.text("half a tho");
    tmux.wait("half a tho");
    tmux.key("C-c");
    tmux.prompt_after("half a tho");
    tmux.key("C-c");
    tmux.prompt_after("press Ctrl-C again");
    tmux.key("C-c");
    assert_eq!(tmux.exit_code(), 0);
    // The session was given back.
    server.push(Reply::new().text("As I was saying."));
    let run = ["run", "--continue", "Go on"];
    let output = home
        .command(&run, &[("ANTHROPIC_API_KEY", KEY), ("ANTHROPIC_BASE_URL", &server.url())])
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && !printed.contains("note:"), "{printed}");
}

#[test]
fn termination_and_a_hang_up_leave_the_session_intact() {
    if is_missing("termination_and_a_hang_up_leave_the_session_intact") {
        return;
    }
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    let go_on = || {
        server.push(Reply::new().text("Going on."));
        let run = ["run", "--continue", "Go on"];
        let variables = [("ANTHROPIC_API_KEY", KEY), ("ANTHROPIC_BASE_URL", &server.url())];
        let begun = Instant::now();
        let output = loop {
            let output = home.command(&run, &variables).stdin(Stdio::null()).output().unwrap();
            // The chat may still be giving its session back.
            if output.status.success() || begun.elapsed() > Duration::from_secs(20) {
                break output;
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        let printed = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && !printed.contains("note:"), "{printed}");
    };
    server.push(Reply::new().text("Hello."));
    let tmux = begin(&home, &server, &[]);
    tmux.line("Hello");
    tmux.prompt_after("Hello.");
    kill_process(Pid::from_raw(tmux.pid()).unwrap(), Signal::TERM).unwrap();
    assert_eq!(tmux.exit_code(), 130);
    go_on();
    // A terminal that goes away while a prompt is awaited.
    let tmux = begin(&home, &server, &["--continue"]);
    let pid = Pid::from_raw(tmux.pid()).unwrap();
    tmux.text("half a line").hang_up();
    await_end(pid);
    go_on();
    for hangs_up in [false, true] {
        let gate = Gate::new();
        server.push(Reply::new().text("A long answer, cut short").piece_size(Some(4)).gate(5, &gate));
        let tmux = begin(&home, &server, &["--continue"]);
        tmux.line("Talk");
        assert!(gate.wait_reached());
        let pid = Pid::from_raw(tmux.pid()).unwrap();
        if hangs_up {
            tmux.hang_up();
        } else {
            kill_process(pid, Signal::TERM).unwrap();
        }
        await_end(pid);
        gate.release();
        go_on();
    }
}

/// A chat whose exit code is written to `code` in the project, also if its terminal goes away. In a separate session it
/// receives no signal about that.
fn noting_code(command: &Command, in_own_session: bool) -> Command {
    let mut noting = Command::new("sh");
    // The shell has an empty handler, so that it continues; if it ignored the signal, the chat would inherit that.
    noting.args(["-c", "trap : HUP; \"$@\"; echo $? > code.new; mv code.new code", "sh"]);
    noting.args(in_own_session.then_some("setsid")).arg(command.get_program()).args(command.get_args());
    noting.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    noting.current_dir(command.get_current_dir().unwrap());
    noting
}

#[cfg(target_os = "linux")]
#[test]
fn a_terminal_that_hangs_up_ends_the_chat_wherever_it_is_with_and_without_a_signal() {
    if is_missing("a_terminal_that_hangs_up_ends_the_chat_wherever_it_is_with_and_without_a_signal") {
        return;
    }
    for in_own_session in [false, true] {
        for at in ["prompt", "stream", "tool", "question"] {
            let (home, server) = (Home::new(), ModelServer::start().unwrap());
            let gate = Gate::new();
            let command = "touch begun; sleep 600";
            let bash = Reply::new().call("call_1", "bash", json!({ "command": command }));
            server.push(match at {
                "stream" => Reply::new().text("A long answer, cut short").piece_size(Some(4)).gate(5, &gate),
                "prompt" => Reply::new().text("Hello."),
                _ => bash,
            });
            let allowed: &[&str] = if at == "tool" { &["--allow", "bash"] } else { &[] };
            let chat = noting_code(&self::command(&home, &server, allowed), in_own_session);
            let tmux = Tmux::start(&chat, 80, 24);
            tmux.prompt_after("Ctrl-D quits");
            tmux.line("Begin");
            match at {
                "prompt" => drop(tmux.prompt_after("Hello.")),
                "stream" => drop(tmux.wait("A long")),
                "tool" => {
                    tmux.wait("Ctrl-C to stop");
                    let begun = Instant::now();
                    while !home.project.join("begun").exists() {
                        assert!(begun.elapsed() < Duration::from_secs(60), "{}", tmux.screen());
                        std::thread::sleep(Duration::from_millis(20));
                    }
                }
                _ => drop(tmux.wait("allow? [y/a/N]")),
            }
            tmux.hang_up();
            let begun = Instant::now();
            let code = loop {
                match std::fs::read_to_string(home.project.join("code")) {
                    Ok(code) => break code,
                    Err(_) => std::thread::sleep(Duration::from_millis(20)),
                }
                assert!(begun.elapsed() < Duration::from_secs(30), "{at}: it does not end");
            };
            gate.release();
            assert_eq!(code.trim(), "130", "at a {at}, in its own session: {in_own_session}");
            // The session was given back: nothing has to be waited for or taken.
            server.push(Reply::new().text("Going on."));
            let variables = [("ANTHROPIC_API_KEY", KEY), ("ANTHROPIC_BASE_URL", &server.url())];
            let run = home.command(&["run", "--continue", "Go on"], &variables).stdin(Stdio::null()).output();
            let run = run.unwrap();
            let printed = String::from_utf8(run.stderr).unwrap();
            assert!(run.status.success() && !printed.contains("note:"), "{at}: {printed}");
        }
    }
}

#[test]
fn one_hang_up_signal_ends_a_turn_in_order() {
    if is_missing("one_hang_up_signal_ends_a_turn_in_order") {
        return;
    }
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    let gate = Gate::new();
    server.push(Reply::new().text("A long answer, cut short").piece_size(Some(4)).gate(5, &gate));
    let tmux = begin(&home, &server, &[]);
    tmux.line("Talk");
    assert!(gate.wait_reached());
    tmux.wait("A long");
    kill_process(Pid::from_raw(tmux.pid()).unwrap(), Signal::HUP).unwrap();
    assert_eq!(tmux.exit_code(), 130);
    gate.release();
    let seen = tmux.wait("is stored; continue with");
    assert!(seen.contains("stopped; everything so far is stored"), "{seen}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_hang_up_that_was_ignored_before_stays_ignored() {
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    for name in ["chat", "run"] {
        let gate = Gate::new();
        server.push(Reply::new().text("A long answer, said to the end").piece_size(Some(4)).gate(5, &gate));
        let variables = [("ANTHROPIC_API_KEY", KEY), ("ANTHROPIC_BASE_URL", &server.url())];
        let command = home.command(&[name, "--model", MODEL, "Talk"], &variables);
        let mut shell = Command::new("sh");
        shell
            .args(["-c", "trap '' HUP; exec \"$@\"", "sh"])
            .arg(command.get_program())
            .args(command.get_args());
        shell.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        shell.current_dir(&home.project).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = shell.spawn().unwrap();
        assert!(gate.wait_reached());
        kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
        // Long enough for the signal to be heeded, if it were.
        std::thread::sleep(Duration::from_millis(300));
        gate.release();
        let output = child.wait_with_output().unwrap();
        let printed = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            String::from_utf8_lossy(&output.stdout).trim_end(),
            "A long answer, said to the end",
            "{printed}"
        );
        assert!(output.status.success(), "{name}: {printed}");
    }
}

#[test]
fn no_terminal_controls_of_models_and_tools_reach_the_terminal() {
    if is_missing("no_terminal_controls_of_models_and_tools_reach_the_terminal") {
        return;
    }
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    let evil = "\u{1b}]0;owned\u{7}\u{9b}2J\u{1b}[8m";
    server.push_all([
        Reply::new()
            .text(format!("words {evil} words\n```\ncode {evil}\n```"))
            .call("call_1", "read", json!({ "path": format!("a{evil}b") }))
            .call("call_2", "nothing", json!({ "x": evil }))
            .call("call_3", "bash", json!({ "command": format!("echo {evil}\nallow? [y/a/N] y") })),
        Reply::new().text("The end."),
    ]);
    let tmux = begin(&home, &server, &[]);
    let bytes = tmux.record();
    tmux.line(&format!("Do {} it", "x"));
    tmux.wait_until("the question", |seen| seen.contains("\nallow? [y/a/N]"));
    tmux.line("n");
    tmux.prompt_after("The end.");
    for (command, end) in
        [("/window", "HANDLE"), ("/sessions", "continues one"), ("/recall words", "[recall")]
    {
        tmux.line(command);
        tmux.prompt_after(end);
    }
    tmux.key("C-d");
    tmux.exit_code();
    let seen = String::from_utf8_lossy(&std::fs::read(bytes).unwrap()).into_owned();
    assert!(seen.contains("owned"), "{seen:?}");
    for sequence in ["\u{1b}]0;", "\u{9b}", "\u{1b}[8m", "\u{7}"] {
        assert!(!seen.contains(sequence), "{sequence:?} in {seen:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_command_has_no_hold_on_the_terminal() {
    if is_missing("a_command_has_no_hold_on_the_terminal") {
        return;
    }
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    let command =
        "printf 'f%s' alse-one > /dev/tty; trap '' TTOU; stty -isig < /dev/tty; touch tried; sleep 600";
    server.push(Reply::new().call("call_1", "bash", json!({ "command": command })));
    let tmux = begin(&home, &server, &["--allow", "bash", "--sandbox", "require"]);
    tmux.line("Go");
    let begun = Instant::now();
    while !home.project.join("tried").exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{}", tmux.screen());
        std::thread::sleep(Duration::from_millis(20));
    }
    // The key is heeded, whatever the command has tried.
    let seen = loop {
        tmux.key("C-c");
        let seen = tmux.everything();
        if seen.contains("stopped") || begun.elapsed() > Duration::from_secs(30) {
            break seen;
        }
        std::thread::sleep(Duration::from_millis(300));
    };
    assert!(seen.contains("stopped") && !seen.contains("false-one"), "{seen}");
}

#[test]
fn colour_is_on_by_default_and_can_be_disabled() {
    if is_missing("colour_is_on_by_default_and_can_be_disabled") {
        return;
    }
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    server.repeat(Reply::new().text("**Bold** words.\n\n```rust\nlet x = 1;\n```\n"));
    for (variables, coloured) in [(vec![], true), (vec![("NO_COLOR", "1")], false)] {
        let mut command = command(&home, &server, &[]);
        command.envs(variables);
        let tmux = Tmux::start(&command, 80, 24);
        tmux.prompt_after("Ctrl-D quits");
        let bytes = tmux.record();
        tmux.line("Say it");
        let seen = tmux.prompt_after("let x = 1;");
        assert_eq!(seen.contains("**Bold**"), !coloured, "without colour the text is unchanged:\n{seen}");
        tmux.key("C-d");
        tmux.exit_code();
        let seen = String::from_utf8_lossy(&std::fs::read(bytes).unwrap()).into_owned();
        let painted = |code: &str| seen.contains(&format!("\u{1b}[{code}m"));
        assert_eq!((painted("1"), painted("35"), painted("2")), (coloured, coloured, coloured), "{seen:?}");
    }
}

#[test]
fn a_dumb_terminal_receives_only_text() {
    if is_missing("a_dumb_terminal_receives_only_text") {
        return;
    }
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    let (gate, echoes) = (Gate::new(), (1..=60).map(|n| format!("echo {n}\n")).collect::<String>());
    let todos = json!([{ "content": "Measure", "status": "completed" }, { "content": "Write", "status": "in_progress" }]);
    server.push_all([
        Reply::new().text("**Bold** words."),
        Reply::new().call("call_1", "bash", json!({ "command": echoes })).call(
            "call_2",
            "todo",
            json!({ "todos": todos }),
        ),
        Reply::new().text("It has run."),
        Reply::new().text("A long answer that takes its time").piece_size(Some(4)).gate(5, &gate),
    ]);
    let chat = command(&home, &server, &[]);
    let mut dumb = Command::new("env");
    dumb.arg("TERM=dumb").arg(chat.get_program()).args(chat.get_args());
    dumb.envs(chat.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(&home.project);
    let tmux = Tmux::start(&dumb, 80, 24);
    tmux.prompt_after("Ctrl-D quits");
    let bytes = tmux.record();
    tmux.line("Say it");
    tmux.prompt_after("words.");
    tmux.line("Run it");
    tmux.wait("allow? [v/N]");
    // Long enough for the keys before it to be thrown away.
    std::thread::sleep(Duration::from_millis(600));
    tmux.line("v");
    tmux.wait("allow? [y/a/v/N]");
    let seen = tmux.everything();
    assert!((1..=60).all(|n| seen.contains(&format!("│ echo {n}\n"))), "{seen}");
    assert_screen("dumb", &tmux.screen());
    tmux.line("a");
    tmux.prompt_after("It has run.");
    tmux.line("/permissions");
    let seen = tmux.prompt_after("(your answer)");
    assert!(seen.contains("todo 1 of 2 done: Write"), "{seen}");
    tmux.line("Talk");
    assert!(gate.wait_reached());
    tmux.wait("A long");
    tmux.key("C-c");
    tmux.prompt_after("stopped; everything so far is stored");
    gate.release();
    tmux.key("C-d");
    assert_eq!(tmux.exit_code(), 0);
    let seen = String::from_utf8_lossy(&std::fs::read(bytes).unwrap()).into_owned();
    assert!(seen.contains("It has run.") && !seen.contains('\u{1b}'), "{seen:?}");
}
