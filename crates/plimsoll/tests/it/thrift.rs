//! Reductions under the line that save money and are paid from savings.

use plimsoll::compact::{CompactionContext, FitResult, Ladder, Outcome, Reply, Step, Summariser};
use plimsoll::log::Effect;
use plimsoll::plan::SummaryOrigin;
use plimsoll::policy::Thrift;
use plimsoll::prune::{Cleared, PruneItem, PrunePlan, PruneReason};
use plimsoll::{CacheTerms, Chars, Limits, Log, Message, Millis, Plan, Policy, Preset, Tokens, Window};
use plimsoll_testkit::{History, ids};
use rstest::rstest;
use serde_json::json;

const START: u64 = 1_794_775_451_033;
const MINUTE: u64 = 60_000;
const ANTHROPIC: CacheTerms =
    CacheTerms { read: 0.1, write: 1.25, output: 5.0, lifetime: Millis(5 * MINUTE) };

fn words(tokens: usize) -> String {
    "word ".repeat(tokens * 4 / 5)
}

/// A session whose messages are `minutes` apart.
fn apart(history: &History, minutes: u64) -> Vec<Message> {
    let mut messages = history.clone().messages();
    for (number, message) in messages.iter_mut().enumerate() {
        let at = Some(Millis(START + number as u64 * minutes * MINUTE));
        let time = message.info.time.get_or_insert_default();
        (time.created, time.completed) = (at, at);
    }
    messages
}

/// Turns that each read a file of that many tokens, with a minute between messages.
fn turns(outputs: &[usize]) -> Vec<Message> {
    let read = |history: History, (number, tokens): (usize, &usize)| {
        let text = format!("the_name_of_number_{number:03} {}", words(*tokens));
        history.user("Read on").tool_with("read", json!({ "path": format!("f{number}") }), text)
    };
    apart(&outputs.iter().enumerate().fold(History::new(), read), 1)
}

/// Like [`turns`], but all in one turn.
fn reads(outputs: &[usize]) -> Vec<Message> {
    let read = |history: History, (number, tokens): (usize, &usize)| {
        let text = format!("the_name_of_number_{number:03} {}", words(*tokens));
        history.tool_with("read", json!({ "path": format!("f{number}") }), text)
    };
    apart(&outputs.iter().enumerate().fold(History::new().user("Read all"), read), 1)
}

fn thrift(thrift: Thrift) -> Policy {
    let mut spec = Preset::Plimsoll.policy().into_spec();
    spec.thrift = thrift;
    Policy::new(spec).unwrap()
}

/// A context `minutes` after the last message.
fn compaction_context(
    messages: &[Message],
    policy: &Policy,
    minutes: u64,
    context: u64,
) -> CompactionContext {
    let last = messages.last().and_then(|message| message.info.time.clone()).unwrap().created.unwrap();
    let limits = Limits::new(context, context / 8);
    let summariser = Some(Summariser::own(limits));
    CompactionContext {
        summariser,
        ..CompactionContext::new(policy, limits, Millis(last.0 + minutes * MINUTE))
    }
}

/// Numbers of the outputs that would be cleared, and the reason.
fn cleared(messages: &[Message], policy: &Policy, minutes: u64) -> (Vec<usize>, PruneReason) {
    let plan = compaction_context(messages, policy, minutes, 1_000_000).plan_saving(messages);
    let outputs: Vec<_> =
        messages.iter().flat_map(|message| &message.parts).filter(|part| part.as_tool().is_some()).collect();
    let place =
        |item: &plimsoll::prune::PruneItem| outputs.iter().position(|part| part.id == item.part).unwrap();
    let mut places: Vec<usize> = plan.items.iter().map(place).collect();
    places.sort_unstable();
    (places, plan.reason)
}

mod careful {
    use super::*;

    #[test]
    fn a_prune_that_saves_money_respects_the_protection() {
        // Newest first: the last two turns, then 40,000 are protected, and the output that crosses the amount is
        // cleared.
        let messages = turns(&[30_000, 30_000, 30_000, 25_000, 25_000]);
        let cold = cleared(&messages, &Policy::default(), 60);
        assert_eq!(cold, (vec![0, 1], PruneReason::ColdCache));
        let messages = turns(&[15_000, 29_000, 10_000, 25_000, 25_000]);
        assert_eq!(
            cleared(&messages, &Policy::default(), 60).0,
            [] as [usize; 0],
            "less than 20,000 would be freed"
        );
    }

    #[test]
    fn the_current_turn_stays_whole_however_long() {
        let messages = reads(&[30_000; 12]);
        assert_eq!(cleared(&messages, &Policy::default(), 60).0, [] as [usize; 0]);
    }

    #[test]
    fn the_outputs_of_protected_tools_stay() {
        let skill = |history: History| history.user("Go").tool("skill", words(60_000));
        let history = (0..6).fold(History::new(), |history, _| skill(history));
        assert_eq!(cleared(&apart(&history, 1), &Policy::default(), 60).0, [] as [usize; 0]);
    }

    #[test]
    fn an_empty_purse_does_not_break_a_warm_cache() {
        // Clearing 300,000 tokens would pay within three calls, but the purse is empty.
        let messages = turns(&[30_000; 14]);
        assert_eq!(cleared(&messages, &Policy::default(), 1).0, [] as [usize; 0]);
        let frugal = cleared(&messages, &thrift(Thrift::Frugal), 1);
        assert_eq!(frugal, ((0..13).collect(), PruneReason::Pays));
    }

    #[test]
    fn savings_already_made_pay_for_breaking_a_warm_cache() {
        let policy = Policy::default();
        let read =
            |h: History, count: usize| (0..count).fold(h, |h, _| h.user("Read").tool("read", words(30_000)));
        // Eight turns, a pause, four turns, and an answer in many steps.
        let history = read(read(History::new(), 8), 4);
        let history =
            (0..40).fold(history.user("Now work").say("yes"), |h, _| h.say("step")).user("And?").say("so");
        let mut log = Log::new();
        let mut reasons = Vec::new();
        for (number, mut message) in history.messages().into_iter().enumerate() {
            let pause = if number >= 16 { 60 * MINUTE } else { 0 };
            let time = message.info.time.get_or_insert_default();
            let at = Some(Millis(START + number as u64 * 1_000 + pause));
            (time.created, time.completed) = (at, at);
            log.append(message).unwrap();
            let messages = log.messages().to_vec();
            let mut context = compaction_context(&messages, &policy, 0, 1_000_000);
            context.now =
                Millis(START + (number as u64 + 1) * 1_000 + if number >= 15 { 60 * MINUTE } else { 0 });
            let saved = context.purse(&messages).balance;
            let plan = context.plan_saving(&messages);
            if !plan.items.is_empty() {
                reasons.push((plan.reason, plan.items.len(), saved > 100_000.0));
                climb(&mut log, context, None);
            }
        }
        assert_eq!(reasons[0], (PruneReason::ColdCache, 5, false), "{reasons:?}");
        let warm: Vec<_> = reasons.iter().filter(|(reason, ..)| *reason == PruneReason::Pays).collect();
        assert!(!warm.is_empty() && warm.iter().all(|(.., is_paid)| *is_paid), "{reasons:?}");
    }

    #[test]
    fn old_inputs_are_cleared_like_outputs() {
        let write = |history: History, number: usize| {
            let body = format!("fn body_of_number_{number:03}() {{}}\n{}", words(8_000));
            let input = json!({ "filePath": format!("src/f{number}.rs"), "content": body });
            history.user("Write on").tool_with("write", input, "written")
        };
        let messages = apart(&(0..8).fold(History::new(), write), 1);
        let policy = Policy::default();
        let plan = compaction_context(&messages, &policy, 60, 1_000_000).plan_saving(&messages);
        assert_eq!(plan.items.len(), 6, "the last two turns stay");
        assert!(plan.items.iter().all(|item| item.what == Cleared::Input));
        let mut log = Log::from_messages(messages.clone());
        let outcome = climb(&mut log, compaction_context(&messages, &policy, 60, 1_000_000), None);
        let shown = serde_json::to_string(&Window::of(&log, &policy)).unwrap();
        assert!(shown.contains("src/f0.rs") && shown.contains("body_of_number_000"), "path and names stay");
        assert!(shown.contains(":input]") && shown.len() < 100_000, "{}", shown.len());
        let receipt = &outcome.reduction.receipts[0];
        assert_eq!(receipt.plan.title(), "prune 6 tool inputs");
        assert!(receipt.handles.iter().all(|handle| handle.to_string().ends_with(":input")));
        // Undo restores the texts.
        outcome.reduction.receipts[0].undo(&mut log, &mut ids(), Millis(START)).unwrap();
        assert_eq!(Window::of(&log, &policy), Window::of(&messages, &policy));
    }

    #[test]
    fn plans_count_outputs_and_inputs_separately() {
        let item = |what| {
            let mut item = PruneItem::output("p".into(), "m".into(), "write", Tokens(10));
            item.what = what;
            item
        };
        let title = |items: &[Cleared]| {
            let items = items.iter().copied().map(item).collect();
            Plan::Prune(PrunePlan::of(items)).title()
        };
        assert_eq!(title(&[Cleared::Output]), "prune 1 tool output");
        assert_eq!(title(&[Cleared::Input]), "prune 1 tool input");
        let both = [Cleared::Output, Cleared::Input, Cleared::Output, Cleared::Output, Cleared::Input];
        assert_eq!(title(&both), "prune 3 tool outputs and 2 inputs");
    }

    #[test]
    fn results_that_the_model_has_not_seen_stay() {
        // A tool may have run longer than the cache's lifetime.
        let messages = turns(&[30_000, 30_000, 30_000, 90_000]);
        let frugal = thrift(Thrift::Frugal);
        assert_eq!(cleared(&messages, &frugal, 60).0, [0, 1, 2]);
        assert_eq!(cleared(&messages[..2], &frugal, 60).0, [] as [usize; 0]);
    }

    #[test]
    fn a_cleared_output_leaves_the_names_that_nothing_else_repeats() {
        let mut log = Log::from_messages(turns(&[30_000; 8]));
        let (policy, messages) = (Policy::default(), log.messages().to_vec());
        climb(&mut log, compaction_context(&messages, &policy, 60, 1_000_000), None);
        let window = Window::of(&log, &policy);
        let text = serde_json::to_string(&window).unwrap();
        for number in 0..8 {
            assert!(text.contains(&format!("the_name_of_number_{number:03}")), "{number}");
        }
        // The next climb changes nothing, so the cache stays valid.
        let messages = log.messages().to_vec();
        assert!(
            climb(&mut log, compaction_context(&messages, &policy, 1, 1_000_000), None).reduction.is_empty()
        );
        assert_eq!(Window::of(&log, &policy), window);
    }

    #[test]
    fn the_same_session_leaves_the_same_names() {
        let (policy, messages) = (Policy::default(), turns(&[30_000; 8]));
        let plan = || compaction_context(&messages, &policy, 60, 1_000_000).plan_saving(&messages);
        assert_eq!(plan(), plan());
    }

    #[test]
    fn no_secret_is_kept_as_a_name() {
        let secret = "sk-ant-api03-Zx81kQ0wLr93mTnB5vYc77PqHs2Jd4Fg6Aa";
        let output =
            format!("export ANTHROPIC_API_KEY={secret}\nDB_PASSWORD=hunter2Hunter3xyz9\n{}", words(30_000));
        let first = History::new().user("Read").tool("read", output);
        let history = (0..6).fold(first, |h, _| h.user("Read").tool("read", words(30_000)));
        let messages = apart(&history, 1);
        let plan = compaction_context(&messages, &Policy::default(), 60, 1_000_000).plan_saving(&messages);
        assert!(!plan.items.is_empty());
        let names: String = plan.items.iter().map(|item| item.names.as_str()).collect();
        assert!(names.contains("ANTHROPIC_API_KEY"), "{names}");
        assert!(!names.contains("Zx81kQ0w") && !names.contains("hunter2Hunter3"), "{names}");
    }
}

mod purse {
    use super::*;

    /// Clears the outputs at these places of the log in one receipt.
    fn clear(log: &mut Log, places: &[usize]) {
        let by = ids().receipt(Millis(START));
        for place in places {
            let part = log[*place].parts[0].id.clone();
            log.mark(&part, Effect::clear(), &by, Millis(START)).unwrap();
        }
    }

    fn balance(log: &[Message], minutes: u64) -> f64 {
        let policy = Policy::default();
        let context = CompactionContext {
            cache: Some(ANTHROPIC),
            ..compaction_context(log, &policy, minutes, 1_000_000)
        };
        context.purse(log).balance
    }

    #[test]
    fn a_session_without_reductions_has_an_empty_purse() {
        assert_eq!(balance(&turns(&[5_000; 8]), 1), 0.0);
    }

    #[test]
    fn a_break_costs_what_follows_it_and_each_request_saves_what_was_cleared() {
        let mut log = Log::from_messages(turns(&[10_000, 10_000]));
        clear(&mut log, &[1]);
        // 1.15 for each token that follows: the second output, its call and a prompt.
        let paid = balance(&log, 1);
        assert!((-11_700.0..-11_500.0).contains(&paid), "{paid}");
        assert_eq!(balance(&log, 60), 0.0, "everything has to be written again anyway");
        let next = turns(&[10_000, 10_000, 100]).into_iter().skip(4);
        next.for_each(|message| log.append(message).unwrap());
        let after = balance(&log, 1);
        let saved = after - paid;
        assert!((990.0..1_010.0).contains(&saved), "0.1 for each of about 10,000 tokens: {saved}");
    }

    #[test]
    fn a_request_on_a_cold_cache_saves_the_price_of_writing() {
        let mut log = Log::from_messages(turns(&[10_000, 10_000]));
        clear(&mut log, &[1]);
        for (number, mut message) in turns(&[10_000, 10_000, 100]).into_iter().enumerate().skip(4) {
            let at = Some(Millis(START + (number as u64 + 60) * MINUTE));
            let time = message.info.time.get_or_insert_default();
            (time.created, time.completed) = (at, at);
            log.append(message).unwrap();
        }
        let saved = balance(&log, 1);
        assert!((12_300.0..12_600.0).contains(&saved), "{saved}");
    }

    #[test]
    fn an_undone_reduction_counts_for_nothing() {
        let messages = turns(&[30_000; 8]);
        let mut log = Log::from_messages(messages.clone());
        let outcome = climb(&mut log, compaction_context(&messages, &Policy::default(), 60, 1_000_000), None);
        outcome.reduction.receipts[0].undo(&mut log, &mut ids(), Millis(START)).unwrap();
        assert_eq!(balance(&log, 1), 0.0);
    }

    #[test]
    fn a_recall_is_paid_from_the_purse() {
        let plain = turns(&[10_000, 10_000]);
        let mut log = Log::from_messages(plain);
        let history = History::new().user("x").tool("recall", words(2_000)).user("y").say("done");
        for (number, mut message) in history.messages().into_iter().enumerate() {
            message.info.id = format!("later{number}").as_str().into();
            message.parts.iter_mut().for_each(|part| part.id = format!("later{number}.0").as_str().into());
            log.append(message.at(Millis(START + 5 * MINUTE))).unwrap();
        }
        let paid = balance(&log, 1);
        assert!((-2_600.0..-2_450.0).contains(&paid), "written once: {paid}");
    }
}

#[test]
fn a_break_starts_where_it_saves_most() {
    // The first output is small and is followed by a long prompt, which would have to be written again.
    let first = History::new().user("Read").tool("read", words(4_000)).user(words(100_000));
    let all = (0..8).fold(first, |history, _| history.tool("read", words(40_000))).tool("read", words(6_000));
    let mut messages: Vec<Message> =
        all.messages().into_iter().map(|message| message.at(Millis(START))).collect();
    // If writing costs little extra, a break is cheap.
    let policy = thrift(Thrift::Frugal);
    let at = |messages: &[Message], minutes| {
        let terms = CacheTerms { read: 0.1, write: 0.13, output: 0.5, lifetime: Millis(5 * MINUTE) };
        let context = CompactionContext {
            cache: Some(terms),
            ..compaction_context(messages, &policy, minutes, 1_000_000)
        };
        context.plan_saving(messages).items.len()
    };
    assert_eq!((at(&messages, 1), at(&messages, 6)), (8, 9));
    messages.truncate(3);
    assert_eq!(at(&messages, 1), 0);
}

#[test]
fn the_hosts_prices_and_lifetime_are_used() {
    let messages = turns(&[30_000; 8]);
    let policy = Policy::default();
    let count = |terms| {
        let context =
            CompactionContext { cache: Some(terms), ..compaction_context(&messages, &policy, 6, 1_000_000) };
        context.plan_saving(&messages).items.len()
    };
    assert_eq!(count(ANTHROPIC), 5);
    assert_eq!(count(CacheTerms { lifetime: Millis(60 * MINUTE), ..ANTHROPIC }), 0);
}

#[test]
fn nothing_saves_money_if_tokens_cost_nothing() {
    let messages = turns(&[30_000; 20]);
    let free = CacheTerms { read: 0.0, write: 0.0, output: 0.0, lifetime: Millis(5 * MINUTE) };
    for thrift_choice in [Thrift::Careful, Thrift::Frugal] {
        let policy = thrift(thrift_choice);
        let context =
            CompactionContext { cache: Some(free), ..compaction_context(&messages, &policy, 6, 1_000_000) };
        assert!(!context.weigh(&messages).1, "{thrift_choice:?}");
    }
}

#[test]
fn cut_and_cleared_parts_count_with_their_remaining_size() {
    let mut log = Log::from_messages(turns(&[30_000, 30_000, 4_000, 4_000, 9_000]));
    let by = ids().receipt(Millis(START));
    for (place, effect) in [(1, Effect::Cut(Chars(400))), (3, Effect::clear())] {
        let part = log[place].parts[0].id.clone();
        log.mark(&part, effect, &by, Millis(START)).unwrap();
    }
    let plan = compaction_context(&log, &thrift(Thrift::Frugal), 6, 1_000_000).plan_saving(&log);
    let tokens: Vec<u64> = plan.items.iter().map(|item| item.tokens.0).collect();
    assert!(
        tokens.len() == 3 && tokens[2] <= 100,
        "newest first, the last is the rest of the cut output: {tokens:?}"
    );
}

/// Climbs with a model that answers each summary request with `reply`.
fn climb(log: &mut Log, context: CompactionContext, reply: Option<&str>) -> Outcome {
    let mut ids = ids();
    // Ids must not repeat from climb to climb.
    for _ in 0..log.len() {
        let _ = ids.message(context.now);
    }
    let mut ladder = Ladder::new(log.clone(), context);
    loop {
        match ladder.climb(&mut ids).unwrap() {
            Step::Ask(_) => {
                let reply = reply.map(Reply::finished).ok_or_else(|| "it is down".to_owned());
                ladder.answer(reply, &mut ids).unwrap();
            }
            Step::Done(outcome) => {
                outcome.reduction.commit(log).unwrap();
                return outcome;
            }
        }
    }
}

fn compactions(outcome: &Outcome) -> Vec<&str> {
    let receipts = outcome.reduction.receipts.iter();
    receipts
        .filter(|receipt| matches!(receipt.plan, Plan::Compact(_)))
        .map(|receipt| &*receipt.reason)
        .collect()
}

const SUMMARY: &str = "## Goal\nRead the files.\n## Progress\nAll of them were read.";

mod compacting {
    use super::*;

    #[test]
    fn frugal_compacts_from_a_third_of_the_line_on_if_that_pays() {
        let messages = turns(&[2_000; 60]);
        let outcome_of = |policy: &Policy, context, reply| {
            let mut log = Log::from_messages(messages.clone());
            let outcome = climb(&mut log, compaction_context(&messages, policy, 1, context), reply);
            assert_eq!(outcome.verdict, FitResult::Fits);
            outcome
        };
        let frugal = thrift(Thrift::Frugal);
        let outcome = outcome_of(&frugal, 300_000, Some(SUMMARY));
        assert_eq!(compactions(&outcome), ["sending the window again would have cost more"]);
        assert!(outcome.after < Tokens(20_000), "{}", outcome.after);
        assert!(compactions(&outcome_of(&frugal, 600_000, Some(SUMMARY))).is_empty(), "less than a third");
        // The compaction is optional, so a summary without a model would only be worse.
        assert!(compactions(&outcome_of(&frugal, 300_000, None)).is_empty());
        assert!(
            compactions(&outcome_of(&Policy::default(), 180_000, Some(SUMMARY))).is_empty(),
            "not paid for"
        );
    }

    #[test]
    fn careful_compacts_a_half_full_window_from_its_savings() {
        // First pauses, in which clearing old outputs is free; then many short turns without a pause.
        let policy = Policy::default();
        let mut log = Log::new();
        let big = (0..10).fold(History::new(), |h, _| h.user("Read").tool("read", words(30_000)));
        let small = (0..60).fold(big, |h, _| h.user("And now?").say(words(1_500)));
        let mut clock = START;
        let mut paid = Vec::new();
        for (number, mut message) in small.messages().into_iter().enumerate() {
            clock += if number < 20 { 10 * MINUTE } else { 1_000 };
            let time = message.info.time.get_or_insert_default();
            (time.created, time.completed) = (Some(Millis(clock)), Some(Millis(clock)));
            let is_prompt = message.starts_turn();
            log.append(message).unwrap();
            let messages = log.messages().to_vec();
            let mut context = compaction_context(&messages, &policy, 0, 250_000);
            context.now = Millis(clock + 100);
            let (load, purse) = (context.load(&messages).tokens, context.purse(&messages).balance);
            let outcome = climb(&mut log, context, Some(SUMMARY));
            if !compactions(&outcome).is_empty() {
                paid.push((load, purse, is_prompt));
            }
        }
        assert_eq!(paid.len(), 1, "{paid:?}");
        let (load, purse, _) = paid[0];
        assert!(load > Tokens(109_000) && load < Tokens(218_000) && purse > 100_000.0, "{paid:?}");
    }

    #[test]
    fn over_the_line_the_window_is_compacted_whether_or_not_it_pays() {
        let messages = apart(&(0..40).fold(History::new(), |h, _| h.user("Tell me").say(words(2_000))), 1);
        for (reply, made) in [(Some(SUMMARY), SummaryOrigin::ByModel), (None, SummaryOrigin::WithoutModel)] {
            let mut log = Log::from_messages(messages.clone());
            let outcome =
                climb(&mut log, compaction_context(&messages, &thrift(Thrift::Off), 1, 80_000), reply);
            assert_eq!(outcome.verdict, FitResult::Fits);
            assert!(outcome.line.is_some_and(|line| !line.is_over(outcome.after)));
            let plans = outcome.reduction.receipts.iter();
            let made_by: Vec<SummaryOrigin> = plans
                .filter_map(|receipt| match &receipt.plan {
                    Plan::Compact(plan) => Some(plan.made),
                    _ => None,
                })
                .collect();
            assert_eq!(made_by, [made]);
        }
    }
}

#[rstest]
#[case(8_000)]
#[case(32_000)]
fn the_default_keeps_small_windows_under_the_line(#[case] context: u64) {
    let default = Preset::Plimsoll.policy();
    let mut log = Log::new();
    for message in reads(&[700; 120]) {
        log.append(message).unwrap();
        let messages = log.messages().to_vec();
        let context = compaction_context(&messages, &default, 1, context);
        let line = default.overflow.line(context.limits).unwrap();
        let outcome = climb(&mut log, context, Some(SUMMARY));
        assert!(!line.is_over(outcome.after), "{} of {}", outcome.after, line.at);
    }
}

/// Only the provider can say that a window of unknown size is full.
#[test]
fn an_unknown_window_is_not_reduced() {
    let messages = turns(&[30_000; 40]);
    let mut log = Log::from_messages(messages.clone());
    let outcome =
        climb(&mut log, compaction_context(&messages, &Preset::Plimsoll.policy(), 1, 0), Some(SUMMARY));
    assert!(outcome.reduction.is_empty());
}
