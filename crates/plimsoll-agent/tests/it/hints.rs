//! Suggestions of denials: each is applied here to check that it works.

use std::sync::{Arc, Mutex};

use plimsoll_agent::{Agent, Event, RunOverrides, parse_allow};
use plimsoll_testkit::server::Reply;
use rstest::rstest;
use serde_json::{Value, json};

use crate::agents::Place;
use crate::support::run;

/// Returns the event of a denial.
async fn denial(place: &Place, mut agent: Agent, tool: &str, input: Value) -> (Option<Value>, String) {
    let events: Arc<Mutex<Vec<Value>>> = Arc::default();
    let output = Arc::clone(&events);
    agent.events =
        Arc::new(move |event: &Event| output.lock().unwrap().push(serde_json::to_value(event).unwrap()));
    let id = format!("call_{}", place.server.requests().len());
    place.server.push_all([Reply::new().call(&id, tool, input), Reply::new().text("Done.")]);
    run(&mut agent.begin("").await.unwrap(), "Go").await;
    let events = events.lock().unwrap();
    let denied = events.iter().find(|event| event["type"] == "denied").cloned();
    (denied, place.server.last().unwrap().result(&id).unwrap().to_owned())
}

/// Checks a suggestion for a configuration, an agent, and a denied call.
async fn suggestion_helps(config: &str, name: &str, tool: &str, input: Value) -> Value {
    let place = Place::new();
    let file = ".config/plimsoll/config.toml";
    place.write(file, config);
    place.write("repository/part/secrets/key", "hunter2");
    let (denied, said) = denial(&place, place.agent(name), tool, input.clone()).await;
    let denied = denied.unwrap_or_else(|| panic!("it was not denied: {said}"));
    assert!(said.starts_with("Denied:"), "{said}");
    // The flag, parsed like a shell.
    if let Some(flag) = denied["allow"].as_str().filter(|_| denied.get("also").is_none()) {
        let rule = flag.strip_prefix("--allow ").unwrap().trim_matches('\'').replace("'\\''", "'");
        let allow = vec![parse_allow(&rule, None).unwrap()];
        let overrides = RunOverrides { agent: Some(name.into()), allow, ..RunOverrides::default() };
        let agent = place.agent_in(&place.project, overrides).unwrap();
        let (denied, said) = denial(&place, agent, tool, input.clone()).await;
        assert_eq!(denied, None, "{flag}: {said}");
    }
    // The setting, in place of a conflicting line.
    let setting = denied["setting"].as_str().unwrap_or_else(|| panic!("{denied}"));
    let also = denied.get("also").and_then(Value::as_str).unwrap_or_default();
    let key = setting.split(" = ").next().unwrap();
    let kept: Vec<&str> = config.lines().filter(|line| !line.starts_with(key)).collect();
    place.write(file, &format!("{}\n{setting}\n{also}\n", kept.join("\n")));
    let (denied_again, said) = denial(&place, place.agent(name), tool, input).await;
    assert_eq!(denied_again, None, "{setting}: {said}");
    assert!(!said.starts_with("Refused"), "{said}");
    denied
}

#[tokio::test]
async fn for_a_command_of_a_planner_it_is_a_setting_of_the_planner() {
    let config = "permissions.bash = \"allow\"\n";
    let denied = suggestion_helps(config, "plan", "bash", json!({ "command": "touch x" })).await;
    assert_eq!(denied["allow"], "--allow 'bash:touch *'");
    assert_eq!(denied["setting"], "agents.plan.permission.bash.\"touch *\" = \"allow\"");
    assert_eq!(denied["rule"], "`bash` on `*` is `ask` (built in)");
}

#[tokio::test]
async fn a_suggestion_for_a_denied_search_is_a_rule_for_read() {
    let config = "permissions.read.\"secrets/*\" = \"deny\"\n";
    let search = json!({ "path": "secrets", "pattern": "hunter" });
    let denied = suggestion_helps(config, "build", "grep", search).await;
    assert_eq!(denied["allow"], "--allow 'read:secrets/*'");
    assert!(denied["rule"].as_str().unwrap().starts_with("`read` on `secrets/*` is `deny` ("), "{denied}");
}

#[tokio::test]
async fn for_a_page_of_this_machine_the_host_has_to_be_named_too() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(1) {
            let _ = std::io::Write::write_all(
                &mut stream.unwrap(),
                b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
            );
        }
    });
    let address = format!("http://127.0.0.1:{port}/");
    let denied = suggestion_helps("", "build", "webfetch", json!({ "url": address })).await;
    assert_eq!(denied["also"], format!("webfetch.hosts = [\"127.0.0.1:{port}\"]"));
    assert!(denied["hint"].as_str().unwrap().contains("together with"), "{denied}");
}

#[tokio::test]
async fn a_suggestion_for_a_guarded_file_names_the_file() {
    let input = json!({ "path": ".git/hooks/pre-commit", "content": "x" });
    let config = "permissions.write.\"*\" = \"allow\"\n";
    let denied = suggestion_helps(config, "build", "write", input).await;
    assert_eq!(denied["allow"], "--allow write:.git/hooks/pre-commit");
}

/// If a tool has one action for everything, TOML accepts no pattern for it in another line.
#[rstest]
#[case(
    "permissions.write = \"allow\"\n",
    "permissions.write = { \"*\" = \"allow\", \"AGENTS.md\" = \"allow\" }",
    "replacing the value in "
)]
#[case(
    "permissions = \"allow\"\n",
    "permissions = { \"*\" = \"allow\", write = { \"AGENTS.md\" = \"allow\" } }",
    "replacing the value in "
)]
#[case(
    "permissions.write.\"*\" = \"allow\"\npermissions.write.\"x\" = \"deny\"\n",
    "permissions.write.\"AGENTS.md\" = \"allow\"",
    "in plimsoll.toml"
)]
#[case(
    "permissions.write.\"AGENTS.md\" = \"deny\"\n",
    "permissions.write.\"AGENTS.md\" = \"allow\"",
    "replacing the value in "
)]
#[case(
    "permissions.write = \"deny\"\n",
    "permissions.write = { \"*\" = \"deny\", \"AGENTS.md\" = \"allow\" }",
    "replacing the value in "
)]
#[tokio::test]
async fn a_suggested_setting_is_valid_next_to_existing_ones(
    #[case] config: &str,
    #[case] setting: &str,
    #[case] place: &str,
) {
    let input = json!({ "path": "AGENTS.md", "content": "x" });
    let denied = suggestion_helps(config, "build", "write", input).await;
    assert_eq!(denied["setting"], setting);
    assert!(denied["hint"].as_str().unwrap().contains(place), "{denied}");
}

/// Listing shows names, and a name can be what is denied.
#[tokio::test]
async fn a_suggestion_for_a_denied_list_is_a_rule_for_read() {
    let config = "permissions.read.\"secrets/*\" = \"deny\"\n";
    let denied = suggestion_helps(config, "build", "list", json!({ "path": "secrets" })).await;
    assert_eq!(denied["allow"], "--allow 'read:secrets/*'");
}
