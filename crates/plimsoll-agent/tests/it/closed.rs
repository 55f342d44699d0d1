//! Work in the user's home: their own files are not changed without asking, nor by commands.

use plimsoll_agent::{Agent, Guard, RunOverrides, Sandbox, parse_allow};
use plimsoll_config::SandboxConfig;
use plimsoll_testkit::server::Reply;
use rstest::rstest;
use serde_json::{Value, json};

use crate::agents::Place;
use crate::support::run;

/// An agent that works in the home itself, with these rules.
fn at_home(place: &Place, allow: &[&str]) -> Agent {
    for directory in [".config/plimsoll", ".config/other", ".local/share/plimsoll", ".ssh", "work"] {
        std::fs::create_dir_all(place.home.join(directory)).unwrap();
    }
    for file in [".bashrc", ".local/share/plimsoll/trust.json", "note.txt"] {
        std::fs::write(place.home.join(file), "old\n").unwrap();
    }
    let allow = allow.iter().map(|rule| parse_allow(rule, Some(&place.home)).unwrap()).collect();
    let overrides = RunOverrides { allow, ..RunOverrides::default() };
    let mut agent = place.agent_in(&place.home, overrides).unwrap();
    agent.profile.limits.repeats = 0;
    agent
}

async fn call(place: &Place, agent: &Agent, tool: &str, input: Value) -> String {
    place.server.push_all([Reply::new().call("call_1", tool, input), Reply::new().text("Thanks.")]);
    run(&mut agent.begin("").await.unwrap(), "Do it").await;
    place.server.last().unwrap().result("call_1").unwrap().to_owned()
}

#[rstest]
#[case::configuration(".config/plimsoll/config.toml")]
#[case::skills(".config/plimsoll/skills/x/SKILL.md")]
#[case::agents_of_opencode(".config/opencode/agent/x.md")]
#[case::sessions(".local/share/plimsoll/plimsoll.db")]
#[case::trust(".local/share/plimsoll/trusted.json")]
#[case::a_shell(".bash_profile")]
#[case::keys(".ssh/authorized_keys")]
#[case::git(".gitconfig")]
#[case::a_program_along_the_path(".local/bin/ls")]
#[tokio::test]
async fn the_users_own_files_are_written_only_by_a_rule_that_names_them(#[case] path: &str) {
    let place = Place::new();
    let input = || json!({"path": path, "content": "evil"});
    for rules in [&["write"][..], &["all"], &["write:*", "external_directory"], &["write:~/*"]] {
        let reply = call(&place, &at_home(&place, rules), "write", input()).await;
        assert!(reply.starts_with("Denied"), "{rules:?}: {reply}");
        assert!(!place.home.join(path).exists(), "{rules:?}");
    }
    // From a project elsewhere in the home it is the same.
    let allow = vec![parse_allow("all", None).unwrap()];
    let agent = place.agent_in(&place.project, RunOverrides { allow, ..RunOverrides::default() }).unwrap();
    let outside = json!({"path": place.home.join(path), "content": "evil"});
    assert!(call(&place, &agent, "write", outside).await.starts_with("Denied"));
    let named = format!("write:{path}");
    call(&place, &at_home(&place, &[&named]), "write", input()).await;
    assert!(place.home.join(path).exists());
}

#[tokio::test]
async fn other_files_of_the_home_are_written_as_everywhere() {
    let place = Place::new();
    let agent = at_home(&place, &["write"]);
    for path in ["new.txt", "work/new.txt", ".config/other/x", "project/.bashrc"] {
        call(&place, &agent, "write", json!({"path": path, "content": "x"})).await;
        assert!(place.home.join(path).exists(), "{path}");
    }
}

#[rstest]
#[case::configuration("echo x > .config/plimsoll/config.toml")]
#[case::trust("echo x > .local/share/plimsoll/trust.json")]
#[case::a_new_file_beside_the_sessions("echo x > .local/share/plimsoll/new")]
#[case::another_directory_in_its_place("mv .config/plimsoll old")]
#[case::the_directory_above("mv .local away")]
#[case::through_a_link("ln -s ../.local/share/plimsoll work/link; echo x > work/link/new")]
#[case::by_a_hard_link("ln .local/share/plimsoll/trust.json work/hard; echo x > work/hard")]
#[case::a_shell("echo x > .bashrc")]
#[case::a_shell_that_has_no_file_yet("echo x > .zshrc")]
#[case::keys("echo x > .ssh/authorized_keys")]
#[case::programs("mkdir -p .local/bin && echo x > .local/bin/ls")]
#[tokio::test]
async fn commands_cannot_change_the_users_own_files(#[case] command: &str) {
    if !Sandbox::new(SandboxConfig::default()).confinement().holds(Guard::Writes) {
        println!("SKIPPED: this kernel cannot hold writes");
        return;
    }
    let place = Place::new();
    let agent = at_home(&place, &["bash"]);
    let reply = call(&place, &agent, "bash", json!({ "command": command })).await;
    assert!(
        reply.contains("denied") || reply.contains("not permitted") || reply.contains("cross-device"),
        "{reply}"
    );
    let read = |name: &str| std::fs::read_to_string(place.home.join(name)).unwrap();
    assert_eq!((read(".bashrc"), read(".local/share/plimsoll/trust.json")), ("old\n".into(), "old\n".into()));
    for name in [
        ".config/plimsoll/config.toml",
        ".local/share/plimsoll/new",
        ".zshrc",
        ".local/bin",
        ".ssh/authorized_keys",
    ] {
        assert!(!place.home.join(name).exists(), "{name}");
    }
    // Other files can be changed.
    call(
        &place,
        &agent,
        "bash",
        json!({"command": "echo x > work/new; echo x >> note.txt; echo x > .config/other/new"}),
    )
    .await;
    assert!(place.home.join("work/new").exists() && place.home.join(".config/other/new").exists());
    assert_eq!(read("note.txt"), "old\nx\n");
}

#[tokio::test]
async fn closed_files_are_reported_to_the_user_and_the_model() {
    let place = Place::new();
    let agent = at_home(&place, &["bash"]);
    let reply = agent.notices.join("\n");
    assert!(reply.contains("contains your own files") && reply.contains("work in a subdirectory"), "{reply}");
    call(&place, &agent, "bash", json!({"command": "true"})).await;
    let sent = place.server.last().unwrap().body.to_string();
    let is_held = Sandbox::new(SandboxConfig::default()).confinement().holds(Guard::Writes);
    assert_eq!(sent.contains("In this project commands cannot create files"), is_held);
    // A project outside is like any other.
    let agent = place.agent("build");
    assert!(!agent.notices.iter().any(|reply| reply.contains("your own files")), "{:?}", agent.notices);
}

/// The data directory is a link, as on another disk. It is dangling when the agent is set up.
#[tokio::test]
async fn sessions_are_closed_to_commands_at_the_target_of_a_link() {
    if !Sandbox::new(SandboxConfig::default()).confinement().holds(Guard::Reads) {
        println!("SKIPPED: this kernel cannot hold reads");
        return;
    }
    let place = Place::new();
    std::fs::create_dir_all(place.home.join(".local/share")).unwrap();
    std::os::unix::fs::symlink("../../disk/sessions", place.home.join(".local/share/plimsoll")).unwrap();
    let allow = vec![parse_allow("bash", None).unwrap()];
    let agent = place.agent_in(&place.project, RunOverrides { allow, ..RunOverrides::default() }).unwrap();
    let real = place.home.join("disk/sessions");
    std::fs::create_dir_all(real.join("spill")).unwrap();
    let names = ["plimsoll.db", "plimsoll.db-wal", "plimsoll.db-newest", "trust.json", "spill/text"];
    names.iter().for_each(|name| std::fs::write(real.join(name), "secret").unwrap());
    for directory in [real, place.home.join(".local/share/plimsoll")] {
        let command =
            format!("cd '{}' && for name in {}; do cat $name; done", directory.display(), names.join(" "));
        let output = call(&place, &agent, "bash", json!({ "command": command })).await;
        assert!(!output.contains("secret") && output.matches("denied").count() == names.len(), "{output}");
    }
}
