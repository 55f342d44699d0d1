//! Hooks and MCP servers run in the sandbox of the agent's commands: code that a command has changed has no more access
//! through them than the command itself.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_agent::{CommandHook, Conversation, Event, Guard, HookOutcome, McpChange, Sandbox};
use plimsoll_config::{
    Grants, HookCommand, HookEvent, McpConnection, McpServer, Origin, ProviderKeys, SandboxConfig,
    SandboxMode,
};
use plimsoll_testkit::server::{ModelServer, Reply};
use rstest::rstest;
use serde_json::{Value, json};

use crate::mcp::fake;
use crate::support::{Dock, run};

/// A project with a hook or a server, a directory next to it, and a listener: targets of changed code.
struct Yard {
    dock: Dock,
    outside: PathBuf,
    listener: TcpListener,
}

fn can() -> bool {
    let sandbox = Sandbox::new(SandboxConfig::default());
    let can = [Guard::Writes, Guard::Network].into_iter().all(|guard| sandbox.confinement().holds(guard));
    if !can {
        println!("SKIPPED: this kernel cannot hold writes and the network");
    }
    can
}

impl Yard {
    fn new() -> Yard {
        let mut dock = Dock::new(ModelServer::start().unwrap()).allow("bash").allow("write").allow("t_*");
        dock.agent.profile.limits.repeats = 0;
        let outside = dock.directory.path().canonicalize().unwrap().join("outside");
        std::fs::create_dir(&outside).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let yard = Yard { dock, outside, listener };
        yard.furnish();
        yard
    }

    /// Files that the cases may name. They have no effect.
    fn furnish(&self) {
        let project = self.project();
        for directory in ["sub", "parts", "bin", "pkg", "tools", "lib"] {
            std::fs::create_dir(project.join(directory)).unwrap();
        }
        for script in ["check.sh", "lib.sh", "notes.txt", "sub/check.sh", "parts/10-check", "bin/tool"] {
            std::fs::write(project.join(script), "#!/bin/sh\n").unwrap();
        }
        for python in ["check.py", "x.py", "pkg/__init__.py", "pkg/__main__.py", "tools/helper.py"] {
            std::fs::write(project.join(python), "").unwrap();
        }
        for (name, text) in [
            ("Makefile", "check:\n"),
            ("other.mk", "all:\n"),
            ("sub/Makefile", "all:\n"),
            ("words", "true\n"),
            ("tools/check.py", "import helper\n"),
            ("package.json", r#"{"scripts": {"check": "true"}}"#),
            ("lib/Check.pm", "1;\n"),
            ("check.pl", ""),
            ("check.js", ""),
            ("x.js", ""),
            ("sub/index.js", ""),
            ("check.awk", ""),
            ("check.sed", ""),
        ] {
            std::fs::write(project.join(name), text).unwrap();
        }
        let made = Command::new("sh")
            .args(["-c", "chmod -R +x . && ln -s sub linked && git init -q . && git add words"])
            .current_dir(project)
            .status();
        assert!(made.unwrap().success());
    }

    fn project(&self) -> &Path {
        &self.dock.agent.directory
    }

    /// Replaces `PROJECT` and `OUT` by the paths of the project and the outer directory.
    fn placed(&self, text: &str) -> String {
        text.replace("PROJECT", self.project().to_str().unwrap())
            .replace("OUT", self.outside.to_str().unwrap())
    }

    fn hook(&mut self, command: &[&str], grants: Grants, mode: SandboxMode) {
        let command = command.iter().map(|word| self.placed(word)).collect();
        let setup = HookCommand { command, grants, ..after_tool() };
        let sandbox = Sandbox::new(SandboxConfig::default().mode(mode));
        let hook = CommandHook::new(setup, self.project(), &sandbox, ProviderKeys::default());
        self.dock.agent.hooks = vec![Arc::new(hook)];
    }

    /// A program that leaves a mark in the project and tries to get out of it.
    fn payload(&self) -> String {
        let port = self.listener.local_addr().unwrap().port();
        self.placed(&format!(
            "#!/bin/bash\necho ran >> PROJECT/ran\necho x > OUT/escaped\nln PROJECT/ran OUT/escaped\n\
             (exec 3<>/dev/tcp/127.0.0.1/{port} && echo x >&3)\nkill -9 {}\ntrue\n",
            std::process::id()
        ))
    }

    async fn call(&self, talk: &mut Conversation, tool: &str, input: Value) -> String {
        let id = format!("call_{}", self.dock.server.requests().len());
        self.dock.server.push_all([Reply::new().call(&id, tool, input), Reply::new().text("Thanks.")]);
        run(talk, "Do it").await;
        self.dock.server.last().unwrap().result(&id).unwrap().to_owned()
    }

    fn has_run(&self) -> bool {
        self.project().join("ran").exists()
    }

    fn has_written(&self) -> bool {
        self.outside.join("escaped").exists()
    }

    fn has_connected(&self) -> bool {
        !matches!(self.listener.accept(), Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    fn failures(&self) -> Vec<String> {
        let events = self.dock.events.lock().unwrap();
        let failed = events.iter().filter_map(|event| match event {
            Event::Hooked { outcome: HookOutcome::Failed { error }, .. } => Some(error.clone()),
            Event::McpServer { change: McpChange::Failed { error } | McpChange::Died { error }, .. } => {
                Some(error.clone())
            }
            _ => None,
        });
        failed.collect()
    }
}

fn after_tool() -> HookCommand {
    HookCommand {
        event: HookEvent::ToolAfter,
        command: Vec::new(),
        timeout: Some(Duration::from_secs(60)),
        tools: None,
        grants: Grants::default(),
        origin: Origin::BuiltIn,
        problem: None,
    }
}

fn has_program(name: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {name}")]).stdout(Stdio::null()).status();
    let found = found.unwrap().success();
    if !found {
        println!("SKIPPED: there is no {name}");
    }
    found
}

const SHELL: &str = "cp pay";
const PYTHON: &str = "echo 'import os; os.system(\"bash PROJECT/pay\")' >";

/// The command of a hook, and how an agent makes it run other code; `pay` is that code. The first cases are those that
/// escaped while the files of commands were compared.
#[rstest]
#[case::git_fsmonitor(&["git", "status"], "git config core.fsmonitor ./pay")]
#[case::git_alias(&["git", "check"], "git config alias.check '!./pay'")]
#[case::git_hook(
    &["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"], "cp pay .git/hooks/pre-commit"
)]
#[case::git_diff(&["git", "diff", "--ext-diff"], "git config diff.external ./pay; echo more >> words")]
#[case::python_module_shadowed(&["python3", "-m", "json.tool"], "PYTHON argparse.py")]
#[case::python_module(&["python3", "-m", "pkg"], "PYTHON pkg/__main__.py")]
#[case::python_package(&["python3", "-m", "pkg"], "PYTHON pkg/__init__.py")]
#[case::python_import(&["python3", "-c", "import x"], "PYTHON x.py")]
#[case::python_script(&["python3", "check.py"], "PYTHON check.py")]
#[case::python_script_import(&["python3", "tools/check.py"], "PYTHON tools/helper.py")]
#[case::cd_and_run(&["sh", "-c", "cd sub && ./check.sh"], "SHELL sub/check.sh")]
#[case::make_directory(&["make", "--directory=sub"], "printf 'all:\\n\\t../pay\\n' > sub/Makefile")]
#[case::make_short_directory(&["make", "-C", "sub"], "printf 'all:\\n\\t../pay\\n' > sub/Makefile")]
#[case::make_file(&["make", "-f", "other.mk"], "printf 'all:\\n\\t./pay\\n' > other.mk")]
#[case::make(&["make", "check"], "printf 'check:\\n\\t./pay\\n' > GNUmakefile")]
#[case::eval(&["sh", "-c", "eval \"$(cat words)\""], "echo ./pay > words")]
#[case::substituted(&["sh", "-c", "$(cat words)"], "echo ./pay > words")]
#[case::variable(&["sh", "-c", "X=./check.sh; $X"], "SHELL check.sh")]
#[case::xargs(&["sh", "-c", "echo check.sh | xargs bash"], "SHELL check.sh")]
#[case::xargs_of_a_file(&["xargs", "-a", "words", "bash"], "echo pay > words")]
#[case::find_exec(&["find", "sub", "-name", "*.sh", "-exec", "bash", "{}", ";"], "SHELL sub/check.sh")]
#[case::find_exec_new(&["find", "sub", "-name", "*.sh", "-exec", "bash", "{}", ";"], "SHELL sub/new.sh")]
#[case::run_parts(&["run-parts", "parts"], "SHELL parts/10-check")]
#[case::run_parts_new(&["run-parts", "parts"], "SHELL parts/20-more")]
#[case::sourced(&["bash", "-c", "source lib.sh"], "SHELL lib.sh")]
#[case::sourced_by_a_dot(&["bash", "-c", ". ./lib.sh; true"], "SHELL lib.sh")]
#[case::sourced_by_a_variable(&["env", "BASH_ENV=lib.sh", "bash", "-c", "true"], "SHELL lib.sh")]
#[case::named_txt(&["bash", "notes.txt"], "SHELL notes.txt")]
#[case::script(&["./check.sh"], "SHELL check.sh")]
#[case::script_by_its_whole_path(&["PROJECT/check.sh"], "SHELL check.sh")]
#[case::interpreter(&["bash", "check.sh"], "SHELL check.sh")]
#[case::line(&["sh", "-c", "./check.sh"], "SHELL check.sh")]
#[case::exec(&["sh", "-c", "test -x check.sh && exec ./check.sh"], "SHELL check.sh")]
#[case::trap(&["bash", "-c", "trap ./check.sh EXIT"], "SHELL check.sh")]
#[case::loop_over_files(&["sh", "-c", "for f in parts/*; do bash $f; done"], "SHELL parts/30-more")]
#[case::piped(&["sh", "-c", "cat check.sh | bash"], "SHELL check.sh")]
#[case::redirected(&["sh", "-c", "bash < check.sh"], "SHELL check.sh")]
#[case::by_descriptor(&["bash", "-c", "exec 3< check.sh; bash /dev/fd/3"], "SHELL check.sh")]
#[case::through_a_link(&["bash", "linked/check.sh"], "SHELL sub/check.sh")]
#[case::another_link(&["bash", "linked/check.sh"], "ln -sfn tools linked; SHELL tools/check.sh")]
#[case::wrapped(&["timeout", "30", "nice", "env", "./check.sh"], "SHELL check.sh")]
#[case::path_of_a_line(&["sh", "-c", "PATH=bin:$PATH tool"], "SHELL bin/tool")]
#[case::path_of_env(&["env", "PATH=PROJECT/bin:/usr/bin:/bin", "tool"], "SHELL bin/tool")]
#[case::tar(&["tar", "-cf", "/dev/null", "--checkpoint=1", "--checkpoint-action=exec=bash check.sh", "words"], "SHELL check.sh")]
#[case::awk(&["awk", "-f", "check.awk"], "echo 'BEGIN { system(\"./pay\") }' > check.awk")]
#[case::sed(&["sed", "-f", "check.sed", "words"], "echo '1e ./pay' > check.sed")]
#[case::perl(&["perl", "check.pl"], "echo 'system(\"./pay\");' > check.pl")]
#[case::perl_module(&["perl", "-Ilib", "-MCheck", "-e", "1"], "echo 'system(\"./pay\"); 1;' > lib/Check.pm")]
#[case::node(&["node", "check.js"], "NODE check.js")]
#[case::node_require(&["node", "-e", "require('./x')"], "NODE x.js")]
#[case::node_directory(&["node", "sub"], "NODE sub/index.js")]
#[case::npm(&["npm", "run", "--silent", "check"], "echo '{\"scripts\": {\"check\": \"./pay\"}}' > package.json")]
#[tokio::test]
async fn changed_code_of_a_hook_has_no_more_access_than_the_command(
    #[case] command: &[&str],
    #[case] act: &str,
) {
    if !can() || !has_program(command[0]) {
        return;
    }
    let mut yard = Yard::new();
    yard.hook(command, Grants::default(), SandboxMode::Auto);
    yard.dock.write("pay", &yard.payload());
    let act = act.replace("SHELL", SHELL).replace("PYTHON", PYTHON).replace(
        "NODE",
        "echo \"require('child_process').execSync('bash PROJECT/pay', {stdio: 'ignore'})\" >",
    );
    let act = yard.placed(&format!("chmod +x pay; {act}; true"));
    let talk = &mut yard.dock.begin().await;
    yard.call(talk, "bash", json!({ "command": act })).await;
    assert!(yard.has_run(), "the changed code was not run: {:?}", yard.failures());
    assert!(!yard.has_written(), "it wrote outside of the project");
    assert!(!yard.has_connected(), "it reached the network");
}

#[rstest]
#[case::nothing(Grants::default(), SandboxMode::Auto, [false, false])]
#[case::network(Grants::default().network(true), SandboxMode::Auto, [false, true])]
#[case::write(Grants::default().write(["OUT"]), SandboxMode::Auto, [true, false])]
#[case::off(Grants::default().unconfined(true), SandboxMode::Auto, [true, true])]
#[case::all_off(Grants::default(), SandboxMode::Off, [true, true])]
#[tokio::test]
async fn a_hook_and_a_server_have_their_grants(
    #[case] grants: Grants,
    #[case] mode: SandboxMode,
    #[case] reached: [bool; 2],
) {
    if !can() {
        return;
    }
    for of_server in [false, true] {
        let mut yard = Yard::new();
        let write: Vec<String> =
            grants.write.iter().map(|path| yard.placed(path.to_str().unwrap())).collect();
        let grants = grants.clone().write(write);
        let payload = yard.payload();
        let payload: Vec<&str> = payload.lines().filter(|line| !line.contains("kill")).collect();
        yard.dock.write("pay", &payload.join("\n"));
        if of_server {
            yard.dock.agent.sandbox = Arc::new(Sandbox::new(SandboxConfig::default().mode(mode)));
            serve(&mut yard.dock, &["bash", "pay"], grants);
        } else {
            yard.hook(&["bash", "pay"], grants, mode);
        }
        let talk = &mut yard.dock.begin().await;
        yard.call(talk, "list", json!({})).await;
        assert!(yard.has_run(), "{:?}", yard.failures());
        assert_eq!([yard.has_written(), yard.has_connected()], reached, "of a server: {of_server}");
    }
}

/// Adds a server `t` to the agent.
fn serve(dock: &mut Dock, command: &[&str], grants: Grants) {
    let McpServer { connection: McpConnection::Local { environment, .. }, .. } = fake::local("well", &[])
    else {
        unreachable!()
    };
    let connection = McpConnection::Local {
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        environment,
        directory: None,
    };
    dock.agent.mcp = Arc::new([("t".to_owned(), McpServer { grants, ..fake::setup(connection) })].into());
}

#[tokio::test]
async fn a_server_that_a_command_changed_gets_no_further_than_the_command() {
    if !can() {
        return;
    }
    let mut yard = Yard::new();
    let own = std::env::current_exe().unwrap();
    let start = format!("exec '{}' --exact mcp::fake::the_server --nocapture\n", own.display());
    yard.dock.write("srv.sh", &start);
    serve(&mut yard.dock, &["bash", "srv.sh"], Grants::default());
    let talk = &mut yard.dock.begin().await;
    assert_eq!(yard.call(talk, "t_echo", json!({"text": "here"})).await.trim(), "here");
    let payload = yard.payload() + &start;
    yard.call(talk, "bash", json!({ "command": format!("cat > srv.sh <<'END'\n{payload}END") })).await;
    yard.call(talk, "t_die", json!({})).await;
    // It is restarted with the changed script.
    assert_eq!(yard.call(talk, "t_echo", json!({"text": "back"})).await.trim(), "back");
    assert!(yard.has_run() && !yard.has_written() && !yard.has_connected());
    // Like one that is started in a later conversation.
    let talk = &mut yard.dock.begin().await;
    assert_eq!(yard.call(talk, "t_echo", json!({"text": "later"})).await.trim(), "later");
    assert!(!yard.has_written() && !yard.has_connected());
}

#[tokio::test]
async fn a_failed_confined_hook_or_server_names_the_settings_that_grant_more() {
    if !can() {
        return;
    }
    let line = "echo no route to the registry >&2; exit 7";
    let mut yard = Yard::new();
    yard.hook(&["sh", "-c", line], Grants::default(), SandboxMode::Auto);
    serve(&mut yard.dock, &["sh", "-c", line], Grants::default().network(true));
    let talk = &mut yard.dock.begin().await;
    yard.call(talk, "list", json!({})).await;
    assert_eq!(
        yard.failures(),
        [
            "it has ended (exit status: 7); its last output: no route to the registry (confined to the project: \
             `unix_sockets = true` or `write = [\"PATH\"]` in `[mcp.t]` grants more)",
            "it failed (exit status: 7): no route to the registry (confined to the project: `network = true`, \
             `unix_sockets = true` or `write = [\"PATH\"]` next to its `command` in `[[hooks]]` grants more)",
        ]
    );
    let mut yard = Yard::new();
    yard.hook(&["sh", "-c", line], Grants::default().unconfined(true), SandboxMode::Auto);
    let talk = &mut yard.dock.begin().await;
    yard.call(talk, "list", json!({})).await;
    assert_eq!(yard.failures(), ["it failed (exit status: 7): no route to the registry"]);
}

/// A secret of the user that a script of the project could read: the terminal of another program.
#[tokio::test]
async fn the_store_and_devices_are_closed_to_hooks_and_servers_as_well() {
    if !can() {
        return;
    }
    let mut yard = Yard::new();
    let private = vec![yard.dock.directory.path().canonicalize().unwrap().join("plimsoll.db")];
    let sandbox = Sandbox::new(SandboxConfig::default().private(private.clone()));
    let line = format!("cat {} > read; cat /dev/tty /dev/ptmx > device; touch ran", private[0].display());
    let setup = HookCommand { command: ["sh", "-c", &line].map(str::to_owned).to_vec(), ..after_tool() };
    let hook = CommandHook::new(setup, yard.project(), &sandbox, ProviderKeys::default());
    yard.dock.agent.hooks = vec![Arc::new(hook)];
    let talk = &mut yard.dock.begin().await;
    yard.call(talk, "list", json!({})).await;
    assert!(yard.has_run());
    for name in ["read", "device"] {
        assert_eq!(std::fs::read(yard.project().join(name)).unwrap(), b"", "{name}");
    }
}
