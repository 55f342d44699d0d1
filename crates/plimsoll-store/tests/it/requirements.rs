//! Requirements of the store, by number.

use std::fs;
use std::path::Path;

use plimsoll::compact::{CompactionContext, Ladder, Outcome, Reply, Step, Summariser, Trigger};
use plimsoll::log::{CompactionPart, ToolTime};
use plimsoll::receipt::Stamp;
use plimsoll::window::{Block, WindowRole};
use plimsoll::{
    Info, Limits, Log, Message, MessageId, Millis, Part, PartBody, Plan, Policy, Preset, Receipt, Reduction,
    RequestOverhead, Role, SessionId, Tokens, ToolState, Window, prune, request_tokens,
};
use plimsoll_store::*;
use plimsoll_testkit::ids as numbered;
use rstest::rstest;
use rusqlite::Connection;
use serde_json::json;
use tempfile::TempDir;

use super::{NOW, answer, begun, blobs, commits, ids, json_of, spill, unleased, user};

const SUMMARY: &str = "## Goal\nThe build is done.";

/// An archive in a temporary directory.
struct Home {
    archive: Archive,
    session: SessionId,
    directory: TempDir,
}

fn home_with(policy: &Policy) -> Home {
    let directory = TempDir::new().unwrap();
    let archive = Archive::open(directory.path().join("plimsoll.db"), policy, Durability::Process).unwrap();
    let session = archive.store().create(NewSession::new(SessionId::new("ses_1")), NOW).unwrap().id;
    Home { archive, session, directory }
}

fn home() -> Home {
    home_with(&Policy::default())
}

impl Home {
    fn store(&self) -> &dyn Store {
        self.archive.store()
    }

    /// The database, opened directly.
    fn database(&self) -> Connection {
        Connection::open(self.directory.path().join("plimsoll.db")).unwrap()
    }

    fn append(&self, messages: Vec<Message>) {
        self.store().append(&unleased(&self.session), messages, NOW).unwrap();
    }

    /// Climbs the ladder on the current window and records the result.
    fn climb(&self, policy: &Policy, context: u64, now: Millis) -> Outcome {
        let log = self.store().window(&self.session).unwrap().log;
        let mut names = numbered();
        let limits = Limits::new(context, 64);
        let summariser = Some(Summariser::named("summariser", Limits::new(128_000, 4_000)));
        let trigger = Trigger::Manual;
        let context =
            CompactionContext { trigger, summariser, ..CompactionContext::new(policy, limits, now) };
        let mut ladder = Ladder::new(log, context);
        let outcome = loop {
            match ladder.climb(&mut names).unwrap() {
                Step::Done(outcome) => break outcome,
                Step::Ask(_) => ladder.answer(Ok(Reply::finished(SUMMARY)), &mut names).unwrap(),
            }
        };
        self.store().reduce(&unleased(&self.session), outcome.reduction.clone(), None, now).unwrap();
        outcome
    }

    /// Prunes as a host does after a turn.
    fn prune(&self, now: Millis) -> Option<Receipt> {
        let policy = pruner();
        let mut log = self.store().window(&self.session).unwrap().log;
        let mut names = numbered();
        // The ids of an earlier prune exist already.
        (0..now.0 - NOW.0).for_each(|_| drop(names.part(now)));
        let stamp = Stamp { ids: &mut names, now, policy: &policy, reason: "after a turn" };
        let weigh =
            |log: &Log| request_tokens(&Window::of(log, &policy), RequestOverhead::default(), &policy.count);
        let receipt = Plan::Prune(prune::plan(&log, &policy, None)).apply(&mut log, stamp, weigh).unwrap();
        let receipts = receipt.clone().into_iter().collect();
        self.store()
            .reduce(&unleased(&self.session), Reduction { receipts, ..Reduction::default() }, None, now)
            .unwrap();
        receipt
    }

    fn all(&self) -> Vec<Message> {
        let request = PageRequest { most: 10_000, oldest_first: true, from: None };
        self.store().page(&self.session, &request).unwrap().messages
    }

    /// The files in the directory for spills.
    fn files(&self) -> Vec<String> {
        let name = |path: std::path::PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        blobs(self.directory.path()).into_iter().map(name).collect()
    }

    fn take(&self, part: &str, output: &str, policy: &Policy, now: Millis) -> plimsoll_store::CapturedOutput {
        let (session, part) = (&self.session, part.into());
        self.archive
            .take_output(&unleased(session), &part, "bash", &mut output.as_bytes(), policy, now)
            .unwrap()
    }
}

/// Messages of one call each with long outputs.
fn long_calls(from: usize, count: usize) -> Vec<Message> {
    let message = |n: usize| {
        let mut state = ToolState::completed(json!({ "path": "a.rs" }), format!("line {n}\n").repeat(1_500));
        state.time = ToolTime::ran(Millis(NOW.0 + n as u64), Millis(NOW.0 + n as u64 + 7));
        let part = Part::tool(format!("prt_{n:02}").as_str().into(), format!("call_{n}"), "read", state);
        Message {
            info: finished(&format!("msg_{n:02}")).into(),
            parts: vec![part].into(),
            ..Message::default()
        }
    };
    (from..from + count).map(message).collect()
}

fn finished(id: &str) -> Info {
    let finish = Some("stop".to_owned());
    Info { id: id.into(), role: Some(Role::Assistant), finish, ..Info::default() }
}

/// Prunes all but the newest few thousand tokens.
fn pruner() -> Policy {
    let mut spec = Policy::default().into_spec();
    (spec.prune.protect_tokens, spec.prune.min_tokens, spec.prune.active_turns) =
        (Tokens(6_000), Tokens::ZERO, 0);
    Policy::new(spec).unwrap()
}

/// Messages 0 to 9, of which a prune cleared the oldest.
fn pruned() -> Home {
    let home = home();
    home.append(vec![user("msg_", "go")]);
    home.append(long_calls(0, 10));
    home.prune(Millis(NOW.0 + 100)).unwrap();
    home
}

fn cleared(home: &Home) -> Vec<String> {
    let messages = home.all();
    let parts = messages.iter().flat_map(|message| &message.parts);
    parts.filter(|part| part.cleared().is_some()).map(|part| part.id.to_string()).collect()
}

#[test]
fn r95_a_prune_keeps_the_output_and_says_when_it_was_cleared() {
    let home = pruned();
    let part = home.store().part(&home.session, &"prt_00".into()).unwrap();
    let state = &part.as_tool().unwrap().state;
    assert_eq!(state.output.as_deref(), Some(&*"line 0\n".repeat(1_500)));
    assert_eq!(state.time.compacted, Some(Millis(NOW.0 + 100)));
    let json = serde_json::to_value(&part).unwrap();
    assert_eq!(json["state"]["time"]["compacted"], json!(NOW.0 + 100), "milliseconds since 1970");
    let first = Selection { lines: Some((1, 1)), ..Selection::default() };
    let recalled = home.archive.recall(Scope::Everywhere, "prt_00", &first).unwrap().found;
    assert_eq!((recalled.text().as_str(), recalled.all_lines), ("line 0", 1_500));
}

#[test]
fn r96_a_prune_leaves_start_and_end_as_they_were() {
    let home = pruned();
    let part = home.store().part(&home.session, &"prt_00".into()).unwrap();
    let time = &part.as_tool().unwrap().state.time;
    assert_eq!((time.start, time.end), (Some(NOW), Some(Millis(NOW.0 + 7))));
}

#[test]
fn r101_a_second_prune_changes_nothing() {
    let home = pruned();
    let (before, marks) = (json_of(&home.all()), count(&home.database(), "mark"));
    assert_eq!(home.prune(Millis(NOW.0 + 200)), None);
    assert_eq!(json_of(&home.all()), before);
    assert_eq!(count(&home.database(), "mark"), marks);
}

#[test]
fn r102_what_comes_after_a_prune_can_be_pruned_later() {
    let home = pruned();
    let first = cleared(&home);
    assert!(first.contains(&"prt_00".to_owned()) && !first.contains(&"prt_09".to_owned()), "{first:?}");
    home.append(long_calls(10, 10));
    home.prune(Millis(NOW.0 + 200)).unwrap();
    let both = cleared(&home);
    assert!(both.starts_with(&first) && both.contains(&"prt_10".to_owned()), "{both:?}");
    let time = |part: &str| home.store().part(&home.session, &part.into()).unwrap().cleared();
    assert_eq!((time("prt_00"), time("prt_10")), (Some(Millis(NOW.0 + 100)), Some(Millis(NOW.0 + 200))));
}

#[test]
fn r103_the_marks_of_a_prune_are_one_transaction() {
    let home = home();
    home.append(vec![user("msg_", "go")]);
    home.append(long_calls(0, 40));
    let path = home.directory.path().join("plimsoll.db");
    let before = commits(&path);
    let receipt = home.prune(Millis(NOW.0 + 100)).unwrap();
    let Plan::Prune(plan) = &receipt.plan else { panic!("{receipt:?}") };
    assert!(plan.items.len() >= 30, "{} items", plan.items.len());
    assert_eq!(count(&home.database(), "mark"), plan.items.len());
    assert_eq!(commits(&path), before + 1);
}

fn count(database: &Connection, table: &str) -> usize {
    database.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

#[test]
fn r135_more_than_51_200_bytes_are_saved_next_to_the_database() {
    let home = home();
    let policy = Policy::new({
        let mut spec = Policy::default().into_spec();
        spec.truncate.tool_limit_overrides_bytes = false;
        spec.truncate.tool_limits.clear();
        spec
    });
    let policy = policy.unwrap();
    assert_eq!(policy.truncate.max_bytes, 51_200);
    let line = "0123456789abcdef 🚢\n";
    let output = line.repeat(51_200 / line.len() + 2);
    assert!(output.len() > 51_200);
    let taken = home.take("prt_1", &output, &policy, NOW);
    let receipt = taken.receipt.unwrap();
    let handle = receipt.handles[0].to_string();
    assert!(taken.shown.contains(&handle), "{}", &taken.shown[taken.shown.len() - 300..]);
    let spill = spill(home.store(), &handle);
    let file = blobs(&home.directory.path().join("spill")).remove(0);
    assert!(file.ends_with(format!("{}.zst", spill.blob)), "{}", file.display());
    let content = zstd::decode_all(fs::File::open(file).unwrap()).unwrap();
    assert!(content == output.as_bytes(), "the file is not what the tool printed");
    assert_eq!(spill.bytes, output.len() as u64);
}

#[test]
fn r139_a_spilled_text_is_read_back_and_a_missing_one_is_reported() {
    let home = home();
    let output = "one\ntwo\n".repeat(40_000);
    let taken = home.take("prt_1", &output, &Policy::default(), NOW);
    let handle = taken.receipt.unwrap().handles[0].to_string();
    let all = Selection { max_bytes: usize::MAX, ..Selection::default() };
    let whole = home.archive.recall(Scope::Everywhere, &handle, &all).unwrap().found;
    assert_eq!(whole.text() + "\n", output);
    let error = home.archive.recall(Scope::Everywhere, "spill_0123", &Selection::default()).unwrap_err();
    assert!(matches!(error, StoreError::Missing { .. }), "{error:?}");
    assert_eq!(error.to_string(), "spilled output `spill_0123` not found");
}

#[test]
fn r140_spilling_can_be_switched_off_and_put_elsewhere() {
    let output = "word ".repeat(100_000);
    let mut off = Policy::default().into_spec();
    off.truncate.spill = false;
    let off = Policy::new(off).unwrap();
    let home = home_with(&off);
    let taken = home.take("prt_1", &output, &off, NOW);
    assert!(taken.shown.len() < 60_000);
    let receipt = taken.receipt.unwrap();
    assert_eq!((receipt.handles.len(), home.files().len()), (0, 0));
    assert!(receipt.reason.contains("the rest is not kept"), "{}", receipt.reason);
    assert!(!home.directory.path().join("spill").exists());

    let elsewhere = TempDir::new().unwrap();
    let mut other = Policy::default().into_spec();
    other.truncate.spill_directory = elsewhere.path().join("outputs").display().to_string();
    let other = Policy::new(other).unwrap();
    let home = home_with(&other);
    home.take("prt_1", &output, &other, NOW);
    assert!(!home.directory.path().join("spill").exists());
    assert_eq!(blobs(&elsewhere.path().join("outputs")).len(), 1);
}

#[test]
fn r141_old_spills_expire_and_new_ones_stay() {
    let mut home = home();
    home.archive.retention = Retention { age: Some(Millis(1_000)), max_bytes: None };
    let take = |part: &str, word: &str, now: u64| {
        let taken = home.take(part, &word.repeat(100_000), &Policy::default(), Millis(NOW.0 + now));
        taken.receipt.unwrap().handles[0].to_string()
    };
    let (old, new) = (take("prt_1", "old ", 0), take("prt_2", "new ", 900));
    assert_eq!(home.archive.sweep(Millis(NOW.0 + 1_000)).unwrap().expired, [], "not yet");
    assert_eq!(home.files().len(), 2);
    let swept = home.archive.sweep(Millis(NOW.0 + 1_500)).unwrap();
    assert_eq!((swept.expired.len(), swept.removed, home.files().len()), (1, 1, 1));
    let error = home.archive.recall(Scope::Everywhere, &old, &Selection::default()).unwrap_err();
    assert!(matches!(&error, StoreError::Expired { shown, .. } if shown.starts_with("old old")), "{error}");
    home.archive.recall(Scope::Everywhere, &new, &Selection::default()).unwrap();
    assert_eq!(home.archive.check().unwrap().problems, Vec::<String>::new());
}

#[test]
fn r142_an_output_that_is_not_truncated_creates_no_file() {
    let home = home();
    let taken = home.take("prt_1", "short\n", &Policy::default(), NOW);
    assert_eq!((taken.shown.as_str(), taken.receipt.is_none()), ("short\n", true));
    assert!(!home.directory.path().join("spill").exists());
    assert!(home.store().spills(&home.session, 0, 1_000).unwrap().spills.is_empty());
}

/// A session with a long history, compacted by the guide's rules.
fn compacted() -> (Home, Vec<String>, Outcome) {
    let home = home();
    for n in 0..20 {
        let mut said = answer(&format!("msg_{n:02}b"), &"It is done, and well done. ".repeat(30));
        said.info.finish = Some("stop".into());
        home.append(vec![user(&format!("msg_{n:02}a"), &"Please build it. ".repeat(30)), said]);
    }
    let before = ids(&home.all());
    let policy = Preset::Openfork.policy();
    let outcome = home.climb(&policy, 4_000, Millis(NOW.0 + 500));
    (home, before, outcome)
}

#[test]
fn r147_a_compaction_is_recorded_and_old_messages_are_flagged_not_deleted() {
    let (home, before, outcome) = compacted();
    let receipts = &outcome.reduction.receipts;
    let Plan::Compact(plan) = &receipts[0].plan else { panic!("{receipts:?}") };
    let records = home.store().compactions(&home.session, None, u64::MAX).unwrap();
    let [record] = &records[..] else { panic!("{records:?}") };
    assert_eq!((record.messages, record.tokens), (Some(plan.messages), Some(plan.tokens.0)));
    assert_eq!((&record.tail, record.created), (&plan.tail_start, Millis(NOW.0 + 500)));
    assert!(record.tail.is_some() && record.messages > Some(0) && record.set_aside.is_none());
    assert_eq!(home.store().message(&home.session, &record.summary).unwrap().text(), SUMMARY);
    let after = ids(&home.all());
    assert!(after.starts_with(&before), "all messages are readable: {after:?}");
    let database = home.database();
    let mut statement =
        database.prepare("SELECT id FROM message WHERE is_compacted = 1 ORDER BY at, id").unwrap();
    let flagged: Vec<String> =
        statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(flagged.len() as u64, plan.messages);
    assert_eq!((flagged.first(), flagged.last()), (before.first(), Some(&plan.last.to_string())));
}

#[test]
fn r148_loading_returns_the_summary_and_then_every_message_that_was_kept() {
    let (home, before, outcome) = compacted();
    let receipts = &outcome.reduction.receipts;
    let Plan::Compact(plan) = &receipts[0].plan else { panic!("{receipts:?}") };
    let policy = Preset::Openfork.policy();
    let window = Window::of(&home.store().window(&home.session).unwrap(), &policy);
    let first = &window.messages[0];
    let [Block::Text { text, .. }] = &first.blocks[..] else { panic!("{first:?}") };
    assert_eq!(first.role, WindowRole::System);
    let expected = format!(
        "[Previous conversation compacted]\n\n{SUMMARY}\n\n[End of compacted summary - {} messages, {} tokens]",
        plan.messages, plan.tokens.0
    );
    assert_eq!(text.as_str(), expected);
    let boundary = before.iter().position(|id| *id == plan.tail_start.as_ref().unwrap().to_string()).unwrap();
    let kept: Vec<String> = window.messages[1..]
        .iter()
        .filter_map(|message| Some(message.message.as_ref()?.to_string()))
        .collect();
    assert!(kept.starts_with(&before[boundary..]), "{kept:?} but {:?}", &before[boundary..]);
}

#[rstest]
#[case(1)]
#[case(2)]
fn r154_an_old_database_is_copied_and_upgraded_once(#[case] version: usize) {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("plimsoll.db");
    database_of_version(&path, version).unwrap();
    Connection::open(&path)
        .unwrap()
        .execute_batch(
            "INSERT INTO session (id, title, created, updated, messages, last_at, last_id)
             VALUES ('ses_old', 'Old', 1, 2, 1, 5, 'msg_1');
             INSERT INTO message (session, at, id, role, info)
             VALUES (1, 5, 'msg_1', 'user', '{\"info\":{\"id\":\"msg_1\",\"role\":\"user\"},\"parts\":[]}');",
        )
        .unwrap();
    let store = SqliteStore::open(&path, Durability::Process).unwrap();
    let copy = directory.path().join(format!("plimsoll.db.v{version}.bak"));
    assert_eq!(store.copy(), Some(copy.as_path()));
    assert_eq!(ids(&store.window(&"ses_old".into()).unwrap()), ["msg_1"]);
    assert_eq!(store.session(&"ses_old".into()).unwrap().title, "Old");
    store.append(&unleased(&"ses_old".into()), vec![user("msg_2", "on")], NOW).unwrap();
    assert_eq!(store.check().unwrap().problems, Vec::<String>::new());
    drop(store);
    let has = |path: &Path, kind: &str, name: &str| {
        let sql = "SELECT count(*) FROM sqlite_schema WHERE type = ?1 AND name = ?2";
        Connection::open(path).unwrap().query_row(sql, [kind, name], |row| row.get::<_, i64>(0)).unwrap()
    };
    let columns = "SELECT count(*) FROM pragma_table_info('message') WHERE name = 'is_compacted'";
    let flag = |path: &Path| {
        Connection::open(path).unwrap().query_row(columns, [], |row| row.get::<_, usize>(0)).unwrap()
    };
    assert_eq!((has(&path, "table", "compaction"), has(&path, "index", "compaction_session")), (1, 1));
    assert_eq!((flag(&path), flag(&copy)), (1, version - 1), "the copy is of the old version");
    assert_eq!(has(&copy, "table", "lease"), 0);
    let kept = fs::read(&copy).unwrap();
    let again = SqliteStore::open(&path, Durability::Process).unwrap();
    assert_eq!(again.copy(), None, "it is upgraded once");
    assert_eq!(ids(&again.window(&"ses_old".into()).unwrap()), ["msg_1", "msg_2"]);
    assert_eq!(fs::read(&copy).unwrap(), kept);
}

#[test]
fn r154_an_old_database_is_upgraded_once_by_many_at_once() {
    for _ in 0..5 {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("plimsoll.db");
        database_of_version(&path, 1).unwrap();
        std::thread::scope(|scope| {
            let open = || SqliteStore::open(&path, Durability::Process).map(drop);
            let threads: Vec<_> = (0..6).map(|_| scope.spawn(open)).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
        });
        let copy = directory.path().join("plimsoll.db.v1.bak");
        let tables: i64 = Connection::open(&copy)
            .unwrap()
            .query_row("SELECT count(*) FROM sqlite_schema WHERE name = 'part'", [], |row| row.get(0))
            .unwrap();
        assert_eq!(tables, 1);
        let names: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert!(names.iter().all(|name| !name.to_string_lossy().contains("part")), "{names:?}");
    }
}

#[test]
fn r154_a_new_database_is_made_by_many_at_once() {
    for _ in 0..5 {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("plimsoll.db");
        std::thread::scope(|scope| {
            let path = &path;
            let make = move |n: usize| {
                let store = SqliteStore::open(path, Durability::Process)?;
                store.create(NewSession::new(SessionId::new(format!("ses_{n}"))), NOW).map(drop)
            };
            let threads: Vec<_> = (0..6).map(|n| scope.spawn(move || make(n))).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
        });
        let store = SqliteStore::open(&path, Durability::Process).unwrap();
        assert_eq!(store.sessions(&Default::default()).unwrap().len(), 6);
        assert_eq!(store.copy(), None);
    }
}

#[rstest]
#[case::newer(&["PRAGMA user_version = 99"], "has version 99, but this Plimsoll supports versions up to")]
#[case::foreign(&["PRAGMA application_id = 7"], "it belongs to another program")]
#[case::other(&["PRAGMA user_version = 0"], "it belongs to another program")]
fn r154_a_newer_or_foreign_database_is_not_changed(#[case] changes: &[&str], #[case] expected: &str) {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("plimsoll.db");
    database_of_version(&path, 3).unwrap();
    changes.iter().for_each(|change| Connection::open(&path).unwrap().execute_batch(change).unwrap());
    left_alone(directory.path(), expected);
}

#[rstest]
#[case::no_database(b"this is not a database but some other text".repeat(99))]
#[case::header(b"SQLite format 3\0 and then nothing that makes sense".repeat(99))]
fn r154_a_damaged_database_is_not_changed(#[case] content: Vec<u8>) {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("plimsoll.db"), content).unwrap();
    left_alone(
        directory.path(),
        "Nothing was changed; restore a backup, or move the file away to start with an empty store",
    );
}

#[test]
fn r154_a_truncated_database_is_not_changed() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("plimsoll.db");
    database_of_version(&path, 1).unwrap();
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..4_096 + 100]).unwrap();
    left_alone(directory.path(), "");
}

fn left_alone(directory: &Path, expected: &str) {
    let path = directory.join("plimsoll.db");
    let before = fs::read(&path).unwrap();
    let error = SqliteStore::open(&path, Durability::Process).map(drop).unwrap_err();
    assert!(error.to_string().contains(expected), "{error}");
    assert!(error.to_string().contains("plimsoll.db"), "{error}");
    assert!(fs::read(&path).unwrap() == before, "the file was changed");
    let names: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["plimsoll.db"], "no other file remains");
}

#[test]
fn r159_counts_are_kept_with_parts_and_an_outline_weighs_the_same() {
    let home = pruned();
    let policy = Policy::default();
    let weigh = |log: &[Message]| {
        request_tokens(&Window::of(log, &policy), RequestOverhead::default(), &policy.count)
    };
    let whole = weigh(&home.store().window(&home.session).unwrap());
    assert_eq!(weigh(&home.store().outline(&home.session).unwrap()), whole);
    let database = home.database();
    let (chars, tokens): (u64, u64) = database
        .query_row("SELECT chars, tokens FROM part WHERE id = 'prt_09'", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    assert_eq!(chars, "line 9\n".len() as u64 * 1_500);
    assert!(tokens >= chars / 4, "{tokens} tokens");
    // The texts of visible calls are not read: without them an outline has the same weight.
    database
        .execute_batch(
            "UPDATE part SET text = 'gone' WHERE kind = 'tool'
             AND id NOT IN (SELECT part FROM mark)",
        )
        .unwrap();
    assert_eq!(weigh(&home.store().outline(&home.session).unwrap()), whole);
}

#[test]
fn r160_a_message_that_arrives_while_a_summary_is_written_is_in_the_window() {
    let home = home();
    home.append(vec![user("msg_1", "old"), answer("msg_2", "old too"), user("msg_3", "kept")]);
    let marker = CompactionPart { tail_start: Some("msg_3".into()), ..CompactionPart::default() };
    let part = Part::new("prt_m".into(), PartBody::Compaction(marker));
    let mut marker = Message { parts: vec![part].into(), ..Message::default() };
    (marker.info.id, marker.info.role) = ("msg_4".into(), Some(Role::User));
    home.append(vec![marker]);
    home.append(vec![user("msg_5", "and another thing")]);
    let mut summary = answer("msg_6", "the summary");
    (summary.info.summary, summary.info.parent_id) = (true, Some("msg_4".into()));
    home.append(vec![summary]);
    home.store().finish(&unleased(&home.session), &"msg_6".into(), "stop", None, NOW).unwrap();
    let seen = home.store().window(&home.session).unwrap();
    let window = Window::of(&seen, &Policy::default());
    let shown: Vec<MessageId> = window.messages.into_iter().filter_map(|message| message.message).collect();
    assert!(shown.contains(&"msg_5".into()) && shown.contains(&"msg_3".into()), "{shown:?}");
    assert!(!shown.contains(&"msg_1".into()) && !shown.contains(&"msg_2".into()), "{shown:?}");
}

/// The window is read, a model is asked for a summary of all of it, and meanwhile the user sends a message.
#[rstest]
fn r160_a_message_that_arrives_while_a_summariser_is_asked_is_in_the_window(
    #[values(false, true)] real: bool,
) {
    let home = home();
    let memory = MemoryStore::new();
    let store: &dyn Store = if real { home.store() } else { &memory };
    let id = SessionId::new("ses_2");
    store.create(NewSession::new(id.clone()), NOW).unwrap();
    for n in 0..6 {
        let mut said = answer(&format!("msg_{n}b"), &"It is done, and well done. ".repeat(99));
        said.info.finish = Some("stop".into());
        let asked = user(&format!("msg_{n}"), &"Please build it. ".repeat(99));
        store.append(&unleased(&id), vec![asked, said], NOW).unwrap();
    }
    let policy = Preset::Opencode.policy();
    let log = store.window(&id).unwrap().log;
    let mut names = numbered();
    let context = CompactionContext {
        trigger: Trigger::Manual,
        summariser: Some(Summariser::named("summariser", Limits::new(128_000, 4_000))),
        ..CompactionContext::new(&policy, Limits::new(4_000, 64), NOW)
    };
    let mut ladder = Ladder::new(log, context);
    let Step::Ask(_) = ladder.climb(&mut names).unwrap() else { panic!("nothing was asked") };
    store.append(&unleased(&id), vec![user("msg_meanwhile", "wait, not like that")], NOW).unwrap();
    ladder.answer(Ok(Reply::finished(SUMMARY)), &mut names).unwrap();
    let Step::Done(outcome) = ladder.climb(&mut names).unwrap() else { panic!("something more was asked") };
    let receipts = &outcome.reduction.receipts;
    let Plan::Compact(plan) = &receipts[0].plan else { panic!("{receipts:?}") };
    assert_eq!(plan.tail_start, None, "everything was summarised");
    store.reduce(&unleased(&id), outcome.reduction.clone(), None, NOW).unwrap();
    let window = Window::of(&store.window(&id).unwrap(), &policy);
    let shown: Vec<MessageId> = window.messages.into_iter().filter_map(|message| message.message).collect();
    assert!(shown.contains(&"msg_meanwhile".into()), "{shown:?}");
    assert!(!shown.contains(&"msg_0".into()), "{shown:?}");
    assert_eq!(store.compactions(&id, None, u64::MAX).unwrap()[0].tail, Some("msg_meanwhile".into()));
}

/// A message arrives while a summary is written, and a later compaction keeps everything from it on: the earlier
/// summary is then in the middle of what is kept, and its marker is not.
#[rstest]
#[case(Some("msg_2"))]
#[case(None)]
fn r160_an_earlier_summary_does_not_come_back_as_a_message(#[case] parent: Option<&str>) {
    let home = home();
    let marker = |id: &str, tail: Option<&str>| {
        let marker = CompactionPart { tail_start: tail.map(MessageId::new), ..CompactionPart::default() };
        let part = Part::new(format!("{id}.1").as_str().into(), PartBody::Compaction(marker));
        let mut message = Message { parts: vec![part].into(), ..Message::default() };
        (message.info.id, message.info.role) = (id.into(), Some(Role::User));
        message
    };
    let summary = |id: &str, parent: Option<&str>| {
        let mut message = answer(id, &format!("summary {id}"));
        (message.info.summary, message.info.finish) = (true, Some("stop".into()));
        message.info.parent_id = parent.map(MessageId::new);
        message
    };
    let mut between = answer("msg_3", "meanwhile");
    between.info.finish = Some("stop".into());
    home.append(vec![user("msg_1", "old"), marker("msg_2", None), between, summary("msg_4", parent)]);
    home.append(vec![user("msg_5", "on"), marker("msg_6", Some("msg_3")), summary("msg_7", Some("msg_6"))]);
    let policy = Policy::default();
    let json = |messages: &[Message]| serde_json::to_value(Window::of(messages, &policy).messages).unwrap();
    let whole = json(&home.all());
    assert!(!whole.to_string().contains("summary msg_4"), "{whole}");
    assert_eq!(json(&home.store().window(&home.session).unwrap()), whole);
    assert_eq!(json(&home.store().outline(&home.session).unwrap()), whole);
}

/// A summary that streams counts from when it is finished; one without times (imported ones have none) from when it has
/// text.
#[rstest]
fn r147_a_summary_that_is_filled_late_is_recorded_once(
    #[values(false, true)] grows: bool,
    #[values(false, true)] timed: bool,
) {
    let home = home();
    home.append(vec![user("msg_1", "old")]);
    let part = Part::new("prt_m".into(), PartBody::Compaction(CompactionPart::default()));
    let mut marker = Message { parts: vec![part].into(), ..Message::default() };
    (marker.info.id, marker.info.role) = ("msg_2".into(), Some(Role::User));
    let mut summary = begun("msg_3", "");
    (summary.info.summary, summary.info.parent_id) = (true, Some("msg_2".into()));
    summary.info.time = summary.info.time.clone().filter(|_| timed);
    home.append(vec![marker, summary]);
    assert_eq!(home.store().compactions(&home.session, None, u64::MAX).unwrap().len(), 0);
    if grows {
        home.store()
            .advance(&unleased(&home.session), Part::text("msg_3.1".into(), "in short"), NOW)
            .unwrap();
    } else {
        let part = Part::text("msg_3.2".into(), "in short");
        home.store().append_part(&unleased(&home.session), &"msg_3".into(), part, NOW).unwrap();
    }
    assert_eq!(count(&home.database(), "compaction"), if timed { 0 } else { 1 });
    home.store().finish(&unleased(&home.session), &"msg_3".into(), "stop", None, NOW).unwrap();
    assert_eq!(count(&home.database(), "compaction"), 1);
    let window = home.store().window(&home.session).unwrap();
    assert_eq!(ids(&window), ["msg_1", "msg_2", "msg_3"], "with the words that the turn answers");
    assert!(Window::of(&window, &Policy::default()).pivot.is_some());
}

/// The notice names what an agent can use. It cannot read the compressed file of a spill; `openfork` writes a plain
/// one.
#[rstest]
#[case(Preset::Plimsoll)]
#[case(Preset::Opencode)]
#[case(Preset::Opencode118)]
fn the_full_text_of_a_truncated_output_can_be_recalled(#[case] preset: Preset) {
    let home = home();
    let output = "line\n".repeat(20_000);
    let taken = home.take("prt_1", &output, &preset.policy(), NOW);
    let (_, named) = taken.shown.split_once("Full output kept: recall ").expect("a handle is named");
    let handle = named.split([']', '\n']).next().unwrap();
    assert!(!taken.shown.contains("'read'") && !taken.shown.contains("saved to"), "{}", taken.shown);
    assert_eq!(plimsoll_store::handles(&taken.receipt.unwrap()), [handle]);
    assert_eq!(
        home.archive.recall(Scope::Everywhere, handle, &Selection::default()).unwrap().found.all_lines,
        20_000
    );
}

#[test]
fn an_older_copy_of_another_database_is_not_reused() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("plimsoll.db");
    let old = directory.path().join("plimsoll.db.v1.bak");
    std::fs::write(&old, "another time").unwrap();
    let then = std::time::SystemTime::now() - std::time::Duration::from_secs(3_600);
    std::fs::File::options().append(true).open(&old).unwrap().set_modified(then).unwrap();
    plimsoll_store::database_of_version(&path, 1).unwrap();
    let store = SqliteStore::open(&path, Durability::Process).unwrap();
    assert_eq!(store.copy(), Some(&*directory.path().join("plimsoll.db.v1.2.bak")));
    assert_eq!(std::fs::read_to_string(&old).unwrap(), "another time");
}

#[test]
fn r141_a_sweeper_cleans_up_by_itself() {
    let directory = TempDir::new().unwrap();
    let policy = Policy::default();
    let archive = Archive::open(directory.path().join("plimsoll.db"), &policy, Durability::Process).unwrap();
    let session = archive.store().create(NewSession::new("ses_1".into()), NOW).unwrap().id;
    let output = "line\n".repeat(20_000);
    archive
        .take_output(&unleased(&session), &"prt_1".into(), "bash", &mut output.as_bytes(), &policy, NOW)
        .unwrap();
    let mut archive = archive;
    archive.retention = Retention::GUIDE;
    let archive = std::sync::Arc::new(archive);
    let (send, swept) = std::sync::mpsc::channel();
    let a_week_later = || Millis(NOW.0 + 8 * 24 * 3_600_000);
    let sweeper = plimsoll_store::Sweeper::start(
        std::sync::Arc::clone(&archive),
        std::time::Duration::from_millis(1),
        a_week_later,
        move |swept| send.send(swept.unwrap()).unwrap_or_default(),
    )
    .unwrap();
    let (first, second) = (swept.recv().unwrap(), swept.recv().unwrap());
    assert_eq!((first.expired.len(), first.removed, second.expired.len(), second.removed), (1, 1, 0, 0));
    drop(sweeper);
    assert_eq!(std::sync::Arc::strong_count(&archive), 1, "it has ended");
    let handle = archive.store().spills(&session, 0, 1_000).unwrap().spills[0].handle.clone();
    let error = archive.recall(Scope::Everywhere, &handle, &Selection::default()).unwrap_err().to_string();
    assert!(error.contains("expired at") && error.contains("the window still shows: line"), "{error}");
}

/// Hosts do this after a run, in bounded steps.
#[test]
fn r141_tidying_expires_a_bounded_number_of_spills_and_is_due_once_an_hour() {
    let mut home = home();
    home.archive.retention = Retention { age: Some(Millis(1_000)), max_bytes: None };
    for n in 0..300 {
        home.take(&format!("prt_{n}"), &format!("{n} word ").repeat(10_000), &Policy::default(), NOW);
    }
    let later = Millis(NOW.0 + 2_000);
    home.take("prt_new", &"new ".repeat(100_000), &Policy::default(), later);
    let tidied = home.archive.tidy(later).unwrap().expect("it is due");
    assert_eq!((tidied.expired.len(), tidied.removed), (256, 256));
    assert_eq!(home.archive.tidy(Millis(later.0 + 60_000)).unwrap(), None, "not every minute");
    let next = Millis(later.0 + 3_600_000);
    home.archive.retention = Retention { age: Some(Millis(3_600_500)), max_bytes: None };
    let tidied = home.archive.tidy(next).unwrap().expect("an hour has passed");
    assert_eq!((tidied.expired.len(), tidied.removed), (44, 44));
    assert_eq!(home.files().len(), 1, "the new one stays");
    assert_eq!(home.archive.check().unwrap().problems, Vec::<String>::new());
}
