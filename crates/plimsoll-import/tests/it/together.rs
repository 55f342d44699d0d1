//! Concurrent imports, and imports that are killed.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll::SessionId;
use plimsoll_import::{ImportError, ImportOptions, Outcome, Report, Source, Survey};
use plimsoll_store::{ChangeKind, Filter, Store, StoreError};

use crate::{Claude, NOW, SESSION, all, database, fresh, ids, import_file};

/// The file that the child imports; set only for the child.
const FILE: &str = "PLIMSOLL_IMPORTED_FILE";

/// A session of some megabytes: too large for one piece.
fn large(messages: usize) -> Claude {
    let words = "word ".repeat(2_000);
    let claude = Claude::default().user("Build it");
    let claude = (0..messages).fold(claude, |claude, place| claude.says(&format!("answer_{place}"), &words));
    claude.aside(1, "You are the helper")
}

fn sessions(store: &dyn Store) -> Vec<(String, u64)> {
    let all = store.sessions(&Filter { all: true, ..Filter::default() }).unwrap();
    let mut ids: Vec<_> = all.iter().map(|session| (session.id.to_string(), session.messages)).collect();
    ids.sort();
    ids
}

fn outcomes(reports: &[Report]) -> (usize, usize) {
    let count = |outcome| reports.iter().filter(|report| report.outcome == outcome).count();
    assert!(reports.iter().all(|report| report.id.as_str() == SESSION), "{reports:?}");
    (count(Outcome::Stored) + count(Outcome::Updated), count(Outcome::Unchanged))
}

#[test]
fn of_four_threads_one_stores_it_and_the_others_find_it() {
    for round in 0..6 {
        let fresh = fresh();
        let path = fresh.directory.path().join("session.jsonl");
        let claude = if round == 2 { large(600) } else { large(20) };
        let count = claude.lines.len() as u64 - 1;
        std::fs::write(&path, claude.text()).unwrap();
        let at_once = || -> Vec<Report> {
            std::thread::scope(|scope| {
                let workers: Vec<_> = (0..2 + round % 3)
                    .map(|_| scope.spawn(|| import_file(&database(fresh.directory.path()), &path).unwrap()))
                    .collect();
                workers.into_iter().map(|worker| worker.join().unwrap()).collect()
            })
        };
        assert_eq!(outcomes(&at_once()), (1, 1 + round % 3), "round {round}");
        let stored = sessions(&*fresh);
        assert_eq!((stored.len(), &stored[0]), (2, &(SESSION.to_owned(), count)), "round {round}");
        // Once more with what is new.
        let grown = Claude { lines: claude.lines[..claude.lines.len() - 1].to_vec() }.user("More");
        let grown = grown.says("last", "Yes").aside(1, "You are the helper");
        std::fs::write(&path, grown.text()).unwrap();
        assert_eq!(outcomes(&at_once()), (1, 1 + round % 3), "round {round}");
        assert_eq!(sessions(&*fresh)[0], (SESSION.to_owned(), count + 2), "round {round}");
        assert_eq!(fresh.sweep_stages(Duration::ZERO).unwrap(), 0, "no stage remains");
        assert_eq!(fresh.check().unwrap().problems, Vec::<String>::new());
    }
}

/// Runs in the child; does nothing unless it was started as one.
#[test]
fn the_importing_child() {
    let Ok(file) = std::env::var(FILE) else { return };
    let path = PathBuf::from(file);
    let report = import_file(&database(path.parent().unwrap()), &path).unwrap();
    std::fs::write(
        path.with_extension(std::process::id().to_string()),
        serde_json::to_string(&report.outcome).unwrap(),
    )
    .unwrap();
}

fn start(path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "together::the_importing_child"])
        .env(FILE, path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn of_four_processes_one_stores_it_and_the_others_find_it() {
    let fresh = fresh();
    let path = fresh.directory.path().join("session.jsonl");
    let claude = large(600);
    std::fs::write(&path, claude.text()).unwrap();
    let children: Vec<Child> = (0..4).map(|_| start(&path)).collect();
    let mut outcomes: Vec<String> = Vec::new();
    for mut child in children {
        assert!(child.wait().unwrap().success());
        outcomes.push(std::fs::read_to_string(path.with_extension(child.id().to_string())).unwrap());
    }
    outcomes.sort();
    assert_eq!(outcomes, [r#""stored""#, r#""unchanged""#, r#""unchanged""#, r#""unchanged""#]);
    let stored = sessions(&*fresh);
    assert_eq!((stored.len(), stored[0].1), (2, claude.lines.len() as u64 - 1));
}

#[test]
fn an_import_that_is_killed_leaves_nothing_and_the_next_one_stores_it() {
    let fresh = fresh();
    let path = fresh.directory.path().join("session.jsonl");
    let claude = large(1_500);
    std::fs::write(&path, claude.text()).unwrap();
    let staged = || {
        let database = rusqlite::Connection::open(fresh.directory.path().join("plimsoll.db")).unwrap();
        let count = "SELECT coalesce(sum(messages), 0) FROM session WHERE removed IS NOT NULL";
        database.query_row(count, [], |row| row.get::<_, u64>(0)).unwrap()
    };
    let mut killed = 0;
    for wanted in [1, 500] {
        let mut child = start(&path);
        let (before, begun) = (staged(), Instant::now());
        while staged() < before + wanted && child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the child does nothing");
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        if sessions(&*fresh).is_empty() {
            killed += 1;
            assert!(staged() > before, "it was in the middle of it");
            assert_eq!(fresh.imports(&format!("claude-code:{SESSION}")).unwrap(), []);
        }
        assert_eq!(fresh.check().unwrap().problems, Vec::<String>::new());
    }
    assert!(killed > 0, "at least one was killed in the middle");
    // What killed imports have left is swept when it is old.
    std::thread::sleep(Duration::from_millis(2));
    assert_eq!(fresh.sweep_stages(Duration::from_millis(1)).unwrap(), killed);
    assert_eq!(staged(), 0);
    let report = import_file(&*fresh, &path).unwrap();
    assert_eq!((report.messages, sessions(&*fresh).len()), (claude.lines.len() - 1, 2));
    assert_eq!(fresh.check().unwrap().problems, Vec::<String>::new());
}

/// A large addition to a file is stored in small transactions. The next import continues one that was interrupted.
#[test]
fn a_large_addition_to_a_file_is_stored_in_pieces() {
    let (fresh, whole) = (fresh(), crate::fresh());
    let path = fresh.directory.path().join("session.jsonl");
    let begun = Claude::default().user("Build it").calls("answer_a", "call_1");
    std::fs::write(&path, begun.text()).unwrap();
    let session = import_file(&*fresh, &path).unwrap().id;
    let words = "word ".repeat(20_000);
    let grown = begun.result("call_1", "the answer");
    let grown = (0..150).fold(grown, |claude, place| claude.says(&format!("answer_{place}"), &words));
    let grown = (0..30).fold(grown, |claude, number| claude.aside(number, &format!("{number} {words}")));
    std::fs::write(&path, grown.text()).unwrap();
    let since = fresh.newest_change().unwrap();
    // While it is read, another process takes the session, after something was added to it.
    let mut source = Source::File(std::fs::File::open(&path).unwrap());
    let survey = Survey::of(&mut source, &|_| {}).unwrap();
    let options = ImportOptions { now: NOW, origin: Some(&path), ..ImportOptions::default() };
    let lease = std::cell::RefCell::new(None);
    let on_read = |_: u64| {
        if lease.borrow().is_none() && fresh.session(&session).unwrap().messages > 2 {
            *lease.borrow_mut() = Some(fresh.lease(&session, "another", Duration::from_secs(60)).unwrap());
        }
    };
    let refused = survey.import(&mut source, &*fresh, &mut ids(), &options, &on_read);
    assert!(matches!(refused, Err(ImportError::Store(StoreError::Leased { .. }))), "{refused:?}");
    let part = fresh.session(&session).unwrap().messages;
    assert!(part > 2 && part < 152, "{part} messages came before it was taken");
    assert_eq!(sessions(&*fresh).len(), 1, "a new sub-agent is shown as a whole");
    fresh.release(&lease.take().unwrap()).unwrap();
    let report = import_file(&*fresh, &path).unwrap();
    assert_eq!((report.outcome, report.added as u64), (Outcome::Updated, 152 - part));
    assert_eq!((report.tasks.len(), sessions(&*fresh).len()), (30, 31));
    let changes = fresh.changes(since, 1_000).unwrap().changes;
    let pieces = changes.iter().filter(|change| change.kind == ChangeKind::Imported).count();
    assert!(pieces >= 4, "15 MB in {pieces} transactions");
    // It is what an import of the whole file would have stored.
    import_file(&*whole, &path).unwrap();
    let json = |store: &dyn Store, id: &SessionId| serde_json::to_value(all(store, id)).unwrap();
    assert!(json(&*fresh, &session) == json(&*whole, &session));
    assert_eq!(sessions(&*fresh), sessions(&*whole));
    assert_eq!(import_file(&*fresh, &path).unwrap().outcome, Outcome::Unchanged);
    assert_eq!(fresh.sweep_stages(Duration::ZERO).unwrap(), 0, "no stage remains");
    assert_eq!(fresh.check().unwrap().problems, Vec::<String>::new());
}
