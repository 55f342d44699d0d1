//! Agents from the configuration and the project.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use plimsoll::Policy;
use plimsoll_agent::{Agent, AgentSetupError, Event, Guard, RunOverrides, Sandbox, agent_names, parse_allow};
use plimsoll_config::{Config, Environment, Flags, Ledger, Project, RunConfig, SandboxConfig};
use plimsoll_testkit::server::{ModelServer, Reply};
use serde_json::json;
use tempfile::TempDir;

use crate::support::{is_summary, lines, open_archive, reader, run};

/// A home with a repository, and a scripted model that the environment names.
pub(crate) struct Place {
    _directory: TempDir,
    pub(crate) home: PathBuf,
    pub(crate) project: PathBuf,
    pub(crate) server: ModelServer,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place::with(ModelServer::start().unwrap())
    }

    pub(crate) fn with(server: ModelServer) -> Place {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().canonicalize().unwrap();
        let project = home.join("repository/part");
        std::fs::create_dir_all(&project).unwrap();
        std::fs::create_dir_all(home.join("repository/.git")).unwrap();
        Place { _directory: directory, home, project, server }
    }

    pub(crate) fn write(&self, place: &str, text: &str) {
        let path = self.home.join(place);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn config(&self, directory: &Path) -> RunConfig {
        let variables = [
            ("HOME".to_owned(), self.home.display().to_string()),
            ("ANTHROPIC_API_KEY".to_owned(), "sk-ant-test-0123456789".to_owned()),
            ("ANTHROPIC_BASE_URL".to_owned(), self.server.url()),
        ];
        let env = Environment::new(directory.to_owned(), variables);
        Config::load(&Flags::default(), &env).unwrap().run.unwrap()
    }

    pub(crate) fn agent_in(
        &self,
        directory: &Path,
        overrides: RunOverrides,
    ) -> Result<Agent, AgentSetupError> {
        let config = self.config(directory);
        let overrides = RunOverrides { model: Some("anthropic/claude-sonnet-4-6".into()), ..overrides };
        let archive = open_archive(&self.home);
        Agent::configured(archive, Policy::default(), &config, &overrides, directory, Some(&self.home))
    }

    pub(crate) fn agent(&self, name: &str) -> Agent {
        self.agent_in(&self.project, RunOverrides { agent: Some(name.into()), ..RunOverrides::default() })
            .unwrap()
    }
}

#[test]
fn four_agents_exist_without_a_configuration() {
    let place = Place::new();
    assert_eq!(agent_names(&place.config(&place.project)), ["build", "plan", "general", "explore"]);
    let tools = |name: &str| {
        place.agent(name).profile.tools.names().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let build = tools("build");
    assert!(["read", "bash", "recall"].iter().all(|tool| build.contains(&(*tool).to_owned())));
    for name in ["plan", "explore"] {
        let tools = tools(name);
        assert!(!tools.iter().any(|tool| tool == "write" || tool == "edit"), "{name}: {tools:?}");
    }
    assert!(place.agent("plan").profile.system[0].contains("Plan without changing anything"));
    assert!(place.agent("general").profile.system[0].contains("Project directory:"));
    let unknown = place
        .agent_in(&place.project, RunOverrides { agent: Some("chef".into()), ..RunOverrides::default() });
    let output = unknown.err().unwrap().to_string();
    assert_eq!(output, "unknown agent `chef` (available: build, plan, general, explore)");
}

#[tokio::test]
async fn a_planner_does_not_inherit_permissions_for_commands() {
    let place = Place::new();
    place.write(".config/plimsoll/config.toml", "[permissions]\nbash = \"allow\"\n");
    for (name, is_made) in [("plan", false), ("build", true)] {
        place.server.push_all([
            Reply::new().call("call_1", "bash", json!({ "command": format!("touch {name}") })),
            Reply::new().text("Done."),
        ]);
        run(&mut place.agent(name).begin("").await.unwrap(), "Go").await;
        assert_eq!(place.project.join(name).exists(), is_made, "{name}");
    }
    // Flags for this run apply to a planner, too.
    place.server.push_all([
        Reply::new().call("call_1", "bash", json!({ "command": "touch flag" })),
        Reply::new().text("Done."),
    ]);
    let allow = vec![parse_allow("bash:touch *", None).unwrap()];
    let overrides = RunOverrides { agent: Some("plan".into()), allow, ..RunOverrides::default() };
    let agent = place.agent_in(&place.project, overrides).unwrap();
    run(&mut agent.begin("").await.unwrap(), "Go").await;
    assert!(place.project.join("flag").exists());
}

#[test]
fn configuration_overrides_a_built_in_agent() {
    let place = Place::new();
    place.write(
        ".config/plimsoll/config.toml",
        "[agents.plan]\ntools = { bash = false }\nsteps = 7\n[agents.explore]\ndisable = true\n[agents.chef]\nprompt = \"Cook.\"\n",
    );
    let plan = place.agent("plan");
    assert!(plan.profile.tools.get("bash").is_none());
    assert_eq!(plan.profile.limits.steps, 7);
    assert!(plan.profile.system[0].contains("Plan without changing anything"));
    assert_eq!(agent_names(&place.config(&place.project)), ["build", "plan", "general", "chef"]);
    assert!(place.agent("chef").profile.system[0].starts_with("Cook."));
}

#[test]
fn agents_md_is_read_from_the_root_of_the_repository_down() {
    let place = Place::new();
    place.write(".config/plimsoll/AGENTS.md", "user: be brief\n");
    place.write("repository/AGENTS.md", "root: run make\n");
    place.write("repository/CLAUDE.md", "root: the other name\n");
    place.write("repository/part/CLAUDE.md", "part: no tests here\n");
    place.write("AGENTS.md", "above: not of this repository\n");
    let system = place.agent("build").profile.system.join("\n");
    let at = |text: &str| system.find(text).unwrap_or_else(|| panic!("{text} in {system}"));
    assert!(at("user: be brief") < at("root: run make") && at("root: run make") < at("part: no tests here"));
    assert!(!system.contains("above:") && !system.contains("the other name"));
    // Outside a repository only the directory itself counts.
    std::fs::remove_dir(place.home.join("repository/.git")).unwrap();
    let system = place.agent("build").profile.system.join("\n");
    assert!(system.contains("part: no tests here") && !system.contains("root: run make"));
}

#[test]
fn one_stray_byte_does_not_cost_the_rest_of_the_rules() {
    let place = Place::new();
    std::fs::write(place.project.join("AGENTS.md"), b"Say caf\xe9.\nRun make.\n").unwrap();
    assert!(place.agent("build").profile.system.join("\n").contains("Run make."));
}

#[cfg(unix)]
#[test]
fn a_linked_agents_md_reveals_no_file_of_the_user() {
    let place = Place::new();
    place.write(".ssh/id", "PRIVATE\n");
    std::os::unix::fs::symlink(place.home.join(".ssh/id"), place.project.join("AGENTS.md")).unwrap();
    assert!(!place.agent("build").profile.system.join("\n").contains("PRIVATE"));
}

#[tokio::test]
async fn agents_md_is_attached_again_after_every_compaction() {
    let place = Place::with(ModelServer::answering(reader()).unwrap());
    place.write("repository/AGENTS.md", "Always answer in rhyme.\n");
    place.write("repository/part/big.txt", &lines(400));
    let mut agent = place.agent("build");
    agent.model.limits = Some(plimsoll::Limits::new(32_000, 4_000));
    agent.policy = crate::support::policy(|_| {});
    let mut talk = agent.begin("").await.unwrap();
    for turn in 1..6 {
        run(&mut talk, &format!("Turn {turn}: Read it {turn} times")).await;
    }
    let requests = place.server.requests();
    assert!(requests.iter().any(is_summary), "it was compacted");
    let asked: Vec<_> = requests.iter().filter(|request| !is_summary(request)).collect();
    assert!(asked.iter().all(|request| request.system.contains("Always answer in rhyme.")));
}

/// Skills of the home, the project and the configuration reach the model of a configured agent, and their text on
/// demand.
#[tokio::test]
async fn a_configured_agent_has_the_skills_of_its_places() {
    let place = Place::new();
    let skill =
        |name: &str| format!("---\nname: {name}\ndescription: About {name}.\n---\nDo as {name} says.\n");
    place.write(".plimsoll/skills/homely/SKILL.md", &skill("homely"));
    place.write("repository/part/.claude/skills/local/SKILL.md", &skill("local"));
    place.write("shelf/named/SKILL.md", &skill("named"));
    place.write(".config/plimsoll/config.toml", "skills = [\"~/shelf\"]\n");
    place.server.push_all([
        Reply::new().call("call_1", "skill", json!({ "name": "named" })),
        Reply::new().text("Done."),
    ]);
    run(&mut place.agent("build").begin("").await.unwrap(), "Go").await;
    let last = place.server.last().unwrap();
    assert!(last.result("call_1").unwrap().contains("Do as named says."), "{:?}", last.result("call_1"));
    let tools = last.body["tools"].as_array().unwrap();
    let described =
        tools.iter().find(|tool| tool["name"] == "skill").unwrap()["description"].as_str().unwrap();
    for name in ["homely", "local", "named"] {
        assert!(described.contains(&format!("About {name}.")), "{described}");
    }
    // The list of skills is part of the tool's description.
    place.write(".config/plimsoll/config.toml", "[agents.build.tools]\nskill = false\n");
    assert!(place.agent("build").profile.tools.get("skill").is_none());
}

/// Returns the notices when a session of this agent is opened.
async fn notices(mut agent: Agent) -> Vec<String> {
    let output: Arc<Mutex<Vec<String>>> = Arc::default();
    let sink = Arc::clone(&output);
    agent.events = Arc::new(move |event: &Event| {
        if let Event::Notice { text } = event {
            sink.lock().unwrap().push(text.clone());
        }
    });
    agent.begin("").await.unwrap().close().await.unwrap();
    std::mem::take(&mut *output.lock().unwrap())
}

#[tokio::test]
async fn instructions_missing_from_the_prompt_are_reported_to_the_user() {
    let place = Place::new();
    place.write("repository/AGENTS.md", &format!("root: {}", "é".repeat(150_000)));
    place.write("repository/part/AGENTS.md", "part: never seen\n");
    let agent = place.agent("build");
    let system = agent.profile.system.join("\n");
    assert!(system.contains("root: é") && !system.contains("part: never seen"));
    assert_eq!(
        notices(agent).await,
        [
            format!(
                "only 200000 of the 300006 bytes of `{}` are included in the system prompt: the limit for all instructions is 200000",
                place.home.join("repository/AGENTS.md").display()
            ),
            format!(
                "only 0 of the 16 bytes of `{}` are included in the system prompt: the limit for all instructions is 200000",
                place.project.join("AGENTS.md").display()
            ),
        ]
    );
    // Nothing is reported for files that fit.
    place.write("repository/AGENTS.md", "root: short\n");
    assert_eq!(notices(place.agent("build")).await, [""; 0]);
}

#[tokio::test]
async fn an_instruction_file_that_is_not_a_regular_file_is_reported() {
    type Make = fn(&std::path::Path);
    let cases: [(&str, Make); 5] = [
        ("it is a directory", |path| std::fs::create_dir(path).unwrap()),
        ("its target cannot be read: No such file", |path| {
            std::os::unix::fs::symlink("missing.md", path).unwrap();
        }),
        ("its target cannot be read: Too many levels", |path| {
            std::os::unix::fs::symlink("AGENTS.md", path).unwrap();
        }),
        ("it points outside of the project", |path| {
            std::os::unix::fs::symlink("/etc/hostname", path).unwrap();
        }),
        ("not a regular file", |path| {
            let _listener = std::os::unix::net::UnixListener::bind(path).unwrap();
        }),
    ];
    for (problem, make) in cases {
        let place = Place::new();
        place.write("repository/part/CLAUDE.md", "be brief\n");
        make(&place.project.join("AGENTS.md"));
        let agent = place.agent("build");
        // The next file is read.
        assert!(agent.profile.system.iter().any(|text| text.contains("be brief")), "{problem}");
        let output = notices(agent).await;
        assert_eq!(output.len(), 1, "{problem}: {output:?}");
        assert!(
            output[0].contains("AGENTS.md` is not included in the system prompt: ")
                && output[0].contains(problem),
            "{problem}: {output:?}"
        );
    }
}

/// An invalid byte does not hide the other rules.
#[tokio::test]
async fn an_instruction_file_with_a_stray_byte_is_read() {
    let place = Place::new();
    std::fs::create_dir_all(&place.project).unwrap();
    std::fs::write(place.project.join("AGENTS.md"), b"be brief\xff and kind\n").unwrap();
    let agent = place.agent("build");
    assert!(agent.profile.system.iter().any(|text| text.contains("be brief\u{fffd} and kind")));
    assert_eq!(notices(agent).await, [""; 0]);
}

/// Root can read everything; `an_instruction_file_that_is_not_a_regular_file_is_reported` covers the message.
#[tokio::test]
async fn an_unreadable_instruction_file_is_reported() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    place.write("repository/part/AGENTS.md", "be brief\n");
    let file = place.project.join("AGENTS.md");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::read(&file).is_ok() {
        // Root can read everything except a few files of the kernel.
        println!("skipped: this user can read every file");
        return;
    }
    let output = notices(place.agent("build")).await;
    assert_eq!(output.len(), 1, "{output:?}");
    assert!(
        output[0].contains(
            "AGENTS.md` is not included in the system prompt because it cannot be read: Permission denied"
        ),
        "{output:?}"
    );
}

#[tokio::test]
async fn hooks_with_grants_that_may_run_project_code_are_reported_unless_it_is_trusted() {
    let place = Place::new();
    let plain = |command: &str| format!("[[hooks]]\nevent = \"tool.after\"\ncommand = {command}\n");
    let hooks = |command: &str| format!("{}network = true\n", plain(command));
    let own = ".config/plimsoll/config.toml";
    place.write(own, &format!("{}{}", hooks(r#"["make", "check"]"#), hooks(r#"["/usr/bin/logger", "-t"]"#)));
    let output = notices(place.agent("build")).await;
    assert_eq!(output.len(), 1, "{output:?}");
    assert!(
        output[0].contains("this project is not trusted") && output[0].contains(": `make check`;"),
        "{output:?}"
    );
    // Without grants a hook has no more access than a command of the agent.
    place.write(own, &plain(r#"["make", "check"]"#));
    let is_confined = Sandbox::new(SandboxConfig::default()).confinement().holds(Guard::Writes);
    assert_eq!(notices(place.agent("build")).await.is_empty(), is_confined);
    // Absolute paths outside the project are the user's own.
    place.write(own, &hooks(r#"["/usr/bin/logger", "-t"]"#));
    assert_eq!(notices(place.agent("build")).await, [""; 0]);
    // A trusted project's code may run.
    place.write(own, &hooks(r#"["make", "check"]"#));
    place.write("repository/part/plimsoll.toml", "permissions.bash = \"allow\"\n");
    assert_eq!(notices(place.agent("build")).await.len(), 1);
    let variables = [("HOME".to_owned(), place.home.display().to_string())];
    let env = Environment::new(place.project.clone(), variables);
    let review = Project::read(&place.project).unwrap().review(&env).unwrap();
    Ledger::trust(&env, &review).unwrap();
    assert_eq!(notices(place.agent("build")).await, [""; 0]);
}
