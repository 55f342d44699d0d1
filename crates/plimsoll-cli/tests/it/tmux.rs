//! A terminal driven by tests: tmux, with keys in and screens out.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Longer than a busy machine needs for anything here.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether tmux is missing, which is printed.
#[allow(clippy::print_stderr)]
pub(crate) fn is_missing(test: &str) -> bool {
    let found = Command::new("tmux").arg("-V").output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("SKIPPED {test}: tmux is not installed");
    }
    !found
}

/// Runs the command under a shell, like a user, and records its process and exit code. tmux knows them too, but
/// version 3.3 has been seen to end when the command of a window that remains does.
const SHELL: &str = r#"trap : INT
sh -c 'echo $$ > "$0"; exec "$@"' "$FOLDER/pid" "$@"
echo $? > "$FOLDER/code.new"
mv "$FOLDER/code.new" "$FOLDER/code"
exec sleep 3600
"#;

/// A terminal with one command in it.
pub(crate) struct Tmux {
    dir: TempDir,
    socket: PathBuf,
}

impl Tmux {
    /// Runs a command in a terminal of this size, with its environment and directory.
    pub(crate) fn start(command: &Command, columns: u16, lines: u16) -> Tmux {
        let dir = TempDir::new().unwrap();
        let (socket, config) = (dir.path().join("socket"), dir.path().join("tmux.conf"));
        let settings = "set -g status off\nset -g history-limit 20000\n\
            set -g default-terminal screen-256color\nset -g escape-time 0\n";
        std::fs::write(&config, settings).unwrap();
        let script = dir.path().join("run.sh");
        std::fs::write(&script, SHELL.replace("$FOLDER", dir.path().to_str().unwrap())).unwrap();
        let mut tmux = Command::new("tmux");
        tmux.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        tmux.env("TERM", "xterm-256color").env("LANG", "C.UTF-8").env("LC_ALL", "C.UTF-8");
        tmux.env("SHELL", "/bin/sh").env("PATH", std::env::var_os("PATH").unwrap_or_default());
        tmux.arg("-u").arg("-S").arg(&socket).arg("-f").arg(&config);
        tmux.args(["new-session", "-d", "-x", &columns.to_string(), "-y", &lines.to_string()]);
        if let Some(directory) = command.get_current_dir() {
            tmux.arg("-c").arg(directory);
        }
        tmux.arg("sh").arg(&script).arg(command.get_program()).args(command.get_args());
        let output = tmux.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Tmux { dir, socket }
    }

    fn tmux(&self, args: &[&str]) -> Output {
        Command::new("tmux").arg("-u").arg("-S").arg(&self.socket).args(args).output().unwrap()
    }

    /// Type text.
    pub(crate) fn text(&self, text: &str) -> &Tmux {
        self.tmux(&["send-keys", "-l", "--", text]);
        self
    }

    /// Press a key, by tmux's name for it.
    pub(crate) fn key(&self, key: &str) -> &Tmux {
        self.tmux(&["send-keys", key]);
        self
    }

    /// Type text and press Enter.
    pub(crate) fn line(&self, text: &str) -> &Tmux {
        self.text(text).key("Enter")
    }

    /// Paste text, as a terminal does for a program that wants pastes in brackets.
    pub(crate) fn paste(&self, text: &str) -> &Tmux {
        let file = self.dir.path().join("paste");
        std::fs::write(&file, text).unwrap();
        self.tmux(&["load-buffer", file.to_str().unwrap()]);
        self.tmux(&["paste-buffer", "-p"]);
        self
    }

    /// Make the terminal another size.
    pub(crate) fn resize(&self, columns: u16, lines: u16) -> &Tmux {
        self.tmux(&["resize-window", "-x", &columns.to_string(), "-y", &lines.to_string()]);
        let terminal =
            String::from_utf8(self.tmux(&["display-message", "-p", "#{pane_tty}"]).stdout).unwrap();
        let terminal = std::fs::File::open(terminal.trim()).unwrap();
        let begun = Instant::now();
        // tmux passes it to the terminal a while later.
        while rustix::termios::tcgetwinsize(&terminal).unwrap().ws_col != columns {
            assert!(begun.elapsed() < PATIENCE, "it was not resized");
            std::thread::sleep(Duration::from_millis(10));
        }
        self
    }

    /// Write every byte that the program writes to a file from now on.
    pub(crate) fn record(&self) -> PathBuf {
        let file = self.dir.path().join("bytes");
        self.tmux(&["pipe-pane", "-o", &format!("cat >> '{}'", file.display())]);
        file
    }

    /// Visible text, without the lines that have scrolled away.
    pub(crate) fn screen(&self) -> String {
        self.capture(&["capture-pane", "-p"])
    }

    /// Visible text and scrollback.
    pub(crate) fn everything(&self) -> String {
        self.capture(&["capture-pane", "-p", "-S", "-"])
    }

    fn capture(&self, args: &[&str]) -> String {
        let output = self.tmux(args);
        // Distinguishes it from a screen that stays empty.
        let gone = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "tmux itself has ended: {gone}");
        let text = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        lines.join("\n").trim_end().to_owned() + "\n"
    }

    /// Wait until something is seen; the screen then.
    pub(crate) fn wait(&self, text: &str) -> String {
        self.wait_until(&format!("`{text}`"), |seen| seen.contains(text))
    }

    /// Wait until something is on the screen now, also where the program has taken all of it.
    pub(crate) fn wait_seen(&self, text: &str) -> String {
        let begun = Instant::now();
        loop {
            let seen = self.screen();
            if seen.contains(text) {
                return seen;
            }
            assert!(begun.elapsed() < PATIENCE, "`{text}` was not seen:\n{seen}");
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// Wait until the program waits for a prompt below this text.
    pub(crate) fn prompt_after(&self, text: &str) -> String {
        self.wait_until(&format!("a prompt after `{text}`"), |seen| {
            seen.rfind(text).is_some_and(|at| seen[at..].trim_end().ends_with("\n›"))
        })
    }

    /// Wait until everything that was seen fits.
    pub(crate) fn wait_until(&self, what: &str, fits: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let seen = self.everything();
            if fits(&seen) {
                return seen;
            }
            assert!(begun.elapsed() < PATIENCE, "{what} was not seen:\n{seen}");
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// The exit code of the command, once it has ended.
    pub(crate) fn exit_code(&self) -> i32 {
        self.noted("code")
    }

    /// The command's process.
    pub(crate) fn pid(&self) -> i32 {
        self.noted("pid")
    }

    fn noted(&self, name: &str) -> i32 {
        let begun = Instant::now();
        loop {
            let text = std::fs::read_to_string(self.dir.path().join(name)).unwrap_or_default();
            if let Some(number) = text.strip_suffix('\n') {
                return number.parse().unwrap();
            }
            assert!(begun.elapsed() < PATIENCE, "there is no {name}:\n{}", self.screen());
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// Close the terminal under the command.
    pub(crate) fn hang_up(&self) {
        self.tmux(&["kill-server"]);
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.hang_up();
    }
}
