//! The change feed, conditional reductions, and repeated writes.

use plimsoll::log::MessageUpdate;
use plimsoll::prune::{PruneItem, PrunePlan};
use plimsoll::{Message, Millis, Part, Plan, Receipt, ReceiptId, Reduction, Tokens, Usage};
use plimsoll_store::{Change, ChangeKind, MemoryStore, NewSession, Revision, Sequence, Store, StoreError};
use rstest::rstest;

use super::{Fresh, NOW, answer, begun, fresh, ids, json_of, millis, read, session, unleased, user};

fn either(real: bool, test: impl FnOnce(&dyn Store)) {
    if real { test(&*fresh()) } else { test(&MemoryStore::new()) }
}

fn kinds(changes: &[Change]) -> Vec<(ChangeKind, u64, Option<&str>, Option<&str>)> {
    let entry = |change: &'_ Change| (change.kind, change.revision.0);
    changes
        .iter()
        .map(|change| {
            let (kind, revision) = entry(change);
            (
                kind,
                revision,
                change.message.as_ref().map(|id| id.as_str()),
                change.part.as_ref().map(|id| id.as_str()),
            )
        })
        .collect()
}

fn receipt(id: &str, part: &str) -> Receipt {
    let item = PruneItem::output(part.into(), "".into(), "read", Tokens(1));
    Receipt::new(ReceiptId::new(id), NOW, Plan::Prune(PrunePlan::of(vec![item])), (Tokens(2), Tokens(1)))
}

fn reduction(receipt: &Receipt) -> Reduction {
    Reduction { receipts: vec![receipt.clone()], ..Reduction::default() }
}

#[rstest]
fn each_write_moves_revision_and_sequence(#[values(false, true)] real: bool) {
    either(real, |store| {
        let id = session(store, "ses_1");
        let claim = unleased(&id);
        store.append(&claim, vec![user("msg_1", "go"), begun("msg_2", "I ")], NOW).unwrap();
        store.extend(&claim, &"msg_2.1".into(), 2, "see", NOW).unwrap();
        store.append_part(&claim, &"msg_2".into(), Part::text("prt_1".into(), "x"), NOW).unwrap();
        store.finish(&claim, &"msg_2".into(), "stop", None, NOW).unwrap();
        let lease = store.lease(&id, "me", millis(100)).unwrap();
        let page = store.changes(Sequence(0), 0).unwrap();
        use ChangeKind::*;
        let expected = [
            (Created, 1, None, None),
            (Appended, 2, Some("msg_1"), None),
            (Appended, 2, Some("msg_2"), None),
            (Extended, 3, Some("msg_2"), Some("msg_2.1")),
            (PartAppended, 4, Some("msg_2"), Some("prt_1")),
            (Recorded, 5, Some("msg_2"), None),
            (Leased, 6, None, None),
        ];
        assert_eq!(kinds(&page.changes), expected);
        assert!(!page.gap && page.changes.iter().all(|change| change.session == id));
        assert_eq!(store.session(&id).unwrap().revision, Revision(6));
        assert_eq!(store.window(&id).unwrap().revision, Revision(6));
        // In pages, and only what is new.
        let first = store.changes(Sequence(0), 3).unwrap();
        let rest = store.changes(first.next, 100).unwrap();
        assert_eq!([kinds(&first.changes), kinds(&rest.changes)].concat(), expected);
        assert_eq!(rest.next, store.newest_change().unwrap());
        store.remove(&lease.claim(), NOW).unwrap();
        let last = store.changes(rest.next, 100).unwrap();
        assert_eq!(kinds(&last.changes), [(Removed, 7, None, None)], "also of what is gone");
    });
}

/// A refused write leaves no trace in the feed, even if it shares a transaction with others.
#[test]
fn another_process_sees_what_was_committed_and_nothing_else() {
    let store = fresh();
    let id = session(&*store, "ses_1");
    let other = store.again();
    let since = other.newest_change().unwrap();
    store.append(&unleased(&id), vec![user("msg_1", "go")], NOW).unwrap();
    assert!(store.append(&unleased(&id), vec![user("msg_2", "x"), user("msg_1", "other")], NOW).is_err());
    let page = other.changes(since, 100).unwrap();
    assert_eq!(kinds(&page.changes), [(ChangeKind::Appended, 2, Some("msg_1"), None)]);
}

#[rstest]
fn a_reader_that_is_too_far_behind_sees_a_gap(#[values(false, true)] real: bool) {
    either(real, |store| {
        let id = session(store, "ses_1");
        for n in 0..20 {
            store.append(&unleased(&id), vec![user(&format!("msg_{n:02}"), "x")], NOW).unwrap();
        }
        assert_eq!(store.trim_feed(5).unwrap(), 16);
        assert_eq!(store.trim_feed(5).unwrap(), 0);
        let late = store.changes(Sequence(3), 100).unwrap();
        assert_eq!((late.gap, late.changes.len(), late.next), (true, 5, Sequence(21)));
        let in_time = store.changes(Sequence(16), 100).unwrap();
        assert_eq!((in_time.gap, in_time.changes.len()), (false, 5));
        store.trim_feed(0).unwrap();
        store.append(&unleased(&id), vec![user("msg_x", "x")], NOW).unwrap();
        assert_eq!(store.newest_change().unwrap(), Sequence(22), "numbers are not given twice");
    });
}

/// Two reductions are planned on the same window: the second is refused. Messages that were appended meanwhile do not
/// matter.
#[rstest]
fn a_reduction_is_conditional_on_what_it_was_planned_on(#[values(false, true)] real: bool) {
    either(real, |store| {
        let id = session(store, "ses_1");
        let claim = unleased(&id);
        store.append(&claim, vec![read("msg_1", "a"), read("msg_2", "b")], NOW).unwrap();
        let planned_on = store.window(&id).unwrap().revision;
        store.append(&claim, vec![user("msg_3", "meanwhile")], NOW).unwrap();
        let (one, two) = (receipt("rcp_1", "msg_1.1"), receipt("rcp_2", "msg_2.1"));
        store.reduce(&claim, reduction(&one), Some(planned_on), NOW).unwrap();
        let before = store.window(&id).unwrap();
        let error = store.reduce(&claim, reduction(&two), Some(planned_on), NOW).unwrap_err();
        assert!(matches!(error, StoreError::Stale { .. }), "{error}");
        assert!(error.to_string().ends_with("planned on revision 2, reduced in 4; plan again"), "{error}");
        assert_eq!(store.window(&id).unwrap(), before);
        store.reduce(&claim, reduction(&two), Some(before.revision), NOW).unwrap();
        let planned_on = store.window(&id).unwrap().revision;
        let undone = store.undo(&claim, &one.id, Millis(NOW.0 + 1)).unwrap();
        let three = receipt("rcp_3", "msg_1.1");
        assert!(
            store.reduce(&claim, reduction(&three), Some(planned_on), NOW).is_err(),
            "an undo counts too"
        );
        let error = store.undo(&claim, &one.id, NOW).unwrap_err();
        assert!(matches!(error, StoreError::Undone { by, .. } if by == undone.id));
    });
}

/// The effect of an undo on the window is known only afterwards.
#[rstest]
fn the_sizes_of_a_receipt_are_corrected(#[values(false, true)] real: bool) {
    either(real, |store| {
        let (id, other) = (session(store, "ses_1"), session(store, "ses_2"));
        let claim = unleased(&id);
        store.append(&claim, vec![read("msg_1", "a")], NOW).unwrap();
        let one = receipt("rcp_1", "msg_1.1");
        store.reduce(&claim, reduction(&one), None, NOW).unwrap();
        let undone = store.undo(&claim, &one.id, NOW).unwrap();
        store.resize_receipt(&claim, &undone.id, Tokens(70), Tokens(90)).unwrap();
        let mut corrected = undone;
        (corrected.before, corrected.after) = (Tokens(70), Tokens(90));
        assert_eq!(store.receipts(&id, None, 10).unwrap(), [one, corrected.clone()]);
        let error = store.resize_receipt(&unleased(&other), &corrected.id, Tokens(1), Tokens(2)).unwrap_err();
        assert!(matches!(error, StoreError::Missing { .. }), "{error}");
    });
}

/// A caller that does not know whether a write was committed repeats it.
#[rstest]
fn a_repeated_write_changes_nothing(#[values(false, true)] real: bool) {
    either(real, |store| {
        let new = NewSession { title: "T".into(), ..NewSession::new("ses_1".into()) };
        let id = store.create(new.clone(), NOW).unwrap().id;
        store.create(new.clone(), NOW).unwrap();
        let claim = unleased(&id);
        let messages = vec![read("msg_1", "a"), begun("msg_2", "I ")];
        store.append(&claim, messages.clone(), NOW).unwrap();
        let part = Part::text("prt_1".into(), "x");
        store.append_part(&claim, &"msg_2".into(), part.clone(), NOW).unwrap();
        let update = MessageUpdate {
            model_id: Some("m".into()),
            usage: Some(Usage::new(Tokens(5), Tokens(1))),
            cost: serde_json::Number::from_f64(0.5),
            ..MessageUpdate::default()
        };
        store.record(&claim, &"msg_2".into(), update.clone(), NOW).unwrap();
        let one = receipt("rcp_1", "msg_1.1");
        store.reduce(&claim, reduction(&one), None, NOW).unwrap();
        let fork = NewSession::new("ses_2".into());
        store.fork(&id, None, fork.clone(), NOW).unwrap();
        let (known, log, at) =
            (store.session(&id).unwrap(), store.window(&id).unwrap(), store.newest_change().unwrap());
        assert_eq!((known.cost, known.usage.input, known.model.as_deref()), (0.5, Tokens(5), Some("m")));

        assert!(store.create(new.clone(), NOW).is_err(), "it has gone on since");
        // In its state on appending, although it has changed since.
        store.append(&claim, messages[..1].to_vec(), NOW).unwrap();
        store.append_part(&claim, &"msg_2".into(), part, NOW).unwrap();
        store.advance(&claim, Part::text("prt_1".into(), "x"), NOW).unwrap();
        store.record(&claim, &"msg_2".into(), update, NOW).unwrap();
        store.reduce(&claim, reduction(&one), Some(Revision(1)), NOW).unwrap();
        store.fork(&id, None, fork, NOW).unwrap();
        assert_eq!(store.session(&id).unwrap(), known);
        assert_eq!(store.window(&id).unwrap(), log);
        assert_eq!(store.newest_change().unwrap(), at);
        assert_eq!(store.receipts(&id, None, u64::MAX).unwrap().len(), 1);

        let error = store.create(NewSession { title: "U".into(), ..new }, NOW).unwrap_err();
        assert_eq!(error.to_string(), "session `ses_1` already exists in this log");
        let error = store.append(&claim, vec![user("msg_1", "another")], NOW).unwrap_err();
        assert_eq!(error.to_string(), "message `msg_1` already exists in this log");
        let other = Part::text("prt_1".into(), "y");
        let error = store.append_part(&claim, &"msg_2".into(), other, NOW).unwrap_err();
        assert_eq!(error.to_string(), "part `prt_1` already exists in this log");
        let mut other = one;
        other.reason = "another".into();
        let error = store.reduce(&claim, reduction(&other), None, NOW).unwrap_err();
        assert_eq!(error.to_string(), "receipt `rcp_1` already exists in this log");
    });
}

#[rstest]
fn texts_grow_by_deltas(#[values(false, true)] real: bool) {
    either(real, |store| {
        let id = session(store, "ses_1");
        let claim = unleased(&id);
        let mut message = begun("msg_1", "");
        let thought = plimsoll::log::ReasoningPart { text: "hm".into() };
        message.parts.push(Part::new("prt_r".into(), plimsoll::PartBody::Reasoning(thought)));
        let state = plimsoll::ToolState::pending(serde_json::json!({}));
        message.parts.push(Part::tool("prt_t".into(), "call_1", "bash", state));
        store.append(&claim, vec![message], NOW).unwrap();
        let (mut said, mut thought, mut raw) = (String::new(), "hm".to_owned(), String::new());
        for n in 0..300 {
            let delta = format!("{n} \u{0}🚢 ");
            for (part, text) in [("msg_1.1", &mut said), ("prt_r", &mut thought), ("prt_t", &mut raw)] {
                store.extend(&claim, &part.into(), text.len() as u64, &delta, NOW).unwrap();
                // Repeated, because it was not known whether it was committed.
                store.extend(&claim, &part.into(), text.len() as u64, &delta, NOW).unwrap();
                text.push_str(&delta);
            }
        }
        let check = |store: &dyn Store| {
            for message in
                [store.message(&id, &"msg_1".into()).unwrap(), store.window(&id).unwrap()[0].clone()]
            {
                assert_eq!(message.text(), said);
                let json = json_of(&[message]);
                assert_eq!(json[0]["parts"][1]["text"], thought);
                assert_eq!(json[0]["parts"][2]["state"]["raw"], raw);
            }
            let policy = plimsoll::Policy::default();
            let weigh = |log: &[Message]| {
                let window = plimsoll::Window::of(&plimsoll::Log::from_messages(log.to_vec()), &policy);
                plimsoll::request_tokens(&window, Default::default(), &policy.count)
            };
            assert_eq!(weigh(&store.outline(&id).unwrap()), weigh(&store.window(&id).unwrap()));
        };
        check(store);
        for (part, from, more, why) in [
            (
                "msg_1.1",
                said.len() as u64 + 1,
                "x",
                "starts after the end of the text: an earlier delta is missing",
            ),
            ("msg_1.1", 3, "other", "starts before the end of the text and differs from it"),
        ] {
            let error = store.extend(&claim, &part.into(), from, more, NOW).unwrap_err();
            assert!(error.to_string().ends_with(why), "{error}");
        }
        store.finish(&claim, &"msg_1".into(), "stop", None, NOW).unwrap();
        check(store);
        let error = store.extend(&claim, &"msg_1.1".into(), said.len() as u64, "more", NOW).unwrap_err();
        assert_eq!(error.to_string(), "message `msg_1` is finished: its parts grow no more");
        assert!(matches!(
            store.extend(&claim, &"prt_none".into(), 0, "x", NOW),
            Err(StoreError::Missing { .. })
        ));
        let child = store.fork(&id, None, NewSession::new("ses_2".into()), NOW);
        assert_eq!(ids(&store.window(&child.unwrap().id).unwrap()), Vec::<String>::new(), "the call is open");
        let found = store.check().unwrap();
        assert_eq!((found.problems.len(), found.open_calls.len()), (0, usize::from(real)), "{found:?}");
    });
}

/// An answered call is not answered again, not even with another status.
#[rstest]
fn an_answered_call_keeps_its_answer(#[values(false, true)] real: bool) {
    either(real, |store| {
        let id = session(store, "ses_1");
        store.append(&unleased(&id), vec![read("msg_1", "contents")], NOW).unwrap();
        let mut part = store.part(&id, &"msg_1.1".into()).unwrap();
        let plimsoll::PartBody::Tool(tool) = &mut part.body else { panic!("no tool") };
        tool.state.status = plimsoll::ToolStatus::Error;
        let error = store.advance(&unleased(&id), part, NOW).unwrap_err();
        assert!(
            error.to_string().contains("the input and result of a finished call cannot change"),
            "{error}"
        );
        store.append(&unleased(&id), vec![answer("msg_2", "done")], NOW).unwrap();
        let error = store.extend(&unleased(&id), &"msg_2.1".into(), 4, "!", NOW).unwrap_err();
        assert!(error.to_string().contains("is finished"), "{error}");
    });
}

/// Bytes that this thread has written. A single writer commits on its own thread, so other tests of the process are not
/// counted.
fn written() -> u64 {
    let io = std::fs::read_to_string("/proc/thread-self/io").unwrap();
    let line = io.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap();
    line.parse().unwrap()
}

/// 100 kB in 5,000 chunks wrote 333 MB when each chunk rewrote the whole text.
#[cfg(target_os = "linux")]
#[test]
fn a_delta_writes_only_the_delta() {
    let store = fresh();
    let cost = |name: &str, chunks: usize| {
        let id = session(&*store, name);
        store.append(&unleased(&id), vec![begun("msg_1", "")], NOW).unwrap();
        let before = written();
        for n in 0..chunks {
            store
                .extend(&unleased(&id), &"msg_1.1".into(), n as u64 * 20, "twenty bytes of text", NOW)
                .unwrap();
        }
        store.finish(&unleased(&id), &"msg_1".into(), "stop", None, NOW).unwrap();
        written() - before
    };
    let (half, whole) = (cost("ses_1", 2_500), cost("ses_2", 5_000));
    println!("100 kB in 5,000 chunks wrote {} MB; half of it {} MB", whole / 1_000_000, half / 1_000_000);
    assert!(whole < 130_000_000, "{whole} bytes");
    assert!((whole as f64) < half as f64 * 2.4, "twice the text costs twice as much: {half}, {whole}");
    let Fresh { .. } = store;
}
