//! `write` and `edit`: changes, rejections, and results.

use std::future::Future;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use plimsoll_agent::{Agent, Asker, Conversation, PermissionAnswer, PermissionQuestion, Preview};
use plimsoll_config::{Action, Origin, PermissionRule};
use plimsoll_testkit::server::{ModelServer, Reply};
use rstest::rstest;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{Dock, run};

/// A dock in which everything but the network is permitted.
pub(crate) fn writing_dock() -> Dock {
    Dock::new(ModelServer::start().unwrap()).allow("write").allow("edit").allow("bash")
}

/// Lets the model make one call, and returns the result.
pub(crate) async fn call(dock: &Dock, talk: &mut Conversation, tool: &str, input: Value) -> String {
    calls(dock, talk, vec![(tool, input)]).await.remove(0)
}

/// Lets the model make calls in one turn, one per answer.
pub(crate) async fn calls(dock: &Dock, talk: &mut Conversation, made: Vec<(&str, Value)>) -> Vec<String> {
    let first = dock.server.requests().len();
    let ids: Vec<String> = (0..made.len()).map(|number| format!("call_{first}_{number}")).collect();
    for (id, (tool, input)) in ids.iter().zip(made) {
        dock.server.push_all([Reply::new().call(id, tool, input)]);
    }
    dock.server.push_all([Reply::new().text("Done.")]);
    run(talk, "Do it").await;
    let last = dock.server.last().unwrap();
    ids.iter().map(|id| last.result(id).unwrap().to_owned()).collect()
}

impl Dock {
    pub(crate) fn project(&self) -> PathBuf {
        self.directory.path().join("project").canonicalize().unwrap()
    }

    pub(crate) fn content(&self, name: &str) -> Option<String> {
        std::fs::read(self.project().join(name)).ok().map(|bytes| String::from_utf8(bytes).unwrap())
    }
}

#[tokio::test]
async fn write_makes_a_file_with_its_directories() {
    let dock = writing_dock();
    let talk = &mut dock.begin().await;
    let said = call(&dock, talk, "write", json!({ "path": "a/b/c.txt", "content": "one\ntwo" })).await;
    assert_eq!(said.trim(), "Made `a/b/c.txt`: 2 lines, 7 bytes.");
    assert_eq!(dock.content("a/b/c.txt").unwrap(), "one\ntwo", "no newline is added");
    let names: Vec<_> = std::fs::read_dir(dock.project().join("a/b")).unwrap().flatten().collect();
    assert_eq!(names.len(), 1, "no other file is left");
}

#[tokio::test]
async fn write_replaces_a_read_file_and_keeps_its_permissions() {
    let dock = writing_dock();
    dock.write("run.sh", "echo one\n");
    let path = dock.project().join("run.sh");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o750)).unwrap();
    let talk = &mut dock.begin().await;
    let input = json!({ "filePath": "run.sh", "content": "echo two\n" });
    let said = call(&dock, talk, "write", input.clone()).await;
    assert!(said.contains("you have not read it: `read` it first"), "{said}");
    assert_eq!(dock.content("run.sh").unwrap(), "echo one\n");
    let said = calls(&dock, talk, vec![("read", json!({ "filePath": "run.sh" })), ("write", input)]).await;
    assert_eq!(said[1].trim(), "Replaced `run.sh`: 1 lines, 9 bytes.");
    assert_eq!(dock.content("run.sh").unwrap(), "echo two\n");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o750);
}

#[tokio::test]
async fn a_file_that_was_changed_by_others_is_read_again_first() {
    let dock = writing_dock();
    dock.write("a.txt", "one\n");
    let talk = &mut dock.begin().await;
    call(&dock, talk, "read", json!({ "path": "a.txt" })).await;
    dock.write("a.txt", "one\nand a half\n");
    let edit = json!({ "path": "a.txt", "old": "one", "new": "two" });
    let said = call(&dock, talk, "edit", edit.clone()).await;
    assert!(said.contains("was changed since you last read or wrote it: `read` it again"), "{said}");
    assert_eq!(dock.content("a.txt").unwrap(), "one\nand a half\n");
    let said = calls(&dock, talk, vec![("read", json!({ "path": "a.txt" })), ("edit", edit)]).await;
    assert_eq!(said[1].trim(), "Changed `a.txt`:\n1\ttwo\n2\tand a half");
    // The model knows what it wrote; not what its own command changed.
    let again = json!({ "path": "a.txt", "old": "two", "new": "three" });
    assert!(call(&dock, talk, "edit", again).await.starts_with("Changed"));
    let late = json!({ "path": "a.txt", "old": "three", "new": "four" });
    let command = ("bash", json!({ "command": "echo more >> a.txt" }));
    let said = calls(&dock, talk, vec![command, ("edit", late.clone())]).await;
    assert!(said[1].contains("`read` it again"), "{}", said[1]);
    // A touched file is unchanged.
    let read = ("read", json!({ "path": "a.txt" }));
    let said =
        calls(&dock, talk, vec![read, ("bash", json!({ "command": "touch a.txt" })), ("edit", late)]).await;
    assert!(said[2].starts_with("Changed"), "{}", said[2]);
}

#[tokio::test]
async fn another_process_knows_what_the_model_has_read_and_written() {
    let dock = writing_dock();
    dock.write("read.txt", "one\n");
    dock.write("stale.txt", "one\n");
    let mut talk = dock.begin().await;
    let reads = vec![
        ("read", json!({ "path": "read.txt" })),
        ("read", json!({ "path": "stale.txt" })),
        ("write", json!({ "path": "written.txt", "content": "one\n" })),
    ];
    calls(&dock, &mut talk, reads).await;
    let session = talk.session().clone();
    talk.close().await.unwrap();
    dock.write("stale.txt", "two\n");
    let talk = &mut dock.agent.open(&session).await.unwrap();
    let edit = |name: &str| ("edit", json!({ "path": name, "oldString": "one", "newString": "three" }));
    let said = calls(&dock, talk, vec![edit("read.txt"), edit("written.txt"), edit("stale.txt")]).await;
    assert!(
        said[0].starts_with("Changed `read.txt`") && said[1].starts_with("Changed `written.txt`"),
        "{said:?}"
    );
    assert!(said[2].contains("`read` it again"), "{said:?}");
}

#[tokio::test]
async fn edit_lists_matches_of_an_ambiguous_text_and_similar_lines_of_a_missing_one() {
    let dock = writing_dock();
    dock.write("a.rs", "let depth = 9;\nlet width = 3;\nlet depth = 9;\n");
    let talk = &mut dock.begin().await;
    let edit = |old: &str, all: bool| {
        ("edit", json!({ "path": "a.rs", "old": old, "new": "let depth = 12;", "replaceAll": all }))
    };
    let said = calls(
        &dock,
        talk,
        vec![
            ("read", json!({ "path": "a.rs" })),
            edit("let depth = 9;", false),
            edit("let depht = 9;", false),
            edit("let depth = 9;", true),
        ],
    )
    .await;
    assert!(said[1].contains("occurs 2 times in `a.rs`, starting at lines 1, 3"), "{}", said[1]);
    assert!(said[2].contains("not found in `a.rs`") && said[2].contains("1\tlet depth = 9;"), "{}", said[2]);
    assert_eq!(
        said[3].trim(),
        "Changed `a.rs` in 2 places:\n1\tlet depth = 12;\n2\tlet width = 3;\n3\tlet depth = 12;"
    );
    assert_eq!(dock.content("a.rs").unwrap(), "let depth = 12;\nlet width = 3;\nlet depth = 12;\n");
}

#[tokio::test]
async fn edit_keeps_the_ends_of_lines() {
    let dock = writing_dock();
    dock.write("dos.txt", "one\r\ntwo\r\nthree");
    let talk = &mut dock.begin().await;
    let edit = json!({ "path": "dos.txt", "old": "one\ntwo\n", "new": "1\n2\n2.5\n" });
    calls(&dock, talk, vec![("read", json!({ "path": "dos.txt" })), ("edit", edit)]).await;
    assert_eq!(dock.content("dos.txt").unwrap(), "1\r\n2\r\n2.5\r\nthree");
}

#[rstest]
#[case("write", json!({ "path": "a.txt" }), "`content` is missing")]
#[case("write", json!({ "content": "x" }), "`path` is missing")]
#[case("write", json!({ "path": ".", "content": "x" }), "is a directory")]
#[case("edit", json!({ "path": "a.txt", "old": "", "new": "x" }), "`old` is empty")]
#[case("edit", json!({ "path": "a.txt", "old": "a", "new": "a" }), "are identical")]
#[case("edit", json!({ "path": "a.md", "old": "a", "new": "b" }), "`a.md` does not exist; similar names: a.txt")]
#[case("edit", json!({ "path": "a.txt", "old": "a", "new": "b", "all": 3 }), "must be true or false")]
#[case("write", json!({ "path": "a.txt/b", "content": "x" }), "cannot change `a.txt/b`")]
#[tokio::test]
async fn invalid_input_is_reported(#[case] tool: &str, #[case] input: Value, #[case] wanted: &str) {
    let dock = writing_dock();
    dock.write("a.txt", "a\n");
    let talk = &mut dock.begin().await;
    let said = calls(&dock, talk, vec![("read", json!({ "path": "a.txt" })), (tool, input)]).await;
    assert!(said[1].contains(wanted), "{}", said[1]);
    assert_eq!(dock.content("a.txt").unwrap(), "a\n");
}

#[tokio::test]
async fn a_file_that_is_too_large_to_be_kept_is_not_changed() {
    let dock = writing_dock();
    let file = std::fs::File::create(dock.project().join("large.bin")).unwrap();
    file.set_len((64 << 20) + 1).unwrap();
    let talk = &mut dock.begin().await;
    let said = call(&dock, talk, "write", json!({ "path": "large.bin", "content": "x" })).await;
    assert!(said.contains("larger than 64 MB, the limit for changes"), "{said}");
    assert_eq!(std::fs::metadata(dock.project().join("large.bin")).unwrap().len(), (64 << 20) + 1);
}

/// Changes the disk after a call was checked and before it is made.
struct Meanwhile(Box<dyn Fn(&PermissionQuestion) + Send + Sync>);

impl Asker for Meanwhile {
    fn ask<'a>(
        &'a self,
        question: &'a PermissionQuestion,
        _: &'a CancellationToken,
    ) -> Pin<Box<dyn Future<Output = PermissionAnswer> + Send + 'a>> {
        (self.0)(question);
        Box::pin(async { PermissionAnswer::Once })
    }
}

fn asking(agent: &mut Agent, tool: &str, meanwhile: impl Fn(&PermissionQuestion) + Send + Sync + 'static) {
    agent.profile.permissions.rules.push(PermissionRule::new(tool, "*", Action::Ask, Origin::BuiltIn));
    agent.asker = Some(Arc::new(Meanwhile(Box::new(meanwhile))));
}

/// Replaces a directory by a link to another.
fn swap(directory: &Path, outside: &Path) {
    std::fs::rename(directory, directory.with_extension("aside")).unwrap();
    symlink(outside, directory).unwrap();
}

#[rstest]
#[case::read("read", json!({ "path": "inner/key.txt" }))]
#[case::grep("grep", json!({ "pattern": "secret", "path": "inner" }))]
#[case::grep_below("grep", json!({ "pattern": "secret", "path": "inner/deep" }))]
#[case::list("list", json!({ "path": "inner" }))]
#[case::glob("glob", json!({ "pattern": "*", "path": "inner" }))]
#[case::write("write", json!({ "path": "inner/new.txt", "content": "secret" }))]
#[case::write_directories("write", json!({ "path": "inner/deeper/new.txt", "content": "secret" }))]
#[case::edit("edit", json!({ "path": "inner/key.txt", "old": "harmless", "new": "secret" }))]
#[tokio::test]
async fn a_directory_swapped_for_a_link_after_the_check_is_not_followed(
    #[case] tool: &str,
    #[case] input: Value,
) {
    let mut dock = writing_dock();
    let outside = dock.directory.path().canonicalize().unwrap().join("outside");
    std::fs::create_dir_all(outside.join("deep")).unwrap();
    for name in ["key.txt", "deep/key.txt"] {
        std::fs::write(outside.join(name), "a secret that is none of its business\n").unwrap();
    }
    let inner = dock.project().join("inner");
    std::fs::create_dir_all(inner.join("deep")).unwrap();
    dock.write("inner/key.txt", "harmless\n");
    let talk = &mut dock.begin().await;
    call(&dock, talk, "read", json!({ "path": "inner/key.txt" })).await;
    let session = talk.session().clone();
    // Asked from now on, by another conversation with the same ledger.
    drop(std::mem::replace(talk, dock.begin().await));
    let (from, to) = (inner.clone(), outside.clone());
    asking(&mut dock.agent, tool, move |_| swap(&from, &to));
    let talk = &mut open_when_free(&dock.agent, &session).await;
    let said = call(&dock, talk, tool, input).await;
    assert!(inner.is_symlink(), "it was not asked");
    assert!(!said.contains("secret that") && !said.contains("key.txt\n"), "{said}");
    let found: Vec<_> =
        std::fs::read_dir(&outside).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(found.len(), 2, "{found:?}");
    let kept = std::fs::read_to_string(outside.join("key.txt")).unwrap();
    assert_eq!(kept, "a secret that is none of its business\n");
}

/// A dropped conversation releases its session on its own thread.
pub(crate) async fn open_when_free(agent: &Agent, session: &plimsoll::SessionId) -> Conversation {
    for _ in 0..500 {
        if let Ok(talk) = agent.open(session).await {
            return talk;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("the session was not given back");
}

#[tokio::test]
async fn a_file_that_became_a_link_is_not_replaced() {
    let mut dock = writing_dock();
    let outside = dock.directory.path().canonicalize().unwrap().join("outside.txt");
    std::fs::write(&outside, "mine\n").unwrap();
    let (link, to) = (dock.project().join("new.txt"), outside.clone());
    asking(&mut dock.agent, "write", move |_| symlink(&to, &link).unwrap());
    let talk = &mut dock.begin().await;
    let said = call(&dock, talk, "write", json!({ "path": "new.txt", "content": "theirs\n" })).await;
    assert!(said.contains("cannot change `new.txt`"), "{said}");
    assert!(dock.project().join("new.txt").is_symlink());
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "mine\n");
}

#[tokio::test]
async fn the_user_is_shown_the_change() {
    let mut dock = Dock::new(ModelServer::start().unwrap());
    let shown: Arc<std::sync::Mutex<Vec<Option<Preview>>>> = Arc::default();
    let seen = Arc::clone(&shown);
    dock.agent.asker = Some(Arc::new(Meanwhile(Box::new(move |question| {
        seen.lock().unwrap().push(question.preview.clone());
    }))));
    dock.write("a.txt", "one\ntwo\nthree\n");
    let talk = &mut dock.begin().await;
    let made = vec![
        ("read", json!({ "path": "a.txt" })),
        ("edit", json!({ "path": "a.txt", "old": "two", "new": "2" })),
        ("write", json!({ "path": "b.txt", "content": "new\n" })),
    ];
    calls(&dock, talk, made).await;
    let shown = shown.lock().unwrap();
    assert_eq!(shown[0], Some(Preview::Change("@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n".into())));
    assert_eq!(shown[1], Some(Preview::Content("new\n".into())));
}
