//! A fork sees nothing of what its parent does later.

use plimsoll::log::CompactionPart;
use plimsoll::prune::{PruneItem, PrunePlan};
use plimsoll::receipt::{CompactPlan, Made};
use plimsoll::{
    Message, Millis, Part, PartBody, Plan, Receipt, ReceiptId, Reduction, Role, SessionId, Tokens,
};
use plimsoll_store::NewSession;

use super::{Fresh, NOW, answer, fresh, read, session, unleased, user};

fn clear(store: &Fresh, session: &SessionId, part: &str) {
    let item = PruneItem { part: part.into(), message: "".into(), tool: "read".into(), tokens: Tokens(1) };
    let plan = Plan::Prune(PrunePlan { items: vec![item], ..PrunePlan::default() });
    let receipts = vec![Receipt {
        id: ReceiptId::new(format!("rcp_{session}_{part}")),
        at: NOW,
        policy: "test".into(),
        reason: "a test".into(),
        before: Tokens(2),
        after: Tokens(1),
        plan,
        handles: Vec::new(),
        undoes: None,
    }];
    store.reduce(&unleased(session), Reduction { receipts, ..Reduction::default() }, NOW).unwrap();
}

/// Numbers of rows that are removed are given anew; a fork must not take a new mark for one it knew.
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

/// A summary of everything before it, and the receipt of that.
fn compact(store: &Fresh, session: &SessionId) -> Receipt {
    let part = Part::new("marker.1".into(), PartBody::Compaction(CompactionPart::default()));
    let mut marker = Message { parts: vec![part], ..Message::default() };
    (marker.info.id, marker.info.role) = ("marker".into(), Some(Role::User));
    let mut summary = answer("summary", "in short");
    (summary.info.summary, summary.info.parent_id) = (true, Some("marker".into()));
    summary.info.finish = Some("stop".into());
    let plan = CompactPlan {
        first: "msg_1".into(),
        last: "msg_1".into(),
        messages: 1,
        tokens: Tokens(1),
        tail_start: None,
        tail_messages: 0,
        tail_tokens: Tokens::ZERO,
        merges_summary: false,
        made: Made::ByModel,
        calls: 1,
        prompt: None,
        cut: Vec::new(),
        contract: Vec::new(),
        go_on: None,
        marker: Some("marker".into()),
    };
    let receipt = Receipt {
        id: ReceiptId::new(format!("rcp_{session}")),
        at: NOW,
        policy: "test".into(),
        reason: "a test".into(),
        before: Tokens(2),
        after: Tokens(1),
        plan: Plan::Compact(plan),
        handles: Vec::new(),
        undoes: None,
    };
    let receipts = vec![receipt.clone()];
    store
        .reduce(
            &unleased(session),
            Reduction { appended: vec![marker, summary], receipts, ..Reduction::default() },
            NOW,
        )
        .unwrap();
    receipt
}

#[test]
fn an_undoing_in_the_parent_is_not_seen_after_a_third_session_is_removed() {
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
    let aside = |session: &SessionId| store.compactions(session).unwrap()[0].set_aside;
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
    assert_eq!(store.compactions(&parent).unwrap().len(), 1);
    assert_eq!(store.compactions(&fork).unwrap(), []);
}

/// What forks keep of a removed session waits for nobody.
#[test]
fn a_call_of_a_removed_session_is_no_damage() {
    let store = fresh();
    let parent = session(&*store, "ses_1");
    let claim = store.lease(&parent, "me", Millis(NOW.0 + 100), NOW).unwrap().claim();
    store.append(&claim, vec![user("msg_1", "hello")], NOW).unwrap();
    store.fork(&parent, None, NewSession::new("ses_2".into()), NOW).unwrap();
    let asked = plimsoll::ToolState::pending(serde_json::json!({}));
    let call = Part::tool("prt_2".into(), "call_1", "bash", asked);
    store.append(&claim, vec![Message::assistant("msg_2".into(), vec![call])], NOW).unwrap();
    assert_eq!(store.check().unwrap().problems, Vec::<String>::new());
    store.remove(&claim, NOW).unwrap();
    assert_eq!(store.check().unwrap().problems, Vec::<String>::new());
}
