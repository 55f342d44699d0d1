//! Faults around the store: disks, files, clocks, and processes that die.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use plimsoll::{Message, MessageId, Millis, Part, PartId, Policy, SessionId, ToolState};
use plimsoll_store::*;
use rstest::rstest;
use serde_json::json;
use tempfile::TempDir;

use super::{NOW, answer, begun, blobs, fresh, ids, millis, read, session, unleased, user};

fn open(database: &Path, policy: &Policy) -> Archive {
    Archive::open(database, policy, Durability::Process).unwrap()
}

fn policy_with_spills(directory: &Path) -> Policy {
    let mut spec = Policy::default().into_spec();
    spec.truncate.spill_directory = directory.display().to_string();
    Policy::new(spec).unwrap()
}

/// Lines that do not compress well.
fn noise(lines: u64, seed: u64) -> String {
    let line = |n: u64| format!("{}\n", blake3::hash(&(n ^ (seed << 32)).to_le_bytes()).to_hex());
    (0..lines).map(line).collect()
}

/// The names of all files below a directory.
fn files_below(directory: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => names.extend(files_below(&entry.path())),
            false => names.push(entry.file_name().into_string().unwrap()),
        }
    }
    names
}

fn take(archive: &Archive, output: &str, policy: &Policy) -> Result<CapturedOutput, StoreError> {
    let (session, part) = (SessionId::new("ses_1"), PartId::new("prt_1"));
    archive.take_output(&unleased(&session), &part, "bash", &mut output.as_bytes(), policy, NOW)
}

fn whole(archive: &Archive, handle: &str) -> Result<String, StoreError> {
    let all = Selection { max_bytes: usize::MAX, ..Selection::default() };
    Ok(archive.recall(Scope::Everywhere, handle, &all)?.found.text() + "\n")
}

/// The output was truncated all the same, no handle names what is lost, and the receipt says why.
fn assert_lost(archive: &Archive, taken: CapturedOutput, why: &str) {
    let receipt = taken.receipt.unwrap();
    assert!(
        receipt.reason.contains("the rest is lost") && receipt.reason.contains(why),
        "{}",
        receipt.reason
    );
    assert!(taken.shown.len() < 60_000 && receipt.handles.is_empty());
    let receipts = archive.store().receipts(&SessionId::new("ses_1"), None, u64::MAX).unwrap();
    assert_eq!(receipts.last().unwrap().id, receipt.id);
    assert!(archive.store().spills(&SessionId::new("ses_1"), 0, 1_000).unwrap().spills.is_empty());
    assert_eq!(archive.check().unwrap().problems, Vec::<String>::new());
}

/// An archive with a session and one spilled output.
struct Spilled {
    directory: TempDir,
    archive: Archive,
    handle: String,
    file: PathBuf,
    output: String,
}

fn spilled() -> Spilled {
    let directory = TempDir::new().unwrap();
    let archive = open(&directory.path().join("plimsoll.db"), &Policy::default());
    session(archive.store(), "ses_1");
    let output = noise(3_000, 1);
    let taken = take(&archive, &output, &Policy::default()).unwrap();
    let handle = taken.receipt.unwrap().handles[0].to_string();
    assert_eq!(whole(&archive, &handle).unwrap(), output);
    let file = blobs(directory.path()).remove(0);
    Spilled { directory, archive, handle, file, output }
}

impl Spilled {
    /// Recall and a check report the problem, searches continue, and the same output again repairs it.
    fn assert_gone(&self, why: &str) {
        let error = whole(&self.archive, &self.handle).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        let problems = self.archive.check().unwrap().problems;
        assert!(problems.len() == 1 && problems[0].contains(why), "{problems:?}");
        let search = plimsoll_store::Search { pattern: "abc".into(), ..Default::default() };
        let ask = Selection { search: Some(search), ..Selection::default() };
        let hits = self.archive.search(&"ses_1".into(), &ask).unwrap();
        let [hit] = &hits[..] else { panic!("{hits:?}") };
        assert!(hit.handle == self.handle && hit.unsearched.as_ref().unwrap().contains(why), "{hit:?}");
        take(&self.archive, &self.output, &Policy::default()).unwrap();
        assert!(whole(&self.archive, &self.handle).unwrap() == self.output);
        assert_eq!(self.archive.check().unwrap().problems, Vec::<String>::new());
    }
}

#[test]
fn a_deleted_spill_is_reported_as_gone() {
    let spilled = spilled();
    fs::remove_file(&spilled.file).unwrap();
    spilled.assert_gone("its file was removed");
}

#[test]
fn a_deleted_directory_of_spills_is_created_again() {
    let spilled = spilled();
    fs::remove_dir_all(spilled.directory.path().join("spill")).unwrap();
    spilled.assert_gone("its file was removed");
}

#[cfg(unix)]
#[test]
fn a_spill_that_became_a_link_is_not_followed() {
    let spilled = spilled();
    let elsewhere = spilled.directory.path().join("elsewhere");
    fs::rename(&spilled.file, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &spilled.file).unwrap();
    spilled.assert_gone("cannot open");
    assert!(elsewhere.exists(), "the target of the link is unchanged");
}

#[rstest]
#[case::cut_off(|bytes: &mut Vec<u8>| bytes.truncate(bytes.len() / 2), "its file is damaged")]
#[case::empty(|bytes: &mut Vec<u8>| bytes.clear(), "")]
#[case::not_ours(|bytes: &mut Vec<u8>| *bytes = b"no such thing".to_vec(), "its file is damaged")]
#[case::other(|bytes: &mut Vec<u8>| *bytes = zstd::encode_all(&b"abc other"[..], 3).unwrap(), "its file does not match its hash")]
#[case::flipped(|bytes: &mut Vec<u8>| { let at = bytes.len() / 2; bytes[at] ^= 0x10 }, "its file")]
fn a_damaged_spill_is_reported_as_damaged(#[case] damage: fn(&mut Vec<u8>), #[case] why: &str) {
    let spilled = spilled();
    let mut bytes = fs::read(&spilled.file).unwrap();
    damage(&mut bytes);
    fs::write(&spilled.file, bytes).unwrap();
    spilled.assert_gone(why);
}

#[rstest]
#[case::file(false)]
#[case::link(true)]
#[cfg(unix)]
fn a_spill_path_that_is_not_a_directory_is_not_used(#[case] link: bool) {
    let directory = TempDir::new().unwrap();
    let (spill, target) = (directory.path().join("spill"), directory.path().join("target"));
    fs::create_dir(&target).unwrap();
    if link {
        std::os::unix::fs::symlink(&target, &spill).unwrap();
    } else {
        fs::write(&spill, "mine").unwrap();
    }
    let archive = open(&directory.path().join("plimsoll.db"), &Policy::default());
    session(archive.store(), "ses_1");
    let taken = take(&archive, &noise(3_000, 1), &Policy::default()).unwrap();
    assert_lost(&archive, taken, "it is a link or a file");
    assert_eq!(fs::read_dir(&target).unwrap().count(), 0, "nothing was written through the link");
}

/// Content that cannot be stored at the last moment leaves no name.
#[test]
fn content_that_cannot_be_stored_leaves_no_name() {
    let directory = TempDir::new().unwrap();
    let archive = open(&directory.path().join("plimsoll.db"), &Policy::default());
    session(archive.store(), "ses_1");
    session(archive.store(), "ses_2");
    let other = Claim::unleased(&SessionId::new("ses_2"));
    let first = noise(3_000, 1);
    archive
        .take_output(&other, &PartId::new("prt_0"), "bash", &mut first.as_bytes(), &Policy::default(), NOW)
        .unwrap();
    let own = blobs(directory.path())[0].parent().unwrap().parent().unwrap().to_path_buf();
    let output = noise(3_000, 2);
    let hash = blake3::hash(output.as_bytes()).to_hex();
    // A file is in place of the directory.
    fs::write(own.join(&hash[..2]), "").unwrap();
    let taken = take(&archive, &output, &Policy::default()).unwrap();
    assert_lost(&archive, taken, "cannot keep the whole output");
}

const STAGE: &str = "PLIMSOLL_FAULT_STAGE";

/// Runs one of the tests below in a child process with a small disk, mounted in a private namespace. If the system does
/// not allow that, nothing is tested.
fn on_a_small_disk(test: &str, options: &str) {
    let directory = TempDir::new().unwrap();
    let script =
        format!("mount -t tmpfs -o {options} none '{0}' || exit 77; exec \"$@\"", directory.path().display());
    let mut command = Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c", &script, "sh"]);
    command.arg(std::env::current_exe().unwrap()).args([
        "--exact",
        &format!("faults::{test}"),
        "--nocapture",
    ]);
    let probe = Command::new("unshare")
        .args(["--mount", "--map-root-user", "mount", "-t", "tmpfs", "none"])
        .arg(directory.path())
        .output();
    if !probe.is_ok_and(|probe| probe.status.success()) {
        let _ = writeln!(std::io::stderr(), "skipped {test}: no disk can be mounted here");
        return;
    }
    let done = command.env(STAGE, directory.path()).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
}

/// The disk of the child.
fn disk() -> Option<PathBuf> {
    std::env::var(STAGE).ok().map(PathBuf::from)
}

/// Fills a disk except for some bytes.
fn fill(disk: &Path, leave: usize) -> PathBuf {
    let filler = disk.join("filler");
    let mut file = fs::File::create(&filler).unwrap();
    let mut written = 0;
    while file.write_all(&[0; 4_096]).is_ok() {
        written += 4_096;
    }
    file.set_len((written as u64).saturating_sub(leave as u64)).unwrap();
    filler
}

#[test]
fn a_full_disk_loses_the_rest_of_an_output_and_reports_it() {
    let Some(disk) = disk() else {
        on_a_small_disk("a_full_disk_loses_the_rest_of_an_output_and_reports_it", "size=1m");
        return;
    };
    let directory = TempDir::new().unwrap();
    let policy = policy_with_spills(&disk.join("spill"));
    let archive = open(&directory.path().join("plimsoll.db"), &policy);
    session(archive.store(), "ses_1");
    let filler = fill(&disk, 60_000);
    // More than fits, and more than is held in memory.
    let output = noise(100_000, 2);
    assert_lost(&archive, take(&archive, &output, &policy).unwrap(), "No space left on device");
    assert_eq!(files_below(&disk.join("spill")), ["PLIMSOLL-SPILLS.txt"]);
    fs::remove_file(filler).unwrap();
    let output = noise(3_000, 3);
    let taken = take(&archive, &output, &policy).unwrap();
    let handle = taken.receipt.unwrap().handles[0].to_string();
    assert_eq!(whole(&archive, &handle).unwrap(), output, "work continues once there is space");
}

/// Appends until it fails. Returns what was acknowledged.
fn append_until_full(store: &dyn Store, id: &SessionId, stem: &str) -> (Vec<String>, StoreError) {
    let mut done = Vec::new();
    loop {
        let name = format!("{stem}_{:04}", done.len());
        match store.append(
            &unleased(id),
            vec![user(&name, "on"), read(&format!("{name}r"), noise(60, 7))],
            NOW,
        ) {
            Ok(()) => done.extend([name.clone(), format!("{name}r")]),
            Err(error) => return (done, error),
        }
        assert!(done.len() < 10_000, "the disk does not get full");
    }
}

fn all(store: &dyn Store, id: &SessionId) -> Vec<String> {
    let request = PageRequest { most: 100_000, oldest_first: true, from: None };
    ids(&store.page(id, &request).unwrap().messages)
}

#[test]
fn a_full_disk_fails_appends_and_keeps_existing_content() {
    let Some(disk) = disk() else {
        on_a_small_disk("a_full_disk_fails_appends_and_keeps_existing_content", "size=2m");
        return;
    };
    let path = disk.join("plimsoll.db");
    let store = SqliteStore::open(&path, Durability::Process).unwrap();
    let id = session(&store, "ses_1");
    let other = session(&store, "ses_2");
    store.append(&unleased(&other), vec![begun("msg_1", "I ")], NOW).unwrap();
    let filler = fill(&disk, 400_000);
    let (mut done, error) = append_until_full(&store, &id, "msg");
    assert!(matches!(error, StoreError::Full { .. } | StoreError::TakenAlong), "{error}");
    assert_eq!(all(&store, &id), done);
    assert_eq!(store.window(&id).unwrap().len(), done.len());
    // Many at once on a full disk: each gets the result of its own append.
    let results: Vec<(String, bool)> = std::thread::scope(|scope| {
        let (store, id) = (&store, &id);
        let write = |n: usize| {
            move || {
                let name = format!("msg_many_{n}");
                let large = n.is_multiple_of(2);
                let message = if large { read(&name, noise(40_000, 9)) } else { user(&name, "small") };
                (name, store.append(&unleased(id), vec![message], NOW).is_ok())
            }
        };
        let threads: Vec<_> = (0..8).map(|n| scope.spawn(write(n))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let there = all(&store, &id);
    for (name, ok) in results {
        assert_eq!(there.contains(&name), ok, "wrong result for {name}");
    }
    done = there;
    assert_eq!(ids(&store.window(&other).unwrap()), ["msg_1"]);
    // Opening a database on a full disk works or reports why; it does no harm.
    drop(SqliteStore::open(&path, Durability::Process).map_err(|error| error.to_string()));
    fs::remove_file(filler).unwrap();
    store.append(&unleased(&id), vec![user("msg_after", "there is room again")], NOW).unwrap();
    store.advance(&unleased(&other), Part::text("msg_1.1".into(), "I will"), NOW).unwrap();
    done.push("msg_after".into());
    assert_eq!(all(&store, &id), done);
    assert_eq!(store.check().unwrap().problems, Vec::<String>::new());
    drop(store);
    let again = SqliteStore::open(&path, Durability::Process).unwrap();
    assert_eq!(all(&again, &id), done);
}

#[test]
fn a_read_only_place_for_spills_is_reported() {
    let Some(disk) = disk() else {
        on_a_small_disk("a_read_only_place_for_spills_is_reported", "size=1m,ro");
        return;
    };
    let directory = TempDir::new().unwrap();
    for spill in [disk.clone(), disk.join("spill")] {
        let policy = policy_with_spills(&spill);
        let archive = open(&directory.path().join("plimsoll.db"), &policy);
        let _ = archive.store().create(NewSession::new("ses_1".into()), NOW);
        let taken = take(&archive, &noise(3_000, 1), &policy).unwrap();
        assert_lost(&archive, taken, "Read-only file system");
    }
    // Nor can a database be created there.
    let error = SqliteStore::open(disk.join("plimsoll.db"), Durability::Process).map(drop).unwrap_err();
    assert!(error.to_string().contains("plimsoll.db"), "{error}");
}

const LIMITED: &str = "PLIMSOLL_FAULT_LIMITED";

/// A limit on file sizes needs no privileges.
#[cfg(unix)]
#[test]
fn a_file_size_limit_fails_appends_and_keeps_existing_content() {
    let id = SessionId::new("ses_1");
    if let Ok(path) = std::env::var(LIMITED) {
        let store = SqliteStore::open(&path, Durability::Process).unwrap();
        let (done, error) = append_until_full(&store, &id, "msg");
        assert!(
            matches!(error, StoreError::Full { .. } | StoreError::Database { .. } | StoreError::TakenAlong),
            "{error}"
        );
        assert_eq!(all(&store, &id), done);
        fs::write(format!("{path}.done"), serde_json::to_vec(&done).unwrap()).unwrap();
        return;
    }
    let store = fresh();
    session(&*store, "ses_1");
    // The signal kills a process that exceeds the limit, unless it is ignored.
    let script = "trap '' XFSZ; ulimit -f 600; exec \"$@\"";
    let test = "faults::a_file_size_limit_fails_appends_and_keeps_existing_content";
    let done = Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(LIMITED, store.path())
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let acknowledged = fs::read(format!("{}.done", store.path().display())).unwrap();
    let mut acknowledged: Vec<String> = serde_json::from_slice(&acknowledged).unwrap();
    assert!(!acknowledged.is_empty());
    assert_eq!(all(&*store, &id), acknowledged);
    store.append(&unleased(&id), vec![user("msg_after", "without a limit")], NOW).unwrap();
    acknowledged.push("msg_after".into());
    assert_eq!(all(&*store, &id), acknowledged);
    assert_eq!(store.check().unwrap().problems, Vec::<String>::new());
}

/// Overwrites each page of a database in turn. It is always detected, nothing panics, and sessions on other pages stay
/// readable.
#[test]
fn a_corrupted_page_is_found() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("plimsoll.db");
    let sessions: Vec<SessionId> = (0..3).map(|n| SessionId::new(format!("ses_{n}"))).collect();
    let store = SqliteStore::open(&path, Durability::Process).unwrap();
    for id in &sessions {
        session(&store, id.as_str());
        let messages = (0..12).map(|n| read(&format!("msg_{n:02}"), noise(40, n))).collect();
        store.append(&unleased(id), messages, NOW).unwrap();
    }
    drop(store);
    let intact = fs::read(&path).unwrap();
    assert!(!directory.path().join("plimsoll.db-wal").exists(), "all of it is in the file");
    let pages = intact.len() / 4_096;
    let (mut refused, mut some_readable) = (0, 0);
    for page in 0..pages {
        let mut bytes = intact.clone();
        bytes[page * 4_096..][..4_096].fill(0xa5);
        let path = directory.path().join(format!("{page}.db"));
        fs::write(&path, &bytes).unwrap();
        let store = match SqliteStore::open(&path, Durability::Process) {
            Ok(store) => store,
            Err(error) => {
                assert!(error.to_string().contains(&format!("{page}.db")), "page {page}: {error}");
                assert!(fs::read(&path).unwrap() == bytes, "page {page}: the file was changed");
                refused += 1;
                continue;
            }
        };
        let findings = store.check().unwrap_or_else(|error| panic!("page {page} of {pages}: {error}"));
        assert!(!findings.problems.is_empty(), "page {page} of {pages} was not missed");
        let fine = |id: &&SessionId| {
            store.window(id).is_ok_and(|window| {
                let texts = (0..12).map(|n| json!(noise(40, n)));
                let parts =
                    window.iter().map(|m| json!(m.parts[0].as_tool().unwrap().state.output.as_deref()));
                parts.eq(texts)
            })
        };
        let readable = sessions.iter().filter(fine).count();
        some_readable += usize::from(readable == 2);
        for id in &sessions {
            let _ = store.append(&unleased(id), vec![user("msg_x", "x")], NOW);
            let _ = store.message(id, &MessageId::new("msg_03"));
            let _ = store.lease(id, "me", millis(10));
        }
        let _ = store.sessions(&Filter::default());
        drop(store);
        fs::remove_file(&path).unwrap();
    }
    assert!(
        refused > 0 && some_readable > pages / 4,
        "{refused} refused, {some_readable} of {pages} in part"
    );
}

#[test]
fn a_clock_that_jumps_back_loses_neither_order_nor_leases() {
    let store = fresh();
    let id = session(&*store, "ses_1");
    let before = Millis(NOW.0 - 86_400_000);
    store.append(&unleased(&id), vec![user("msg_b", "first").at(NOW)], NOW).unwrap();
    let lease = store.lease(&id, "one", millis(100)).unwrap();
    let claim = lease.claim();
    // The clock is set back by a day.
    store.time.store(before.0, std::sync::atomic::Ordering::Relaxed);
    store.append(&claim, vec![answer("msg_a", "second").at(before)], before).unwrap();
    let error = store.lease(&id, "two", millis(100)).unwrap_err();
    assert!(matches!(error, StoreError::Leased { .. }), "{error}");
    store.renew(&lease, millis(100)).unwrap();
    store.finish(&claim, &"msg_a".into(), "stop", None, before).unwrap();
    let child = store.fork(&id, None, NewSession::new("ses_2".into()), before).unwrap();
    store.append(&unleased(&child.id), vec![user("msg_0", "third").at(before)], before).unwrap();
    store.append(&claim, vec![user("msg_c", "other").at(before)], before).unwrap();
    assert_eq!(all(&*store, &id), ["msg_b", "msg_a", "msg_c"]);
    assert_eq!(ids(&store.window(&child.id).unwrap()), ["msg_b", "msg_a", "msg_0"]);
    assert_eq!(store.session(&id).unwrap().updated, NOW, "when it was last written to does not go back");
    assert_eq!(store.check().unwrap().problems, Vec::<String>::new());
}

#[test]
fn a_clock_at_the_maximum_time_does_no_harm() {
    let store = fresh();
    let id = session(&*store, "ses_1");
    for name in ["msg_c", "msg_b", "msg_a", "msg_0"] {
        store.append(&unleased(&id), vec![user(name, "x").at(Millis(u64::MAX))], NOW).unwrap();
    }
    assert_eq!(all(&*store, &id), ["msg_c", "msg_b", "msg_a", "msg_0"]);
    assert!(
        store.append(&unleased(&id), vec![user("msg_d", "x")], Millis(u64::MAX)).is_err(),
        "no such time is kept"
    );
    store.append(&unleased(&id), vec![user("msg_d", "x")], NOW).unwrap();
}

#[test]
fn a_clock_that_jumps_back_expires_no_spill() {
    let spilled = spilled();
    let swept = spilled.archive.sweep(Millis(1)).unwrap();
    assert_eq!((swept.expired.len(), swept.removed), (0, 0));
    whole(&spilled.archive, &spilled.handle).unwrap();
}

/// A process died while it created or changed the file, before there was a write-ahead log.
#[test]
fn a_leftover_journal_is_rolled_back() {
    let (directory, dead) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let path = directory.path().join("plimsoll.db");
    plimsoll_store::database_of_version(&path, 3).unwrap();
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute_batch("PRAGMA synchronous = off; PRAGMA cache_size = 2; BEGIN IMMEDIATE").unwrap();
    for n in 0..500 {
        let title = noise(3, n);
        let new = "INSERT INTO session (id, title, created, updated) VALUES (?1, ?2, 1, 1)";
        connection.execute(new, (format!("ses_{n}"), title)).unwrap();
    }
    // These files are what a dead process leaves.
    for name in ["plimsoll.db", "plimsoll.db-journal"] {
        fs::copy(directory.path().join(name), dead.path().join(name)).unwrap();
    }
    let store = SqliteStore::open(dead.path().join("plimsoll.db"), Durability::Process).unwrap();
    assert!(store.sessions(&Filter::default()).unwrap().is_empty());
    session(&store, "ses_1");
    assert_eq!(store.check().unwrap().problems, Vec::<String>::new());
}

const HOLDER: &str = "PLIMSOLL_FAULT_HOLDER";

#[test]
fn the_lease_of_a_dead_process_is_taken_over_after_it_expired() {
    let id = SessionId::new("ses_1");
    if let Ok(path) = std::env::var(HOLDER) {
        let (_, clock) = super::stopped_clock();
        let store = SqliteStore::open_with_clock(path, Durability::Process, clock).unwrap();
        let claim = store.lease(&id, "the dead", millis(100)).unwrap().claim();
        let call = Part::tool("prt_1".into(), "call_1", "bash", ToolState::pending(json!({ "n": 1 })));
        store.append(&claim, vec![Message::assistant("msg_1".into(), vec![call])], NOW).unwrap();
        // The lease is not released.
        std::process::abort();
    }
    let store = fresh();
    session(&*store, "ses_1");
    let test = "faults::the_lease_of_a_dead_process_is_taken_over_after_it_expired";
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(HOLDER, store.path())
        .output()
        .unwrap();
    assert!(!done.status.success());
    store.at(99);
    let error = store.lease(&id, "us", millis(200)).unwrap_err();
    assert!(error.to_string().contains("`the dead`"), "{error}");
    assert!(!store.part(&id, &"prt_1".into()).unwrap().as_tool().unwrap().state.status.is_final());
    store.at(100);
    let lease = store.lease(&id, "us", millis(200)).unwrap();
    assert_eq!(lease.settled.calls, 1);
    let part = store.part(&id, &"prt_1".into()).unwrap();
    assert!(part.as_tool().unwrap().state.error.as_ref().unwrap().starts_with("Interrupted:"));
    assert_eq!(store.check().unwrap().problems, Vec::<String>::new());
}

/// SQLite would create files next to the database, which is not possible here.
#[test]
fn an_intact_database_on_a_read_only_mount_can_be_read() {
    let store = fresh();
    let id = session(&*store, "ses_1");
    store.append(&unleased(&id), vec![user("msg_1", "hello")], NOW).unwrap();
    let super::Fresh { store, directory, .. } = store;
    drop(store);
    let path = directory.path().join("plimsoll.db");
    let beside = || fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let (before, files): (_, Vec<_>) = (fs::read(&path).unwrap(), beside());
    let read = SqliteStore::open_read_only(&path).unwrap();
    assert_eq!(ids(&read.window(&id).unwrap()), ["msg_1"]);
    assert_eq!(read.sessions(&Filter::default()).unwrap().len(), 1);
    assert_eq!(read.check().unwrap().problems, Vec::<String>::new());
    let error = read.append(&unleased(&id), vec![user("msg_2", "x")], NOW).unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error}");
    assert_eq!((beside(), fs::read(&path).unwrap() == before), (files, true));
    let old = directory.path().join("old.db");
    plimsoll_store::database_of_version(&old, 3).unwrap();
    let error = SqliteStore::open_read_only(&old).map(drop).unwrap_err();
    assert!(error.to_string().contains("cannot be upgraded"), "{error}");
    assert!(SqliteStore::open_read_only(directory.path().join("none.db")).is_err());
}
