//! Plans and receipts: formatting, storage, undo.

use plimsoll::compact::{CompactionContext, Ladder, Step};
use plimsoll::fork::fork;
use plimsoll::truncate::{self, Address, Spill};
use plimsoll::{Limits, Log, Message, Millis, Plan, Policy, Receipt, Window, prune};
use plimsoll_testkit::{History, ids};

fn without_marks(log: &[Message]) -> String {
    let mut log = log.to_vec();
    for part in log.iter_mut().flat_map(|message| &mut message.parts) {
        *part = part.clone().without_marks();
    }
    serde_json::to_string(&log).unwrap()
}

fn reduced() -> (Log, Log, Vec<Receipt>) {
    let mut history = History::new().user("start");
    for turn in 0..12 {
        history =
            history.tool("read", "abcd".repeat(8_000)).user(format!("turn {turn} {}", "word ".repeat(900)));
    }
    let mut log = history.log();
    let original = log.clone();
    let policy = Policy::default();
    let mut ids = ids();
    let context = CompactionContext::new(&policy, Limits::new(12_000, 1_000), Millis(1_000_000));
    let mut ladder = Ladder::new(log.clone(), context);
    let Step::Done(outcome) = ladder.climb(&mut ids).unwrap() else { panic!("there is no model to ask") };
    outcome.reduction.commit(&mut log).unwrap();
    (original, log, outcome.reduction.receipts)
}

/// A plan that does not make the window smaller leaves nothing in the log, not even its time.
#[test]
fn a_plan_that_does_not_help_leaves_the_log_unchanged() {
    let mut history = History::new().user("start");
    for turn in 0..12 {
        history = history.tool("read", "abcd".repeat(8_000)).user(format!("turn {turn}"));
    }
    let mut log = history.log();
    let before = log.clone();
    let policy = Policy::default();
    let plan = prune::plan(&log, &policy, None);
    assert!(!plan.items.is_empty());
    let mut ids = ids();
    let stamp =
        plimsoll::receipt::Stamp { ids: &mut ids, now: Millis(9_000), policy: &policy, reason: "a test" };
    let receipt = Plan::Prune(plan).apply(&mut log, stamp, |_| plimsoll::Tokens(7)).unwrap();
    assert_eq!(receipt, None);
    assert_eq!(log, before);
}

#[test]
fn undoing_every_receipt_restores_the_window() {
    let (original, mut log, receipts) = reduced();
    assert!(receipts.len() > 1, "{receipts:?}");
    let mut ids = ids();
    for receipt in receipts.iter().rev() {
        let counter = receipt.undo(&mut log, &mut ids, Millis(2_000_000)).unwrap();
        assert_eq!(counter.undoes.as_ref(), Some(&receipt.id));
        assert!(!counter.can_undo());
        assert!(counter.undo(&mut log, &mut ids, Millis(3)).is_err());
    }
    let policy = Policy::default();
    let (before, after) = (Window::of(&original, &policy), Window::of(&log, &policy));
    assert_eq!(
        after.messages[..before.messages.len()],
        before.messages[..],
        "only the message to continue may follow"
    );
    let kept: Vec<Message> = log.messages()[..original.len()].to_vec();
    assert_eq!(without_marks(&kept), without_marks(&original));
}

#[test]
fn receipts_survive_json() {
    let (_, _, receipts) = reduced();
    for receipt in receipts {
        let json = serde_json::to_string(&receipt).unwrap();
        assert_eq!(serde_json::from_str::<Receipt>(&json).unwrap(), receipt);
    }
}

#[test]
fn plans_and_receipts_read_well() {
    let policy = Policy::default();
    let mut shown = String::new();
    let history = (0..3).fold(History::new().user("u"), |h, _| h.tool("read", "abcd".repeat(30_000)));
    let messages = history.user("a").say("b").user("c").messages();
    let output = "line\n".repeat(5_000);
    let truncated = truncate::plan(output.as_bytes(), "bash", &policy);
    let mut ids = ids();
    let spill = Spill::Saved(Address::Path("spill/ab12".into()));
    let receipt = Receipt::of_truncate(truncated.clone(), &spill, &policy, &mut ids, Millis(5));
    for plan in [
        Plan::Prune(prune::plan(&messages, &policy, None)),
        Plan::Prune(prune::plan(&messages[..2], &policy, None)),
        Plan::Truncate(truncated),
        Plan::Fork(fork(&messages, &policy.fork).stats),
    ] {
        shown.push_str(&format!("{plan}\n\n{}\n", plan.detail()));
    }
    shown.push_str(&format!("{receipt}\n\n{}\n", receipt.detail()));
    for receipt in reduced().2 {
        let detail = receipt.detail();
        let few: Vec<&str> = detail.lines().take(6).collect();
        shown.push_str(&format!("{}\n\n", few.join("\n")));
    }
    insta::assert_snapshot!(shown);
}

/// Receipts from before notices distinguished paths from handles.
#[test]
fn receipts_of_older_versions_are_readable() {
    let stored = r#"{"id":"rcp_1","at":5,"policy":"plimsoll","reason":"the output was over a limit; the whole is kept",
        "before":6250,"after":2500,"plan":{"kind":"truncate","tool":"bash","truncated":true,"linesShortened":0,
        "lossy":false,"originalLines":5001,"originalBytes":25000,"keptLines":2000,"keptBytes":10000,"maySpill":true,
        "notice":"guide"},"handles":[{"spill":"spill_9c2f"}],"undoes":null}"#;
    let receipt: Receipt = serde_json::from_str(stored).unwrap();
    assert_eq!(receipt.handles[0].to_string(), "spill_9c2f");
    let policy = Policy::default();
    let plan = truncate::plan("x\n".repeat(9_000).as_bytes(), "bash", &policy);
    let kept = Spill::Saved(Address::Handle("spill_9c2f".into()));
    let today = Receipt::of_truncate(plan, &kept, &policy, &mut ids(), Millis(5));
    assert_eq!(today.handles, receipt.handles);
}

#[test]
fn a_lost_spill_is_in_the_receipt() {
    let policy = Policy::default();
    let plan = truncate::plan("x\n".repeat(9_000).as_bytes(), "bash", &policy);
    let failed = Spill::Failed("disk full".into());
    let receipt = Receipt::of_truncate(plan, &failed, &policy, &mut ids(), Millis(5));
    assert_eq!(receipt.reason, "the output was over a limit; the rest is lost: disk full");
    assert!(receipt.handles.is_empty() && !receipt.can_undo());
}
