//! Importing a source, and importing it again.

use std::time::Duration;

use plimsoll::log::Effect;
use plimsoll::pin::{self, PinTarget};
use plimsoll::{Log, Message, Policy, Reduction, SessionId, Tokens, ToolStatus};
use plimsoll_import::{ImportError, ImportOptions, NewSessionReason, Outcome};
use plimsoll_store::{Claim, Filter, MemoryStore, NewSession, Store, StoreError};
use serde_json::json;

use crate::{Claude, NOW, SESSION, all, fresh, import, import_file, import_with, texts};

const MINUTE: Duration = Duration::from_secs(60);

fn import_outcome(store: &dyn Store, claude: &Claude) -> (Outcome, usize, bool, SessionId) {
    let report = import(store, &claude.text()).unwrap();
    (report.outcome, report.added, report.has_grown, report.id)
}

fn on_both(test: impl Fn(&dyn Store)) {
    test(&MemoryStore::new());
    let fresh = fresh();
    test(&*fresh);
    assert_eq!(fresh.check().unwrap().problems, Vec::<String>::new());
}

fn count(store: &dyn Store) -> usize {
    store.sessions(&Filter { all: true, ..Filter::default() }).unwrap().len()
}

#[test]
fn a_grown_file_adds_its_new_messages() {
    on_both(|store| {
        let session = SessionId::new(SESSION);
        let claude = Claude::default().user("Hello").says("one", "Hi").user("Go on");
        assert_eq!(import_outcome(store, &claude), (Outcome::Stored, 3, false, session.clone()));
        assert_eq!(import_outcome(store, &claude), (Outcome::Unchanged, 0, false, session.clone()));
        let claude = claude.says("two", "I do").user("More");
        assert_eq!(import_outcome(store, &claude), (Outcome::Updated, 2, false, session.clone()));
        assert_eq!(import_outcome(store, &claude), (Outcome::Unchanged, 0, false, session.clone()));
        assert_eq!(texts(store, &session), ["Hello", "Hi", "Go on", "I do", "More"]);
        let found = store.session(&session).unwrap();
        assert_eq!((found.messages, found.usage.input, found.usage.output), (5, Tokens(20), Tokens(10)));
        assert_eq!((found.title.as_str(), found.directory.as_deref()), ("Hello", Some("/home/ada/place")));
        // What an import of the whole file would have stored.
        let whole = MemoryStore::new();
        import(&whole, &claude.text()).unwrap();
        let json = |messages: &[Message]| serde_json::to_value(messages).unwrap();
        assert_eq!(json(&all(store, &session)), json(&all(&whole, &session)));
    });
}

#[test]
fn a_call_without_an_answer_at_the_end_is_answered_by_the_next_import() {
    on_both(|store| {
        let session = SessionId::new(SESSION);
        let claude = Claude::default().user("Look").says("one", "Let me see").calls("one", "call_1");
        let report = import(store, &claude.text()).unwrap();
        assert_eq!((report.outcome, report.interrupted, report.is_open), (Outcome::Stored, 0, true));
        let state = |store: &dyn Store| {
            let message = all(store, &session).remove(1);
            message.parts[1].as_tool().unwrap().state.clone()
        };
        assert_eq!(state(store).status, ToolStatus::Pending);
        // A lease taken on the session meanwhile marks the call as interrupted.
        let lease = store.lease(&session, "somebody", MINUTE).unwrap();
        store.release(&lease).unwrap();
        assert_eq!(state(store).status, ToolStatus::Error);
        assert_eq!(import_outcome(store, &claude), (Outcome::Unchanged, 0, false, session.clone()));
        let answered = claude.result("call_1", "the answer");
        assert_eq!(import_outcome(store, &answered), (Outcome::Updated, 0, true, session.clone()));
        assert_eq!(
            (state(store).status, state(store).output.as_deref()),
            (ToolStatus::Completed, Some("the answer"))
        );
        let more = answered.says("two", "There");
        assert_eq!(import_outcome(store, &more), (Outcome::Updated, 1, false, session.clone()));
        assert_eq!(texts(store, &session), ["Look", "Let me see", "There"]);
    });
}

#[test]
fn the_next_import_continues_an_incomplete_answer() {
    on_both(|store| {
        let session = SessionId::new(SESSION);
        let claude = Claude::default().user("Look").says("one", "First");
        assert!(import(store, &claude.text()).unwrap().is_open);
        let claude =
            claude.says("one", "Second").calls("one", "call_1").result("call_1", "ok").user("Thanks");
        assert_eq!(import_outcome(store, &claude), (Outcome::Updated, 1, true, session.clone()));
        let messages = all(store, &session);
        assert_eq!((messages.len(), messages[1].parts.len()), (3, 3));
        assert_eq!(messages[1].info.finish.as_deref(), Some("tool-calls"));
    });
}

#[test]
fn an_open_call_before_later_messages_is_marked_as_interrupted() {
    on_both(|store| {
        let claude = Claude::default().user("Look").calls("one", "call_1").user("Never mind");
        let report = import(store, &claude.text()).unwrap();
        assert_eq!((report.interrupted, report.is_open), (1, false));
        assert_eq!(all(store, &report.id)[1].parts[0].as_tool().unwrap().state.status, ToolStatus::Error);
        // Even if the first import considered it open.
        let other = MemoryStore::new();
        let open = Claude { lines: claude.lines[..2].to_vec() };
        assert!(import(&other, &open.text()).unwrap().is_open);
        assert_eq!(import_outcome(&other, &claude), (Outcome::Updated, 1, true, report.id.clone()));
        assert_eq!(all(&other, &report.id)[1].parts[0].as_tool().unwrap().state.status, ToolStatus::Error);
    });
}

#[test]
fn a_source_that_was_rewritten_makes_a_new_session_once() {
    on_both(|store| {
        import(store, &Claude::default().user("Hello").says("one", "Hi").user("Go on").text()).unwrap();
        let other = Claude::default().user("Hello").says("one", "Good day").user("Go on");
        let report = import(store, &other.text()).unwrap();
        let instead_of = report.instead_of.unwrap();
        assert_eq!((instead_of.session.as_str(), instead_of.because), (SESSION, NewSessionReason::Diverged));
        assert!(report.outcome == Outcome::Stored && report.id.as_str() != SESSION);
        assert_eq!(texts(store, &report.id), ["Hello", "Good day", "Go on"]);
        assert_eq!(import_outcome(store, &other), (Outcome::Unchanged, 0, false, report.id.clone()));
        assert_eq!(
            import_outcome(store, &other.says("two", "More")),
            (Outcome::Updated, 1, false, report.id.clone())
        );
        assert_eq!((texts(store, &SESSION.into()).len(), count(store)), (3, 2));
        // An id is unique in the whole store.
        let names = |id: &SessionId| all(store, id).iter().map(|it| it.info.id.clone()).collect::<Vec<_>>();
        assert!(names(&report.id).iter().all(|name| !names(&SESSION.into()).contains(name)));
        // A shorter one is another session: it was rewound to before what was imported.
        let shorter = Claude::default().user("Hello");
        assert_eq!(
            import(store, &shorter.text()).unwrap().instead_of.unwrap().because,
            NewSessionReason::Diverged
        );
    });
}

#[test]
fn a_last_message_that_was_rewritten_makes_a_new_session() {
    on_both(|store| {
        import(store, &Claude::default().user("Hello").says("one", "Hi there").text()).unwrap();
        let other = Claude::default().user("Hello").says("one", "Hi all").user("Go on").says("two", "Yes");
        assert_eq!(
            import(store, &other.text()).unwrap().instead_of.unwrap().because,
            NewSessionReason::Diverged
        );
    });
}

#[test]
fn a_session_that_was_continued_here_is_not_changed() {
    on_both(|store| {
        let claude = Claude::default().user("Hello").says("one", "Hi");
        let session = import(store, &claude.text()).unwrap().id;
        let here = Message::user("msg_own".into(), "prt_own".into(), "Go on here");
        store.append(&Claim::unleased(&session), vec![here], NOW).unwrap();
        assert_eq!(import_outcome(store, &claude), (Outcome::Unchanged, 0, false, session.clone()));
        let claude = claude.user("Go on there");
        let report = import(store, &claude.text()).unwrap();
        assert_eq!(report.instead_of.unwrap().because, NewSessionReason::Continued);
        assert_eq!(texts(store, &session), ["Hello", "Hi", "Go on here"]);
        assert_eq!(texts(store, &report.id), ["Hello", "Hi", "Go on there"]);
        assert_eq!(import_outcome(store, &claude), (Outcome::Unchanged, 0, false, report.id));
    });
}

#[test]
fn reductions_stay_in_force_and_a_lease_is_respected() {
    on_both(|store| {
        let claude = Claude::default().user("Look. Never touch the tests.").says("one", "Hi");
        let session = import(store, &claude.text()).unwrap().id;
        let lease = store.lease(&session, "somebody", MINUTE).unwrap();
        let (mut log, policy) = (Log::from_messages(all(store, &session)), Policy::default());
        let target = PinTarget::Words("Never touch the tests.".into());
        let plan = pin::plan(&log, &target, &policy, None, &policy.count).unwrap();
        let receipt = plan.apply(&mut log, &mut crate::ids(), NOW, &policy, |_| Tokens(1)).unwrap();
        let reduction = Reduction { receipts: vec![receipt], ..Reduction::default() };
        store.reduce(&lease.claim(), reduction, None, NOW).unwrap();
        let claude = claude.user("Go on");
        let refused = import(store, &claude.text());
        assert!(matches!(&refused, Err(ImportError::Store(StoreError::Leased { .. }))), "{refused:?}");
        store.release(&lease).unwrap();
        assert_eq!(import_outcome(store, &claude), (Outcome::Updated, 1, true, session.clone()));
        let marks = all(store, &session)[0].parts[0].marks.clone();
        assert!(marks.iter().any(|mark| matches!(mark.effect, Effect::Pin(_))), "{marks:?}");
    });
}

#[test]
fn a_message_that_a_fork_shares_does_not_grow() {
    on_both(|store| {
        let claude = Claude::default().user("Look").calls("one", "call_1");
        let session = import(store, &claude.text()).unwrap().id;
        let lease = store.lease(&session, "somebody", MINUTE).unwrap();
        store.release(&lease).unwrap();
        let last = all(store, &session)[1].info.id.clone();
        store.fork(&session, Some(&last), NewSession::new("ses_fork".into()), NOW).unwrap();
        let report = import(store, &claude.result("call_1", "ok").text()).unwrap();
        assert_eq!(report.instead_of.unwrap().because, NewSessionReason::Shared);
        assert_eq!(
            all(store, &"ses_fork".into())[1].parts[0].as_tool().unwrap().state.status,
            ToolStatus::Error
        );
        assert_eq!(all(store, &report.id)[1].parts[0].as_tool().unwrap().state.status, ToolStatus::Completed);
    });
}

#[test]
fn sub_agents_are_imported_and_updated() {
    on_both(|store| {
        let claude = Claude::default().user("Ask a helper").aside(1, "You are the helper");
        let report = import(store, &claude.text()).unwrap();
        assert_eq!((report.messages, report.tasks.len(), report.tasks[0].messages), (1, 1, 1));
        let task = store.session(&report.tasks[0].id).unwrap();
        assert_eq!(
            (task.parent.as_ref(), task.directory.as_deref()),
            (Some(&report.id), Some("/home/ada/place"))
        );
        let grown = import(store, &claude.aside(2, "You are another").text()).unwrap();
        assert_eq!((grown.outcome, grown.added, grown.id), (Outcome::Updated, 0, report.id));
        assert_eq!((grown.tasks.len(), grown.tasks[0].outcome, count(store)), (1, Outcome::Stored, 3));
        assert_eq!(texts(store, &grown.tasks[0].id), ["You are another"]);
    });
}

#[test]
fn a_chat_without_an_id_is_known_by_its_file_or_its_content() {
    let fresh = fresh();
    let chat = |words: &[&str]| {
        let said = words.iter().enumerate().map(|(place, words)| {
            json!({ "role": if place % 2 == 0 { "user" } else { "assistant" }, "content": words })
        });
        json!({ "messages": said.collect::<Vec<_>>() }).to_string()
    };
    let path = fresh.directory.path().join("chat.json");
    std::fs::write(&path, chat(&["Hello", "Hi"])).unwrap();
    let first = import_file(&*fresh, &path).unwrap();
    assert_eq!((first.outcome, first.added), (Outcome::Stored, 2));
    let piped = import(&*fresh, &chat(&["Hello", "Hi"])).unwrap();
    assert_eq!(
        (piped.outcome, &piped.id),
        (Outcome::Unchanged, &first.id),
        "the same content is the same chat"
    );
    std::fs::write(&path, chat(&["Hello", "Hi", "Go on", "Yes"])).unwrap();
    let grown = import_file(&*fresh, &path).unwrap();
    assert_eq!((grown.outcome, grown.added, &grown.id), (Outcome::Updated, 2, &first.id));
    // Two chats with the same start are two chats.
    let piped = import(&*fresh, &chat(&["Hello", "Hi", "Something else"])).unwrap();
    assert_eq!((piped.outcome, piped.instead_of, count(&*fresh)), (Outcome::Stored, None, 2));
    let parents: Vec<_> = all(&*fresh, &first.id)
        .into_iter()
        .map(|it| (it.info.id.clone(), it.info.parent_id.clone()))
        .collect();
    assert_eq!(parents[3].1.as_ref(), Some(&parents[2].0), "mentions follow the names");
    assert_eq!(parents[1].1.as_ref(), Some(&parents[0].0));
}

#[test]
fn importing_again_creates_new_ids_and_does_not_change_the_first_session() {
    on_both(|store| {
        let claude = Claude::default().user("Hello").says("one", "Hi").aside(1, "You are the helper");
        let first = import(store, &claude.text()).unwrap();
        let options = ImportOptions { now: NOW, duplicate: true, ..ImportOptions::default() };
        let again = import_with(store, &claude.text(), &options).unwrap();
        assert!(
            again.outcome == Outcome::Stored
                && again.id != first.id
                && again.tasks[0].id != first.tasks[0].id
        );
        let text = serde_json::to_string(&all(store, &again.id)).unwrap();
        assert!(!text.contains(SESSION) && !text.contains("aaaaaaaa-"), "{text}");
        assert_eq!(
            import_outcome(store, &claude.user("More")).3,
            first.id,
            "the first is the one that is kept up to date"
        );
    });
}

#[test]
fn a_session_without_an_import_record_is_not_changed() {
    on_both(|store| {
        store.create(NewSession::new(SESSION.into()), NOW).unwrap();
        let refused = import(store, &Claude::default().user("Hello").text());
        assert!(
            matches!(&refused, Err(ImportError::IdTaken { id }) if id.as_str() == SESSION),
            "{refused:?}"
        );
        let empty = import(store, r#"{"info": {"id": "ses_e"}, "messages": []}"#);
        assert!(matches!(empty, Err(ImportError::Empty)), "{empty:?}");
    });
}

#[test]
fn a_resumed_session_does_not_reuse_ids_of_the_previous_one() {
    let fresh = fresh();
    let claude = Claude::default().user("Hello").says("one", "Hi");
    let first = import(&*fresh, &claude.text()).unwrap();
    let resumed = claude.user("Resumed").text().replace(SESSION, "7777777a-1111-2222-3333-444444444444");
    let second = import(&*fresh, &resumed).unwrap();
    assert_eq!((second.outcome, second.instead_of), (Outcome::Stored, None));
    let names =
        |id: &SessionId| all(&*fresh, id).into_iter().map(|it| it.info.id.clone()).collect::<Vec<_>>();
    assert!(names(&second.id).iter().all(|name| !names(&first.id).contains(name)));
}
