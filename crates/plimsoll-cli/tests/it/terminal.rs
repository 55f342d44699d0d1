//! Output on a terminal: colour, progress, pages of its width.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use plimsoll_testkit::server::{ModelServer, Reply};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::json;

use crate::figures::{ClaudeSession, claude};
use crate::support::{Home, chat};
use crate::tmux;

/// A terminal of 60 columns: what is written to its end can be read here.
struct Terminal {
    near: File,
    end: String,
}

impl Terminal {
    fn open() -> Terminal {
        let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&near).unwrap();
        unlockpt(&near).unwrap();
        tcsetwinsize(&near, Winsize { ws_row: 24, ws_col: 60, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let end = ptsname(&near, Vec::new()).unwrap().into_string().unwrap();
        Terminal { near: near.into(), end }
    }

    fn end(&self) -> Stdio {
        File::options().read(true).write(true).open(&self.end).unwrap().into()
    }

    /// Everything that was written, once the command has ended.
    fn seen(mut self, mut child: Child) -> String {
        let mut seen = Vec::new();
        let mut piece = [0; 4096];
        // When the last writer is gone, reading a terminal is an error.
        while let Ok(count @ 1..) = self.near.read(&mut piece) {
            seen.extend_from_slice(&piece[..count]);
        }
        assert!(child.wait().unwrap().success());
        String::from_utf8(seen).unwrap()
    }
}

pub(crate) fn on_terminal(home: &Home, args: &[&str], variables: &[(&str, &str)]) -> String {
    let terminal = Terminal::open();
    let mut command = home.command(args, &[("TERM", "xterm-256color")]);
    command
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(terminal.end())
        .stderr(terminal.end());
    let child = command.spawn().unwrap();
    drop(command);
    terminal.seen(child)
}

/// On a terminal a single line is updated until Ctrl-C.
#[test]
fn watch_keeps_one_line_on_a_terminal_until_ctrl_c() {
    let session = claude(&ClaudeSession { responses: 3, hidden: 16_000 });
    let home = Home::new().with("project/s.jsonl", &session);
    let terminal = Terminal::open();
    let mut command = home.command(&["watch", "s.jsonl", "--interval", "0.1"], &[("TERM", "xterm-256color")]);
    command.stdin(Stdio::null()).stdout(terminal.end()).stderr(Stdio::null());
    let child = command.spawn().unwrap();
    drop(command);
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_secs(2));
            let last = session.lines().last().unwrap().replace("\"last\"", "\"later\"");
            let more = last.replace("\"r8\"", "\"r9\"").replace("\"r7\"", "\"r8\"");
            std::fs::OpenOptions::new()
                .append(true)
                .open(home.project.join("s.jsonl"))
                .and_then(|mut file| writeln!(file, "{more}"))
                .unwrap();
            std::thread::sleep(Duration::from_secs(2));
            rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        });
        let seen = terminal.seen(child);
        let drawn: Vec<&str> = seen.split("\r\u{1b}[2K").collect();
        assert!(drawn.len() >= 3, "{seen:?}");
        assert!(drawn[1..].iter().all(|line| line.contains(" % of the line, ")), "{seen:?}");
        assert!(drawn[1..].iter().all(|line| line.trim_end().chars().count() < 60), "{seen:?}");
        assert_eq!(seen.matches('\n').count(), 1, "{seen:?}");
        assert!(seen.ends_with('\n'), "{seen:?}");
    });
}

/// A chat that comes slowly; what is seen on standard error, which is a terminal or not.
fn slowly(home: &Home, pause: Duration, to_terminal: bool) -> String {
    let chat = chat(1);
    let (first, rest) = chat.split_at(chat.len() / 2);
    let terminal = Terminal::open();
    let mut command: Command = home.command(&["prune", "-"], &[("TERM", "xterm")]);
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    command.stderr(if to_terminal { terminal.end() } else { Stdio::piped() });
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(first.as_bytes()).unwrap();
    std::thread::sleep(pause);
    stdin.write_all(rest.as_bytes()).unwrap();
    drop(stdin);
    if to_terminal {
        return terminal.seen(child);
    }
    String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap()
}

#[test]
fn progress_is_shown_on_terminals_only_after_half_a_second() {
    let home = Home::new();
    let seen = slowly(&home, Duration::from_millis(1_200), true);
    assert!(seen.contains("reading standard input") && seen.contains("iB"), "{seen:?}");
    assert!(seen.ends_with("\u{1b}[2K") || seen.ends_with('\r'), "the line is cleared: {seen:?}");
    assert_eq!(slowly(&home, Duration::from_millis(1), true), "", "soon done");
    assert_eq!(slowly(&home, Duration::from_millis(1_200), false), "", "no terminal");
}

#[test]
fn colour_is_for_terminals_and_can_be_forced_or_disabled() {
    let home = Home::new();
    home.write("project/chat.json", &chat(1));
    let coloured = |seen: &str| seen.contains('\u{1b}');
    for command in ["inspect", "window"] {
        assert!(coloured(&on_terminal(&home, &[command, "chat.json"], &[])), "{command}");
        assert!(!coloured(&on_terminal(&home, &[command, "chat.json"], &[("NO_COLOR", "1")])));
        assert!(!coloured(&on_terminal(&home, &[command, "chat.json", "--color", "never"], &[])));
        assert!(!coloured(&home.run(&[command, "chat.json"])), "a pipe is not a terminal");
        assert!(coloured(&home.run(&[command, "chat.json", "--color", "always"])));
        assert!(coloured(&home.run_with(&[command, "chat.json"], &[("CLICOLOR_FORCE", "1")])));
        assert!(!coloured(&home.run(&[command, "chat.json", "--color", "always", "--json"])));
    }
    assert!(home.run(&["fork", "missing.json", "--color", "always"]).contains("\u{1b}[1m\u{1b}[31merror:"));
}

#[test]
fn a_table_is_as_wide_as_its_page() {
    let home = Home::new();
    home.codex("019e06e6-0c4e-72d2", &home.project, &"many words ".repeat(20), 3);
    let widest = |text: &str| text.lines().map(|line| line.trim_end().chars().count()).max().unwrap();
    let seen = on_terminal(&home, &["sessions", "--color", "never"], &[]);
    let rows: Vec<&str> =
        seen.lines().filter(|line| line.starts_with("ID") || line.contains("Codex")).collect();
    assert_eq!(widest(&rows.join("\n")), 60, "{seen}");
    assert_eq!(widest(home.run(&["sessions"]).lines().nth(3).unwrap()), 80);
}

#[test]
fn terminal_controls_are_removed_on_a_terminal_and_kept_in_a_pipe() {
    let home = Home::new();
    home.write("project/chat.json", r#"[{ "role": "user", "content": "\u001b]0;owned\u0007hello" }]"#);
    for command in ["fork", "window", "inspect"] {
        let seen = on_terminal(&home, &[command, "chat.json", "--color", "never"], &[]);
        assert!(seen.contains("hello") && !seen.contains('\u{1b}') && !seen.contains('\u{7}'), "{seen:?}");
    }
    assert!(home.run(&["fork", "chat.json"]).contains("\u{1b}]0;owned\u{7}hello"));
}

#[test]
fn a_closed_pipe_is_not_a_failure() {
    let home = Home::new();
    home.write("project/chat.json", &chat(40));
    for args in
        [&["window", "chat.json"][..], &["window", "--json", "chat.json"], &["fork", "--stats", "chat.json"]]
    {
        let mut child =
            home.command(args, &[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut reader = BufReader::with_capacity(16, child.stdout.take().unwrap());
        reader.fill_buf().unwrap();
        drop(reader);
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), stderr.as_str()), (Some(0), ""), "{args:?}");
    }
}

/// A command that reads every terminal it finds takes no key that is pressed in a chat while it runs.
#[test]
fn keys_typed_while_a_command_runs_do_not_reach_the_command() {
    if tmux::is_missing("keys_typed_while_a_command_runs_do_not_reach_the_command") {
        return;
    }
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    let command = "for terminal in /dev/pts/[0-9]*; do timeout 30 cat $terminal & done; touch reading; \
                   until [ -e typed ]; do sleep 0.05; done; kill $(jobs -p) 2> /dev/null; wait; echo ended";
    let call = Reply::new().call("call_1", "bash", json!({ "command": command }));
    server.push_all([call, Reply::new().text("All done.")]);
    let tmux = crate::chat::begin(&home, &server, &["--allow", "bash"]);
    tmux.line("Go");
    let is_reading = (0..3_000).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        home.project.join("reading").exists()
    });
    assert!(is_reading);
    for _ in 0..20 {
        tmux.text("hunter2");
    }
    std::fs::write(home.project.join("typed"), "").unwrap();
    tmux.wait("All done.");
    let printed = server.last().unwrap().result("call_1").unwrap().to_owned();
    assert!(printed.contains("Permission denied") && printed.contains("ended"), "{printed}");
    assert!(!["hunter", "unter2", "2hunt"].iter().any(|typed| printed.contains(typed)), "{printed}");
}
