//! Whole turns: what is prepared, and what is stored.

use std::sync::Arc;

use plimsoll_session::{
    AnswerEvent, ClimbStep, Counting, Limits, Plan, Prepared, Preset, Rejection, Reply, RequestOverhead,
    SessionError, SessionModel, StoreError, Summariser, Tokens, Usage,
};

use crate::support::{Harbour, LIMITS, answer, model, ready, request, say, shown, turn};

#[test]
fn the_log_in_memory_equals_the_stored_one() {
    let harbour = Harbour::new();
    let mut driver = harbour.open("ses_1");
    turn(&mut driver, "Read it.", "let x = 1;\n");
    turn(&mut driver, "And again.", "let x = 2;\n");
    assert_eq!(driver.log(), &harbour.stored(&driver));
    // Another driver continues the session.
    let session = driver.session().clone();
    driver.close().unwrap();
    let again = harbour.builder().session(session).open_blocking().unwrap();
    assert_eq!(again.log().len(), 6);
    assert!(shown(&again).contains("let x = 2;"));
}

#[test]
fn the_window_stays_under_the_line_over_many_turns_and_nothing_is_lost() {
    let harbour = Harbour::new();
    let mut driver = harbour.open_with_model("ses_1");
    let mut compacted = 0;
    for number in 0..40 {
        let output = format!("fact number {number}\n{}", "some words of a line\n".repeat(900));
        let content = turn(&mut driver, &format!("Read file {number}."), &output);
        let line = content.line.unwrap();
        assert!(
            !line.is_over(content.load.tokens),
            "{} over {:?} in turn {number}",
            content.load.tokens,
            line
        );
        content.window.check().unwrap();
        compacted += content.receipts.iter().filter(|r| matches!(r.plan, Plan::Compact(_))).count();
        assert_eq!(driver.log().messages().last(), harbour.stored(&driver).messages().last());
    }
    assert!(compacted > 2, "{compacted} compactions");
    let session = harbour.archive.store().session(driver.session()).unwrap();
    assert!(session.messages >= 120, "{} messages", session.messages);
    assert!(driver.log().len() < 60, "only what is in view is held: {}", driver.log().len());
}

#[test]
fn a_summary_is_requested_and_accepted() {
    let harbour = Harbour::new();
    let mut driver = harbour.open_with_model("ses_1");
    for number in 0..8 {
        driver.prompt(format!("Prompt {number}: {}", "word ".repeat(800))).unwrap();
        say(&mut driver, &"answer ".repeat(2_000));
    }
    driver.prompt("And now?").unwrap();
    let Prepared::Summarise(call) = driver.prepare().unwrap() else { panic!("no summary") };
    assert!(call.tokens < Tokens(32_000), "{}", call.tokens);
    let asked = (*call).clone();
    // Dropped, it is asked for again.
    drop(call);
    let Prepared::Summarise(call) = driver.prepare().unwrap() else { panic!("no summary") };
    assert_eq!(*call, asked);
    assert_eq!(call.answer(Ok(Reply::finished("## Goal\nTo know what comes now."))).unwrap(), None);
    let content = ready(&mut driver, "## Goal\nTo know what comes now.");
    assert_eq!(content.receipts.len(), 1);
    let text = shown(&driver);
    assert!(text.contains("To know what comes now.") && text.contains("And now?"), "{text}");
    assert!(!text.contains("Prompt 0:"));
}

/// R128: a policy without other ways to reduce the window reports the rejection instead of a request over the line.
#[test]
fn r128_a_window_that_could_not_be_summarised_is_not_returned() {
    let harbour = Harbour::new();
    let builder = harbour.builder().summariser(Summariser::own(LIMITS)).policy(Preset::Openfork.policy());
    let mut driver = builder.session(harbour.session("ses_1")).open_blocking().unwrap();
    for number in 0..10 {
        driver.prompt(format!("Never touch file {number}. {}", "word ".repeat(800))).unwrap();
        say(&mut driver, &"answer ".repeat(2_000));
    }
    driver.prompt("And now?").unwrap();
    let before = driver.log().clone();
    let rejections = loop {
        match driver.prepare().unwrap() {
            Prepared::Summarise(call) => {
                assert_eq!(call.answer(Ok(Reply::finished(""))).unwrap(), Some(Rejection::Empty));
            }
            Prepared::NotSummarised { rejections, .. } => break rejections,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(rejections.last(), Some(&Rejection::Empty));
    assert_eq!(driver.log(), &before);
}

#[test]
fn a_summariser_that_fails_costs_nothing_but_its_summary() {
    let harbour = Harbour::new();
    let mut driver = harbour.open_with_model("ses_1");
    for number in 0..10 {
        driver.prompt(format!("Never touch file {number}. {}", "word ".repeat(800))).unwrap();
        say(&mut driver, &"answer ".repeat(2_000));
    }
    driver.prompt("And now?").unwrap();
    let content = loop {
        match driver.prepare().unwrap() {
            Prepared::Ready(request) => break request.into_content(),
            Prepared::Summarise(call) => drop(call.answer(Err("the provider is down".into())).unwrap()),
            Prepared::NotSummarised { rejections, .. } => panic!("{rejections:?}"),
            Prepared::CannotFit { breakdown, .. } => panic!("{breakdown}"),
        }
    };
    assert!(!content.line.unwrap().is_over(content.load.tokens));
    assert!(shown(&driver).contains("made without a model"));
}

#[test]
fn a_request_that_cannot_fit_is_reported() {
    let harbour = Harbour::new();
    let mut driver = harbour.open("ses_1");
    driver.prompt("Hello").unwrap();
    driver.set_overhead(RequestOverhead { system: Tokens(40_000), tools: Tokens(0) });
    let Prepared::CannotFit { breakdown, .. } = driver.prepare().unwrap() else { panic!("it fits") };
    assert_eq!(breakdown.system, Tokens(40_000));
}

#[test]
fn a_rejected_request_reduces_the_window_and_its_limit_is_learned() {
    let harbour = Harbour::new();
    let mut driver = harbour.open("ses_1");
    for number in 0..4 {
        driver.prompt(format!("Prompt {number}: {}", "word ".repeat(1_000))).unwrap();
        say(&mut driver, &"answer ".repeat(1_000));
    }
    driver.prompt("And now?").unwrap();
    let refused = request(&mut driver);
    let before = refused.load.tokens;
    refused.on_overflow(Some(Tokens(8_192)));
    let after = ready(&mut driver, "");
    assert!(after.load.tokens < before, "{before} then {}", after.load.tokens);
    assert_eq!(driver.limits().context, Tokens(8_192));
    assert!(after.load.tokens < Tokens(8_192));
    assert!(shown(&driver).contains("And now?"), "the prompt is not lost");
}

#[test]
fn consecutive_rejections_reduce_more_each_time() {
    let harbour = Harbour::new();
    let mut driver = harbour.open("ses_1");
    for number in 0..12 {
        driver.prompt(format!("Prompt {number}: {}", "word ".repeat(1_000))).unwrap();
        say(&mut driver, &format!("answer {number} ").repeat(500));
    }
    driver.prompt("And now?").unwrap();
    let mut sizes = vec![ready(&mut driver, "").load.tokens.0];
    for _ in 0..5 {
        driver.on_overflow(None);
        sizes.push(request(&mut driver).load.tokens.0);
    }
    assert!(sizes.is_sorted_by(|a, b| a > b), "{sizes:?}");
    // An answer that needs two thirds of the window gets them within the tries that the agent makes.
    assert!(sizes[5] * 3 < sizes[0], "{sizes:?}");
    assert!(shown(&driver).contains("And now?"), "the prompt is not lost");
    // The next refusal after an answer is the first again.
    answer(request(&mut driver), [AnswerEvent::Text("Here.".into())], None);
    driver.prompt(format!("More: {}", "word ".repeat(4_000))).unwrap();
    let before = ready(&mut driver, "").load.tokens.0;
    driver.on_overflow(None);
    let after = ready(&mut driver, "").load.tokens.0;
    assert!(after < before && after * 2 > before, "{before}, then {after}");
}

#[test]
fn r160_a_compaction_during_a_turn_hides_no_later_message() {
    let harbour = Harbour::new();
    let mut driver = harbour.open_with_model("ses_1");
    for number in 0..8 {
        driver.prompt(format!("Prompt {number}: {}", "word ".repeat(800))).unwrap();
        say(&mut driver, &"answer ".repeat(1_000));
    }
    let mut climb = driver.begin_compaction(None).unwrap();
    let made = std::thread::spawn(move || {
        loop {
            match climb.step().unwrap() {
                ClimbStep::Ask(_) => drop(climb.answer(Ok(Reply::finished("## Goal\nSome goal."))).unwrap()),
                ClimbStep::Done(climbed) => break *climbed,
            }
        }
    });
    driver.prompt("What came meanwhile").unwrap();
    say(&mut driver, "and its answer");
    let receipts = driver.commit(made.join().unwrap()).unwrap();
    assert_eq!(receipts.len(), 1);
    let text = shown(&driver);
    assert!(
        text.contains("Some goal.")
            && text.contains("What came meanwhile")
            && text.contains("and its answer")
    );
    assert!(!text.contains("Prompt 0:"));
    assert_eq!(driver.log(), &harbour.stored(&driver));
}

#[test]
fn a_smaller_model_makes_the_next_request_fit_it_first() {
    let harbour = Harbour::new();
    let mut driver = harbour.open("ses_1");
    for number in 0..6 {
        driver.prompt(format!("Prompt {number}: {}", "word ".repeat(800))).unwrap();
        say(&mut driver, &"answer ".repeat(1_500));
    }
    assert!(ready(&mut driver, "").load.tokens > Tokens(16_000));
    driver.switch_model(SessionModel::new("small-model").limits(Limits::new(12_000, 2_000)));
    driver.prompt("And now?").unwrap();
    let content = ready(&mut driver, "");
    assert!(content.load.tokens <= Tokens(10_000), "{}", content.load.tokens);
    assert_eq!(content.cache.unchanged.blocks, 0, "another model's cache holds nothing");
}

#[test]
fn usage_teaches_the_counter() {
    let harbour = Harbour::new();
    let session = harbour.session("ses_1");
    let builder = harbour.builder().counting(Counting::Calibrated).session(session);
    let mut driver = builder.model(model(Limits::new(200_000, 8_000))).open_blocking().unwrap();
    let text = "The harbour is nine metres deep at low water. ".repeat(200);
    let plain = driver.counter().count(&text);
    let mut charged = 20_000;
    for _ in 0..12 {
        driver.prompt(text.as_str()).unwrap();
        // The provider counts half as much again as the vocabulary does.
        charged += plain.0 * 3 / 2;
        let usage = Some(Usage::new(Tokens(charged), Tokens(5)));
        let done = answer(request(&mut driver), [AnswerEvent::Text("Yes.".into())], usage);
        assert!(done.observed.is_some());
    }
    let learned = driver.counter().count(&text).0 as f64 / plain.0 as f64;
    assert!((1.35..1.65).contains(&learned), "{learned}");
    // The next request is weighed from the last usage on.
    driver.prompt("short").unwrap();
    let load = ready(&mut driver, "").load;
    assert!(load.tokens.0.abs_diff(charged + 10) < 100, "{} after {charged}", load.tokens);
}

#[test]
fn a_driver_whose_session_was_taken_over_cannot_write() {
    let harbour = Harbour::new();
    let mut driver = harbour.open("ses_1");
    driver.prompt("First").unwrap();
    harbour.wait(120_000);
    let builder = harbour.builder().holder("another").session(driver.session().clone());
    let mut other = builder.open_blocking().unwrap();
    other.prompt("Second").unwrap();
    let refused = driver.prompt("Too late").unwrap_err();
    assert!(
        matches!(refused, SessionError::Store(StoreError::Fenced { .. } | StoreError::Leased { .. })),
        "{refused}"
    );
    drop(driver);
    let text: Vec<String> = harbour.stored(&other).iter().map(plimsoll::Message::text).collect();
    assert_eq!(text, ["First", "Second"]);
    other.prompt("Third").unwrap();
}

#[test]
fn a_host_that_names_a_summariser_asks_it_and_not_its_own_model() {
    let harbour = Harbour::new();
    let session = harbour.session("ses_1");
    let summariser = Summariser::named("small", Limits::new(16_000, 2_000));
    let mut driver = harbour.builder().summariser(summariser).session(session).open_blocking().unwrap();
    for number in 0..10 {
        driver.prompt(format!("Prompt {number}: {}", "word ".repeat(800))).unwrap();
        say(&mut driver, &"answer ".repeat(2_000));
    }
    let Prepared::Summarise(request) = driver.prepare().unwrap() else { panic!("no summary") };
    assert_eq!(request.model.as_deref(), Some("small"));
    assert!(request.tokens + request.max_tokens <= Tokens(16_000));
}

#[test]
fn a_usage_that_cannot_be_true_does_not_end_a_session() {
    let harbour = Harbour::new();
    let mut driver = harbour.open_with_model("ses_1");
    for wrong in [1_000_000, u64::from(u32::MAX)] {
        driver.prompt("How deep is it?").unwrap();
        ready(&mut driver, "## Goal\nTo know how deep it is.");
        let usage = Some(Usage::new(Tokens(wrong), Tokens(10)));
        answer(request(&mut driver), [AnswerEvent::Text("Nine metres.".into())], usage);
    }
    driver.prompt("And how wide?").unwrap();
    let content = ready(&mut driver, "## Goal\nTo know how deep it is.");
    assert!(content.load.tokens < Tokens(1_000), "{:?}", content.load);
    assert!(content.room >= Tokens(4_000), "{}", content.room);
}

#[test]
fn a_small_window_learned_from_a_refusal_leaves_room_for_a_conversation() {
    for preset in [Preset::Plimsoll, Preset::Opencode, Preset::Opencode118] {
        let harbour = Harbour::new();
        let session = harbour.session("ses_1");
        let builder = harbour.builder().policy(preset.policy()).model("some-model").session(session);
        let mut driver = builder.open_blocking().unwrap();
        driver.prompt("How deep is it?").unwrap();
        ready(&mut driver, "## Goal\nTo know how deep it is.");
        driver.on_overflow(Some(Tokens(24_000)));
        // There is nothing to be reduced yet; what was learned stays.
        drop(driver.prepare().unwrap());
        let content = ready(&mut driver, "## Goal\nTo know how deep it is.");
        let line = content.line.unwrap();
        assert!(line.at >= Tokens(12_000), "{}: the line is at {}", preset.name(), line.at);
        assert!(content.room >= Tokens(4_000), "{}: {}", preset.name(), content.room);
    }
}

/// Its log was leaked, which for a long session is hundreds of megabytes.
#[test]
fn closing_a_driver_frees_its_memory() {
    let harbour = Harbour::new();
    let before = Arc::strong_count(&harbour.archive);
    let mut driver = harbour.open("ses_1");
    driver.prompt("First").unwrap();
    assert!(Arc::strong_count(&harbour.archive) > before);
    driver.close().unwrap();
    assert_eq!(Arc::strong_count(&harbour.archive), before);
}
