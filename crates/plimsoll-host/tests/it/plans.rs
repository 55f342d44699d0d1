//! Plans describe what they change, and receipts can be undone.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use plimsoll::prune::PruneChoice;
use plimsoll::{Plan, Tokens};
use plimsoll_host::{ErrorKind, Flags, PlanContents, Reduced, ReplayRequest, WindowSizes};

use crate::fixtures::{file, long_chat, stored};
use crate::hosts::Place;

fn reads() -> PruneChoice {
    PruneChoice { tools: vec!["read".to_owned()], keep: Some(1), ..PruneChoice::default() }
}

#[test]
fn a_plan_names_turns_and_subjects_and_its_shares_add_up() {
    let place = Place::new();
    let host = place.host();
    let config = host.config(&Flags::default()).unwrap();
    let path = place.write("project/session.json", &long_chat(4));
    let whole = host.whole_session(file(&path), &config).unwrap();
    let plan = whole.plan_prune(&config.policy, Some(&reads()));
    assert_eq!(plan.items.len(), 3, "all but the newest");
    let planned = Plan::Prune(plan.clone());
    let contents = PlanContents::of(&whole.log, None, [&planned]);
    let subject = contents.part(&plan.items[0].part);
    assert_eq!((subject.turn, subject.kind.as_str()), (1, "read"));
    assert!(subject.about.contains("src/") && subject.about.ends_with(".rs"), "{subject:?}");
    let sizes = WindowSizes::planned(&planned, &whole.log, &config.policy, whole.limits);
    assert!(sizes.after < sizes.before && !sizes.is_bound, "{sizes:?}");
    let shares: Tokens = sizes.shares(plan.items.iter().map(|item| item.tokens)).into_iter().sum();
    assert_eq!(shares, sizes.before - sizes.after);
}

#[test]
fn a_prune_is_applied_once_and_undone_once() {
    let place = Place::new();
    let host = place.host();
    let config = host.config(&Flags::default()).unwrap();
    let session = stored(&place, &host, &config, &long_chat(4));
    let Reduced::Done(receipts, None) = session.prune(Some(&reads()), &config, false, &host).unwrap() else {
        panic!("nothing was pruned");
    };
    assert!(receipts.len() == 1 && receipts[0].after < receipts[0].before);
    let again = session.prune(Some(&reads()), &config, false, &host).unwrap();
    assert!(matches!(again, Reduced::Nothing { .. }), "{again:?}");
    let undone = host.undo(None, false).unwrap();
    assert_eq!((undone.receipt.id, undone.undo.after), (receipts[0].id.clone(), receipts[0].before));
    let error = host.undo(None, false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Negative, "{error}");
    let error = host.undo(Some(receipts[0].id.as_str()), false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Negative, "{error}");
}

#[test]
fn a_short_session_has_too_little_to_summarise() {
    let place = Place::new();
    let host = place.host();
    let config = host.config(&Flags::default()).unwrap();
    let session =
        stored(&place, &host, &config, r#"{ "messages": [{ "role": "user", "content": "Hello" }] }"#);
    let Reduced::Nothing { why: reason, .. } = session.compact_offline(&config, false, &host).unwrap() else {
        panic!("something was summarised");
    };
    assert!(reason.starts_with("too little to summarise: 1 message, "), "{reason}");
    assert!(session.opened.receipts(&session.session.id).unwrap().is_empty());
}

#[test]
fn a_replay_that_is_stopped_ends_without_a_result() {
    let place = Place::new();
    let host = place.host();
    let path = place.write("project/session.json", &long_chat(4));
    let request = |stop: bool| ReplayRequest {
        stop: Some(Arc::new(AtomicBool::new(stop))),
        context: Some(200_000),
        ..ReplayRequest::default()
    };
    let (replays, failed) = host.replay(vec![file(&path)], &request(false)).unwrap();
    assert_eq!((replays.sessions.len(), failed.len()), (1, 0));
    let (replays, failed) = host.replay(vec![file(&path)], &request(true)).unwrap();
    assert!(replays.sessions.is_empty());
    assert!(failed[0].message().ends_with("stopped"), "{}", failed[0].message());
}

#[test]
fn a_history_has_each_turn_and_contents_have_what_was_pruned() {
    let place = Place::new();
    let host = place.host();
    let config = host.config(&Flags::default()).unwrap();
    let session = stored(&place, &host, &config, &long_chat(4));
    let history = session.opened.history(&session.session, &config).unwrap();
    assert_eq!(
        history.iter().map(|turn| turn.prompt.as_str()).collect::<Vec<_>>(),
        ["Look around.", "One", "Two", "Three"]
    );
    assert!(history.windows(2).all(|pair| pair[0].log <= pair[1].log), "{history:?}");
    session.prune(Some(&reads()), &config, false, &host).unwrap();
    let contents = session.opened.reduced_content(&session.session, &config).unwrap();
    assert_eq!(contents.pruned.len(), 3);
    assert!(contents.pruned.iter().all(|part| part.turn == 1 && part.about.contains("src/")), "{contents:?}");
    assert!(contents.compacted.is_empty() && contents.pinned.is_empty());
}
