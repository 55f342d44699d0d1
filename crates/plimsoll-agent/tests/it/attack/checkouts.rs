//! Hostile checkouts: endless files, pipes without a writer, and endless patterns that a tool or the prompt would read.
//! A hanging tool makes its test hang; nothing is measured in seconds.

use std::os::unix::fs::symlink;
use std::path::Path;

use plimsoll_agent::{Agent, RunOverrides};
use plimsoll_config::{Config, Environment, Flags};
use plimsoll_testkit::server::{ModelServer, Reply};
use serde_json::{Value, json};

use crate::support::{Dock, open_archive, run};

/// Files that git, ripgrep or Plimsoll would read, in the project and below it.
const READ: [&str; 8] = [
    ".gitignore",
    ".ignore",
    ".git/info/exclude",
    "src/.gitignore",
    "src/.ignore",
    "src/.git/info/exclude",
    "worktree/.git",
    "../.gitignore",
];

/// Replacements of a file that a checkout can supply.
const KINDS: [&str; 9] = [
    "/dev/zero",
    "/dev/urandom",
    "/dev/tty",
    "/proc/kmsg",
    "/proc/self/mem",
    "/sys/kernel/debug/tracing/trace_pipe",
    "pipe",
    "folder",
    "large",
];

fn place(path: &Path, kind: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    match kind {
        "pipe" => {
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            rustix::fs::mkfifoat(rustix::fs::CWD, path, mode).unwrap();
        }
        "folder" => std::fs::create_dir(path).unwrap(),
        // Sparse.
        "large" => std::fs::File::create(path).unwrap().set_len(6 << 30).unwrap(),
        device => symlink(device, path).unwrap(),
    }
}

async fn results(dock: &Dock, calls: &[(&str, Value)]) -> Vec<String> {
    let talk = &mut dock.begin().await;
    let mut reply = Reply::new();
    for (number, (tool, input)) in calls.iter().enumerate() {
        reply = reply.call(format!("call_{number}"), *tool, input.clone());
    }
    dock.server.push_all([reply, Reply::new().text("Thanks.")]);
    run(talk, "Look around").await;
    let last = dock.server.last().unwrap();
    (0..calls.len()).map(|number| last.result(&format!("call_{number}")).unwrap().to_owned()).collect()
}

#[tokio::test]
async fn list_grep_and_glob_end_whatever_the_files_of_patterns_are() {
    let mut held = 0;
    for (name, kind) in READ.iter().flat_map(|name| KINDS.map(|kind| (*name, kind))) {
        let dock = Dock::new(ModelServer::start().unwrap());
        let project = dock.directory.path().join("project");
        std::fs::create_dir_all(project.join("src")).unwrap();
        dock.write("src/main.rs", "fn needle() {}\n");
        place(&project.join(name), kind);
        let calls = [
            ("list", json!({ "depth": 3 })),
            ("grep", json!({ "pattern": "needle" })),
            ("glob", json!({ "pattern": "**/*.rs" })),
        ];
        for (output, (tool, _)) in results(&dock, &calls).await.iter().zip(calls) {
            assert!(output.contains("main.rs"), "{tool}, {name} as {kind}: {output}");
        }
        held += 1;
    }
    println!("hostile files of patterns: {held} of {} checkouts held", READ.len() * KINDS.len());
}

#[tokio::test]
async fn a_file_of_patterns_that_is_not_applied_is_named() {
    for (kind, why) in
        [("/dev/zero", "not a regular file"), ("pipe", "not a regular file"), ("large", "larger than")]
    {
        let dock = Dock::new(ModelServer::start().unwrap());
        dock.write("a.txt", "needle\n");
        place(&dock.directory.path().join("project/.gitignore"), kind);
        let calls = [
            ("list", json!({})),
            ("grep", json!({ "pattern": "needle" })),
            ("glob", json!({ "pattern": "*" })),
        ];
        for output in results(&dock, &calls).await {
            assert!(
                output.contains("`.gitignore` are not applied") && output.contains(why),
                "{kind}: {output}"
            );
        }
    }
}

/// Links to one large file would be compiled once for each.
#[tokio::test]
async fn patterns_are_compiled_up_to_a_bound() {
    let dock = Dock::new(ModelServer::start().unwrap());
    let project = dock.directory.path().join("project");
    let patterns = "# a comment is cheap to compile, and counts\n".repeat(5_000);
    dock.write("patterns", &patterns);
    for n in 0..30 {
        let directory = project.join(format!("folder{n:02}"));
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("x.txt"), "needle\n").unwrap();
        symlink("../patterns", directory.join(".ignore")).unwrap();
    }
    let output = results(&dock, &[("grep", json!({ "pattern": "needle" }))]).await.remove(0);
    assert!(output.contains("folder00/x.txt") && output.contains("folder29/x.txt"), "{output}");
    assert!(output.contains("there are too many patterns"), "{output}");
}

/// Same precedence as in ripgrep and git.
#[tokio::test]
async fn patterns_of_all_files_count_in_gits_order() {
    let dock = Dock::new(ModelServer::start().unwrap());
    let project = dock.directory.path().join("project");
    for directory in ["sub/deep", ".git/info", "build", "worktree", "main.git/worktrees/w", "main.git/info"] {
        std::fs::create_dir_all(project.join(directory)).unwrap();
    }
    std::fs::write(dock.directory.path().join(".gitignore"), "above.txt\n").unwrap();
    dock.write(".gitignore", "\u{feff}*.log\r\n/only-here.txt\nbuild/\n!kept.log\nmain.git\n");
    dock.write(".ignore", "!seen.log\nhidden-by-ignore.txt\n");
    dock.write(".git/info/exclude", "excluded.txt\n");
    dock.write("sub/.gitignore", "!again.log\nnested.txt\n");
    dock.write("worktree/.git", "gitdir: ../main.git/worktrees/w\n");
    dock.write("main.git/worktrees/w/commondir", "../..\n");
    dock.write("main.git/info/exclude", "excluded-in-worktree.txt\n");
    for name in [
        "a.log",
        "kept.log",
        "seen.log",
        "only-here.txt",
        "above.txt",
        "excluded.txt",
        "hidden-by-ignore.txt",
        "build/x.txt",
        "sub/again.log",
        "sub/b.log",
        "sub/nested.txt",
        "sub/only-here.txt",
        "sub/deep/nested.txt",
        "sub/deep/again.log",
        "worktree/excluded-in-worktree.txt",
        "worktree/plain.txt",
        ".secret",
        "plain.txt",
    ] {
        dock.write(name, "needle\n");
    }
    let output = results(&dock, &[("list", json!({ "depth": 9 }))]).await.remove(0);
    assert_eq!(
        output.lines().collect::<Vec<_>>(),
        [
            "kept.log",
            "plain.txt",
            "seen.log",
            "sub/",
            "sub/again.log",
            "sub/deep/",
            "sub/deep/again.log",
            "sub/only-here.txt",
            "worktree/",
            "worktree/plain.txt",
        ]
    );
    let found = results(&dock, &[("grep", json!({ "pattern": "needle", "path": "sub" }))]).await.remove(0);
    let files: Vec<&str> = found.lines().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(files, ["sub/again.log", "sub/deep/again.log", "sub/only-here.txt"], "files above count, too");
}

/// Returns the system prompt for a project, and the notices.
fn prompt(home: &Path, project: &Path) -> (String, Vec<String>) {
    let variables = [
        ("HOME".to_owned(), home.display().to_string()),
        ("ANTHROPIC_API_KEY".to_owned(), "sk-test-0123456789abcdef".to_owned()),
    ];
    let env = Environment::new(project.to_owned(), variables);
    let config = Config::load(&Flags::default(), &env).unwrap();
    let overrides =
        RunOverrides { model: Some("anthropic/claude-sonnet-4-6".into()), ..RunOverrides::default() };
    let archive = open_archive(home);
    let run = config.run.as_ref().unwrap();
    let agent = Agent::configured(archive, config.policy, run, &overrides, project, Some(home)).unwrap();
    (agent.profile.system.join("\n"), agent.notices)
}

#[test]
fn instructions_are_read_up_to_their_bound_whatever_they_are() {
    let (mut held, mut tried) = (0, 0);
    for name in ["AGENTS.md", "CLAUDE.md", "docs/rules.md"] {
        for kind in KINDS {
            let directory = tempfile::tempdir().unwrap();
            let project = directory.path().join("project");
            std::fs::create_dir_all(project.join("docs")).unwrap();
            std::fs::write(
                project.join("plimsoll.toml"),
                "instructions = [\"docs/*.md\", \"docs/rules.md\"]\n",
            )
            .unwrap();
            std::fs::write(project.join("docs/other.md"), "Be brief.").unwrap();
            place(&project.join(name), kind);
            let (text, notices) = prompt(directory.path(), &project);
            assert!(text.len() <= 20_000, "{name} as {kind}: {} bytes", text.len());
            assert!(text.contains("Be brief."), "{name} as {kind}: {text}");
            let is_named = notices.iter().any(|notice| notice.contains("it is a binary file"));
            assert_eq!(is_named, kind == "large", "{name} as {kind}: {notices:?}");
            (held, tried) = (held + 1, tried + 1);
        }
    }
    println!("hostile instructions: {held} of {tried} checkouts held");
}

/// Ten links to the directory itself, and a pattern through ten of them: ten to the tenth paths.
#[test]
fn patterns_of_instructions_do_not_go_in_circles() {
    let directory = tempfile::tempdir().unwrap();
    let project = directory.path().join("project");
    std::fs::create_dir(&project).unwrap();
    (0..10).for_each(|n| symlink(".", project.join(format!("link{n}"))).unwrap());
    std::fs::create_dir_all(project.join("a/b")).unwrap();
    std::fs::write(project.join("a/b/rules.md"), "Be brief.").unwrap();
    let patterns = format!("instructions = [\"{}x.md\", \"**/rules.md\"]\n", "*/".repeat(10));
    std::fs::write(project.join("plimsoll.toml"), patterns).unwrap();
    let (text, _) = prompt(directory.path(), &project);
    assert_eq!(text.matches("Be brief.").count(), 1, "{text}");
}

/// Every skill of a project may be a link, and so may its parent directories.
#[test]
fn skills_of_a_checkout_end_and_stay_in_it() {
    let mut held = 0;
    for kind in KINDS {
        let directory = tempfile::tempdir().unwrap();
        let project = directory.path().join("project");
        let skills = project.join(".claude/skills");
        std::fs::create_dir_all(skills.join("good")).unwrap();
        std::fs::write(skills.join("good/SKILL.md"), "---\nname: good\ndescription: Good.\n---\nDo it.\n")
            .unwrap();
        place(&skills.join("bad/SKILL.md"), kind);
        symlink("/", skills.join("root")).unwrap();
        (0..50).for_each(|n| symlink("..", skills.join(format!("up{n}"))).unwrap());
        let found = plimsoll_agent::find_skills(&plimsoll_agent::skill_places(&project, None, Vec::new()));
        let names: Vec<&str> = found.iter().map(|skill| skill.name.as_str()).collect();
        assert_eq!(names, ["good"], "{kind}");
        held += 1;
    }
    println!("hostile skills: {held} of {} checkouts held", KINDS.len());
}
