//! Pins, prunes, undos and forks through the driver.

use plimsoll::fork::NoHistory;
use plimsoll_session::blocking::Driver;
use plimsoll_session::{
    ContentKind, Edit, ForkContent, ForkRequest, Identities, Identity, Limits, NewSession, PinTarget, Plan,
    Policy, Pruned, RecallQuery, Reply, RequestOverhead, SessionId, SessionModel, SummaryFailure, Tokens,
};

use crate::support::{Harbour, LIMITS, ready, say, shown, turn};

fn filled(driver: &mut Driver, turns: usize) {
    for number in 0..turns {
        driver.prompt(format!("Prompt {number}: {}", "word ".repeat(800))).unwrap();
        say(driver, &"answer ".repeat(1_000));
    }
}

#[test]
fn an_undone_compaction_leaves_no_trace_in_the_window() {
    let harbour = Harbour::new();
    let mut driver = harbour.open("ses_1");
    filled(&mut driver, 8);
    let before = shown(&driver);
    let outcome = driver.compact(|_| panic!("there is no model")).unwrap();
    assert!(shown(&driver).len() < before.len());
    assert_eq!(driver.log(), &harbour.stored(&driver));
    let receipt = &outcome.reduction.receipts[0];
    driver.undo(&receipt.id).unwrap();
    assert_eq!(shown(&driver), before);
    assert!(driver.undo(&receipt.id).is_err(), "once");
}

#[test]
fn a_pin_stays_visible_verbatim() {
    let harbour = Harbour::new();
    let mut driver = harbour.open("ses_1");
    driver.prompt("Never touch the migrations. Now port it.").unwrap();
    say(&mut driver, "Ported.");
    let receipt = driver.pin(&PinTarget::Words("Never touch the migrations.".into())).unwrap();
    assert!(matches!(receipt.plan, Plan::Pin(_)));
    for _ in 0..3 {
        filled(&mut driver, 8);
        driver.compact(|_| panic!("there is no model")).unwrap();
        assert!(shown(&driver).contains("Never touch the migrations."));
        assert_eq!(driver.log(), &harbour.stored(&driver));
    }
}

#[test]
fn a_prune_clears_old_outputs_or_reports_why_not() {
    let harbour = Harbour::new();
    let session = harbour.session("ses_1");
    // Otherwise the turns themselves would clear what is to be pruned here.
    let policy = Policy::from_json(r#"{ "thrift": "off" }"#).unwrap();
    let mut driver = harbour.builder().policy(policy).session(session).open_blocking().unwrap();
    turn(&mut driver, "Read it.", "short");
    let Pruned::Nothing(plan) = driver.prune("a test").unwrap() else { panic!("pruned") };
    assert!(Plan::Prune(*plan).to_string().contains("prune nothing"));
    driver.switch_model(SessionModel::new("large").limits(Limits::new(400_000, 8_000)));
    for number in 0..10 {
        turn(&mut driver, &format!("Read {number}."), &"some words of a line\n".repeat(2_000));
    }
    let Pruned::Done(receipt) = driver.prune("a test").unwrap() else { panic!("not pruned") };
    assert!(receipt.after < receipt.before && receipt.reason == "a test");
    assert!(shown(&driver).contains("cleared"));
    assert_eq!(driver.log(), &harbour.stored(&driver));
}

#[test]
fn a_child_gets_a_digest_or_the_history_itself() {
    let harbour = Harbour::new();
    let mut driver = harbour.open("ses_1");
    turn(&mut driver, "Read the plan.", "THE PLAN IS TO SAIL AT DAWN");
    let before = harbour.stored(&driver);
    let child = |id: &str, agents: Option<[&Identity; 2]>| {
        let agents =
            agents.map(|[parent, child]| Identities { parent: parent.clone(), child: child.clone() });
        ForkRequest::new(NewSession::new(SessionId::new(id)), "Check the tide.", LIMITS).identities(agents)
    };

    let forked = driver.fork(child("ses_2", None)).unwrap();
    let ForkContent::Digest { digest, why: None } = &forked.content else { panic!("{:?}", forked.content) };
    assert_eq!(forked.tokens, driver.counter().count(&digest.message().unwrap()));
    assert_eq!(forked.session.parent.as_ref(), Some(driver.session()));
    let log = harbour.archive.store().window(&forked.session.id).unwrap();
    let texts: Vec<String> = log.iter().map(plimsoll::Message::text).collect();
    assert_eq!(texts.len(), 2);
    assert!(texts[0].contains("THE PLAN IS TO SAIL AT DAWN"), "{texts:?}");
    assert!(
        texts[1].ends_with("\n\n<task>\nCheck the tide.\n</task>"),
        "set apart from what is inherited: {texts:?}"
    );

    let same = Identity { model: "m".into(), system: "s".into(), tools: "t".into() };
    let forked = driver.fork(child("ses_3", Some([&same, &same]))).unwrap();
    let ForkContent::History(history) = forked.content else { panic!("{:?}", forked.content) };
    let log = harbour.archive.store().window(&forked.session.id).unwrap();
    assert_eq!(&log[..history.shared], &before[..]);
    assert!(log.last().unwrap().text().contains("Check the tide."));

    let other = Identity { model: "n".into(), ..same.clone() };
    let forked = driver.fork(child("ses_4", Some([&same, &other]))).unwrap();
    let why = |content: &ForkContent| {
        matches!(content, ForkContent::Digest { why: Some(NoHistory::OtherModel { .. }), .. })
    };
    assert!(why(&forked.content), "{:?}", forked.content);
    assert_eq!(harbour.stored(&driver), before, "the parent is not changed");
}

#[test]
fn a_failed_or_rejected_summariser_leaves_the_session_unchanged() {
    let harbour = Harbour::new();
    let mut driver = harbour.open_with_model("ses_1");
    for n in 0..6 {
        turn(&mut driver, &format!("Read {n}."), &"abc\n".repeat(1_000));
    }
    let before = harbour.stored(&driver);
    let climb = driver.begin_compaction(None).unwrap();
    let failed = climb.summarise(|_| Err::<Reply, _>("no such host")).unwrap_err();
    assert!(matches!(failed, SummaryFailure::Asking("no such host")), "{failed}");
    let climb = driver.begin_compaction(None).unwrap();
    let empty = climb.summarise(|_| Ok::<_, String>(Reply::finished(""))).unwrap_err();
    assert_eq!(empty.to_string(), "the summary was empty");
    assert_eq!((harbour.stored(&driver), driver.log()), (before.clone(), &before));
    let climb = driver.begin_compaction(None).unwrap();
    let climbed = climb.summarise(|_| Ok::<_, String>(Reply::finished("## Goal\nAll was read."))).unwrap();
    let receipts = driver.commit(climbed).unwrap();
    assert_eq!(receipts.len(), 1);
    assert!(driver.log().iter().any(|message| message.text().contains("All was read.")));
    driver.undo(&receipts[0].id).unwrap();
}

#[test]
fn kinds_of_an_inspection_add_up_to_the_window() {
    let harbour = Harbour::new();
    let mut driver = harbour.open("ses_1");
    turn(&mut driver, "Read it.", &"abc\n".repeat(1_000));
    driver.set_overhead(RequestOverhead { system: Tokens(100), tools: Tokens(50) });
    let found = driver.inspect().unwrap();
    let outputs = found.by_kind.iter().find(|kind| kind.name == ContentKind::ToolOutputs.label()).unwrap();
    // Each message adds four tokens.
    assert_eq!((found.hidden, outputs.tokens), (Some(Tokens(150)), Tokens(1_004)));
    let sum: Tokens = found.kinds().iter().map(|kind| kind.tokens).sum();
    assert_eq!(sum, driver.load().unwrap().load.estimate);
    assert_eq!(found.line, ready(&mut driver, "").line.map(|line| line.at));
}

#[test]
fn an_edit_is_stored_with_a_receipt_and_undone_by_it() {
    let harbour = Harbour::new();
    let mut driver = harbour.open("ses_1");
    turn(&mut driver, "the first word", "a secret");
    let before = shown(&driver);
    let message = driver.log()[0].info.id.clone();
    let part = driver.log()[0].parts[0].id.clone();
    let changed = driver.edit(&message, &Edit::Text(part.clone(), "the last word".into())).unwrap();
    assert!(shown(&driver).contains("the last word") && !shown(&driver).contains("the first word"));
    assert_eq!(driver.log(), &harbour.stored(&driver));
    let call = driver.log().iter().find(|message| message.parts.iter().any(|part| part.as_tool().is_some()));
    let call = call.unwrap().info.id.clone();
    let removed = driver.edit(&call, &Edit::RemoveMessage(call.clone())).unwrap();
    assert!(!shown(&driver).contains("a secret"));
    assert_eq!(driver.log(), &harbour.stored(&driver));
    let stored = harbour.archive.store().message(driver.session(), &call).unwrap();
    assert!(serde_json::to_string(&stored).unwrap().contains("a secret"), "the log keeps the original");
    let query = RecallQuery { handle: Some(removed.handles[0].to_string()), ..RecallQuery::default() };
    assert!(driver.recall(&query).unwrap().text.contains("a secret"), "{removed:?}");
    driver.undo(&changed.id).unwrap();
    driver.undo(&removed.id).unwrap();
    assert_eq!(shown(&driver), before);
    // A message that a summary replaced is read back.
    filled(&mut driver, 8);
    driver.compact(|_| panic!("there is no model")).unwrap();
    assert!(driver.log().place(&message).is_err(), "it is out of view");
    driver.edit(&message, &Edit::RemovePart(part)).unwrap();
    let stored = harbour.archive.store().message(driver.session(), &message).unwrap();
    assert!(stored.parts[0].is_removed());
}
