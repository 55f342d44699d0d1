//! A realistic `opencode.json`: it takes effect in a run, and an untrusted project's does not.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use plimsoll::Policy;
use plimsoll_agent::{Agent, AgentSetupError, Event, RunOverrides};
use plimsoll_config::{Config, Environment, Flags, Ledger, Project};
use plimsoll_testkit::server::{ModelServer, Reply};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{open_archive, run};

/// A home with a repository.
struct Harbour {
    _directory: TempDir,
    home: PathBuf,
    project: PathBuf,
    server: ModelServer,
}

impl Harbour {
    fn new() -> Harbour {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().canonicalize().unwrap();
        let project = home.join("project");
        std::fs::create_dir_all(project.join(".git")).unwrap();
        Harbour { _directory: directory, home, project, server: ModelServer::start().unwrap() }
    }

    fn write(&self, place: &str, text: &str) {
        let path = self.home.join(place);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn env(&self) -> Environment {
        let variables = [
            ("HOME".to_owned(), self.home.display().to_string()),
            ("LOCAL_KEY".to_owned(), "local-key-0123456789".to_owned()),
        ];
        Environment::new(self.project.clone(), variables)
    }

    fn agent(&self, overrides: &RunOverrides) -> Result<(Agent, Config), AgentSetupError> {
        let config = Config::load(&Flags::default(), &self.env()).unwrap();
        let run = config.run.as_ref().unwrap();
        let archive = open_archive(&self.home);
        let home: Option<&Path> = Some(&self.home);
        let agent = Agent::configured(archive, Policy::default(), run, overrides, &self.project, home)?;
        Ok((agent, config))
    }

    /// A file with every supported key.
    fn full(&self) -> Value {
        let own = std::env::current_exe().unwrap();
        let command = [own.to_str().unwrap(), "--exact", "mcp::fake::the_server", "--nocapture"];
        json!({
            "$schema": "https://opencode.ai/config.json",
            "theme": "tokyonight",
            "share": "manual",
            "model": "local/scripted",
            "small_model": "local/small",
            "default_agent": "review",
            "provider": {
                "local": {
                    "npm": "@ai-sdk/anthropic",
                    "options": {
                        "baseURL": self.server.url(), "apiKey": "{env:LOCAL_KEY}", "headers": {"X-Team": "blue"},
                    },
                    "models": {
                        "scripted": {"id": "scripted-9", "limit": {"context": 32000, "output": 4000}},
                        "small": {"limit": {"context": 8000, "output": 500}},
                    },
                },
            },
            "instructions": ["GUIDE.md"],
            "permission": {"bash": {"*": "deny", "echo *": "allow"}, "fake_*": "allow"},
            "tools": {"webfetch": false},
            "agent": {
                "review": {
                    "description": "Reviews", "mode": "primary", "prompt": "You review.", "temperature": 0.25,
                    "maxSteps": 7, "tools": {"fake_die": false, "write": false},
                    "permission": {"bash": {"printf *": "allow"}},
                },
            },
            "mode": {"calm": {"prompt": "Be calm."}},
            "mcp": {
                "fake": {
                    "type": "local", "command": command, "enabled": true, "timeout": 20000,
                    "environment": {"FAKE_MCP_START": "well"},
                },
                "off": {"type": "remote", "url": "http://127.0.0.1:9/", "enabled": false},
            },
        })
    }
}

#[tokio::test]
async fn every_supported_key_takes_effect_in_a_run_and_the_rest_is_named_once() {
    let harbour = Harbour::new();
    harbour.write(".config/opencode/opencode.json", &harbour.full().to_string());
    harbour.write("project/GUIDE.md", "Mind the tide.");
    harbour.write("project/.opencode/agent/calm2.md", "---\nmode: subagent\n---\nCalm words.");
    let (mut agent, config) = harbour.agent(&RunOverrides::default()).unwrap();
    let named: Vec<&str> = config.notices.iter().map(|notice| notice.key.as_str()).collect();
    assert_eq!(named, ["theme", "share"]);
    let events: Arc<Mutex<Vec<Event>>> = Arc::default();
    let reply = Arc::clone(&events);
    agent.events = Arc::new(move |event| reply.lock().unwrap().push(event.clone()));
    assert_eq!((agent.profile.name.as_str(), agent.profile.limits.steps), ("review", 7));
    assert_eq!(
        agent.title_model.as_ref().map(|model| model.name.to_string()).as_deref(),
        Some("local/small")
    );
    // The title could be requested at any time and would take an answer that is meant for the turn.
    agent.title_model = None;
    let bash = |command: &str| json!({ "command": command });
    harbour.server.push_all([
        Reply::new()
            .call("c1", "bash", bash("echo one"))
            .call("c2", "bash", bash("printf two"))
            .call("c3", "bash", bash("touch three"))
            .call("c4", "fake_echo", json!({"text": "four"}))
            .call("c5", "write", json!({"path": "x", "content": "y"})),
        Reply::new().text("Done."),
    ]);
    let mut talk = agent.begin("").await.unwrap();
    run(&mut talk, "Review it").await;
    let request = harbour.server.last().unwrap();
    assert_eq!((request.model.as_str(), &request.body["temperature"]), ("scripted-9", &json!(0.25)));
    assert!(request.system.contains("You review.") && request.system.contains("Mind the tide."));
    let header = |name: &str| {
        request
            .headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    };
    // The scripted model does not show keys, only that there is one.
    assert_eq!((header("x-api-key").is_some(), header("x-team")), (true, Some("blue")));
    let key = config.run.as_ref().unwrap().providers["local"].key.as_ref().map(|key| key.expose().to_owned());
    assert_eq!(key.as_deref(), Some("local-key-0123456789"));
    let result = |id: &str| request.result(id).unwrap().trim().to_owned();
    assert_eq!((result("c1"), result("c2"), result("c4")), ("one".into(), "two".into(), "four".into()));
    assert!(result("c3").starts_with("Denied"), "{}", result("c3"));
    assert!(result("c5").starts_with("Unknown tool `write`"), "{}", result("c5"));
    assert!(!harbour.project.join("three").exists());
    let has = |tool: &str| request.tools.iter().any(|name| name == tool);
    assert!(
        has("fake_echo") && !has("fake_die") && !request.tools.iter().any(|name| name.starts_with("off_"))
    );
    let (calm, _) =
        harbour.agent(&RunOverrides { agent: Some("calm".into()), ..RunOverrides::default() }).unwrap();
    assert!(calm.profile.system[0].starts_with("Be calm."));
}

#[tokio::test]
async fn an_untrusted_projects_file_changes_nothing_sensitive_and_a_trusted_ones_does() {
    let harbour = Harbour::new();
    let mine = json!({
        "model": "local/mine",
        "provider": {"local": {
            "npm": "@ai-sdk/anthropic", "options": {"baseURL": harbour.server.url(), "apiKey": "mine-0123456789"},
        }},
    });
    harbour.write(".config/opencode/opencode.json", &mine.to_string());
    let plain = harbour.agent(&RunOverrides::default()).unwrap().0;
    harbour.write("project/opencode.json", &harbour.full().to_string());
    harbour.write("project/.opencode/agent/build.md", "Obey the checkout.");
    let hook = "[[hooks]]\nevent = \"tool.before\"\ncommand = [\"sh\", \"-c\", \"touch hooked\"]\n";
    harbour.write("project/plimsoll.toml", hook);
    let shape = |agent: &Agent| {
        let tools: Vec<String> = agent.profile.tools.names().into_iter().map(str::to_owned).collect();
        (
            agent.profile.name.clone(),
            agent.profile.system[0].clone(),
            agent.model.name.to_string(),
            agent.model.client.endpoint().headers.len(),
            agent.mcp.len(),
            agent.hooks.len(),
            agent.profile.limits,
            tools,
        )
    };
    let (agent, config) = harbour.agent(&RunOverrides::default()).unwrap();
    assert_eq!(shape(&agent), shape(&plain));
    let rules: Vec<_> = agent.profile.permissions.rules.iter().map(|rule| rule.action.name()).collect();
    assert!(rules.iter().all(|action| *action == "deny"), "only what narrows: {rules:?}");
    assert_eq!(config.left_out.len(), 1);
    let project = Project::read(&harbour.project).unwrap();
    Ledger::trust(&harbour.env(), &project.review(&harbour.env()).unwrap()).unwrap();
    let (agent, config) = harbour.agent(&RunOverrides::default()).unwrap();
    assert!(config.left_out.is_empty());
    assert_eq!((agent.profile.name.as_str(), agent.mcp.len(), agent.hooks.len()), ("review", 2, 1));
}
