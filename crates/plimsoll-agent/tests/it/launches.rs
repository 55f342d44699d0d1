//! Hooks and MCP servers run beside the agent, unconfined: what the agent writes must not be run by them.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_agent::{CommandHook, Conversation, Event, HookOutcome, McpChange};
use plimsoll_config::{HookCommand, HookEvent, McpConnection, McpServer, Origin};
use plimsoll_testkit::server::{ModelServer, Reply};
use rstest::rstest;
use serde_json::{Value, json};

use crate::mcp::fake;
use crate::support::{Dock, run};

fn dock() -> Dock {
    let mut dock = Dock::new(ModelServer::start().unwrap()).allow("bash").allow("write").allow("edit");
    dock.agent.profile.limits.repeats = 0;
    dock
}

fn hook(dock: &mut Dock, event: HookEvent, command: &[&str]) {
    let setup = HookCommand {
        event,
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        timeout: Some(Duration::from_secs(20)),
        tools: None,
        origin: Origin::BuiltIn,
        problem: None,
    };
    let hook = CommandHook::new(setup, &dock.agent.directory, Vec::new());
    dock.agent.hooks = vec![Arc::new(hook)];
}

async fn call(dock: &Dock, talk: &mut Conversation, tool: &str, input: Value) -> String {
    let id = format!("call_{}", dock.server.requests().len());
    dock.server.push_all([Reply::new().call(&id, tool, input), Reply::new().text("Thanks.")]);
    run(talk, "Do it").await;
    dock.server.last().unwrap().result(&id).unwrap().to_owned()
}

/// What hooks failed with.
fn failures(dock: &Dock) -> Vec<String> {
    let events = dock.events.lock().unwrap();
    let failed = events.iter().filter_map(|event| match event {
        Event::Hooked { outcome: HookOutcome::Failed { error }, .. } => Some(error.clone()),
        _ => None,
    });
    failed.collect()
}

/// A project with everything in it that the commands of the cases below may name.
fn furnish(project: &Path) {
    for folder in ["scripts", "other", "pkg", "node_modules/.bin", "node_modules/tool", "bin"] {
        std::fs::create_dir_all(project.join(folder)).unwrap();
    }
    for name in
        ["scripts/check.sh", "pkg/__init__.py", "pkg/__main__.py", "node_modules/tool/cli.js", "pkg/index.js"]
    {
        std::fs::write(project.join(name), "exit 0\n").unwrap();
    }
    std::fs::write(project.join("other/check.sh"), "exit 0\n").unwrap();
    std::fs::write(project.join("package.json"), "{}").unwrap();
    std::fs::write(project.join("data.db"), "data").unwrap();
    symlink("../tool/cli.js", project.join("node_modules/.bin/tool")).unwrap();
    symlink("scripts/check.sh", project.join("link.sh")).unwrap();
    symlink("scripts", project.join("linked")).unwrap();
    symlink("/bin/true", project.join("away")).unwrap();
}

/// The words of a command, what an agent does in between, and what is said of it.
#[rstest]
#[case::a_script_that_was_not_there(&["sh", "new.sh"], "echo exit 0 > new.sh", "`PROJECT/new.sh` has appeared")]
#[case::a_script(&["sh", "scripts/check.sh"], "echo >> scripts/check.sh", "has changed")]
#[case::a_script_by_its_whole_path(&["sh", "PROJECT/scripts/check.sh"], "echo >> scripts/check.sh", "has changed")]
#[case::a_script_by_dots(&["sh", "scripts/../scripts/check.sh"], "echo >> scripts/check.sh", "has changed")]
#[case::a_script_that_is_gone(&["sh", "scripts/check.sh"], "rm scripts/check.sh", "has gone")]
#[case::a_link_to_another_file(&["sh", "link.sh"], "ln -sf other/check.sh link.sh", "leads elsewhere")]
#[case::what_a_link_leads_to(&["sh", "link.sh"], "echo >> scripts/check.sh", "has changed")]
#[case::a_link_in_place_of_a_script(
    &["sh", "scripts/check.sh"], "ln -sf ../other/check.sh scripts/check.sh", "leads elsewhere"
)]
#[case::a_folder_that_became_a_link(
    &["sh", "scripts/check.sh"], "mv scripts old; ln -s other scripts", "leads elsewhere"
)]
#[case::a_link_that_led_outside(&["./away"], "ln -sf scripts/check.sh away", "leads elsewhere")]
#[case::a_linked_folder(&["sh", "linked/check.sh"], "ln -sfn other linked", "leads elsewhere")]
#[case::a_folder_in_place_of_nothing(&["node", "app"], "mkdir app", "has appeared")]
#[case::what_a_folder_is_run_by(&["node", "pkg"], "echo >> pkg/index.js", "has changed")]
#[case::a_module(&["python3", "-m", "pkg"], "echo >> pkg/__main__.py", "has changed")]
#[case::a_module_that_hides_another(&["python3", "-m", "json.tool"], "mkdir json; touch json/__init__.py", "has appeared")]
#[case::a_makefile_that_comes_first(&["make", "check"], "touch GNUmakefile", "has appeared")]
#[case::scripts_of_npm(&["npm", "run", "lint"], "echo >> package.json", "has changed")]
#[case::a_module_of_node(&["npx", "tool"], "echo >> node_modules/tool/cli.js", "has changed")]
#[case::behind_another_program(&["timeout", "5", "npx", "tool"], "rm node_modules/.bin/tool", "has gone")]
#[case::an_option(&["node", "--require=./scripts/check.sh", "x"], "echo >> scripts/check.sh", "has changed")]
#[case::a_line(&["sh", "-c", "true && ./scripts/check.sh"], "echo >> scripts/check.sh", "has changed")]
#[case::a_line_that_names_an_interpreter(&["bash", "-ec", "sh 'new.sh' > log"], "touch new.sh", "has appeared")]
#[case::a_line_that_names_a_runner(&["sh", "-c", "cd .; npm run lint"], "echo >> package.json", "has changed")]
// What is no code, or is made by the command itself, is no change.
#[case::another_file(&["sh", "scripts/check.sh"], "touch other/new.sh", "")]
#[case::a_script_that_was_touched(&["sh", "scripts/check.sh"], "touch scripts/check.sh", "")]
#[case::a_target(&["make", "build"], "mkdir build", "")]
#[case::a_script_of_npm_by_name(&["npm", "run", "build"], "mkdir build", "")]
#[case::an_output_of_a_line(&["sh", "-c", "date > out; touch done"], "touch out done", "")]
#[case::data(&["sh", "scripts/check.sh", "--db", "data.db"], "echo >> data.db", "")]
#[case::a_file_beside_a_folder(&["sh", "scripts/check.sh", "."], "touch x", "")]
#[tokio::test]
async fn what_a_hook_would_run_must_be_what_it_was(
    #[case] command: &[&str],
    #[case] act: &str,
    #[case] said: &str,
) {
    let mut dock = dock();
    let project = dock.agent.directory.clone();
    furnish(&project);
    let words: Vec<String> =
        command.iter().map(|word| word.replace("PROJECT", project.to_str().unwrap())).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    hook(&mut dock, HookEvent::ToolAfter, &words);
    let talk = &mut dock.begin().await;
    call(&dock, talk, "bash", json!({ "command": act })).await;
    let refused: Vec<String> =
        failures(&dock).into_iter().filter(|error| error.contains("since plimsoll was started")).collect();
    match said {
        "" => assert!(refused.is_empty(), "{refused:?}"),
        said => {
            let said = said.replace("PROJECT", project.to_str().unwrap());
            assert!(refused.iter().any(|error| error.contains(&said)), "{:?}", failures(&dock));
        }
    }
}

#[tokio::test]
async fn a_program_that_would_be_found_earlier_is_a_change() {
    // `PATH` cannot be set in a test, so it is the server's own, as a virtual environment of the project makes it.
    let mut dock = dock().allow("t_*");
    let project = dock.agent.directory.clone();
    furnish(&project);
    let path = format!("{}:/usr/bin:/bin", project.join("bin").display());
    serve(&mut dock, &["sh", "srv.sh"], &[("PATH", &path)]);
    let talk = &mut dock.begin().await;
    call(&dock, talk, "t_die", json!({})).await;
    call(&dock, talk, "bash", json!({"command": "ln -s /bin/true bin/sh"})).await;
    let told = call(&dock, talk, "t_echo", json!({"text": "back"})).await;
    assert!(told.contains("bin/sh` has appeared"), "{told}");
}

#[tokio::test]
async fn a_hook_that_the_agent_wrote_is_not_run_in_a_later_session_either() {
    let mut dock = dock();
    hook(&mut dock, HookEvent::ToolAfter, &["sh", "check.sh"]);
    let talk = &mut dock.begin().await;
    call(&dock, talk, "write", json!({"path": "check.sh", "content": "touch crept-in\n"})).await;
    call(&dock, talk, "list", json!({})).await;
    assert!(!dock.agent.directory.join("crept-in").exists());
    // The next session of the same process is set up anew.
    hook(&mut dock, HookEvent::ToolAfter, &["sh", "check.sh"]);
    let talk = &mut dock.begin().await;
    call(&dock, talk, "list", json!({})).await;
    assert!(!dock.agent.directory.join("crept-in").exists());
    let failures = failures(&dock);
    let project = dock.agent.directory.display();
    let told = format!(
        "`{project}/check.sh` has appeared since plimsoll was started, and an agent may have done that, so it is not run; \
         look at it, and start plimsoll again to accept it"
    );
    assert_eq!(failures, [told.clone(), told.clone(), told]);
}

#[tokio::test]
async fn a_call_is_refused_where_the_hook_before_it_was_changed() {
    let mut dock = dock();
    dock.write("guard.sh", "exit 0");
    hook(&mut dock, HookEvent::ToolBefore, &["sh", "guard.sh"]);
    let talk = &mut dock.begin().await;
    let told = call(&dock, talk, "bash", json!({"command": "echo exit 0 > guard.sh; echo one"})).await;
    assert!(told.contains("one"), "{told}");
    let told = call(&dock, talk, "bash", json!({"command": "touch unguarded"})).await;
    assert!(told.contains("guard.sh` has changed") && told.contains("start plimsoll again"), "{told}");
    assert!(!dock.agent.directory.join("unguarded").exists());
    assert_eq!(failures(&dock).len(), 1, "it is told as a failure of the hook");
    // What it was is what it may be.
    dock.write("guard.sh", "exit 0");
    call(&dock, talk, "bash", json!({"command": "touch guarded"})).await;
    assert!(dock.agent.directory.join("guarded").exists());
}

/// Give the dock one server, `t`: this test binary behind a script of the project.
fn serve(dock: &mut Dock, command: &[&str], environment: &[(&str, &str)]) {
    let McpServer {
        connection: McpConnection::Local { command: own, environment: own_environment, .. }, ..
    } = fake::local("well", environment)
    else {
        unreachable!()
    };
    dock.write("srv.sh", &format!("exec '{}' --exact mcp::fake::the_server --nocapture\n", own[0]));
    let connection = McpConnection::Local {
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        environment: own_environment,
        directory: None,
    };
    let setup = McpServer { connection, enabled: true, timeout: None, problem: None };
    dock.agent.mcp = Arc::new([("t".to_owned(), setup)].into());
}

#[tokio::test]
async fn a_server_that_the_agent_changed_is_not_started_again() {
    let mut dock = dock().allow("t_*");
    serve(&mut dock, &["sh", "srv.sh"], &[]);
    let talk = &mut dock.begin().await;
    assert_eq!(call(&dock, talk, "t_echo", json!({"text": "here"})).await.trim(), "here");
    // One that dies of itself is started again.
    call(&dock, talk, "t_die", json!({})).await;
    assert_eq!(call(&dock, talk, "t_echo", json!({"text": "again"})).await.trim(), "again");
    let crept_in = dock.agent.directory.join("crept-in");
    call(&dock, talk, "bash", json!({"command": "sed -i '1i touch crept-in' srv.sh"})).await;
    // What runs already is what it was.
    assert_eq!(call(&dock, talk, "t_echo", json!({"text": "still"})).await.trim(), "still");
    call(&dock, talk, "t_die", json!({})).await;
    let told = call(&dock, talk, "t_echo", json!({"text": "back"})).await;
    assert!(told.contains("srv.sh` has changed") && told.contains("start plimsoll again"), "{told}");
    assert!(!crept_in.exists());
    // A new session of the same process starts its servers anew.
    let talk = &mut dock.begin().await;
    call(&dock, talk, "list", json!({})).await;
    assert!(!crept_in.exists());
    let events = dock.events.lock().unwrap();
    let failed = events.iter().filter(|event| {
        matches!(event, Event::McpServer { change: McpChange::Failed { error }, .. } if error.contains("has changed"))
    });
    assert_eq!(failed.count(), 2);
}
