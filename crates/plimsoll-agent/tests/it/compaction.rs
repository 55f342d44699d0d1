//! Compaction in operation, and known failures of other systems.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use plimsoll::{Limits, Message, PartBody, Preset, Role, Tokens};
use plimsoll_agent::{Conversation, Event, ReductionKind, RunEnd};
use plimsoll_providers::Wire;
use plimsoll_store::PageRequest;
use plimsoll_testkit::server::{Captured, CapturedPart, Fault, Gate, ModelServer, Reply};
use plimsoll_tokens::ModelPrice;
use rstest::rstest;
use serde_json::json;

use crate::support::{Dock, SUMMARY, is_summary, lines, model, read_after, reader, run};

fn dock(wire: Wire, server: ModelServer) -> Dock {
    let dock = Dock::on(wire, server);
    dock.write("big.txt", &lines(300));
    dock
}

/// Number of turns until a compaction, at most ten.
async fn until_compacted(dock: &Dock, conversation: &mut Conversation) -> usize {
    for turn in 0..10 {
        run(conversation, &format!("Read it 3 times, round r{turn}")).await;
        if dock.happened().contains(&"compact".to_owned()) {
            return turn;
        }
    }
    panic!("nothing was compacted: {:?}", dock.happened());
}

fn pivots(log: &[Message]) -> Vec<(&Message, &Message)> {
    let marker = |message: &&Message| message.marker().is_some();
    let answer = |marker: &Message| {
        log.iter()
            .find(|message| message.info.summary && message.info.parent_id.as_ref() == Some(&marker.info.id))
    };
    log.iter().filter(marker).filter_map(|found| Some((found, answer(found)?))).collect()
}

#[rstest]
#[tokio::test]
async fn r114_r115_a_compaction_is_a_marker_and_a_summary_of_the_compaction_agent(
    #[values(Wire::Anthropic, Wire::Chat, Wire::Responses)] wire: Wire,
) {
    let dock = dock(wire, ModelServer::answering(reader()).unwrap());
    let mut conversation = dock.begin().await;
    until_compacted(&dock, &mut conversation).await;
    let log = dock.log(conversation.session());
    let (marker, summary) = pivots(&log)[0];
    assert_eq!(marker.info.role, Some(Role::User));
    let auto = marker.parts.iter().find_map(|part| match &part.body {
        PartBody::Compaction(part) => Some(part.auto),
        _ => None,
    });
    assert_eq!(auto, Some(Some(true)));
    assert_eq!(summary.info.role, Some(Role::Assistant));
    assert_eq!(
        (summary.info.agent.as_deref(), summary.info.mode.as_deref()),
        (Some("compaction"), Some("compaction"))
    );
    assert!(summary.info.summary && summary.text().contains("It was read."));
    assert!(summary.info.tokens.is_some(), "what the summary was charged for is recorded with it");
}

/// The report of a run showed a third more than was stored with its session.
#[rstest]
#[case::taken(SUMMARY)]
#[case::not_taken("")]
#[tokio::test]
async fn the_cost_of_a_session_equals_the_charges_of_its_runs(#[case] summary: &'static str) {
    let reads = reader();
    let answer = move |request: &Captured| match is_summary(request) {
        true => Reply::new().text(summary),
        false => reads(request),
    };
    let mut dock = dock(Wire::Anthropic, ModelServer::answering(answer).unwrap());
    let (cache_write_hour, long_prompt) = (None, None);
    dock.agent.model.price = Some(ModelPrice {
        input: 3.0,
        output: 15.0,
        cache_read: 0.3,
        cache_write: 3.75,
        cache_write_hour,
        long_prompt,
    });
    let mut conversation = dock.begin().await;
    let mut charged = 0.0;
    for turn in 0..10 {
        charged += run(&mut conversation, &format!("Read it 3 times, round r{turn}")).await.cost;
        if dock.happened().contains(&"compact".to_owned()) {
            break;
        }
    }
    let log = dock.log(conversation.session());
    let (_, answer) = pivots(&log)[0];
    assert_eq!(answer.info.model_id.as_deref(), Some("scripted"));
    assert!(answer.info.cost.is_some() && answer.info.tokens.is_some());
    let stored = dock.archive.store().session(conversation.session()).unwrap().cost;
    assert!((stored - charged).abs() < 1e-9, "{stored} stored, {charged} charged");
}

#[rstest]
#[tokio::test]
async fn r153_the_prompt_being_worked_on_is_the_last_word_of_the_user_after_a_compaction(
    #[values(Wire::Anthropic, Wire::Chat, Wire::Responses)] wire: Wire,
) {
    let dock = dock(wire, ModelServer::answering(reader()).unwrap());
    let mut conversation = dock.begin().await;
    until_compacted(&dock, &mut conversation).await;
    let requests = dock.server.requests();
    let summary = requests.iter().position(is_summary).unwrap();
    let next = requests[summary + 1..].iter().find(|request| !is_summary(request)).unwrap();
    let before = requests[..summary].iter().rev().find(|request| !is_summary(request)).unwrap();
    let prompt = before.last_user_text();
    assert!(prompt.contains("round r"));
    let words = next.last_user_text();
    assert!(
        words.contains(&prompt) || words.contains("Continue if you have next steps"),
        "{}",
        next.outline()
    );
    assert!(next.contains(&prompt));
    assert!(next.tokens < before.tokens, "the window is smaller");
    assert!(next.contains("It was read."), "the summary is there");
}

#[tokio::test]
async fn r125_the_compaction_agent_has_its_own_model_and_prompt_or_the_sessions() {
    let mut own = dock(Wire::Anthropic, ModelServer::answering(reader()).unwrap());
    // Room for the instruction and the summary in addition to a window over the line.
    own.agent.model.limits = Some(Limits::new(40_000, 16_000));
    let mut conversation = own.begin().await;
    until_compacted(&own, &mut conversation).await;
    let requests = own.server.requests();
    let summary = requests.iter().find(|request| is_summary(request)).unwrap();
    assert_eq!(summary.model, "scripted", "unset: the session's own model is asked");
    assert!(
        !summary.tools.is_empty() && summary.system.contains("Project directory"),
        "in the form its cache holds"
    );
    assert!(summary.cache.read > summary.tokens / 2, "{:?} of {}", summary.cache, summary.tokens);

    let other = ModelServer::answering(|_: &Captured| Reply::new().text(SUMMARY)).unwrap();
    let mut dock = dock(Wire::Anthropic, ModelServer::answering(reader()).unwrap());
    let mut summariser = model(Wire::Responses, &other.url());
    summariser.name.model = "small".into();
    summariser.limits = Some(Limits::new(6_000, 1_000));
    dock.agent.compaction.model = Some(summariser);
    dock.agent.compaction.prompt = Some("Say what we did, as a list. Use ## Goal first.".into());
    let mut conversation = dock.begin().await;
    until_compacted(&dock, &mut conversation).await;
    assert!(dock.server.requests().iter().all(|request| !is_summary(request)));
    let asked = other.requests();
    assert!(asked.len() > 1, "the history does not fit the small model at once, so it is asked in pieces");
    assert!(asked.iter().all(|request| request.model == "small" && request.tools.is_empty()));
    assert!(asked.iter().all(|request| request.tokens < 6_000));
    assert!(asked.iter().all(|request| request.contains("Say what we did, as a list.")));
}

#[rstest]
#[case::fails(Reply::failing(Fault::status(400)))]
#[case::empty(Reply::new().text("   "))]
#[case::tools(Reply::new().call("call_x", "bash", json!({ "command": "rm -r ." })))]
#[case::long(Reply::new().text(lines(1_500)))]
#[case::cut(Reply::new().text(SUMMARY).piece_size(Some(5)).fault(Fault::Cut { after: 5 }))]
#[tokio::test]
async fn a_failed_or_empty_summary_loses_no_history(#[case] bad: Reply) {
    let dock = dock(Wire::Anthropic, {
        let read = reader();
        ModelServer::answering(
            move |request: &Captured| {
                if is_summary(request) { bad.clone() } else { read(request) }
            },
        )
        .unwrap()
    })
    .allow("bash");
    let mut conversation = dock.begin().await;
    until_compacted(&dock, &mut conversation).await;
    let log = dock.log(conversation.session());
    let (marker, summary) = pivots(&log)[0];
    assert!(summary.text().contains("made without a model"), "{}", summary.text());
    assert!(marker.marker().unwrap().extractive == Some(true));
    let request = PageRequest { from: None, oldest_first: true, most: 10_000 };
    let all = dock.archive.store().page(conversation.session(), &request).unwrap().messages;
    assert!(all.iter().any(|message| message.text().contains("round r0")), "the history is all there");
    let receipt = dock.events.lock().unwrap().iter().find_map(|event| match event {
        Event::Reduced(figures) if figures.kind == ReductionKind::Compact => Some(figures.receipt.clone()),
        _ => None,
    });
    let receipt = receipt.unwrap();
    conversation.undo(&receipt).await.unwrap();
    let shown = format!("{:?}", conversation.handle().window().await.unwrap());
    assert!(shown.contains("round r0"), "and can be brought back into view");
    assert!(
        std::fs::exists(dock.directory.path().join("project/big.txt")).unwrap(),
        "a call in a summary is not run"
    );
}

/// The errors of all reported summaries.
fn summary_errors(dock: &Dock) -> Vec<Option<String>> {
    let events = dock.events.lock().unwrap();
    let errors = events.iter().filter_map(|event| match event {
        Event::Summarised { error, .. } => Some(error.clone()),
        _ => None,
    });
    errors.collect()
}

fn summarising_with(bad: Reply) -> ModelServer {
    let read = reader();
    ModelServer::answering(
        move |request: &Captured| if is_summary(request) { bad.clone() } else { read(request) },
    )
    .unwrap()
}

/// A rejected summary was reported with `error: null`, the request was sent over the line, and the run succeeded.
#[rstest]
#[case::empty(Reply::new().text("   "), "the summary was empty")]
#[case::refused(Reply::new().text("I'm sorry, I can't help"), "the summariser refused to write a summary")]
#[case::not_smaller(Reply::new().text(lines(2_500)), "is not smaller than")]
#[tokio::test]
async fn r128_r129_a_run_whose_summary_is_rejected_stops_with_the_reason(
    #[values(Preset::Opencode, Preset::Openfork)] preset: Preset,
    #[case] bad: Reply,
    #[case] reason: &str,
) {
    let mut dock = dock(Wire::Anthropic, summarising_with(bad));
    dock.agent.policy = Arc::new(preset.policy());
    let mut conversation = dock.begin().await;
    let cancel = tokio_util::sync::CancellationToken::new();
    let mut ended = None;
    for turn in 0..12 {
        if let Err(error) = conversation.run(&format!("Read it 3 times, round r{turn}"), &cancel).await {
            ended = Some(error);
            break;
        }
    }
    let error = ended.expect("the window never reached the line");
    assert_eq!(error.name(), "SummaryError");
    assert!(error.to_string().contains(reason), "{error}");
    let reply = summary_errors(&dock);
    assert!(
        !reply.is_empty()
            && reply.iter().all(|error| error.as_ref().is_some_and(|error| error.contains(reason))),
        "{reply:?}"
    );
    assert!(is_summary(&dock.server.last().unwrap()), "no request went out over the line");
    let log = dock.log(conversation.session());
    assert!(pivots(&log).is_empty() && log.iter().any(|message| message.text().contains("round r0")));
}

#[tokio::test]
async fn a_rejected_summary_is_an_error_in_its_event_and_in_the_receipt() {
    let dock = dock(Wire::Anthropic, summarising_with(Reply::new().text("I'm sorry, I can't help")));
    let mut conversation = dock.begin().await;
    until_compacted(&dock, &mut conversation).await;
    let reason = "the summariser refused to write a summary";
    assert_eq!(summary_errors(&dock)[0].as_deref(), Some(reason));
    let receipts = dock.archive.store().receipts(conversation.session(), None, 100).unwrap();
    assert!(receipts.iter().any(|receipt| receipt.detail().contains(reason)), "{receipts:?}");
}

#[tokio::test]
async fn a_compaction_that_the_user_asked_for_and_that_failed_is_an_error() {
    let mut dock = dock(Wire::Anthropic, summarising_with(Reply::new().text("")));
    dock.agent.policy = Arc::new(Preset::Opencode.policy());
    let mut conversation = dock.begin().await;
    for turn in 0..2 {
        run(&mut conversation, &format!("Read it 1 times, round r{turn}")).await;
    }
    let error = conversation.compact(&tokio_util::sync::CancellationToken::new()).await.unwrap_err();
    assert_eq!(
        (error.name(), error.to_string().contains("the summary was empty")),
        ("SummaryError", true),
        "{error}"
    );
}

#[tokio::test]
async fn a_summary_request_that_is_itself_too_large_does_not_end_the_session() {
    // The summariser's window is declared larger than it is, so that its first request is rejected.
    let other = ModelServer::builder()
        .window(6_000)
        .answering(|_: &Captured| Reply::new().text(SUMMARY))
        .start()
        .unwrap();
    let mut dock = dock(Wire::Anthropic, ModelServer::answering(reader()).unwrap());
    dock.agent.compaction.model = Some(model(Wire::Chat, &other.url()));
    let mut conversation = dock.begin().await;
    until_compacted(&dock, &mut conversation).await;
    let report = run(&mut conversation, "Read it 1 times").await;
    assert!(matches!(report.end, RunEnd::Finished { .. }));
}

#[tokio::test]
async fn compaction_is_not_endless_when_nothing_shrinks() {
    // Summaries as long as what they replace, and a model that never stops reading.
    let asked = Arc::new(AtomicUsize::new(0));
    let (count, read) = (Arc::clone(&asked), reader());
    let mut dock = dock(
        Wire::Anthropic,
        ModelServer::answering(move |request: &Captured| {
            if is_summary(request) {
                count.fetch_add(1, Ordering::Relaxed);
                return Reply::new().text(format!("## Goal\n{}", lines(1_200)));
            }
            read(request)
        })
        .unwrap(),
    );
    dock.agent.profile.limits.steps = 40;
    let mut conversation = dock.begin().await;
    let report = run(&mut conversation, "Read it 1000 times").await;
    assert_eq!(report.end, RunEnd::Steps);
    let asked = asked.load(Ordering::Relaxed);
    assert!(asked <= 12, "the breaker stops asking: {asked}");
    assert!(dock.server.requests().iter().all(|request| request.tokens < 32_000));
}

#[tokio::test]
async fn a_stale_marker_does_not_hijack_the_next_prompt_and_an_old_summary_stays_old() {
    let number = Arc::new(AtomicUsize::new(0));
    let (count, read) = (Arc::clone(&number), reader());
    let dock = dock(
        Wire::Anthropic,
        ModelServer::answering(move |request: &Captured| {
            if is_summary(request) {
                let n = count.fetch_add(1, Ordering::Relaxed);
                return Reply::new().text(format!("## Goal\nSummary number {n}."));
            }
            read(request)
        })
        .unwrap(),
    );
    let mut conversation = dock.begin().await;
    for turn in 0..14 {
        run(&mut conversation, &format!("Read it 2 times, round r{turn}")).await;
        let last = dock.server.last().unwrap();
        let prompt = format!("round r{turn}");
        let words = last.last_user_text();
        assert!(last.contains(&prompt), "turn {turn}: {}", last.outline());
        assert!(
            words.contains(&prompt) || words.contains("Continue if you have next steps"),
            "turn {turn}: {words}"
        );
        let made = number.load(Ordering::Relaxed);
        let shown: Vec<usize> =
            (0..made).filter(|n| last.contains(&format!("Summary number {n}."))).collect();
        assert!(shown.len() <= 1 && shown.iter().all(|n| n + 1 == made), "turn {turn}: {shown:?} of {made}");
    }
    assert!(number.load(Ordering::Relaxed) >= 2);
}

#[tokio::test]
async fn counters_fall_after_a_compaction() {
    let dock = dock(Wire::Anthropic, ModelServer::answering(reader()).unwrap());
    let mut conversation = dock.begin().await;
    until_compacted(&dock, &mut conversation).await;
    let events = dock.events.lock().unwrap().clone();
    let compacted = events
        .iter()
        .position(|event| matches!(event, Event::Reduced(figures) if figures.kind == ReductionKind::Compact));
    let weighed = |events: &[Event]| -> Vec<Tokens> {
        let weigh = |event: &Event| match event {
            Event::Weighed { tokens, .. } => Some(*tokens),
            _ => None,
        };
        events.iter().filter_map(weigh).collect()
    };
    let before = weighed(&events[..compacted.unwrap()]);
    let after = weighed(&events[compacted.unwrap()..]);
    assert!(after[0] < *before.last().unwrap(), "{before:?} {after:?}");
    assert!(after[0] < Tokens(28_000));
    let Some(Event::Reduced(figures)) = events.get(compacted.unwrap()) else { panic!("it was there") };
    assert!(figures.after < figures.before);
}

#[rstest]
#[tokio::test]
async fn thoughts_stay_before_the_results_they_led_to_and_no_result_is_orphaned(
    #[values(Wire::Anthropic, Wire::Chat, Wire::Responses)] wire: Wire,
) {
    // The server's rules check each request: signatures, their order, calls and results.
    let dock = dock(wire, ModelServer::answering(read_after(Reply::new().thinking("Hm."))).unwrap());
    let mut conversation = dock.begin().await;
    for turn in 0..8 {
        run(&mut conversation, &format!("Read it 3 times, round r{turn}")).await;
    }
    assert!(dock.happened().contains(&"compact".to_owned()));
    dock.server.assert_legal();
}

#[tokio::test]
async fn r160_a_compaction_is_prepared_during_the_turn_and_takes_effect_at_the_line() {
    let gate = Gate::new();
    let (held, read) = (gate.clone(), reader());
    let mut dock = dock(
        Wire::Anthropic,
        ModelServer::answering(move |request: &Captured| {
            if is_summary(request) { Reply::new().text(SUMMARY).gate(0, &held) } else { read(request) }
        })
        .unwrap(),
    );
    dock.agent.policy = crate::support::policy(|spec| {
        spec.overflow.soft_share = Some(0.4);
        spec.overflow.soft_when_free = false;
    });
    let mut conversation = dock.begin().await;
    run(&mut conversation, "Read it 7 times").await;
    let held = gate.clone();
    assert!(tokio::task::spawn_blocking(move || held.wait_reached()).await.unwrap(), "{:?}", dock.happened());
    // The conversation continues while the summary is written.
    run(&mut conversation, "Read it 1 times, while you think").await;
    assert!(!dock.happened().contains(&"compact".to_owned()));
    gate.release();
    for turn in 0..15 {
        run(&mut conversation, &format!("Read it 1 times, round r{turn}")).await;
        if dock.happened().contains(&"compact".to_owned()) {
            break;
        }
    }
    let happened = dock.happened();
    let compact = happened.iter().position(|name| name == "compact").expect("it took effect");
    assert!(
        !happened[compact.saturating_sub(4)..compact].contains(&"summarising".to_owned()),
        "there was no waiting: {happened:?}"
    );
    let last = dock.server.last().unwrap();
    assert!(last.contains("It was read.") && last.contains("while you think"), "{}", last.outline());
    let summaries = dock.server.requests().iter().filter(|request| is_summary(request)).count();
    assert_eq!(summaries, 1);
}

#[rstest]
#[case::opencode(Preset::Opencode)]
#[case::current(Preset::Opencode118)]
#[case::openfork(Preset::Openfork)]
#[case::plimsoll(Preset::Plimsoll)]
#[tokio::test]
async fn every_preset_keeps_a_long_session_going(#[case] preset: Preset) {
    let mut dock = dock(Wire::Anthropic, ModelServer::answering(reader()).unwrap());
    if preset == Preset::Plimsoll {
        // The others follow tools that leave the system prompt and the tools out of their figures.
        dock.server.window(32_000);
    }
    dock.agent.policy = Arc::new(preset.policy());
    let mut conversation = dock.begin().await;
    for turn in 0..12 {
        run(&mut conversation, &format!("Read it 3 times, round r{turn}")).await;
    }
    let log = dock.log(conversation.session());
    assert!(!pivots(&log).is_empty());
}

#[tokio::test]
async fn a_manual_compaction_has_the_same_receipts() {
    let dock = dock(Wire::Anthropic, ModelServer::answering(reader()).unwrap());
    let mut conversation = dock.begin().await;
    for turn in 0..3 {
        run(&mut conversation, &format!("Read it 1 times, round r{turn}")).await;
    }
    let report = conversation.compact(&tokio_util::sync::CancellationToken::new()).await.unwrap();
    assert_eq!(report.len(), 1);
    assert!(matches!(report[0].kind, ReductionKind::Compact));
    let log = dock.log(conversation.session());
    assert_eq!(pivots(&log)[0].0.marker().unwrap().auto, Some(false));
    assert_eq!(run(&mut conversation, "Read it 1 times, now").await.text, "Read 1 times.");
    assert!(dock.server.last().unwrap().contains("It was read."));
}

/// Snapshots of the context's shape around each reduction.
#[tokio::test]
async fn the_shape_of_the_context_before_and_after_a_compaction() {
    let dock = dock(Wire::Anthropic, ModelServer::answering(reader()).unwrap());
    // At the line, and not prepared before it.
    let dock = dock.with_policy(|spec| spec.overflow.soft_share = None);
    let mut conversation = dock.begin().await;
    until_compacted(&dock, &mut conversation).await;
    let requests = dock.server.requests();
    let summary = requests.iter().position(is_summary).unwrap();
    let tools = format!("tools: {}", dock.agent.profile.tools.names().join(", "));
    let shape = |request: &Captured| {
        let outline = request.outline().replace(&tools, "tools: all of the agent's");
        // Lengths and IDs depend on the location of the project.
        let kind =
            |line: &str| line.split(" (").next().unwrap_or(line).split(" call_").next().map(str::to_owned);
        outline.lines().skip(1).filter_map(kind).collect::<Vec<_>>().join("\n")
    };
    let reply = format!(
        "before\n{}\n\nsummary\n{}\n\nafter\n{}",
        shape(&requests[summary - 1]),
        shape(&requests[summary]),
        shape(&requests[summary + 1])
    );
    insta::assert_snapshot!(reply);
}

/// Returns how the window shows each result, without what depends on the location of the project.
fn results(request: &Captured) -> String {
    let kind = |text: &str| match text {
        text if text.contains("cleared") => "cleared, with a handle".to_owned(),
        text if text.contains("spill_") => format!("cut to {} kB, with a handle", text.len() / 1_000),
        text => format!("whole, {} kB", text.len() / 1_000),
    };
    let shown = request.parts().filter_map(|part| match part {
        CapturedPart::Result { text, .. } => Some(kind(text)),
        _ => None,
    });
    shown.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn the_shape_of_the_context_around_a_cut_and_a_prune() {
    let mut dock = Dock::new(ModelServer::start().unwrap()).with_policy(|spec| {
        spec.prune.protect_tokens = Tokens(2_000);
        spec.prune.min_tokens = Tokens(1_000);
        spec.prune.active_turns = 0;
    });
    dock.agent.profile.limits.steps = 8;
    dock.write("big.txt", &lines(900));
    let read = |n: usize| {
        Reply::new().call(format!("call_{n}"), "read", json!({ "path": "big.txt", "limit": 300 * n }))
    };
    dock.server.push_all([read(1), read(3), read(2), Reply::new().text("Read.")]);
    let mut conversation = dock.begin().await;
    run(&mut conversation, "Read it").await;
    let shapes: Vec<String> = dock.server.requests().iter().map(results).collect();
    insta::assert_snapshot!(shapes.join("\n--\n"));
}

/// A summariser that accepts the connection and never answers was waited for repeatedly, about two hours in all.
#[rstest]
#[tokio::test]
async fn a_silent_summariser_is_awaited_once_within_the_policys_limit(
    #[values(Wire::Anthropic, Wire::Chat, Wire::Responses)] wire: Wire,
) {
    let reads = reader();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let answer = move |request: &Captured| match is_summary(request) {
        true => {
            count.fetch_add(1, Ordering::SeqCst);
            Reply::failing(Fault::NoAnswer)
        }
        false => reads(request),
    };
    let dock = dock(wire, ModelServer::answering(answer).unwrap()).with_policy(|spec| {
        spec.compact.max_seconds = 1;
    });
    let mut conversation = dock.begin().await;
    for turn in 0..12 {
        let report = run(&mut conversation, &format!("Read it 3 times, round r{turn}")).await;
        assert_eq!(report.text, "Read 3 times.");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1, "the breaker opens at once");
    let reply = dock.events.lock().unwrap();
    let errors: Vec<&str> = reply
        .iter()
        .filter_map(|event| match event {
            Event::Summarised { error, .. } => error.as_deref(),
            _ => None,
        })
        .collect();
    assert_eq!(errors, ["the summariser timed out after 1 seconds"]);
    let pivots = pivots(&dock.log(conversation.session())).len();
    assert!(pivots > 0, "the summary without a model has taken its place: {:?}", dock.happened());
}

/// Chunks share one limit: each of them may answer in time, and the compaction still takes too long.
#[tokio::test]
async fn the_limit_of_a_compaction_holds_over_a_manual_one_too() {
    let reads = reader();
    let answer = move |request: &Captured| match is_summary(request) {
        true => Reply::failing(Fault::Silence { after: 0 }),
        false => reads(request),
    };
    let dock = dock(Wire::Anthropic, ModelServer::answering(answer).unwrap()).with_policy(|spec| {
        spec.compact.max_seconds = 1;
    });
    let mut conversation = dock.begin().await;
    run(&mut conversation, "Read it 3 times, round r0").await;
    let done = conversation.compact(&tokio_util::sync::CancellationToken::new()).await.unwrap();
    assert!(done.iter().any(|figures| figures.kind == ReductionKind::Compact), "{done:?}");
}
