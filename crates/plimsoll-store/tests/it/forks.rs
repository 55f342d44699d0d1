//! A fork does not see later changes of its parent.

use plimsoll::log::CompactionPart;
use plimsoll::plan::{CompactPlan, SummaryOrigin};
use plimsoll::prune::{PruneItem, PrunePlan};
use plimsoll::{
    Message, Millis, Part, PartBody, Plan, Receipt, ReceiptId, Reduction, Role, SessionId, Tokens,
};
use plimsoll_store::{MemoryStore, NewSession, Store};
use rstest::rstest;
use serde_json::json;

use super::{Fresh, NOW, answer, begun, fresh, millis, read, session, unleased, user};

fn receipt(id: String, plan: Plan) -> Receipt {
    Receipt::new(ReceiptId::new(id), NOW, plan, (Tokens(2), Tokens(1)))
}

fn clear(store: &Fresh, session: &SessionId, part: &str) {
    let item = PruneItem::output(part.into(), "".into(), "read", Tokens(1));
    let plan = Plan::Prune(PrunePlan::of(vec![item]));
    let receipts = vec![receipt(format!("rcp_{session}_{part}"), plan)];
    store.reduce(&unleased(session), Reduction { receipts, ..Reduction::default() }, None, NOW).unwrap();
}

/// Row numbers are reused after rows are deleted; a fork must not mistake a new mark for an old one.
#[test]
fn a_mark_of_the_parent_is_not_seen_after_a_third_session_is_removed() {
    let store = fresh();
    let (parent, third) = (session(&*store, "ses_1"), session(&*store, "ses_3"));
    store.append(&unleased(&parent), vec![read("msg_1", "output")], NOW).unwrap();
    store.finish(&unleased(&parent), &"msg_1".into(), "stop", None, NOW).unwrap();
    store.append(&unleased(&third), vec![read("msg_1", "output")], NOW).unwrap();
    clear(&store, &third, "msg_1.1");
    let fork = store.fork(&parent, None, NewSession::new("ses_2".into()), NOW).unwrap().id;
    store.remove(&unleased(&third), NOW).unwrap();
    clear(&store, &parent, "msg_1.1");
    let cleared = |session: &SessionId| store.part(session, &"msg_1.1".into()).unwrap().cleared();
    assert_eq!((cleared(&parent), cleared(&fork)), (Some(NOW), None));
}

/// A summary of everything before it, and its receipt.
fn compact(store: &Fresh, session: &SessionId) -> Receipt {
    let part = Part::new("marker.1".into(), PartBody::Compaction(CompactionPart::default()));
    let mut marker = Message { parts: vec![part].into(), ..Message::default() };
    (marker.info.id, marker.info.role) = ("marker".into(), Some(Role::User));
    let mut summary = answer("summary", "in short");
    (summary.info.summary, summary.info.parent_id) = (true, Some("marker".into()));
    summary.info.finish = Some("stop".into());
    let plan: CompactPlan = serde_json::from_value(json!({
        "first": "msg_1", "last": "msg_1", "messages": 1, "tokens": 1, "tailMessages": 0, "tailTokens": 0,
        "mergesSummary": false, "made": SummaryOrigin::ByModel, "calls": 1, "marker": "marker",
    }))
    .unwrap();
    let receipt = receipt(format!("rcp_{session}"), Plan::Compact(plan));
    let receipts = vec![receipt.clone()];
    store
        .reduce(
            &unleased(session),
            Reduction { appended: vec![marker, summary], receipts, ..Reduction::default() },
            None,
            NOW,
        )
        .unwrap();
    receipt
}

#[test]
fn an_undo_in_the_parent_is_not_seen_after_a_third_session_is_removed() {
    let store = fresh();
    let (parent, third) = (session(&*store, "ses_1"), session(&*store, "ses_3"));
    for id in [&parent, &third] {
        store.append(&unleased(id), vec![user("msg_1", "hello")], NOW).unwrap();
    }
    let receipt = compact(&store, &parent);
    compact(&store, &third);
    let fork = store.fork(&parent, None, NewSession::new("ses_2".into()), NOW).unwrap().id;
    store.remove(&unleased(&third), NOW).unwrap();
    store.undo(&unleased(&parent), &receipt.id, Millis(NOW.0 + 5)).unwrap();
    let aside = |session: &SessionId| store.compactions(session, None, u64::MAX).unwrap()[0].set_aside;
    assert_eq!((aside(&parent), aside(&fork)), (Some(Millis(NOW.0 + 5)), None));
}

#[test]
fn a_fork_from_before_a_compaction_has_none() {
    let store = fresh();
    let parent = session(&*store, "ses_1");
    store.append(&unleased(&parent), vec![user("msg_1", "hello"), user("msg_2", "again")], NOW).unwrap();
    compact(&store, &parent);
    let upto = "msg_1".into();
    let fork = store.fork(&parent, Some(&upto), NewSession::new("ses_2".into()), NOW).unwrap().id;
    assert_eq!(store.compactions(&parent, None, u64::MAX).unwrap().len(), 1);
    assert_eq!(store.compactions(&fork, None, u64::MAX).unwrap(), []);
}

/// Calls that forks keep of a removed session do not wait for an answer.
#[test]
fn a_call_of_a_removed_session_is_not_damage() {
    let store = fresh();
    let parent = session(&*store, "ses_1");
    let claim = store.lease(&parent, "me", millis(100)).unwrap().claim();
    store.append(&claim, vec![user("msg_1", "hello")], NOW).unwrap();
    store.fork(&parent, None, NewSession::new("ses_2".into()), NOW).unwrap();
    let asked = plimsoll::ToolState::pending(serde_json::json!({}));
    let call = Part::tool("prt_2".into(), "call_1", "bash", asked);
    store.append(&claim, vec![Message::assistant("msg_2".into(), vec![call])], NOW).unwrap();
    assert_eq!(store.check().unwrap().problems, Vec::<String>::new());
    store.remove(&claim, NOW).unwrap();
    assert_eq!(store.check().unwrap().problems, Vec::<String>::new());
}

/// Messages that may still change are not shared, so the parent continues and the child does not see it.
#[rstest]
fn a_fork_ends_before_the_first_message_that_is_being_written(#[values(false, true)] real: bool) {
    let (fresh, memory) = (fresh(), MemoryStore::new());
    let store: &dyn Store = if real { &*fresh } else { &memory };
    let parent = session(store, "ses_1");
    let claim = unleased(&parent);
    let state = plimsoll::ToolState::pending(serde_json::json!({}));
    let call = |state| Part::tool("prt_call".into(), "call_1", "task", state);
    let asking = Message::assistant("msg_2".into(), vec![call(state)]);
    let messages = vec![user("msg_1", "go"), asking, user("msg_3", "and more"), begun("msg_4", "I ")];
    store.append(&claim, messages, NOW).unwrap();
    let child = store.fork(&parent, None, NewSession::new("ses_2".into()), NOW).unwrap();
    assert_eq!(child.forked_from.unwrap().message, Some("msg_1".into()));
    for (upto, why) in [
        ("msg_2", "message `msg_2` is still being written; fork before it, or when it is finished"),
        (
            "msg_3",
            "message `msg_2`, before `msg_3`, is still being written; fork before it, or when it is finished",
        ),
    ] {
        let error =
            store.fork(&parent, Some(&upto.into()), NewSession::new("ses_3".into()), NOW).unwrap_err();
        assert_eq!(error.to_string(), why);
    }
    let before = store.window(&child.id).unwrap();
    store.advance(&claim, call(plimsoll::ToolState::completed(serde_json::json!({}), "done")), NOW).unwrap();
    store.advance(&claim, Part::text("msg_4.1".into(), "I see"), NOW).unwrap();
    store.finish(&claim, &"msg_4".into(), "stop", None, NOW).unwrap();
    assert_eq!(store.window(&child.id).unwrap(), before);
    let later = store.fork(&parent, None, NewSession::new("ses_3".into()), NOW).unwrap();
    assert_eq!(later.forked_from.unwrap().message, Some("msg_4".into()));
}

/// Older versions shared messages with open calls; once the parent is removed, nothing can answer them.
#[test]
fn a_removed_parents_open_call_is_settled_in_the_child() {
    let store = fresh();
    let parent = session(&*store, "ses_1");
    let state = plimsoll::ToolState::pending(serde_json::json!({}));
    let asking =
        Message::assistant("msg_2".into(), vec![Part::tool("prt_call".into(), "call_1", "bash", state)]);
    store.append(&unleased(&parent), vec![user("msg_1", "go"), asking], NOW).unwrap();
    let child = store.fork(&parent, None, NewSession::new("ses_2".into()), NOW).unwrap().id;
    rusqlite::Connection::open(store.path())
        .unwrap()
        .execute_batch(
            "UPDATE session SET fork_id = 'msg_2', fork_at = (SELECT at FROM message WHERE id = 'msg_2')
             WHERE id = 'ses_2'",
        )
        .unwrap();
    assert!(!store.part(&child, &"prt_call".into()).unwrap().as_tool().unwrap().state.status.is_final());
    store.remove(&unleased(&parent), NOW).unwrap();
    let part = store.part(&child, &"prt_call".into()).unwrap();
    assert!(part.as_tool().unwrap().state.error.as_ref().unwrap().starts_with("Interrupted:"));
}
