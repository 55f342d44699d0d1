//! `glob`: which files it finds.

use std::time::{Duration, SystemTime};

use plimsoll_config::{Action, Origin, PermissionRule};
use plimsoll_testkit::server::ModelServer;
use rstest::rstest;
use serde_json::json;

use crate::files::call;
use crate::support::Dock;

/// Creates files, the last of which is the newest.
fn dock_with(names: &[&str]) -> Dock {
    let dock = Dock::new(ModelServer::start().unwrap());
    let begun = SystemTime::now() - Duration::from_secs(3_600);
    for (age, name) in (0..).zip(names) {
        let path = dock.project().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "").unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(begun + Duration::from_secs(age)).unwrap();
    }
    dock
}

#[rstest]
#[case("*.rs", "src/deep/b.rs src/a.rs main.rs")]
#[case("./src/**/*.rs", "src/deep/b.rs src/a.rs")]
#[case("src/*.rs", "src/a.rs")]
#[case("src/{a,c}.*", "src/c.txt src/a.rs")]
#[case(".hidden/*", ".hidden/e.rs")]
#[case("*.md", "[No file matches.]")]
#[case("built.rs", "[No file matches.]")]
#[case("../*", "`pattern` must be relative: name the directory as `path`")]
#[case("/etc/*", "`pattern` must be relative: name the directory as `path`")]
#[tokio::test]
async fn files_are_found_newest_first(#[case] pattern: &str, #[case] wanted: &str) {
    let names =
        ["built.rs", ".hidden/e.rs", "main.rs", "src/a.rs", "src/c.txt", "secret/d.rs", "src/deep/b.rs"];
    let mut dock = dock_with(&names);
    dock.write(".gitignore", "built.rs\n");
    let denied = PermissionRule::new("glob", "secret/*", Action::Deny, Origin::BuiltIn);
    dock.agent.profile.permissions.rules.push(denied);
    let talk = &mut dock.begin().await;
    let said = call(&dock, talk, "glob", json!({ "pattern": pattern })).await;
    let found = if wanted.starts_with(['[', '`']) {
        said.trim().to_owned()
    } else {
        said.lines().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(found, wanted);
}

#[tokio::test]
async fn only_the_newest_files_are_listed() {
    let names: Vec<String> = (0..250).map(|number| format!("f{number:03}.txt")).collect();
    let dock = dock_with(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let talk = &mut dock.begin().await;
    let said = call(&dock, talk, "glob", json!({ "pattern": "*.txt", "path": "." })).await;
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!((lines[0], lines[199], lines.len()), ("f249.txt", "f050.txt", 201));
    assert_eq!(lines[200], "[250 files match; these are the 200 that were changed last.]");
}
