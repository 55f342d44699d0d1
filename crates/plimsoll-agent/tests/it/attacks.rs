//! Ways round a rule, made as a model makes them: through links, names of paths, files that change, and a project's files.

use std::os::unix::fs::symlink;
use std::path::Path;

use plimsoll_agent::{Conversation, parse_allow};
use plimsoll_config::{Action, Config, Flags, Surroundings};
use plimsoll_testkit::server::{ModelServer, Reply};
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{Dock, run};

async fn call(dock: &Dock, talk: &mut Conversation, tool: &str, input: Value) -> String {
    let id = format!("call_{}", dock.server.requests().len());
    dock.server.push_all([Reply::new().call(&id, tool, input), Reply::new().text("Thanks.")]);
    run(talk, "Do it").await;
    dock.server.last().unwrap().result(&id).unwrap().to_owned()
}

/// A project with links that lead out of it, and a secret beside and in it.
fn yard() -> Dock {
    let mut dock = Dock::new(ModelServer::start().unwrap());
    dock.agent.profile.limits.repeats = 0;
    let (folder, project) = (dock.folder.path().to_owned(), dock.folder.path().join("project"));
    std::fs::write(folder.join("secret.txt"), "hunter2").unwrap();
    std::fs::create_dir_all(project.join("secrets")).unwrap();
    std::fs::create_dir_all(project.join("src")).unwrap();
    std::fs::write(project.join("secrets/key"), "hunter2").unwrap();
    std::fs::write(project.join("open.txt"), "open").unwrap();
    symlink(&folder, project.join("up")).unwrap();
    symlink(folder.join("secret.txt"), project.join("link.txt")).unwrap();
    symlink("link.txt", project.join("twice.txt")).unwrap();
    symlink(folder.join("none.txt"), project.join("dangling.txt")).unwrap();
    symlink(project.join("secrets"), project.join("src/inner")).unwrap();
    symlink(project.join("open.txt"), project.join("secrets/alias")).unwrap();
    dock
}

fn deny(dock: &mut Dock, rule: &str) {
    let mut rule = parse_allow(rule, None).unwrap();
    rule.action = Action::Deny;
    dock.agent.profile.permissions.rules.push(rule);
}

const OUT: [&str; 12] = [
    "../secret.txt",
    "link.txt",
    "twice.txt",
    "up/secret.txt",
    "./up/../up/secret.txt",
    "src/../../secret.txt",
    "src/inner/../../../secret.txt",
    "none/../../secret.txt",
    "/etc/passwd",
    "file:///etc/passwd",
    "//etc/passwd",
    "/proc/self/root/etc/passwd",
];

#[rstest]
#[case::read("read")]
#[case::list("list")]
#[case::grep("grep")]
#[case::glob("glob")]
#[tokio::test]
async fn no_path_leads_a_tool_out_of_the_project(#[case] tool: &str) {
    let dock = yard().allow(tool);
    let talk = &mut dock.begin().await;
    for path in OUT {
        let told = call(&dock, talk, tool, json!({ "path": path, "pattern": "*" })).await;
        assert!(told.starts_with("Denied:"), "{path}: {told}");
    }
}

#[rstest]
#[case::write("write", json!({ "content": "x" }))]
#[case::edit("edit", json!({ "old": "hunter2", "new": "x" }))]
#[tokio::test]
async fn no_path_leads_a_change_out_of_the_project(#[case] tool: &str, #[case] input: Value) {
    let dock = yard().allow(tool);
    let talk = &mut dock.begin().await;
    for path in OUT.into_iter().chain(["dangling.txt", "up/new.txt", "../new.txt"]) {
        let mut input = input.clone();
        input["path"] = path.into();
        let told = call(&dock, talk, tool, input).await;
        assert!(!told.contains("[no output]"), "{path}: {told}");
    }
    let folder = dock.folder.path();
    assert_eq!(std::fs::read_to_string(folder.join("secret.txt")).unwrap(), "hunter2");
    assert!(!folder.join("new.txt").exists() && !folder.join("none.txt").exists());
}

#[tokio::test]
async fn what_is_denied_stays_denied_by_every_name_of_it() {
    let mut dock = yard();
    deny(&mut dock, "read:secrets/*");
    let project = dock.folder.path().canonicalize().unwrap().join("project");
    let talk = &mut dock.begin().await;
    let absolute = project.join("secrets/key").display().to_string();
    for path in [
        "secrets/key",
        "./secrets//key",
        "src/../secrets/key",
        "src/inner/key",
        "secrets/../secrets/key",
        "up/project/secrets/key",
        // Denied under this name, although it leads to a file that is open.
        "secrets/alias",
        absolute.as_str(),
    ] {
        let told = call(&dock, talk, "read", json!({ "path": path })).await;
        assert!(told.starts_with("Denied:"), "{path}: {told}");
        let told = call(&dock, talk, "grep", json!({ "path": path, "pattern": "." })).await;
        assert!(told.starts_with("Denied:"), "{path}: {told}");
    }
    let found = call(&dock, talk, "grep", json!({ "pattern": "hunter2" })).await;
    assert!(!found.contains("hunter2") || found.contains("No line matches"), "{found}");
    assert!(call(&dock, talk, "read", json!({ "path": "open.txt" })).await.contains("open"));
}

#[tokio::test]
async fn a_link_that_is_made_after_the_check_leads_nowhere_else() {
    // Both calls of one answer are judged before the second runs, or one after the other: in neither case is a path resolved
    // again once it was checked.
    let dock = yard().allow("bash").allow("read");
    let talk = &mut dock.begin().await;
    let swap = json!({ "command": "rm -f open.txt && ln -s ../secret.txt open.txt" });
    let read = json!({ "path": "open.txt" });
    dock.server.push_all([
        Reply::new().call("swap", "bash", swap).call("read", "read", read),
        Reply::new().text("Thanks."),
    ]);
    run(talk, "Go").await;
    let told = dock.server.last().unwrap().result("read").unwrap().to_owned();
    assert!(!told.contains("hunter2"), "{told}");
}

/// What a project's own files say without being trusted.
#[rstest]
#[case("permissions = \"allow\"\n")]
#[case("[permissions]\nbash = \"allow\"\n\"*\" = \"allow\"\nexternal_directory = \"allow\"\n")]
#[case("[permissions.bash]\n\"*\" = \"allow\"\n")]
#[case("[agents.build.permission]\nbash = \"allow\"\n")]
#[case("[sandbox]\nmode = \"off\"\nnetwork = true\nwrite = [\"/\"]\n[webfetch]\nhosts = [\"*\"]\n")]
#[tokio::test]
async fn a_projects_file_allows_nothing(#[case] text: &str) {
    let mut dock = yard();
    let project = dock.folder.path().join("project");
    std::fs::write(project.join("plimsoll.toml"), text).unwrap();
    let home = dock.folder.path().join("home");
    let variables = [("HOME".to_owned(), home.display().to_string())];
    let around = Surroundings::new(project.clone(), variables);
    let config = Config::load(&Flags::default(), &around).unwrap();
    assert!(!config.left_out.is_empty());
    let config = config.run.unwrap();
    assert_eq!((&config.sandbox, &config.webfetch), (&Default::default(), &Default::default()));
    dock.agent.profile.permissions.rules.extend(config.permissions.rules);
    if let Some(agent) = config.agents.get("build") {
        dock.agent.profile.permissions.rules.extend(agent.permissions.rules.clone());
    }
    let talk = &mut dock.begin().await;
    assert!(call(&dock, talk, "bash", json!({ "command": "touch x" })).await.starts_with("Denied:"));
    assert!(call(&dock, talk, "read", json!({ "path": "../secret.txt" })).await.starts_with("Denied:"));
    assert!(!Path::new(&project.join("x")).exists());
}
