//! Edits: text that the user changes or removes.

use plimsoll::edit::{self, Edit, EditError};
use plimsoll::{CharCounter, Log, MessageId, Millis, PartId, Plan, Policy, Receipt, Tokens, Window};
use plimsoll_testkit::{History, ids};

fn apply(log: &mut Log, edit: &Edit) -> Receipt {
    let plan = edit::plan(log, edit).unwrap();
    let receipt = plan.apply(log, &mut ids(), Millis(9_000), &Policy::default(), |_| Tokens(1)).unwrap();
    window(log);
    receipt
}

/// The window as JSON, which must be legal.
fn window(log: &Log) -> String {
    let window = Window::of(log, &Policy::default());
    window.check().unwrap();
    serde_json::to_string(&window).unwrap()
}

fn part(log: &Log, message: usize) -> PartId {
    log[message].parts[0].id.clone()
}

#[test]
fn a_changed_text_is_shown_to_the_model_and_the_log_keeps_the_original() {
    let mut log = History::new().user("the first word").say("an answer").user("more").log();
    let before = window(&log);
    let (id, text) = (part(&log, 0), || "the last word".into());
    let receipt = apply(&mut log, &Edit::Text(id.clone(), text()));
    assert_eq!(receipt.plan.to_string(), "edit: change 1 part");
    assert_eq!(receipt.handles.len(), 1, "recall finds the original");
    assert!(window(&log).contains("the last word") && !window(&log).contains("the first word"));
    assert_eq!(log[0].text(), "the first word");
    assert_eq!(log[0].parts[0].edited().map(|text| text.as_str()), Some("the last word"));
    let again = edit::plan(&log, &Edit::Text(id.clone(), text()));
    assert_eq!(again, Err(EditError::Unchanged(id.clone())));
    assert_eq!(edit::plan(&log, &Edit::Text(id.clone(), " ".into())), Err(EditError::Empty(id)));
    let stored: Receipt = serde_json::from_str(&serde_json::to_string(&receipt).unwrap()).unwrap();
    assert_eq!(stored, receipt);
    stored.undo(&mut log, &mut ids(), Millis(9_001)).unwrap();
    assert_eq!(window(&log), before);
    assert_eq!(log[0].parts[0].edited(), None);
}

#[test]
fn a_removed_call_takes_its_result_with_it() {
    let history = || History::new().user("look").call("c1", "read").result("c1", "the content").say("done");
    for removed in [1, 2] {
        let mut log = history().log();
        let before = window(&log);
        let receipt = apply(&mut log, &Edit::RemovePart(part(&history().log(), removed)));
        let Plan::Edit(plan) = &receipt.plan else { panic!("{receipt}") };
        assert_eq!(plan.items.len(), 2, "both halves");
        assert!(!window(&log).contains("the content") && !window(&log).contains("read"), "{}", window(&log));
        assert!(log[1].parts[0].is_removed() && log[2].parts[0].is_removed());
        receipt.undo(&mut log, &mut ids(), Millis(9_001)).unwrap();
        assert_eq!(window(&log), before);
    }
}

#[test]
fn a_message_and_all_that_follow_are_removed_together() {
    let mut log =
        History::new().user("start").say("first").user("a secret").tool("read", "a secret").say("yes").log();
    let before = window(&log);
    let second = log.iter().filter(|message| message.is_user()).nth(1).unwrap().info.id.clone();
    let receipt = apply(&mut log, &Edit::RemoveSince(second.clone()));
    let shown = window(&log);
    assert!(shown.contains("first") && !shown.contains("secret") && !shown.contains("yes"), "{shown}");
    assert_eq!(
        edit::plan(&log, &Edit::RemoveSince(second.clone())),
        Err(EditError::Removed(second.to_string()))
    );
    receipt.undo(&mut log, &mut ids(), Millis(9_001)).unwrap();
    assert_eq!(window(&log), before);
}

#[test]
fn a_removed_message_leaves_no_trace_in_the_window() {
    let mut log = History::new().user("start").tool("read", "a secret").user("go on").say("yes").log();
    let message = log[1].info.id.clone();
    apply(&mut log, &Edit::RemoveMessage(message.clone()));
    assert!(!window(&log).contains("secret") && !window(&log).contains("left out"), "{}", window(&log));
    let again = edit::plan(&log, &Edit::RemoveMessage(message.clone()));
    assert_eq!(again, Err(EditError::Removed(message.to_string())));
    let first = log[0].info.id.clone();
    apply(&mut log, &Edit::RemoveMessage(first));
    let gone = part(&log, 0);
    assert_eq!(
        edit::plan(&log, &Edit::Text(gone.clone(), "x".into())),
        Err(EditError::Removed(gone.to_string()))
    );
}

#[test]
fn a_removed_part_is_no_longer_pinned() {
    let mut log = History::new().user("never touch it").say("no").user("go on").log();
    let target = plimsoll::pin::PinTarget::Part(part(&log, 0));
    let policy = Policy::default();
    let pin = plimsoll::pin::plan(&log, &target, &policy, None, &CharCounter::default()).unwrap();
    pin.apply(&mut log, &mut ids(), Millis(1), &policy, |_| Tokens(1)).unwrap();
    let id = part(&log, 0);
    let mut names = ids();
    names.receipt(Millis(1));
    let plan = edit::plan(&log, &Edit::RemovePart(id)).unwrap();
    let receipt = plan.apply(&mut log, &mut names, Millis(2), &policy, |_| Tokens(1)).unwrap();
    assert!(!window(&log).contains("never touch it"));
    receipt.undo(&mut log, &mut names, Millis(3)).unwrap();
    assert_eq!(plimsoll::log::pins(&log).count(), 1);
}

#[test]
fn invalid_edits_are_rejected_with_a_reason() {
    let log = History::new()
        .user("start")
        .tool("read", "x")
        .marker()
        .summary("## Goal\nx")
        .user("go on")
        .say("half")
        .change(|message| message.info.finish = None)
        .log();
    let text = |id: PartId| Edit::Text(id, "new".into());
    let tool = part(&log, 1);
    assert_eq!(edit::plan(&log, &text(tool.clone())), Err(EditError::NotText(tool)));
    for place in [2, 3] {
        let id = part(&log, place);
        assert_eq!(edit::plan(&log, &Edit::RemovePart(id.clone())), Err(EditError::Summary(id.to_string())));
    }
    if log[5].is_open() {
        let open = log[5].info.id.clone();
        assert_eq!(edit::plan(&log, &Edit::RemoveMessage(open.clone())), Err(EditError::Open(open)));
    }
    assert!(matches!(edit::plan(&log, &text(PartId::new("prt_none"))), Err(EditError::Log(_))));
    let missing = Edit::RemoveMessage(MessageId::new("msg_none"));
    assert!(matches!(edit::plan(&log, &missing), Err(EditError::Log(_))));
}
