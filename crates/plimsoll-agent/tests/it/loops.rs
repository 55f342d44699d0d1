//! The loop: steps, limits, rejections, faults and cancelling.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use plimsoll::policy::Thrift;
use plimsoll::{Counter, Limits, Message, Role, ToolStatus, Window};
use plimsoll_agent::{AgentError, Event, RunEnd, StopReason};
use plimsoll_providers::{ProviderError, Wire};
use plimsoll_session::Counting;
use plimsoll_store::Sequence;
use plimsoll_testkit::History;
use plimsoll_testkit::server::{
    Captured, CapturedPart, Fault, Finish, Gate, ModelServer, Reply, StreamError,
};
use rstest::rstest;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::support::{CancellingCounter, Dock, lines, policy, reader, run};

#[rstest]
#[tokio::test]
async fn a_turn_with_reasoning_and_parallel_calls_succeeds_on_every_wire(
    #[values(Wire::Anthropic, Wire::Chat, Wire::Responses)] wire: Wire,
) {
    let dock = Dock::on(wire, ModelServer::start().unwrap());
    dock.write("a.txt", "nine metres\n");
    dock.server.push_all([
        Reply::new()
            .thinking("I should look.")
            .text("Let me see.")
            .call("call_1", "read", json!({ "path": "a.txt" }))
            .call("call_2", "list", json!({})),
        Reply::new().text("It is nine metres deep."),
    ]);
    let mut conversation = dock.begin().await;
    let report = run(&mut conversation, "How deep is it?").await;
    assert_eq!(report.end, RunEnd::Finished { reason: finish_of(wire).into() });
    assert_eq!((report.text.as_str(), report.steps), ("It is nine metres deep.", 2));
    let second = dock.server.last().unwrap();
    assert_eq!(second.result("call_1").map(str::trim), Some("1\tnine metres"));
    assert_eq!(second.result("call_2").map(str::trim), Some("a.txt"));
    assert!(second.system.contains("Project directory"));
    assert!(second.tools.contains(&"recall".to_owned()));
    assert!(report.usage.input + report.usage.cache_read + report.usage.cache_write > 0);
    let log = dock.log(conversation.session());
    assert_eq!(log.len(), 3);
    assert!(log.iter().all(|message| !message.is_open()));
    Window::of(&log, &dock.agent.policy).check().unwrap();
}

fn finish_of(wire: Wire) -> &'static str {
    match wire {
        Wire::Anthropic => "end_turn",
        Wire::Chat => "stop",
        Wire::Responses => "completed",
    }
}

#[tokio::test]
async fn r152_each_step_weighs_prunes_compacts_asks_and_cuts_in_this_order() {
    let dock = Dock::new(ModelServer::start().unwrap()).with_policy(|spec| {
        spec.prune.protect_tokens = plimsoll::Tokens(2_000);
        spec.prune.min_tokens = plimsoll::Tokens(1_000);
        spec.prune.active_turns = 0;
    });
    dock.write("big.txt", &lines(400));
    let mut conversation = dock.begin().await;
    let read = |n: usize| {
        Reply::new().call(format!("call_{n}"), "read", json!({ "path": "big.txt", "limit": 390 + n }))
    };
    dock.server.push_all([read(1), read(2), read(3), read(4), Reply::new().text("Read.")]);
    run(&mut conversation, "Read it again and again").await;
    let happened = dock.happened();
    let prune = happened.iter().position(|name| name == "prune").expect("something was pruned");
    assert_eq!(happened[prune - 1], "callEnded");
    assert_eq!(happened[prune + 1..prune + 3], ["weighed", "requested"], "{happened:?}");
    let order: Vec<&str> = happened[..6].iter().map(String::as_str).collect();
    assert_eq!(order, ["opened", "prompted", "titled", "weighed", "requested", "answered"]);
    assert_eq!(happened[6..9], ["callStarted", "callEnded", "weighed"], "{happened:?}");
    assert_eq!(happened.last().unwrap(), "ended");
}

#[tokio::test]
async fn r158_the_iteration_cap_ends_a_run_and_the_session_can_continue() {
    let mut dock = Dock::new(
        ModelServer::answering(|request: &Captured| {
            let number = request.call_ids().len();
            Reply::new().call(format!("call_{number}"), "list", json!({ "depth": number + 1 }))
        })
        .unwrap(),
    );
    dock.agent.profile.limits.steps = 4;
    let mut conversation = dock.begin().await;
    let report = run(&mut conversation, "Go on for ever").await;
    assert_eq!((report.end, report.steps), (RunEnd::Steps, 4));
    assert_eq!(dock.server.requests().len(), 4);
    dock.server.push(Reply::new().text("Enough."));
    assert_eq!(run(&mut conversation, "Stop").await.text, "Enough.");
}

#[rstest]
#[case::tokens(Some(1), None, RunEnd::Tokens)]
#[case::cost(None, Some(0.000_001), RunEnd::Cost)]
#[tokio::test]
async fn a_run_ends_at_its_caps(#[case] tokens: Option<u64>, #[case] cost: Option<f64>, #[case] end: RunEnd) {
    let mut dock = Dock::new(ModelServer::start().unwrap());
    (dock.agent.profile.limits.tokens, dock.agent.profile.limits.cost) = (tokens, cost);
    dock.agent.model.price = plimsoll_tokens::ModelTable::default().find("claude-sonnet-4-6").unwrap().price;
    dock.server.push(Reply::new().call("call_1", "list", json!({})));
    let mut conversation = dock.begin().await;
    let report = run(&mut conversation, "Look around").await;
    assert_eq!((report.end, report.steps), (end, 1));
    assert!(report.cost > 0.0);
}

#[tokio::test]
async fn a_repeated_call_with_the_same_result_is_warned_about_and_then_ends_the_run() {
    let dock = Dock::new(
        ModelServer::answering(|request: &Captured| {
            let number = request.call_ids().len();
            Reply::new().call(format!("call_{number}"), "list", json!({}))
        })
        .unwrap(),
    );
    let mut conversation = dock.begin().await;
    let report = run(&mut conversation, "Look").await;
    assert_eq!(report.end, RunEnd::Repeating { tool: "list".into() });
    assert_eq!(report.steps, 4);
    let last = dock.server.last().unwrap();
    let shown = |call: &str| last.result(call).unwrap().contains("the same result 3 times");
    assert_eq!([shown("call_0"), shown("call_1"), shown("call_2")], [false, false, true]);
    assert_eq!(dock.happened().iter().filter(|name| *name == "repeating").count(), 1);
    dock.server.push(Reply::new().text("Sorry."));
    assert_eq!(run(&mut conversation, "Try something else").await.text, "Sorry.");
}

#[tokio::test]
async fn a_denied_call_is_reported_to_the_model_and_the_user() {
    let dock = Dock::new(ModelServer::start().unwrap());
    dock.server.push_all([
        Reply::new().call("call_1", "bash", json!({ "command": "touch done" })).call(
            "call_2",
            "read",
            json!({ "path": "/etc/hostname" }),
        ),
        Reply::new().text("I was not allowed to."),
    ]);
    let mut conversation = dock.begin().await;
    run(&mut conversation, "Do it").await;
    let last = dock.server.last().unwrap();
    assert!(last.result("call_1").unwrap().starts_with("Denied:"));
    assert!(last.result("call_2").unwrap().contains("outside the project"));
    assert!(!dock.directory.path().join("project/done").exists());
    let events = dock.events.lock().unwrap();
    let flags: Vec<&str> = events
        .iter()
        .filter_map(|event| match event {
            Event::Denied { allow, .. } => allow.as_deref(),
            _ => None,
        })
        .collect();
    assert_eq!(flags, ["--allow 'bash:touch *'", "--allow read:/etc/hostname"]);
}

#[tokio::test]
async fn invalid_calls_get_helpful_errors() {
    let dock = Dock::new(ModelServer::start().unwrap());
    dock.server.push_all([
        Reply::new()
            .call("call_1", "launch_rocket", json!({}))
            .call_with_arguments("call_2", "read", "{\"path\": \"a.t")
            .call("call_3", "read", json!({ "path": 7 }))
            .call("call_4", "recall", json!({ "handle": "spill_ffff" })),
        Reply::new().text("Never mind."),
    ]);
    let mut conversation = dock.begin().await;
    run(&mut conversation, "Do it").await;
    let last = dock.server.last().unwrap();
    let known = dock.agent.profile.tools.names().join(", ");
    assert!(last.result("call_1").unwrap().contains(&format!("(available: {known}).")));
    assert!(last.result("call_2").unwrap().contains("may have been cut off"));
    assert!(last.result("call_3").unwrap().contains("`path` must be a string"));
    assert!(last.result("call_4").unwrap().contains("spill_ffff"), "{:?}", last.result("call_4"));
}

#[tokio::test]
async fn a_failure_before_the_answer_is_retried_and_reported() {
    let dock = Dock::new(ModelServer::start().unwrap());
    dock.server.push_all([
        Reply::failing(Fault::status(529)),
        Reply::failing(Fault::HangUp),
        Reply::new().text("Here."),
    ]);
    let mut conversation = dock.begin().await;
    assert_eq!(run(&mut conversation, "Hello").await.text, "Here.");
    assert_eq!(dock.happened().iter().filter(|name| *name == "retrying").count(), 2);
}

#[tokio::test]
async fn a_permanent_error_ends_the_run_and_loses_nothing() {
    let dock = Dock::new(ModelServer::start().unwrap());
    dock.server.push_all([Reply::failing(Fault::status(401)), Reply::new().text("Hello.")]);
    let mut conversation = dock.begin().await;
    let error = conversation.run("Are you there?", &CancellationToken::new()).await.unwrap_err();
    assert!(matches!(error, AgentError::Provider(ProviderError::Auth { .. })), "{error}");
    assert!(!error.to_string().contains("sk-test"));
    let report = conversation.resume(&CancellationToken::new()).await.unwrap();
    assert_eq!(report.text, "Hello.");
    assert_eq!(dock.server.last().unwrap().last_user_text(), "Are you there?", "the prompt was not lost");
}

#[rstest]
#[case::cut(Fault::Cut { after: 6 })]
#[case::end(Fault::EndEarly { after: 6 })]
#[case::error(Fault::ErrorEvent { after: 6, error: StreamError::Overloaded })]
#[case::broken(Fault::BrokenJson { at: 6 })]
#[tokio::test]
async fn an_interrupted_answer_stays_and_the_model_continues(
    #[case] fault: Fault,
    #[values(Wire::Anthropic, Wire::Chat, Wire::Responses)] wire: Wire,
) {
    let dock = Dock::on(wire, ModelServer::start().unwrap());
    dock.server.push_all([
        Reply::new()
            .text("Once upon a time there was a ship that was loaded above her line")
            .piece_size(Some(4))
            .fault(fault),
        Reply::new().text("and she sank."),
    ]);
    let mut conversation = dock.begin().await;
    let report = run(&mut conversation, "Tell me a story").await;
    assert!(report.text.starts_with("Once") && report.text.ends_with("and she sank."), "{}", report.text);
    let last = dock.server.last().unwrap();
    let text = format!("{:?}", last.messages);
    assert!(text.contains("Once"), "what was said is still there: {text}");
    assert_eq!(last.messages.last().unwrap().role, "user", "no request ends with half an answer");
    let log = dock.log(conversation.session());
    let newest_prompt = log.iter().rev().find(|message| message.is_prompt()).unwrap();
    assert_eq!(newest_prompt.text(), "Tell me a story", "the request to continue is not a prompt");
}

#[tokio::test]
async fn a_provider_that_always_breaks_off_ends_the_run() {
    let dock = Dock::new(ModelServer::start().unwrap());
    dock.server
        .repeat(Reply::new().text("Well, well, well").piece_size(Some(2)).fault(Fault::Cut { after: 4 }));
    let mut conversation = dock.begin().await;
    let error = conversation.run("Hello", &CancellationToken::new()).await.unwrap_err();
    assert!(matches!(error, AgentError::Provider(_)), "{error}");
    assert_eq!(dock.server.requests().len(), 3);
}

#[rstest]
#[tokio::test]
async fn the_session_continues_after_cancelling_at_any_event(
    #[values(Wire::Anthropic, Wire::Chat, Wire::Responses)] wire: Wire,
) {
    for event in 0..14 {
        let dock = Dock::on(wire, ModelServer::start().unwrap());
        let gate = Gate::new();
        dock.server.push(
            Reply::new()
                .thinking("What do I do?")
                .text("I look around.")
                .call("call_1", "list", json!({}))
                .call("call_2", "list", json!({ "depth": 2 }))
                .gate(event, &gate),
        );
        let mut conversation = dock.begin().await;
        let cancel = CancellationToken::new();
        let watch = async {
            while !gate.is_reached() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            // Data sent before the gate is in transit; some of it is read before the run is cancelled.
            tokio::time::sleep(Duration::from_millis(10)).await;
            cancel.cancel();
            std::future::pending::<()>().await;
        };
        let report = tokio::select! {
            report = conversation.run("Look", &cancel) => report.unwrap(),
            () = watch => unreachable!(),
        };
        gate.release();
        if report.end != RunEnd::Cancelled {
            // The stream had fewer events, and the gate was never reached.
            assert!(event > 8, "event {event}");
            continue;
        }
        let log = dock.log(conversation.session());
        assert!(log.iter().all(|message| !message.is_open()), "event {event}");
        Window::of(&log, &dock.agent.policy).check().unwrap();
        dock.server.push(Reply::new().text("Done."));
        assert_eq!(run(&mut conversation, "Go on").await.text, "Done.", "event {event}");
    }
}

#[tokio::test]
async fn cancelling_a_command_ends_it_with_everything_it_started() {
    let dock = Dock::new(ModelServer::start().unwrap()).allow("bash");
    let line = "echo begun; (sleep 300; touch never) & echo $! > pid; wait";
    dock.server.push(Reply::new().call("call_1", "bash", json!({ "command": line })));
    let mut conversation = dock.begin().await;
    let cancel = CancellationToken::new();
    let (cancelling, pid) = (cancel.clone(), dock.directory.path().join("project/pid"));
    let watched = pid.clone();
    let watch = tokio::task::spawn_blocking(move || {
        while std::fs::read_to_string(&watched).map_or(true, |text| text.trim().is_empty()) {
            std::thread::sleep(Duration::from_millis(5));
        }
        cancelling.cancel();
    });
    let report = conversation.run("Run it", &cancel).await.unwrap();
    watch.await.unwrap();
    assert_eq!(report.end, RunEnd::Cancelled);
    let pid = std::fs::read_to_string(pid).unwrap();
    let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    assert!(state.is_empty() || state.contains(") Z "), "it still runs: {state}");
    let log = dock.log(conversation.session());
    let call = log[1].parts.iter().find_map(plimsoll::Part::as_tool).unwrap();
    // The output so far is the result, as after a timeout.
    assert_eq!(call.state.status, ToolStatus::Completed);
    let output = call.state.output.as_ref().unwrap();
    assert!(output.starts_with("begun\n") && output.contains("[Interrupted:"), "{output}");
    dock.server.push(Reply::new().text("Stopped."));
    assert_eq!(run(&mut conversation, "What now?").await.text, "Stopped.");
}

#[tokio::test]
async fn a_run_that_is_dropped_is_settled_by_the_next() {
    let dock = Dock::new(ModelServer::start().unwrap());
    let gate = Gate::new();
    dock.server.push(Reply::new().text("Something long that never ends").piece_size(Some(3)).gate(5, &gate));
    let mut conversation = dock.begin().await;
    let cancel = CancellationToken::new();
    // Not before the answer has begun, however slow the machine is; pieces that were sent are stored soon after.
    let begun = async {
        while !dock.happened().contains(&"text".to_owned()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    };
    tokio::select! {
        ended = conversation.run("Talk", &cancel) => panic!("{ended:?}"),
        () = begun => {}
    }
    gate.release();
    dock.server.push(Reply::new().text("Yes?"));
    assert_eq!(run(&mut conversation, "Hello?").await.text, "Yes?");
    let log = dock.log(conversation.session());
    assert!(log[1].info.error.is_some() && log[1].text().starts_with("Som"));
}

#[rstest]
#[tokio::test]
async fn after_a_providers_overflow_the_prompt_is_sent_again_in_a_smaller_window(
    #[values(Wire::Anthropic, Wire::Chat, Wire::Responses)] wire: Wire,
) {
    // A model that is in no table, whose real window is smaller than assumed.
    let server = ModelServer::builder().window(9_000).answering(reader()).start().unwrap();
    let mut dock = Dock::on(wire, server);
    dock.agent.model.limits = None;
    // The first rejection depends on the size of the declared tools.
    let some = ["read", "list", "grep", "bash", "recall"];
    dock.agent.profile.tools = dock.agent.profile.tools.clone().filter(|tool| some.contains(&tool));
    dock.write("big.txt", &lines(150));
    let mut conversation = dock.begin().await;
    for n in 0..4 {
        let report = run(&mut conversation, &format!("Read it 1 time, round r{n}")).await;
        assert_eq!(report.text, "Read 1 times.");
        let last = dock.server.last().unwrap();
        assert!(last.contains(&format!("round r{n}")), "{}", last.outline());
    }
    assert!(dock.happened().contains(&"refused".to_owned()));
    let learned = conversation.handle().limits().await.unwrap().context;
    match wire {
        // OpenAI's error does not name the window; the rejected size bounds it.
        Wire::Responses => assert!((5_000..10_000).contains(&learned.0), "{learned}"),
        Wire::Anthropic | Wire::Chat => assert_eq!(learned.0, 9_000, "the refusal names the window"),
    }
    let refused = dock.happened().iter().filter(|name| *name == "refused").count();
    assert!(refused <= 2, "it is learned once: {refused}");
}

#[tokio::test]
async fn a_message_larger_than_the_window_does_not_block_the_session() {
    let dock = Dock::new(ModelServer::builder().window(32_000).start().unwrap());
    dock.server.repeat(Reply::new().text("That was long."));
    let mut conversation = dock.begin().await;
    let report = run(&mut conversation, &lines(3_000)).await;
    assert_eq!(report.text, "That was long.");
    dock.server.repeat(Reply::new().text("Short."));
    assert_eq!(run(&mut conversation, "And now a short one").await.text, "Short.");
}

#[tokio::test]
async fn a_prompt_that_cannot_fit_is_reported_and_leaves_the_session_unchanged() {
    let mut dock = Dock::new(ModelServer::start().unwrap());
    dock.agent.profile.system = vec![lines(3_000)];
    let mut conversation = dock.begin().await;
    let error = conversation.run("Hello", &CancellationToken::new()).await.unwrap_err();
    assert!(matches!(error, AgentError::CannotFit(_)));
    assert!(error.to_string().contains("system prompt"), "{error}");
    assert_eq!(dock.server.requests().len(), 0, "it is not sent");
    assert_eq!(dock.log(conversation.session()).len(), 1);
}

#[tokio::test]
async fn a_new_session_is_titled_by_its_first_words_or_a_small_model() {
    let mut dock = Dock::new(ModelServer::start().unwrap());
    dock.server.push(Reply::new().text("Hello."));
    let mut conversation = dock.begin().await;
    run(&mut conversation, "Fix the login page, which is broken since yesterday, and tell me why it broke")
        .await;
    let title = dock.archive.store().session(conversation.session()).unwrap().title;
    assert_eq!(title, "Fix the login page, which is broken since yesterday, and…");
    drop(conversation);
    let namer = ModelServer::start().unwrap();
    namer.push(Reply::new().text("\"Broken login page\"\n"));
    dock.agent.title_model = Some(crate::support::model(Wire::Chat, &namer.url()));
    dock.server.push(Reply::new().text("Hello."));
    let mut conversation = dock.begin().await;
    run(&mut conversation, "Fix the login page").await;
    let session = conversation.session().clone();
    for _ in 0..200 {
        if dock.archive.store().session(&session).unwrap().title == "Broken login page" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(dock.archive.store().session(&session).unwrap().title, "Broken login page");
    assert_eq!(namer.last().unwrap().last_user_text(), "Fix the login page");
}

#[tokio::test]
async fn an_unknown_block_is_sent_back_unchanged() {
    let dock = Dock::new(ModelServer::start().unwrap());
    let block = json!({ "type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": { "query": "x" } });
    let result = json!({ "type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [] });
    dock.server.push_all([
        Reply::new().block(block.clone()).block(result).text("Found.").call("call_1", "list", json!({})),
        Reply::new().text("Done."),
    ]);
    let mut conversation = dock.begin().await;
    run(&mut conversation, "Search").await;
    let last = dock.server.last().unwrap();
    let given = last.parts().any(|part| matches!(part, CapturedPart::Other { value, .. } if *value == block));
    assert!(given, "{}", last.outline());
}

#[tokio::test]
async fn answers_are_recorded_with_their_agent_model_and_provider() {
    let dock = Dock::new(ModelServer::start().unwrap());
    dock.server.push(Reply::new().text("Hello."));
    let mut conversation = dock.begin().await;
    run(&mut conversation, "Hello").await;
    let log: Vec<Message> = dock.log(conversation.session());
    let info = &log[1].info;
    assert_eq!((info.agent.as_deref(), info.model_id.as_deref()), (Some("build"), Some("scripted")));
    assert_eq!(info.extra["providerID"], "anthropic");
    assert_eq!(info.role, Some(Role::Assistant));
}

#[tokio::test]
async fn resuming_a_finished_turn_sends_no_request() {
    let dock = Dock::new(ModelServer::start().unwrap());
    let mut conversation = dock.begin().await;
    let nothing = conversation.resume(&CancellationToken::new()).await.unwrap_err();
    assert!(nothing.to_string().contains("no prompt to continue from"), "{nothing}");
    dock.server.push(Reply::new().text("It is nine metres deep."));
    run(&mut conversation, "How deep is it?").await;
    let report = conversation.resume(&CancellationToken::new()).await.unwrap();
    assert_eq!((report.text.as_str(), report.steps), ("It is nine metres deep.", 0));
    assert_eq!(report.end, RunEnd::Finished { reason: "end_turn".into() });
    assert_eq!(dock.server.requests().len(), 1);
}

/// Repeating the cut or refused end would make `--continue` useless after it.
#[rstest]
#[tokio::test]
async fn resuming_after_a_cut_or_refused_answer_asks_the_model_to_continue(
    #[values(Wire::Anthropic, Wire::Chat, Wire::Responses)] wire: Wire,
    #[values(Finish::Length, Finish::Filter)] finish: Finish,
    #[values("It is nine", "")] said: &str,
) {
    let dock = Dock::on(wire, ModelServer::start().unwrap());
    dock.server.push_all([Reply::new().text(said).finish(finish.clone()), Reply::new().text("metres deep.")]);
    let mut conversation = dock.begin().await;
    let cut = run(&mut conversation, "How deep is it?").await;
    assert!(
        matches!(&cut.end, RunEnd::Finished { reason } if StopReason::of(reason) != StopReason::Done),
        "{:?}",
        cut.end
    );
    let report = conversation.resume(&CancellationToken::new()).await.unwrap();
    assert_eq!((report.text.as_str(), report.steps), ("metres deep.", 1));
    assert!(matches!(&report.end, RunEnd::Finished { reason } if StopReason::of(reason) == StopReason::Done));
    let last = dock.server.last().unwrap();
    // Without text the two user messages are adjacent, which one wire requires to be merged.
    assert!(last.last_user_text().ends_with(&dock.agent.policy.compact.continue_text), "{}", last.outline());
    assert_eq!(last.outline().contains("It is nine"), !said.is_empty(), "{}", last.outline());
    // The turn has ended now, and is not sent again.
    let again = conversation.resume(&CancellationToken::new()).await.unwrap();
    assert_eq!((again.text.as_str(), again.steps), ("metres deep.", 0));
    assert_eq!(dock.server.requests().len(), 2);
}

#[tokio::test]
async fn resuming_a_paused_answer_sends_the_same_conversation() {
    let dock = Dock::new(ModelServer::start().unwrap());
    dock.server.push(Reply::new().text("Searching.").finish(Finish::Other("pause_turn".into())));
    dock.server.push(Reply::failing(Fault::status(401)));
    dock.server.push(Reply::new().text("Found."));
    let mut conversation = dock.begin().await;
    conversation.run("Search", &CancellationToken::new()).await.unwrap_err();
    let report = conversation.resume(&CancellationToken::new()).await.unwrap();
    assert_eq!(report.text, "Found.");
    let asked = dock.log(conversation.session()).iter().filter(|message| message.is_user()).count();
    assert_eq!(asked, 1, "the model is not asked to continue");
}

/// A server that ignored the request's limit filled memory and disk, and in the input of a call Ctrl-C had no effect.
#[rstest]
#[tokio::test]
async fn an_endless_answer_is_cut_off_and_the_session_continues(
    #[values(Wire::Anthropic, Wire::Chat, Wire::Responses)] wire: Wire,
    #[values(true, false)] calls: bool,
) {
    let dock = Dock::on(wire, ModelServer::start().unwrap());
    let endless = "x1 ".repeat(1_000_000);
    let reply = match calls {
        true => Reply::new().call("call_1", "write", json!({ "path": "a.txt", "content": endless })),
        false => Reply::new().text(endless),
    };
    dock.server.push_all([reply.piece_size(Some(4_000)), Reply::new().text("Here.")]);
    let mut conversation = dock.begin().await;
    let error = conversation.run("Write", &CancellationToken::new()).await.unwrap_err();
    assert!(error.to_string().contains("the answer was cut off at 1048576 bytes"), "{error}");
    let stored = serde_json::to_string(&dock.log(conversation.session())).unwrap();
    assert!(stored.len() < 2_200_000, "{} bytes", stored.len());
    let report = conversation.resume(&CancellationToken::new()).await.unwrap();
    assert_eq!(report.text, "Here.");
    assert!(!dock.directory.path().join("project/a.txt").exists(), "half a call is not run");
}

#[rstest]
#[tokio::test]
async fn a_run_is_cancelled_while_the_input_of_a_call_streams(
    #[values(Wire::Anthropic, Wire::Chat, Wire::Responses)] wire: Wire,
) {
    let dock = Dock::on(wire, ModelServer::start().unwrap());
    let gate = Gate::new();
    let input = json!({ "path": "a.txt", "content": "x1 ".repeat(10_000) });
    dock.server.push(Reply::new().call("call_1", "write", input).gate(200, &gate));
    let mut conversation = dock.begin().await;
    let cancel = CancellationToken::new();
    let stop = async {
        gate.reached().await;
        cancel.cancel();
    };
    let (report, ()) = tokio::join!(conversation.run("Write", &cancel), stop);
    assert_eq!(report.unwrap().end, RunEnd::Cancelled);
    gate.release();
    dock.server.push(Reply::new().text("Here."));
    assert_eq!(run(&mut conversation, "Again").await.text, "Here.");
}

/// A separate write for each open call took seconds, so that all of them must end in the same write.
#[rstest]
#[tokio::test]
async fn a_run_is_cancelled_with_one_write_in_an_answer_of_thousands_of_calls(
    #[values(Wire::Anthropic, Wire::Chat, Wire::Responses)] wire: Wire,
    #[values(100, 3_000)] streamed: usize,
) {
    let dock = Dock::on(wire, ModelServer::start().unwrap());
    let gate = Gate::new();
    let calls = (0..4_000).fold(Reply::new(), |reply, number| {
        reply.call(format!("call_{number}"), "list", json!({ "path": format!("d{number}") }))
    });
    dock.server.push(calls.gate(streamed, &gate));
    let mut conversation = dock.begin().await;
    let session = conversation.session().clone();
    let calls = || {
        let parts = dock.log(&session).pop().map(|message| message.parts).unwrap_or_default();
        parts.into_iter().filter(|part| part.as_tool().is_some()).collect::<Vec<_>>()
    };
    let cancel = CancellationToken::new();
    let stop = async {
        gate.reached().await;
        while calls().len() < streamed / 10 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        cancel.cancel();
    };
    let (report, ()) = tokio::join!(conversation.run("List them", &cancel), stop);
    assert_eq!(report.unwrap().end, RunEnd::Cancelled);
    let calls = calls();
    let changes = dock.archive.store().changes(Sequence::default(), 1_000_000).unwrap().changes;
    let last_change = |id| changes.iter().rfind(|change| change.part.as_ref() == Some(id));
    let ends: BTreeSet<_> = calls.iter().map(|call| last_change(&call.id).unwrap().revision).collect();
    assert_eq!(ends.len(), 1, "{} calls: {ends:?}", calls.len());
    gate.release();
    dock.server.push(Reply::new().text("Here."));
    assert_eq!(run(&mut conversation, "Again").await.text, "Here.");
    dock.server.assert_legal();
}

#[tokio::test]
async fn a_run_that_is_dropped_takes_its_command_with_it() {
    let dock = Dock::new(ModelServer::start().unwrap()).allow("bash");
    let line = "echo $$ > pid; sleep 300";
    dock.server.push(Reply::new().call("call_1", "bash", json!({ "command": line })));
    let mut conversation = dock.begin().await;
    let file = dock.directory.path().join("project/pid");
    let begun = async {
        while std::fs::read_to_string(&file).map_or(true, |text| text.trim().is_empty()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let cancel = CancellationToken::new();
    tokio::select! {
        report = conversation.run("Run it", &cancel) => panic!("{report:?}"),
        () = begun => {}
    }
    let stat = format!("/proc/{}/stat", std::fs::read_to_string(&file).unwrap().trim());
    let is_gone = || std::fs::read_to_string(&stat).map_or(true, |state| state.contains(") Z "));
    for _ in 0..500 {
        if is_gone() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(is_gone(), "it still runs during the next turn");
}

#[tokio::test]
async fn repeated_calls_in_one_answer_are_warned_about_before_the_run_stops() {
    let dock = Dock::new(ModelServer::start().unwrap());
    let many = (0..6).fold(Reply::new(), |reply, n| reply.call(format!("call_{n}"), "list", json!({})));
    dock.server.push_all([many, Reply::new().text("I see.")]);
    let mut conversation = dock.begin().await;
    let report = run(&mut conversation, "Look").await;
    assert_eq!(report.text, "I see.");
    let last = dock.server.last().unwrap();
    let shown = (0..6)
        .filter(|n| last.result(&format!("call_{n}")).unwrap().contains("returned the same result"))
        .count();
    assert_eq!(shown, 1);
}

#[tokio::test]
async fn an_answer_with_hundreds_of_calls_is_worked_off_and_its_rest_refused() {
    let dock = Dock::new(ModelServer::start().unwrap());
    let many = (0..200)
        .fold(Reply::new(), |reply, n| reply.call(format!("call_{n}"), "list", json!({ "depth": n + 1 })));
    dock.server.push_all([many, Reply::new().text("Enough.")]);
    let mut conversation = dock.begin().await;
    assert_eq!(run(&mut conversation, "Look").await.text, "Enough.");
    let log = dock.log(conversation.session());
    let calls: Vec<_> = log[1].parts.iter().filter_map(plimsoll::Part::as_tool).collect();
    let done = calls.iter().filter(|call| call.state.status == ToolStatus::Completed).count();
    assert_eq!((calls.len(), done), (200, 128));
}

#[tokio::test]
async fn usage_is_estimated_if_the_provider_reports_none() {
    let mut dock = Dock::new(ModelServer::start().unwrap());
    dock.agent.profile.limits.tokens = Some(100);
    dock.server.push(Reply::new().call("call_1", "list", json!({})).without_usage());
    let mut conversation = dock.begin().await;
    assert_eq!(run(&mut conversation, "Look").await.end, RunEnd::Tokens);
}

#[tokio::test]
async fn a_cancelled_summary_does_not_block_the_next_turn() {
    let gate = Gate::new();
    let (held, read) = (gate.clone(), reader());
    let is_first = std::sync::atomic::AtomicBool::new(true);
    let server = ModelServer::answering(move |request: &Captured| {
        if crate::support::is_summary(request) && is_first.swap(false, std::sync::atomic::Ordering::Relaxed) {
            return Reply::new().text(crate::support::SUMMARY).gate(0, &held);
        }
        read(request)
    });
    let mut dock = Dock::new(server.unwrap());
    // A policy that prunes after each turn, including cancelled ones.
    dock.agent.policy = std::sync::Arc::new(plimsoll::Preset::Opencode118.policy());
    dock.write("big.txt", &lines(300));
    let mut conversation = dock.begin().await;
    for turn in 0..20 {
        let cancel = CancellationToken::new();
        let watch = async {
            while !gate.is_reached() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            cancel.cancel();
            std::future::pending::<()>().await;
        };
        let prompt = format!("Read it 3 times, round r{turn}");
        let report = tokio::select! {
            report = conversation.run(&prompt, &cancel) => report.unwrap(),
            () = watch => unreachable!(),
        };
        if report.end == RunEnd::Cancelled {
            gate.release();
            let report = run(&mut conversation, "Read it 1 times, after all").await;
            assert_eq!(report.text, "Read 1 times.");
            return;
        }
    }
    panic!("no summary was asked for");
}

/// Counting a long history took seconds, during which Ctrl-C had no effect.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_cancelled_while_its_request_is_prepared() {
    let mut dock = Dock::new(ModelServer::start().unwrap());
    let cancel = CancellationToken::new();
    let counter = CancellingCounter::at(&cancel, |text| text.len() > 4_000 && text.starts_with("line 0"));
    dock.agent.counting = Counting::Fixed(Arc::clone(&counter) as Arc<dyn Counter>);
    let mut conversation = dock.begin().await;
    conversation.session_mut().prompt(lines(100)).await.unwrap();
    for number in 0..2_000 {
        conversation.session_mut().prompt(format!("And number {number}.")).await.unwrap();
    }
    let report = conversation.run("Go on.", &cancel).await.unwrap();
    assert_eq!(report.end, RunEnd::Cancelled);
    // The session's thread may still be busy.
    conversation.handle().with_log(|_| ()).await.unwrap();
    let counted = counter.counted_after();
    assert!(counted < 200, "{counted} of 2,000 texts were counted after that");
    assert_eq!(dock.server.requests().len(), 0);
    // The session is unchanged and continues.
    dock.agent.counting = Counting::Calibrated;
    let session = conversation.session().clone();
    conversation.close().await.unwrap();
    dock.server.push(Reply::new().text("Here."));
    let mut conversation = dock.agent.open(&session).await.unwrap();
    assert_eq!(conversation.resume(&CancellationToken::new()).await.unwrap().text, "Here.");
}

/// The window is counted and pruned after the last answer of a turn, which Ctrl-C did not end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_prune_after_a_turn_is_cancelled() {
    let mut dock = Dock::new(ModelServer::start().unwrap());
    let cancel = CancellationToken::new();
    let counter = CancellingCounter::at(&cancel, |text| text == "The last word.");
    dock.agent.counting = Counting::Fixed(Arc::clone(&counter) as Arc<dyn Counter>);
    dock.agent.policy = policy(|spec| (spec.prune.after_turn, spec.thrift) = (true, Thrift::Off));
    dock.agent.model.limits = Some(Limits::new(1_000_000, 4_000));
    let mut conversation = dock.begin().await;
    let turn = |history: History, turn: usize| history.user(format!("Turn {turn}")).tool("read", lines(200));
    for message in (0..30).fold(History::new(), turn).messages() {
        conversation.session_mut().append(message).await.unwrap();
    }
    dock.server.push(Reply::new().text("The last word."));
    let report = conversation.run("Go on.", &cancel).await.unwrap();
    assert_eq!((report.text.as_str(), report.reductions.len()), ("The last word.", 0), "{:?}", report.end);
    // The session's thread may still be busy.
    conversation.handle().with_log(|_| ()).await.unwrap();
    assert_eq!(counter.counted_after(), 0, "texts were counted after that");
    let receipts = |dock: &Dock, session| dock.archive.store().receipts(session, None, 10).unwrap();
    assert_eq!(receipts(&dock, conversation.session()), []);
    // The next turn prunes.
    dock.server.push(Reply::new().text("Another."));
    let report = run(&mut conversation, "And now?").await;
    assert_eq!((report.text.as_str(), report.reductions.len()), ("Another.", 1));
}
