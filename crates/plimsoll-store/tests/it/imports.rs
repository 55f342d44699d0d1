//! Imports: whole or not at all, exactly once, and updated later.

use std::time::{Duration, Instant};

use plimsoll::log::Effect;
use plimsoll::pin::{self, PinTarget};
use plimsoll::{Ids, Log, Message, Millis, Policy, Reduction, SessionId, Tokens, ToolState, ToolStatus};
use plimsoll_store::{
    Claim, Conversation, Filter, GrownMessage, Import, Imported, MemoryStore, NewSession, PageRequest, Scope,
    StagedPiece, Store, StoreError,
};
use serde_json::json;

use crate::{NOW, answer, begun, fresh, ids, json_of, millis, user};

const SOURCE: &str = "codex:one";

pub(super) fn conversation(id: &str, messages: Vec<Message>) -> Conversation {
    Conversation {
        session: NewSession { title: format!("about {id}"), ..NewSession::new(id.into()) },
        conversation: String::new(),
        state: format!("{} messages", messages.len()),
        before: None,
        staged: 0,
        grown: None,
        messages,
        created: Millis(NOW.0 - 100),
        updated: NOW,
    }
}

pub(super) fn import(conversations: Vec<Conversation>) -> Import {
    Import { source: SOURCE.into(), known: Some(Vec::new()), stage: None, conversations }
}

fn task(id: &str, parent: &str, messages: Vec<Message>) -> Conversation {
    let mut task = conversation(id, messages);
    (task.session.parent, task.conversation) = (Some(parent.into()), "#1".into());
    task
}

fn all(store: &dyn Store, id: &str) -> Vec<Message> {
    let request = PageRequest { from: None, oldest_first: true, most: 10_000 };
    store.page(&id.into(), &request).unwrap().messages
}

fn sessions(store: &dyn Store) -> Vec<String> {
    let all = store.sessions(&Filter { all: true, ..Filter::default() }).unwrap();
    let mut ids: Vec<String> = all.iter().map(|session| session.id.to_string()).collect();
    ids.sort();
    ids
}

fn piece(conversation: usize, after: u64, messages: Vec<Message>) -> StagedPiece {
    StagedPiece { stage: "stage_1".into(), conversation, after, messages }
}

/// Runs a test on both stores.
fn on_both(test: impl Fn(&dyn Store)) {
    on_both_clocks(|store, _| test(store));
}

/// Runs a test on both stores; `at` sets their clocks to a time after [`NOW`].
fn on_both_clocks(test: impl Fn(&dyn Store, &dyn Fn(u64))) {
    let (time, clock) = crate::stopped_clock();
    let at = |after| time.store(NOW.0 + after, std::sync::atomic::Ordering::Relaxed);
    test(&MemoryStore::with_clock(clock), &at);
    let fresh = fresh();
    test(&*fresh, &|after| fresh.at(after));
    assert_eq!(fresh.check().unwrap().problems, Vec::<String>::new());
}

#[test]
fn a_session_and_its_sub_agents_are_stored_together() {
    on_both(|store| {
        let main = conversation("ses_main", vec![user("m1", "Ask a helper"), answer("m2", "Done")]);
        let side = task("ses_side", "ses_main", vec![user("m3", "You help")]);
        assert_eq!(store.import(import(vec![main, side])).unwrap(), Imported::Stored);
        assert_eq!(sessions(store), ["ses_main", "ses_side"]);
        let found = store.session(&"ses_side".into()).unwrap();
        assert_eq!((found.parent, found.messages), (Some("ses_main".into()), 1));
        let main = store.session(&"ses_main".into()).unwrap();
        assert_eq!(
            (main.created, main.updated, main.title.as_str()),
            (Millis(NOW.0 - 100), NOW, "about ses_main")
        );
        let records = store.imports(SOURCE).unwrap();
        assert_eq!(records, store.import_of(&"ses_main".into()).unwrap());
        let found: Vec<(&str, &str, &str, bool)> = records
            .iter()
            .map(|it| (it.session.as_str(), it.root.as_str(), it.conversation.as_str(), it.is_continued))
            .collect();
        assert_eq!(found, [("ses_main", "ses_main", "", false), ("ses_side", "ses_main", "#1", false)]);
        store.remove(&Claim::unleased(&"ses_main".into()), NOW).unwrap();
        assert_eq!(store.imports(SOURCE).unwrap(), []);
    });
}

#[test]
fn the_tool_and_its_recorded_window_are_stored_and_updated() {
    on_both(|store| {
        let recorded = |context: Option<u64>| {
            let mut main = conversation("ses_main", vec![user("m9", "Go")]);
            (main.session.tool, main.session.context) = (Some("codex".into()), context.map(Tokens));
            main
        };
        let kept = |id: &str| {
            let session = store.session(&id.into()).unwrap();
            (session.tool, session.context)
        };
        let codex = |context| (Some("codex".to_owned()), Some(Tokens(context)));
        // Staged, because large sessions are.
        store.stage(piece(0, 0, vec![user("m1", "Go")])).unwrap();
        let mut staged = recorded(Some(400));
        (staged.staged, staged.messages, staged.state) = (1, Vec::new(), "1 message".into());
        let whole = Import { stage: Some("stage_1".into()), ..import(vec![staged]) };
        assert_eq!(store.import(whole).unwrap(), Imported::Stored);
        assert_eq!(kept("ses_main"), codex(400));
        store.fork(&"ses_main".into(), None, NewSession::new("ses_fork".into()), NOW).unwrap();
        assert_eq!(kept("ses_fork"), codex(400));
        // It records another window, then none; neither needs a message.
        for (context, expected) in [(Some(300), codex(300)), (None, codex(300))] {
            let again = Conversation { before: Some("1 message".into()), ..recorded(context) };
            let again = Conversation { state: "1 message".into(), messages: Vec::new(), ..again };
            let again = Import { known: Some(vec!["ses_main".into()]), ..import(vec![again]) };
            assert_eq!(store.import(again).unwrap(), Imported::Stored);
            assert_eq!(kept("ses_main"), expected);
        }
        assert_eq!(kept("ses_fork"), codex(400));
        let large = Import { source: "codex:two".into(), ..import(vec![recorded(Some(u64::MAX))]) };
        let mut large = Import { known: None, ..large };
        large.conversations[0].session.id = "ses_large".into();
        assert_eq!(store.import(large).unwrap(), Imported::Stored);
    });
}

#[test]
fn a_failed_import_leaves_nothing() {
    on_both(|store| {
        crate::session(store, "ses_side");
        let main = conversation("ses_main", vec![user("m1", "Ask a helper")]);
        let side = task("ses_side", "ses_main", vec![user("m3", "You help")]);
        let refused = store.import(import(vec![main.clone(), side]));
        assert!(matches!(refused, Err(StoreError::Log(_))), "{refused:?}");
        let twice = task("ses_other", "ses_main", vec![user("m3", "You help"), user("m3", "again")]);
        assert!(store.import(import(vec![main, twice])).is_err());
        assert_eq!((sessions(store), store.imports(SOURCE).unwrap()), (vec!["ses_side".to_owned()], vec![]));
    });
}

#[test]
fn staged_messages_are_invisible_until_they_are_stored() {
    on_both(|store| {
        store.stage(piece(0, 0, vec![user("m1", "one")])).unwrap();
        store.stage(piece(0, 1, vec![answer("m2", "two")])).unwrap();
        store.stage(piece(1, 0, vec![user("m3", "You help")])).unwrap();
        assert_eq!(sessions(store), Vec::<String>::new());
        assert_eq!(store.find_handles(Scope::Everywhere, "m", 10).unwrap(), []);
        assert!(store.owner("m1").is_err() && store.session(&"stage_1/0".into()).is_err());
        store.check().unwrap();
        let mut main = conversation("ses_main", vec![user("m4", "three")]);
        let mut side = task("ses_side", "ses_main", vec![]);
        (main.staged, side.staged) = (2, 1);
        let whole = Import { stage: Some("stage_1".into()), ..import(vec![main, side]) };
        assert_eq!(store.import(whole).unwrap(), Imported::Stored);
        assert_eq!(ids(&all(store, "ses_main")), ["m1", "m2", "m4"]);
        assert_eq!(ids(&all(store, "ses_side")), ["m3"]);
        let found = store.session(&"ses_main".into()).unwrap();
        assert_eq!((found.messages, found.updated, found.created), (3, NOW, Millis(NOW.0 - 100)));
        assert_eq!(store.sweep_stages(Duration::ZERO).unwrap(), 0, "nothing is left of the stage");
    });
}

#[test]
fn a_stage_that_was_swept_is_not_stored_in_part() {
    on_both_clocks(|store, at| {
        store.stage(piece(0, 0, vec![user("m1", "one")])).unwrap();
        at(100);
        assert_eq!(store.sweep_stages(millis(100)).unwrap(), 0, "it was heard of not long ago");
        assert_eq!(store.sweep_stages(millis(99)).unwrap(), 1);
        assert!(store.stage(piece(0, 1, vec![answer("m2", "two")])).is_err());
        let main = Conversation { staged: 1, ..conversation("ses_main", vec![answer("m2", "two")]) };
        let whole = Import { stage: Some("stage_1".into()), ..import(vec![main]) };
        assert!(matches!(store.import(whole), Err(StoreError::Refused(_))));
        assert_eq!(sessions(store), Vec::<String>::new());
        store.unstage("stage_1").unwrap();
        store.unstage("stage_1").unwrap();
    });
}

#[test]
fn of_several_imports_at_once_one_is_stored() {
    for round in 0..20 {
        let fresh = fresh();
        let stored = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4)
                .map(|worker| {
                    let store = fresh.again();
                    scope.spawn(move || {
                        let id = if round % 2 == 0 { "ses_main".to_owned() } else { format!("ses_{worker}") };
                        let main = conversation(&id, vec![user("m1", "Hello"), answer("m2", "Hi")]);
                        match store.import(import(vec![main])) {
                            Ok(Imported::Stored) => 1,
                            Ok(Imported::Outdated) => 0,
                            other => panic!("{other:?}"),
                        }
                    })
                })
                .collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).sum::<u32>()
        });
        assert_eq!((stored, sessions(&*fresh).len()), (1, 1), "round {round}");
    }
}

/// A message whose last part is a call with that state.
fn calling(state: ToolState) -> Message {
    let mut message = begun("m2", "Let me look");
    message.parts.push(plimsoll::Part::tool("m2.2".into(), "call_1", "read", state));
    message
}

/// The open call of an imported session is answered.
fn answered(before: &str) -> Conversation {
    let mut message = calling(ToolState::completed(json!({}), "the answer"));
    message.info.finish = Some("tool-calls".into());
    let parts = vec![(1, message.parts[1].clone())];
    message.parts.clear();
    Conversation {
        state: "3 messages".into(),
        before: Some(before.into()),
        grown: Some(GrownMessage { message, parts }),
        messages: vec![answer("m3", "There it is")],
        updated: Millis(NOW.0 + 50),
        ..conversation("ses_main", vec![])
    }
}

fn with_open_call(store: &dyn Store) {
    let open = calling(ToolState::pending(json!({})));
    let main = conversation("ses_main", vec![user("m1", "Look. Never touch the tests."), open]);
    assert_eq!(store.import(import(vec![main])).unwrap(), Imported::Stored);
}

fn grown(before: &str) -> Import {
    Import { known: Some(vec!["ses_main".into()]), ..import(vec![answered(before)]) }
}

#[test]
fn the_last_message_grows_even_if_a_take_over_marked_it_as_interrupted() {
    on_both(|store| {
        with_open_call(store);
        assert_eq!(store.check().unwrap().problems, Vec::<String>::new(), "an import may leave a call open");
        let lease = store.lease(&"ses_main".into(), "somebody", millis(1_000)).unwrap();
        store.release(&lease).unwrap();
        assert_eq!(store.import(grown("2 messages")).unwrap(), Imported::Stored);
        let messages = all(store, "ses_main");
        assert_eq!(ids(&messages), ["m1", "m2", "m3"]);
        let state = &messages[1].parts[1].as_tool().unwrap().state;
        assert_eq!((&state.status, state.output.as_deref()), (&ToolStatus::Completed, Some("the answer")));
        assert_eq!(messages[1].info.finish.as_deref(), Some("tool-calls"));
        let session = store.session(&"ses_main".into()).unwrap();
        assert_eq!((session.messages, session.updated), (3, Millis(NOW.0 + 50)));
        assert_eq!(store.import_of(&"ses_main".into()).unwrap()[0].state, "3 messages");
        // The state that it was planned on has changed.
        assert_eq!(store.import(grown("2 messages")).unwrap(), Imported::Outdated);
    });
}

#[test]
fn reductions_stay_and_do_not_count_as_continuing() {
    on_both(|store| {
        with_open_call(store);
        let (session, mut ids) = (SessionId::new("ses_main"), Ids::new(|| 7));
        let lease = store.lease(&session, "somebody", millis(1_000)).unwrap();
        let (mut log, policy) = (Log::from_messages(all(store, "ses_main")), Policy::default());
        let target = PinTarget::Words("Never touch the tests.".into());
        let plan = pin::plan(&log, &target, &policy, None, &policy.count).unwrap();
        let receipt = plan.apply(&mut log, &mut ids, NOW, &policy, |_| Tokens(1)).unwrap();
        let (receipts, appended) = (vec![receipt], vec![answer("m5", "a summary")]);
        store
            .reduce(&lease.claim(), Reduction { receipts, appended, ..Reduction::default() }, None, NOW)
            .unwrap();
        store.release(&lease).unwrap();
        assert!(!store.import_of(&session).unwrap()[0].is_continued);
        assert_eq!(store.import(grown("2 messages")).unwrap(), Imported::Stored);
        let messages = all(store, "ses_main");
        assert_eq!(crate::ids(&messages), ["m1", "m2", "m5", "m3"]);
        let marks = &messages[0].parts[0].marks;
        assert!(marks.iter().any(|mark| matches!(mark.effect, Effect::Pin(_))), "{marks:?}");
    });
}

#[test]
fn a_continued_session_is_not_extended() {
    on_both(|store| {
        with_open_call(store);
        let session = SessionId::new("ses_main");
        store.append(&Claim::unleased(&session), vec![user("m9", "Go on here")], NOW).unwrap();
        assert!(store.import_of(&session).unwrap()[0].is_continued);
        assert_eq!(store.import(grown("2 messages")).unwrap(), Imported::Outdated);
        assert_eq!(ids(&all(store, "ses_main")), ["m1", "m2", "m9"]);
    });
}

#[test]
fn a_running_session_is_not_extended_and_its_former_holder_is_fenced() {
    on_both_clocks(|store, at| {
        with_open_call(store);
        let session = SessionId::new("ses_main");
        let lease = store.lease(&session, "somebody", millis(1_000)).unwrap();
        let refused = store.import(grown("2 messages"));
        assert!(
            matches!(&refused, Err(StoreError::Leased { holder, .. }) if holder == "somebody"),
            "{refused:?}"
        );
        // Once it has expired, the import can extend the session.
        at(2_000);
        assert_eq!(store.import(grown("2 messages")).unwrap(), Imported::Stored);
        let late = store.append(&lease.claim(), vec![user("m9", "late")], NOW);
        assert!(matches!(late, Err(StoreError::Fenced { .. })), "{late:?}");
    });
}

#[test]
fn a_message_that_a_fork_shares_does_not_grow_by_an_import() {
    on_both(|store| {
        with_open_call(store);
        let session = SessionId::new("ses_main");
        let lease = store.lease(&session, "somebody", millis(1_000)).unwrap();
        store.release(&lease).unwrap();
        store.fork(&session, Some(&"m2".into()), NewSession::new("ses_fork".into()), NOW).unwrap();
        let before = json_of(&all(store, "ses_fork"));
        assert_eq!(store.import(grown("2 messages")).unwrap(), Imported::Shared);
        assert_eq!(json_of(&all(store, "ses_fork")), before);
        let mut more = grown("2 messages");
        more.conversations[0].grown = None;
        assert_eq!(store.import(more).unwrap(), Imported::Stored, "messages after it can be added");
        assert_eq!(ids(&all(store, "ses_main")), ["m1", "m2", "m3"]);
        assert_eq!(json_of(&all(store, "ses_fork")), before);
    });
}

#[test]
fn others_write_while_an_import_is_staged() {
    let fresh = fresh();
    let own = crate::session(&*fresh, "ses_own");
    let other = fresh.again();
    let done = std::sync::atomic::AtomicBool::new(false);
    let longest = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let (mut longest, mut count) = (Duration::ZERO, 0);
            while !done.load(std::sync::atomic::Ordering::Acquire) {
                let begun = Instant::now();
                let message = user(&format!("own_{count:06}"), "words");
                other.append(&Claim::unleased(&own), vec![message], NOW).unwrap();
                (longest, count) = (longest.max(begun.elapsed()), count + 1);
            }
            (longest, count)
        });
        let text = "word ".repeat(2_000);
        for place in 0..50 {
            let messages = (0..100).map(|n| user(&format!("m{place:03}{n:03}"), &text)).collect();
            fresh.stage(piece(0, place * 100, messages)).unwrap();
        }
        let main = Conversation { staged: 5_000, ..conversation("ses_main", vec![]) };
        fresh.import(Import { stage: Some("stage_1".into()), ..import(vec![main]) }).unwrap();
        done.store(true, std::sync::atomic::Ordering::Release);
        writer.join().unwrap()
    });
    println!("50 MB staged; the longest of {} concurrent appends took {:?}", longest.1, longest.0);
    assert!(longest.1 > 10, "others could write: {longest:?}");
    assert_eq!(fresh.session(&"ses_main".into()).unwrap().messages, 5_000);
}
