//! Models, providers, agents and permissions from all layers.

use std::time::Duration;

use plimsoll_config::{
    Action, AgentFork, AgentMode, Config, Flags, McpConnection, Origin, RunConfig, SetupError,
};
use plimsoll_providers::Wire;

use crate::support::Home;

const USER: &str = ".config/plimsoll/config.toml";

fn run_of(config: Config) -> RunConfig {
    config.run.unwrap()
}

fn run(home: &Home, variables: &[(&str, &str)]) -> RunConfig {
    let env = home.env(&home.project, variables);
    run_of(Config::load(&Flags::default(), &env).unwrap())
}

fn problem(home: &Home) -> String {
    let env = home.env(&home.project, &[]);
    let error = Config::load(&Flags::default(), &env).unwrap().run.unwrap_err();
    error.to_string().replace(home.path.to_str().unwrap(), "[HOME]")
}

#[test]
fn p10_every_section_is_read() {
    let home = Home::new().with("prompt.md", "Be terse.\n").with(
        USER,
        r#"
model = "local/qwen"
small_model = "anthropic/claude-haiku-4-5"
max_steps = 30
max_cost = 2.5
max_tokens = 1000000
instructions = ["docs/*.md", "~/rules.md"]

[tasks]
at_once = 2
time = "10m"
cost = 0.5
fork = "history"

[providers.local]
api = "openai-chat"
base_url = "http://localhost:11434/v1/"
headers = { "X-Team" = "blue" }
timeout = "10m"
idle_timeout = false
connect_timeout = "500ms"

[providers.local.models.qwen]
id = "qwen3:8b"
name = "Qwen"
context = 32768
output = 4096
price = { input = 0.5, output = 1 }

[agents.review]
description = "Reads changes."
prompt = "{file:~/prompt.md}"
model = "anthropic/claude-sonnet-4-5"
steps = 5
output = 2000
timeout = "2m"
temperature = 0.2
top_p = 0.9
options = { thinking = { type = "enabled" } }
mode = "subagent"
fork = "digest"

[agents.review.tools]
"*" = false
read = true

[agents.review.permission]
bash = "deny"

[permissions]
edit = "ask"

[permissions.bash]
"*" = "ask"
"git *" = "allow"
"git push *" = "deny"

[mcp.files]
command = ["npx", "server"]
environment = { TOKEN = "abc" }
cwd = "srv"
timeout = "5s"

[mcp.web]
url = "https://example.org/mcp"
headers = { Authorization = "Bearer x" }
enabled = false
"#,
    );
    let run = run(&home, &[]);
    assert_eq!(run.model.as_ref().unwrap().to_string(), "local/qwen");
    assert_eq!(run.small_model.as_ref().unwrap().to_string(), "anthropic/claude-haiku-4-5");
    let tasks = run.tasks;
    assert_eq!((tasks.at_once, tasks.depth, tasks.cost), (Some(2), None, Some(0.5)));
    assert_eq!((tasks.time, tasks.fork), (Some(Duration::from_secs(600)), Some(AgentFork::History)));
    assert_eq!((run.caps.steps, run.caps.cost, run.caps.tokens), (Some(30), Some(2.5), Some(1_000_000)));
    assert_eq!(run.origin("max_cost").to_string(), format!("{}:5", home.path.join(USER).display()));

    let resolved = run.resolve_model(None).unwrap();
    assert_eq!(resolved.model.to_string(), "local/qwen3:8b");
    assert_eq!(
        (resolved.endpoint.wire, resolved.endpoint.base_url.as_str()),
        (Wire::Chat, "http://localhost:11434/v1")
    );
    assert_eq!(resolved.endpoint.headers[0].0, "x-team");
    assert_eq!(resolved.client.total, Duration::from_secs(600));
    assert_eq!(resolved.client.connect, Duration::from_millis(500));
    assert!(resolved.client.idle > Duration::from_secs(86_400));
    let limits = resolved.limits.unwrap();
    assert_eq!((limits.context.0, limits.input, limits.output.0), (32_768, None, 4_096));
    let price = resolved.price.unwrap();
    assert_eq!((price.input, price.output, price.cache_read, price.cache_write), (0.5, 1.0, 0.5, 0.5));
    assert_eq!(resolved.name.as_deref(), Some("Qwen"));

    let agent = &run.agents["review"];
    assert_eq!(agent.prompt.as_deref(), Some("Be terse."));
    assert_eq!(
        (agent.steps, agent.output, agent.timeout),
        (Some(5), Some(2_000), Some(Duration::from_secs(120)))
    );
    assert_eq!((agent.mode, agent.fork), (Some(AgentMode::Subagent), Some(AgentFork::Digest)));
    assert_eq!((agent.has_tool("read"), agent.has_tool("bash")), (Some(true), Some(false)));
    assert_eq!(agent.permissions.rule("bash", "ls").unwrap().action, Action::Deny);
    assert_eq!(agent.options["thinking"]["type"], "enabled");

    let action = |tool: &str, subject: &str| run.permissions.rule(tool, subject).map(|rule| rule.action);
    assert_eq!(action("edit", "a.rs"), Some(Action::Ask));
    assert_eq!(action("bash", "git status"), Some(Action::Allow));
    assert_eq!(action("bash", "git push origin"), Some(Action::Deny));
    assert_eq!(action("bash", "ls"), Some(Action::Ask));
    assert_eq!(action("read", "a.rs"), None);

    let McpConnection::Local { command, environment, directory } = &run.mcp["files"].connection else {
        panic!()
    };
    assert_eq!((command.join(" "), environment[0].0.as_str()), ("npx server".to_owned(), "TOKEN"));
    assert_eq!(directory.as_ref().unwrap(), &home.path.join(".config/plimsoll/srv"));
    assert!(!run.mcp["web"].enabled);
    let patterns: Vec<&str> = run.instructions.iter().map(|source| source.pattern.as_str()).collect();
    assert_eq!(patterns, ["docs/*.md", "~/rules.md"]);
}

#[test]
fn p10_the_highest_layer_wins_for_each_field() {
    let text = |n: u32| {
        format!(
            "model = \"p/{n}\"\nmax_steps = {n}\n[providers.p]\napi = \"openai-chat\"\n\
             base_url = \"http://host{n}/v1\"\n[providers.p.models.m]\ncontext = {n}\n"
        )
    };
    for mask in 0..16_u32 {
        let on = [1, 2, 4, 8].map(|bit| mask & bit != 0);
        let home = Home::new();
        if on[0] {
            home.write(USER, &text(1));
        }
        if on[1] {
            home.write("project/plimsoll.toml", &text(2));
            home.trust(&home.project);
        }
        let variables = [("PLIMSOLL_MODEL", "p/3"), ("PLIMSOLL_MAX_STEPS", "3")];
        let env = home.env(&home.project, if on[2] { &variables } else { &[] });
        let asked = Flags { model: Some("p/4".to_owned()), max_steps: Some(4), ..Flags::default() };
        let run = run_of(Config::load(&if on[3] { asked } else { Flags::default() }, &env).unwrap());
        let heaviest = |most: usize| (1..=most).rev().find(|layer| on[layer - 1]);
        let model = run.model.as_ref().map(|model| model.model.clone());
        assert_eq!(model, heaviest(4).map(|layer| layer.to_string()), "{on:?}");
        assert_eq!(run.caps.steps, heaviest(4).map(|layer| layer as u32), "{on:?}");
        let file = heaviest(2);
        let provider = run.providers.get("p");
        assert_eq!(
            provider.and_then(|provider| provider.base_url.clone()),
            file.map(|layer| format!("http://host{layer}/v1"))
        );
        let context = provider.and_then(|provider| provider.models["m"].context);
        assert_eq!(context, file.map(|layer| layer as u64));
        let origin = run.origin("model");
        match heaviest(4) {
            Some(4) => assert_eq!(origin, Origin::Flag("--model")),
            Some(3) => assert_eq!(origin, Origin::Variable("PLIMSOLL_MODEL".to_owned())),
            Some(2) => assert!(origin.to_string().ends_with("plimsoll.toml:1"), "{origin}"),
            Some(_) => assert!(origin.to_string().ends_with("config.toml:1"), "{origin}"),
            None => assert_eq!(origin, Origin::BuiltIn),
        }
    }
}

#[test]
fn p10_layers_complete_each_other() {
    let home = Home::new()
        .with(USER, "[providers.p]\napi = \"openai-chat\"\nkey = \"k\"\n[permissions]\n\"*\" = \"allow\"\nbash = \"ask\"\n")
        .with("project/plimsoll.toml", "[providers.p]\nbase_url = \"http://x\"\n[permissions]\n\"*\" = \"deny\"\n");
    home.trust(&home.project);
    let run = run(&home, &[]);
    let endpoint = run.resolve_model(Some("p/m")).unwrap().endpoint;
    assert_eq!((endpoint.base_url.as_str(), endpoint.key.unwrap().expose()), ("http://x", "k"));
    // Rules of all layers are kept, highest priority last.
    assert_eq!(run.permissions.rule("bash", "ls").unwrap().action, Action::Deny);
    assert_eq!(run.permissions.rules.len(), 3);
}

#[test]
fn p10_the_variables_of_the_official_sdks_count() {
    let home = Home::new();
    let resolve = |variables: &[(&str, &str)], model: &str| run(&home, variables).resolve_model(Some(model));
    let endpoint =
        resolve(&[("ANTHROPIC_API_KEY", "sk-ant-1")], "anthropic/claude-sonnet-4-5").unwrap().endpoint;
    assert_eq!(endpoint.base_url, "https://api.anthropic.com");
    assert_eq!((endpoint.wire, endpoint.key.unwrap().expose()), (Wire::Anthropic, "sk-ant-1"));

    let token = [("ANTHROPIC_AUTH_TOKEN", "t"), ("ANTHROPIC_BASE_URL", "http://gate/v1")];
    let endpoint = resolve(&token, "anthropic/x").unwrap().endpoint;
    assert_eq!((endpoint.base_url.as_str(), endpoint.key), ("http://gate/v1", None));
    assert_eq!(
        (endpoint.headers[0].0.as_str(), endpoint.headers[0].1.expose()),
        ("authorization", "Bearer t")
    );

    let openai = [
        ("OPENAI_API_KEY", "sk-1"),
        ("OPENAI_BASE_URL", "http://localhost:8080/v1"),
        ("OPENAI_ORG_ID", "org-1"),
        ("OPENAI_PROJECT_ID", "proj-1"),
    ];
    for (name, wire) in [("openai", Wire::Responses), ("openai-chat", Wire::Chat)] {
        let endpoint = resolve(&openai, &format!("{name}/gpt-5")).unwrap().endpoint;
        assert_eq!((endpoint.wire, endpoint.base_url.as_str()), (wire, "http://localhost:8080/v1"));
        let headers: Vec<_> =
            endpoint.headers.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
        assert_eq!(headers, [("openai-organization", "org-1"), ("openai-project", "proj-1")]);
    }
    // The limits come from the built-in table.
    let model = resolve(&openai, "openai/gpt-5").unwrap();
    assert_eq!((model.limits.unwrap().context.0, model.price.unwrap().input), (400_000, 1.25));
    // Blank variables count as unset.
    assert!(matches!(resolve(&[("OPENAI_API_KEY", " ")], "openai/gpt-5"), Err(SetupError::NoKey { .. })));
    let origin = run(&home, &openai).origin("providers.openai.key");
    assert_eq!(origin, Origin::Variable("OPENAI_API_KEY".to_owned()));
}

#[test]
fn p10_a_key_is_only_sent_to_its_url() {
    let gateway = "[providers.anthropic]\nbase_url = \"http://gate\"\nkey = \"of-the-gate\"\n";
    let home = Home::new().with(USER, gateway);
    let variables = [("ANTHROPIC_API_KEY", "of-anthropic")];
    let endpoint = run(&home, &variables).resolve_model(Some("anthropic/x")).unwrap().endpoint;
    assert_eq!((endpoint.base_url.as_str(), endpoint.key.unwrap().expose()), ("http://gate", "of-the-gate"));
    // If the file has no key, or the variables also set a URL, the variables win.
    home.write(USER, "[providers.anthropic]\nbase_url = \"http://gate\"\n");
    let endpoint = run(&home, &variables).resolve_model(Some("anthropic/x")).unwrap().endpoint;
    assert_eq!(endpoint.key.unwrap().expose(), "of-anthropic");
    home.write(USER, gateway);
    let both = [("ANTHROPIC_API_KEY", "of-anthropic"), ("ANTHROPIC_BASE_URL", "http://other")];
    let endpoint = run(&home, &both).resolve_model(Some("anthropic/x")).unwrap().endpoint;
    assert_eq!(
        (endpoint.base_url.as_str(), endpoint.key.unwrap().expose()),
        ("http://other", "of-anthropic")
    );
}

#[test]
fn p10_references_are_replaced_and_missing_ones_are_errors_on_use() {
    let home = Home::new()
        .with("keys/k", "from-file\n")
        .with(
            USER,
            "[providers.a]\napi = \"openai\"\nkey = \"{env:MY_KEY}\"\n\
             [providers.b]\napi = \"openai\"\nkey = \"{file:../../keys/k}\"\nheaders = { Authorization = \"Bearer {file:~/keys/k}\" }\n\
             [providers.c]\napi = \"openai\"\nkey = \"{file:/nowhere/k}\"\n\
             [agents.build]\nprompt = \"{file:gone.md}\"\n",
        );
    let run = run(&home, &[("MY_KEY", "{env:HOME}")]);
    let endpoint = |name: &str| run.resolve_model(Some(&format!("{name}/m"))).map(|model| model.endpoint);
    // Values of variables are literal.
    assert_eq!(endpoint("a").unwrap().key.unwrap().expose(), "{env:HOME}");
    let b = endpoint("b").unwrap();
    assert_eq!((b.key.unwrap().expose(), b.headers[0].1.expose()), ("from-file", "Bearer from-file"));
    let error = endpoint("c").unwrap_err().to_string();
    assert!(
        error.ends_with("config.toml:10: `providers.c.key`: cannot read `/nowhere/k`: entity not found"),
        "{error}"
    );
    assert!(run.agents["build"].problem.as_ref().unwrap().contains("gone.md"));
    let without = run_of(Config::load(&Flags::default(), &home.env(&home.project, &[])).unwrap());
    let error = without.resolve_model(Some("a/m")).unwrap_err();
    insta::assert_snapshot!(error.to_string().replace(home.path.to_str().unwrap(), "[HOME]"), @"[HOME]/.config/plimsoll/config.toml:3: `providers.a.key`: the variable `MY_KEY` is not set");
}

#[test]
fn p10_no_secret_is_shown() {
    let secret = "Kx9-very-secret-indeed";
    let text = format!(
        "[providers.p]\napi = \"openai\"\nkey = \"{secret}\"\nbase_url = \"https://u:{secret}@h/v1?api_key={secret}\"\n\
         headers = {{ \"X-Key\" = \"{secret}\" }}\n[mcp.m]\ncommand = [\"x\", \"--api-key={secret}\"]\n\
         environment = {{ TOKEN = \"{secret}\" }}\n[mcp.r]\nurl = \"https://h/?token={secret}\"\n\
         headers = {{ Authorization = \"Bearer {secret}\" }}\n"
    );
    let of_project = format!(
        "[providers.p]\napi = \"openai\"\nkey = \"{secret}\"\nheaders = {{ \"X-Key\" = \"{secret}\" }}\n\
         [mcp.m]\ncommand = [\"x\"]\nenvironment = {{ TOKEN = \"{secret}\" }}\n"
    );
    let home = Home::new().with(USER, &text).with("project/plimsoll.toml", &of_project);
    let env = home.env(&home.project, &[("ANTHROPIC_API_KEY", secret), ("OPENAI_API_KEY", secret)]);
    let config = Config::load(&Flags::default(), &env).unwrap();
    assert!(!format!("{config:?}").contains(secret), "Debug of the configuration");
    let run = config.run.as_ref().unwrap();
    assert!(!serde_json::to_string(run.fields()).unwrap().contains(secret), "fields");
    let field = |key: &str| run.fields().iter().find(|field| field.key == key).unwrap().value.clone();
    assert_eq!(field("providers.anthropic.key"), "(set)");
    assert_eq!(field("mcp.r.headers.authorization"), "(set)");
    for model in ["p/m", "anthropic/m", "openai/m"] {
        assert!(!format!("{:?}", run.resolve_model(Some(model)).unwrap()).contains(secret), "{model}");
    }
    let project = plimsoll_config::Project::read(&home.project.join("plimsoll.toml")).unwrap();
    assert!(!format!("{project:?}").contains(secret), "Debug of the project");
    let review = project.review(&env).unwrap();
    assert!(!serde_json::to_string(&review).unwrap().contains(secret), "the review");
    assert!(!format!("{:?}", config.left_out).contains(secret), "what is left out");
    // Nor in an error, if it is in the wrong place.
    for wrong in [
        format!("[providers.p]\nheaders = \"{secret}\"\n"),
        format!("[providers.p]\napi = \"{secret}\"\n"),
        format!("[providers]\np = \"{secret}\"\n"),
        format!("model = [\"{secret}\"]\n"),
        format!("[mcp.m]\nenvironment = \"{secret}\"\n"),
    ] {
        let home = Home::new().with(USER, &wrong);
        let problem = problem(&home);
        assert!(!problem.contains(secret), "{problem}");
    }
}

#[test]
fn p10_mistakes_are_reported_with_their_location() {
    let message = |text: &str| problem(&Home::new().with(USER, text));
    insta::assert_snapshot!(message("[providers.p]\nbase_url = 5\n"), @"[HOME]/.config/plimsoll/config.toml:2: `providers.p.base_url`: expected a text");
    insta::assert_snapshot!(message("[providers.p]\napi = \"gemini\"\n"), @"[HOME]/.config/plimsoll/config.toml:2: `providers.p.api`: expected one of `anthropic`, `openai`, `openai-chat`");
    insta::assert_snapshot!(message("providers = 5\n"), @"[HOME]/.config/plimsoll/config.toml:1: `providers`: expected a section with fields");
    insta::assert_snapshot!(message("model = \"gpt-5\"\n"), @"[HOME]/.config/plimsoll/config.toml:1: `gpt-5` does not name a model: write `provider/model`, such as `anthropic/claude-sonnet-4-6`");
    insta::assert_snapshot!(message("[permissions.bash]\n\"rm *\" = \"never\"\n"), @r#"[HOME]/.config/plimsoll/config.toml:2: `permissions.bash.rm *`: expected "allow", "ask" or "deny", found "never""#);
    insta::assert_snapshot!(message("[providers.p]\ntimeout = \"soon\"\n"), @r#"[HOME]/.config/plimsoll/config.toml:2: `providers.p.timeout`: expected a time such as "500ms", "90s", "10m" or "2h", found "soon""#);
    insta::assert_snapshot!(message("[mcp.m]\ntimeout = \"1s\"\n"), @"[HOME]/.config/plimsoll/config.toml:2: `mcp.m` has neither `command` nor `url`");
    insta::assert_snapshot!(message("[tasks]\nat_once = 0\n"), @"[HOME]/.config/plimsoll/config.toml:2: `tasks.at_once`: expected a number above 0");
    insta::assert_snapshot!(message("max_steps = 0\n"), @"[HOME]/.config/plimsoll/config.toml:1: `max_steps`: expected a number above 0");
    insta::assert_snapshot!(message("[providers.p.models.m.price]\ninput = -1\n"), @"[HOME]/.config/plimsoll/config.toml:2: `providers.p.models.m.price.input`: a price cannot be negative");
    insta::assert_snapshot!(message("[agents.a]\nmode = \"main\"\n"), @"[HOME]/.config/plimsoll/config.toml:2: `agents.a.mode`: expected one of `primary`, `subagent`, `all`");
    // An unknown key is an error of the whole file.
    let unknown = |text: &str| {
        let home = Home::new().with(USER, text);
        let error = Config::load(&Flags::default(), &home.env(&home.project, &[])).unwrap_err();
        let message = format!("{error} | {}", error.hint().unwrap_or_default());
        message.replace(home.path.to_str().unwrap(), "[HOME]")
    };
    insta::assert_snapshot!(unknown("[providers.p]\nbaseUrl = \"http://x\"\n"), @"[HOME]/.config/plimsoll/config.toml:2: unknown setting `providers.p.baseUrl` | did you mean `providers.p.base_url`?");
    insta::assert_snapshot!(unknown("[agents.a.modell]\nx = 1\n"), @"[HOME]/.config/plimsoll/config.toml:1: unknown setting `agents.a.modell` | did you mean `agents.a.model`?");
    insta::assert_snapshot!(unknown("[provider.p]\nx = 1\n"), @"[HOME]/.config/plimsoll/config.toml:1: unknown setting `provider` | did you mean `providers`?");
}

#[test]
fn p10_without_a_model_the_ways_to_set_one_are_listed() {
    let message = |error: SetupError| format!("{error}\n{}", error.hint());
    let home = Home::new();
    insta::assert_snapshot!("no_model", message(run(&home, &[]).resolve_model(None).unwrap_err()));
    let ready = run(&home, &[("OPENAI_BASE_URL", "http://localhost:1/v1")]).resolve_model(None).unwrap_err();
    assert_eq!(ready, SetupError::NoModel { ready: vec!["openai", "openai-chat"] });
    insta::assert_snapshot!(
        "unknown_provider",
        message(run(&home, &[]).resolve_model(Some("mistral/large")).unwrap_err())
    );
    insta::assert_snapshot!(message(run(&home, &[]).resolve_model(Some("antropic/x")).unwrap_err()), @r"
    unknown provider `antropic` (available: `anthropic`, `openai`, `openai-chat`)
    did you mean `anthropic`?
    ");
    insta::assert_snapshot!(message(run(&home, &[]).resolve_model(Some("anthropic/x")).unwrap_err()), @r#"
    no key for provider `anthropic`
    set `ANTHROPIC_API_KEY`, or set `key = "{env:NAME}"` under `[providers.anthropic]`
    "#);
    insta::assert_snapshot!(message(run(&home, &[]).resolve_model(Some("gpt-5")).unwrap_err()), @r"
    `gpt-5` does not name a model: write `provider/model`, such as `anthropic/claude-sonnet-4-6`
    a provider, a slash, and the name that the provider has for it
    ");
    let home = Home::new().with(USER, "model = \"p/m\"\n[providers.p]\nbase_url = \"localhost:11434\"\n");
    let error = run(&home, &[]).resolve_model(None).unwrap_err();
    assert!(matches!(error, SetupError::NoApi { .. }), "{error}");
    home.write(USER, "model = \"p/m\"\n[providers.p]\napi = \"openai\"\nbase_url = \"localhost:11434\"\n");
    let error = run(&home, &[]).resolve_model(None).unwrap_err().to_string();
    assert!(
        error.ends_with(
            "config.toml:4: `localhost:11434` is not a base URL: it must start with `http://` or `https://`"
        ),
        "{error}"
    );
}

#[test]
fn p10_a_broken_run_section_leaves_the_rest_of_the_configuration() {
    let home = Home::new().with(USER, "context = 5\n[providers.p]\nbase_url = 5\n");
    let config = home.load();
    assert!(config.run.is_err());
    assert_eq!(config.context, 5);
}

#[test]
fn p10_a_policy_file_cannot_set_fields_of_a_run() {
    let home = Home::new()
        .with(USER, "policy = \"mine.toml\"\n")
        .with(".config/plimsoll/mine.toml", "model = \"openai/gpt-5\"\n");
    let error = Config::load(&Flags::default(), &home.env(&home.project, &[])).unwrap_err();
    assert!(
        error.to_string().ends_with("a policy file cannot set `model`, which belongs to runs"),
        "{error}"
    );
}

#[test]
fn p10_header_names_are_case_insensitive() {
    let home = Home::new()
        .with(USER, "[providers.p]\napi = \"openai\"\nheaders = { authorization = \"user\" }\n")
        .with("project/plimsoll.toml", "[providers.p.headers]\nAuthorization = \"project\"\n");
    home.trust(&home.project);
    let headers = run(&home, &[]).resolve_model(Some("p/m")).unwrap().endpoint.headers;
    assert_eq!(headers.len(), 1);
    assert_eq!(headers[0].1.expose(), "project");
}

#[test]
fn p10_a_model_with_only_a_maximum_output_has_the_default_window() {
    let home = Home::new().with(
        USER,
        "[providers.p]\napi = \"openai\"\nkey = \"k\"\n[providers.p.models.m]\noutput = 900\n\
         [providers.p.models.\"gpt-5\"]\ncontext = 50000\n[providers.p.models.\"gpt-5-mini\"]\noutput = 5\n",
    );
    let run = run(&home, &[]);
    let limits = |name: &str| run.resolve_model(Some(&format!("p/{name}"))).unwrap().limits;
    let usual = plimsoll::Policy::default().overflow.default_context;
    let own = limits("m").unwrap();
    assert_eq!((own.context, own.output.0), (usual, 900));
    // A configured window replaces the table's input limit; a configured maximum output does not.
    let gpt = limits("gpt-5").unwrap();
    assert_eq!((gpt.context.0, gpt.input, gpt.output.0), (50_000, None, 128_000));
    let mini = limits("gpt-5-mini").unwrap();
    assert_eq!((mini.context.0, mini.input.unwrap().0, mini.output.0), (400_000, 272_000, 5));
    assert_eq!(limits("unheard-of"), None);
}

#[test]
fn hooks_of_all_files_run_in_order_and_mistakes_have_a_location() {
    let hook = |event: &str, name: &str| {
        format!("[[hooks]]\nevent = \"{event}\"\ncommand = [\"{name}\", \"{{env:ARG}}\"]\n")
    };
    let mine = format!(
        "{}tools = \"bash\"\ntimeout = \"5s\"\n{}",
        hook("tool.before", "a"),
        hook("tool.after", "b")
    );
    let home = Home::new()
        .with(".config/plimsoll/config.toml", &mine)
        .with("project/plimsoll.toml", &hook("session.compacting", "c"));
    home.trust(&home.project);
    let load = |variables: &[(&str, &str)]| {
        Config::load(&Flags::default(), &home.env(&home.project, variables)).unwrap().run.unwrap()
    };
    let run = load(&[("ARG", "x")]);
    let found: Vec<_> = run.hooks.iter().map(|hook| (hook.event.name(), hook.command.join(" "))).collect();
    let expected = [("tool.before", "a x"), ("tool.after", "b x"), ("session.compacting", "c x")];
    assert_eq!(found, expected.map(|(event, command)| (event, command.to_owned())));
    assert_eq!(run.hooks[0].timeout, Some(std::time::Duration::from_secs(5)));
    assert!(run.hooks[0].is_for("bash") && !run.hooks[0].is_for("read") && run.hooks[1].is_for("read"));
    assert!(
        load(&[]).hooks.iter().all(|hook| hook.problem.as_deref().is_some_and(|why| why.contains("`ARG`")))
    );
    for (text, message) in [
        ("[[hooks]]\nevent = \"tool.befor\"\ncommand = [\"a\"]", "tool.befor"),
        ("[[hooks]]\nevent = \"tool.before\"", "command"),
        ("[[hooks]]\nevent = \"tool.before\"\ncommand = []", "without a `command`"),
        ("[[hooks]]\nevent = \"tool.before\"\ncommand = \"a b\"", "list"),
        ("[[hooks]]\nevent = \"tool.before\"\ncommand = [\"a\"]\ntime = 5", "time"),
        ("hooks = 5", "list"),
    ] {
        let home = Home::new().with(".config/plimsoll/config.toml", text);
        let config = Config::load(&Flags::default(), &home.env(&home.project, &[])).unwrap();
        let error = config.run.unwrap_err().to_string();
        assert!(error.contains(message) && error.contains("config.toml"), "{text}: {error}");
    }
}

/// Names of events in the parity document and in OpenCode's plugins.
#[test]
fn r121_opencodes_names_of_hooks_are_accepted() {
    let names = [
        ("experimental.session.compacting", "session.compacting"),
        ("experimental.compaction.autocontinue", "compaction.autocontinue"),
        ("tool.execute.before", "tool.before"),
        ("tool.execute.after", "tool.after"),
    ];
    for (theirs, ours) in names {
        let text = format!("[[hooks]]\nevent = \"{theirs}\"\ncommand = [\"a\"]\n");
        let home = Home::new().with(USER, &text);
        let config = Config::load(&Flags::default(), &home.env(&home.project, &[])).unwrap();
        let hooks = config.run.unwrap().hooks;
        assert_eq!(hooks.iter().map(|hook| hook.event.name()).collect::<Vec<_>>(), [ours]);
        #[cfg(feature = "schema")]
        assert!(Config::schema().to_string().contains(theirs), "{theirs}");
    }
}

#[test]
fn a_time_without_a_unit_is_reported_with_its_line() {
    let message = |text: &str| problem(&Home::new().with(USER, text));
    let hook = "[[hooks]]\nevent = \"tool.before\"\ncommand = [\"a\"]\n";
    let seen = message(&format!("\n{hook}\n{hook}timeout = 3\n"));
    insta::assert_snapshot!(seen, @r#"[HOME]/.config/plimsoll/config.toml:9: `hooks.timeout`: expected a time with its unit, such as "3s" or "3ms""#);
    let seen = message("[mcp.files]\ncommand = [\"a\"]\ntimeout = 1.5\n");
    insta::assert_snapshot!(seen, @r#"[HOME]/.config/plimsoll/config.toml:3: `mcp.files.timeout`: expected a time with its unit, such as "1.5s" or "1.5ms""#);
    let seen = message(&format!("{hook}\n[[hooks]]\nevent = \"tool.befor\"\n"));
    assert!(seen.contains("config.toml:6: `hooks[1].event`"), "{seen}");
}

#[test]
fn a_secret_in_the_path_of_a_base_url_is_not_shown() {
    let settings = "[providers.gw]\napi = \"anthropic\"\nbase_url = \"http://gw.example/{env:TENANT}/api\"\n";
    let home = Home::new().with(".config/plimsoll/config.toml", settings);
    let variables = [("TENANT", "tenant-secret-77")];
    let config = Config::load(&Flags::default(), &home.env(&home.project, &variables)).unwrap();
    let endpoint = config.run.unwrap().resolve_model(Some("gw/m")).unwrap().endpoint;
    assert!(endpoint.url().contains("/tenant-secret-77/api/"));
    for shown in [endpoint.shown_url(), format!("{endpoint:?}")] {
        assert!(shown.contains("http://gw.example/") && !shown.contains("tenant-secret"), "{shown}");
    }
}

#[test]
fn every_variable_that_a_provider_refers_to_is_a_key() {
    let home = Home::new()
        .with(
            ".config/plimsoll/config.toml",
            "[providers.a]\napi = \"openai-chat\"\nbase_url = \"https://{env:LOGIN}@a.example/{env:TENANT}\"\nkey = \"{env:OLD_KEY}\"\n\
             [providers.a.headers]\nAuthorization = \"Bearer {env:BEARER}\"\nX-Team = \"a\"\n\
             [providers.b]\napi = \"openai\"\nkey = \"{file:key}\"\n\
             [providers.c.headers]\nAuthorization = \"Bearer literal-key-0123\"\n\
             [mcp.x]\ncommand = [\"x\"]\nenvironment = { TOKEN = \"{env:OF_SERVER}\" }\n",
        )
        .with(".config/plimsoll/key", "file-key-0123456789\n")
        .with("project/plimsoll.toml", "[providers.a]\nkey = \"{env:NEW_KEY}\"\n");
    home.trust(&home.project);
    let variables = [
        ("LOGIN", "me:hunter2"),
        ("TENANT", "1"),
        ("OLD_KEY", "sk-old-0123456789"),
        ("NEW_KEY", "sk-new-0123456789"),
        ("BEARER", "sk-bearer-0123456789"),
        ("OPENAI_BASE_URL", "http://user:pass@localhost/v1"),
    ];
    let config = Config::load(&Flags::default(), &home.env(&home.project, &variables)).unwrap();
    let keys = config.run.unwrap().keys;
    let is_key = |name: &str, value: &str| keys.are_exposed_by(name.as_ref(), value.as_ref());
    for (name, value) in variables {
        assert!(is_key(name, value), "{name}");
    }
    // Other variables with the same value, including the value of a file or of literal text.
    for value in
        ["sk-bearer-0123456789", "sk-new-0123456789", "me:hunter2", "file-key-0123456789", "literal-key-0123"]
    {
        assert!(is_key("COPY", value), "{value}");
    }
    for (name, value) in
        [("CI", "1"), ("TEAM", "a"), ("OF_SERVER", "theirs"), ("PATH", "/bin"), ("EMPTY", "")]
    {
        assert!(!is_key(name, value), "{name}");
    }
    assert!(!format!("{keys:?}").contains("0123456789"));
}
