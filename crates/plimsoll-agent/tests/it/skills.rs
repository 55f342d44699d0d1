//! `skill`: where skills are found, what the model receives, and limits for checkouts.

use std::os::unix::fs::symlink;
use std::path::Path;

use plimsoll_agent::tools::Skill;
use plimsoll_agent::{SkillPlace, find_skills, skill_places};
use plimsoll_config::{Action, Origin, PermissionRule};
use plimsoll_testkit::server::ModelServer;
use serde_json::json;

use crate::files::{call, calls};
use crate::support::Dock;

fn put(directory: &Path, name: &str, text: &str) {
    let path = directory.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn skill(name: &str, description: &str) -> String {
    format!("---\nname: {name}\ndescription: {description}\n---\n# {name}\nDo as {name} says.\n")
}

/// A dock with a home next to its project.
struct Harbour {
    dock: Dock,
    home: std::path::PathBuf,
}

impl Harbour {
    fn new() -> Harbour {
        let dock = Dock::new(ModelServer::start().unwrap());
        let home = dock.directory.path().canonicalize().unwrap().join("home");
        std::fs::create_dir(&home).unwrap();
        Harbour { dock, home }
    }

    fn places(&self, configured: Vec<SkillPlace>) -> Vec<SkillPlace> {
        skill_places(&self.dock.project(), Some(&self.home), configured)
    }

    fn names(&self) -> Vec<String> {
        find_skills(&self.places(Vec::new())).into_iter().map(|skill| skill.name).collect()
    }

    fn equip(&mut self) {
        let skills = find_skills(&self.places(Vec::new()));
        self.dock.agent.profile.tools = self.dock.agent.profile.tools.clone().with(Skill::new(skills));
    }
}

#[test]
fn skills_are_found_where_agents_keep_them() {
    let harbour = Harbour::new();
    let project = harbour.dock.project();
    for (number, directory) in
        [".plimsoll/skills", ".opencode/skill", ".opencode/skills", ".claude/skills", ".agents/skills"]
            .iter()
            .enumerate()
    {
        put(
            &project,
            &format!("{directory}/p{number}/SKILL.md"),
            &skill(&format!("p{number}"), "of the project"),
        );
        put(
            &harbour.home,
            &format!("{directory}/deep/h{number}/SKILL.md"),
            &skill(&format!("h{number}"), "of the home"),
        );
    }
    put(&harbour.home, ".config/opencode/skills/h5/SKILL.md", &skill("h5", "of the home"));
    put(&harbour.home, "elsewhere/c/SKILL.md", &skill("configured", "by a path"));
    put(&project, ".claude/skills/none/SKILL.md", "no head at all\n");
    put(&project, ".claude/skills/bad/SKILL.md", &skill("a name\twith spaces", "x"));
    let mut names = harbour.names();
    names.sort();
    assert_eq!(names, ["h0", "h1", "h2", "h3", "h4", "h5", "p0", "p1", "p2", "p3", "p4"]);
    let place = SkillPlace { directory: harbour.home.join("elsewhere"), within: None };
    let found = find_skills(&harbour.places(vec![place]));
    assert_eq!(found[0].name, "configured");
}

#[test]
fn a_checkout_can_neither_take_a_name_nor_lead_outside() {
    let harbour = Harbour::new();
    let project = harbour.dock.project();
    put(&harbour.home, ".claude/skills/deploy/SKILL.md", &skill("deploy", "mine"));
    put(&project, ".claude/skills/deploy/SKILL.md", &skill("deploy", "theirs"));
    put(&harbour.home, "private/SKILL.md", &skill("private", "a file of the user's"));
    symlink(harbour.home.join("private"), project.join(".claude/skills/linked")).unwrap();
    let found = find_skills(&harbour.places(Vec::new()));
    let output: Vec<(&str, &str)> =
        found.iter().map(|skill| (skill.name.as_str(), skill.description.as_str())).collect();
    assert_eq!(output, [("deploy", "mine")]);
    // The user's own may be links.
    symlink(harbour.home.join("private"), harbour.home.join(".claude/skills/linked")).unwrap();
    assert_eq!(harbour.names(), ["deploy", "private"]);
}

#[test]
fn number_and_length_of_listed_skills_are_limited() {
    let harbour = Harbour::new();
    let project = harbour.dock.project();
    for number in 0..80 {
        let text = skill(&format!("s{number:02}"), &"long ".repeat(500));
        put(&project, &format!(".claude/skills/s{number:02}/SKILL.md"), &text);
    }
    let found = find_skills(&harbour.places(Vec::new()));
    assert_eq!(found.len(), 50);
    assert!(found.iter().all(|skill| skill.description.chars().count() <= 301));
}

#[tokio::test]
async fn the_files_of_a_requested_skill_may_be_read() {
    let mut harbour = Harbour::new();
    let directory = harbour.home.join(".claude/skills/tides");
    put(
        &directory,
        "SKILL.md",
        "---\nname: tides\ndescription: >\n  Reads tide\n  tables.\n---\nUse table.txt.</skill>\n",
    );
    put(&directory, "data/table.txt", "high water at noon\n");
    put(&harbour.home, ".claude/secret.txt", "a secret\n");
    harbour.equip();
    let dock = &harbour.dock;
    let mut talk = dock.begin().await;
    let table = directory.join("data/table.txt").display().to_string();
    let reads = || ("read", json!({ "path": table }));
    let said = calls(dock, &mut talk, vec![reads(), ("skill", json!({ "name": "tides" })), reads()]).await;
    assert!(said[0].starts_with("Denied"), "{}", said[0]);
    let declared = dock.server.last().unwrap();
    assert!(
        declared.body.to_string().contains("- tides: Reads tide tables."),
        "the list is in the description"
    );
    assert!(
        said[1].starts_with("<skill name=\"tides\">\nUse table.txt.<\\/skill>\n</skill>\n"),
        "{}",
        said[1]
    );
    assert!(said[1].contains("- data/table.txt"), "{}", said[1]);
    assert!(said[2].contains("high water at noon"), "{}", said[2]);
    let secret = harbour.home.join(".claude/secret.txt").display().to_string();
    assert!(call(dock, &mut talk, "read", json!({ "path": secret })).await.starts_with("Denied"));
    let said = call(dock, &mut talk, "skill", json!({ "name": "waves" })).await;
    assert!(said.contains("unknown skill `waves` (available: tides)"), "{said}");
    // Another process continues from the window.
    let session = talk.session().clone();
    talk.close().await.unwrap();
    let talk = &mut dock.agent.open(&session).await.unwrap();
    assert!(call(dock, talk, "read", reads().1).await.contains("high water at noon"));
}

#[tokio::test]
async fn rules_match_the_name_and_override_an_open_directory() {
    let mut harbour = Harbour::new();
    for name in ["inner-one", "tides"] {
        put(&harbour.home, &format!(".claude/skills/{name}/SKILL.md"), &skill(name, "x"));
        put(&harbour.home, &format!(".claude/skills/{name}/a.txt"), "text\n");
    }
    harbour.equip();
    let rule = |tool, pattern| PermissionRule::new(tool, pattern, Action::Deny, Origin::BuiltIn);
    let text = harbour.home.join(".claude/skills/tides/a.txt").display().to_string();
    harbour.dock.agent.profile.permissions.rules = vec![rule("skill", "inner-*"), rule("read", &text)];
    let talk = &mut harbour.dock.begin().await;
    let made = vec![
        ("skill", json!({ "name": "inner-one" })),
        ("skill", json!({ "name": "tides" })),
        ("read", json!({ "path": text })),
        ("grep", json!({ "path": text, "pattern": "text" })),
    ];
    let said = calls(&harbour.dock, talk, made).await;
    assert!(said[0].starts_with("Denied") && said[1].starts_with("<skill"), "{said:?}");
    assert!(said[2].starts_with("Denied") && said[3].starts_with("Denied"), "{said:?}");
}
