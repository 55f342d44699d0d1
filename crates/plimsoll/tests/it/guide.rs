//! Compares the engine with the token management guide: the guide's own code, line by line, on the same histories.

use plimsoll::compact::{CompactionContext, Ladder, Outcome, Reply, Step, Summariser};
use plimsoll::{Limits, Log, Message, Millis, PartBody, Plan, Preset, Tokens};
use plimsoll_testkit::{History, ids};
use rstest::rstest;

/// `TokenEstimator.EstimateTokens`.
fn estimate(text: &str) -> u64 {
    text.encode_utf16().count().div_ceil(4) as u64
}

/// `TokenEstimator.EstimateRequestTokens`: each message costs its text plus 4, each call its name and arguments, each
/// result is a separate message.
fn request(messages: &[Message]) -> u64 {
    let parts = |message: &Message| -> u64 {
        let part = |body: &PartBody| match body {
            PartBody::Text(text) => estimate(&text.text),
            PartBody::Tool(tool) => {
                let input = tool.state.input.as_ref().map_or(0, |input| estimate(input.json()));
                let result = tool.state.output.as_ref().map_or(0, |output| estimate(output) + 4);
                estimate(&tool.tool) + input + result
            }
            _ => 0,
        };
        message.parts.iter().map(|one| part(&one.body)).sum()
    };
    messages.iter().map(|message| parts(message) + 4).sum()
}

/// The messages that `CompactionService.CompactConversationAsync` summarises.
fn compacted(messages: &[Message], context: u64) -> u64 {
    let current = request(messages);
    if current < (context as f64 * 0.90) as u64 {
        return 0;
    }
    let target = (context as f64 * 50.0 / 100.0) as u64;
    let remove = current - target;
    let (mut count, mut accumulated) = (0, 0);
    for message in messages {
        let tokens = request(std::slice::from_ref(message));
        if accumulated + tokens > remove {
            break;
        }
        (count, accumulated) = (count + 1, accumulated + tokens);
    }
    if count < 2 { 0 } else { count }
}

fn climb(messages: Vec<Message>, context: u64) -> Outcome {
    let (policy, limits) = (Preset::Openfork.policy(), Limits::new(context, 1_000));
    let summariser = Some(Summariser::own(limits));
    let context = CompactionContext { summariser, ..CompactionContext::new(&policy, limits, Millis(1)) };
    let (mut ladder, mut ids) = (Ladder::new(Log::from_messages(messages), context), ids());
    loop {
        match ladder.climb(&mut ids).unwrap() {
            Step::Ask(_) => ladder
                .answer(Ok(Reply::finished("## Goal\nAll of the questions are answered.")), &mut ids)
                .unwrap(),
            Step::Done(outcome) => return outcome,
        }
    }
}

/// `turns` turns of `answers` answers of `tokens` tokens.
fn talk(turns: usize, answers: usize, tokens: usize) -> Vec<Message> {
    let said = "abcd".repeat(tokens);
    let turn = |h: History, n| (0..answers).fold(h.user(format!("question {n}")), |h, _| h.say(said.clone()));
    (0..turns).fold(History::new(), turn).messages()
}

#[test]
fn r150_openfork_estimates_a_request_as_the_guide_does() {
    let calls = |count: usize| -> Vec<(&str, String)> {
        (0..count).map(|n| ("read", format!("result {n} of several"))).collect()
    };
    let log = History::new()
        .user("read all of it")
        .tools(&calls(5))
        .say("and once more")
        .tools(&calls(1))
        .user("thanks")
        .messages();
    let context = CompactionContext::new(Preset::Openfork.policy(), Limits::new(128_000, 0), Millis(1));
    assert_eq!(context.estimate(&log), Tokens(request(&log)));
}

/// Four long turns came out at 68 % of the window, because the cut moved to the start of a turn.
#[rstest]
#[case(11, 1, 1_000, 12_000)]
#[case(4, 27, 96, 12_000)]
#[case(4, 27, 96, 12_003)]
#[case(1, 110, 96, 12_001)]
#[case(3, 3, 1_200, 12_007)]
#[case(2, 1, 5_400, 12_000)]
#[case(4, 27, 80, 12_000)]
fn r146_openfork_summarises_the_messages_that_the_guide_does(
    #[case] turns: usize,
    #[case] answers: usize,
    #[case] tokens: usize,
    #[case] context: u64,
) {
    let log = talk(turns, answers, tokens);
    let expected = compacted(&log, context);
    let outcome = climb(log, context);
    let plans = outcome.reduction.receipts.iter().filter_map(|receipt| match &receipt.plan {
        Plan::Compact(plan) => Some(plan.messages),
        _ => None,
    });
    assert_eq!(plans.sum::<u64>(), expected);
}

#[test]
fn r146_the_target_of_50_percent_does_not_round_up() {
    let outcome = climb(talk(4, 27, 96), 12_000);
    // At most one message over the target stays, in addition to the summary and the user's words before the tail.
    assert!(outcome.after <= Tokens(6_000 + 100 + 60), "{} of 12,000", outcome.after);
}
