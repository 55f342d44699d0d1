//! Sessions whose requests are known: windows rebuilt from them must equal what was recorded.

use plimsoll::log::{CompactionPart, Effect, LogPosition, Mark};
use plimsoll::{Counter, Message, MessageId, Millis, Part, PartBody, PartId, ReceiptId, Tokens, Usage};
use plimsoll_tokens::{Bpe, FIRST_RESPONSES, WindowMeter};
use serde_json::json;

const HIDDEN: u64 = 18_000;
const FACTOR: f64 = 1.3;

/// Returns the tokens that the simulated provider counts for a text.
fn counted(text: &str) -> u64 {
    (Bpe::O200k.count(text).0 as f64 * FACTOR) as u64 + 10
}

/// Text of about this many tokens, different each time.
fn words(number: usize, tokens: usize) -> String {
    (0..tokens).map(|word| format!("w{} ", (number * 7919 + word * 31) % 9973)).collect()
}

fn user(number: usize, text: &str) -> Message {
    Message::user(MessageId::new(format!("u{number}")), PartId::new(format!("u{number}.1")), text)
}

fn answer(number: usize, text: &str, usage: Usage) -> Message {
    let part = Part::text(PartId::new(format!("a{number}.1")), text);
    let mut message = Message::assistant(MessageId::new(format!("a{number}")), vec![part]);
    message.info.model_id = Some("claude-sonnet-4-6".into());
    message.info.tokens = Some(usage);
    message
}

/// A session with `thought` tokens of hidden reasoning per turn, which are sent again if `comes_back`.
fn session(turns: usize, thought: u64, comes_back: bool) -> Vec<Message> {
    let (mut messages, mut sent) = (Vec::new(), HIDDEN);
    for number in 1..=turns {
        let (question, reply) = (words(number, 300 + number % 5 * 100), words(number + 500, 60));
        sent += counted(&question);
        let output = counted(&reply) + thought;
        messages.push(user(number, &question));
        messages.push(answer(number, &reply, Usage::new(Tokens(sent), Tokens(output))));
        sent += if comes_back { output } else { counted(&reply) };
    }
    messages
}

fn near(value: f64, wanted: f64, share: f64) -> bool {
    (value - wanted).abs() <= share * wanted
}

/// A session of another tool that continued here was shown with that tool's system prompt forever.
#[test]
fn a_session_that_another_host_continues_is_measured_by_that_host() {
    let mut messages = session(20, 0, true);
    let content: u64 = messages.iter().map(|message| counted(&message.text())).sum();
    let (question, reply) = (words(900, 200), words(901, 50));
    // The new host's system prompt is a sixth of the old one's.
    let sent = HIDDEN / 6 + content + counted(&question);
    messages.push(user(90, &question));
    messages.push(answer(90, &reply, Usage::new(Tokens(sent), Tokens(counted(&reply)))).asked_here());
    let measured = WindowMeter::of(&messages).read().unwrap();
    assert_eq!(measured.window().tokens, Tokens(sent + counted(&reply)));
    assert!(measured.hidden().0 < HIDDEN, "{}", measured.hidden());
    assert_eq!(measured.gap(), None, "the other host's requests check nothing");
}

#[test]
fn factor_hidden_part_and_window_follow_from_the_usage() {
    for (thought, comes_back) in [(0, true), (400, true), (400, false)] {
        let messages = session(40, thought, comes_back);
        let measured = WindowMeter::of(&messages).read().unwrap();
        assert!(
            near(measured.factor(), FACTOR, 0.12),
            "{thought} {comes_back}: factor {}",
            measured.factor()
        );
        assert!(near(measured.hidden().0 as f64, HIDDEN as f64, 0.05), "{thought}: {}", measured.hidden());
        for (recorded, rebuilt) in measured.requests().skip(FIRST_RESPONSES) {
            assert!(
                near(rebuilt.0 as f64, recorded.0 as f64, 0.05),
                "{thought} {comes_back}: {rebuilt} for {recorded}"
            );
        }
        let last = messages.last().unwrap().info.tokens.as_ref().unwrap();
        let now = measured.window();
        assert!(now.tokens >= last.input && now.tokens <= last.input + last.output + Tokens(50), "{now:?}");
        assert!(measured.gap().unwrap().abs() < 0.05);
    }
}

/// A provider that reports half of what it was sent made the window look half as full as it was.
#[test]
fn usage_of_our_own_requests_below_what_their_content_needs_is_not_believed() {
    let mut messages = session(20, 0, true);
    for message in &mut messages {
        if let Some(usage) = &mut message.info.tokens {
            usage.input = Tokens((usage.input.0 - HIDDEN) / 2);
        }
    }
    let own: Vec<Message> = messages.iter().map(|message| message.clone().asked_here()).collect();
    assert!(WindowMeter::of(&own).read().is_none(), "no request is believed");
    // Another tool may have sent less than its file contains.
    let last = messages.last().unwrap().info.tokens.as_ref().unwrap();
    let foreign = WindowMeter::of(&messages).read().unwrap().window().tokens;
    assert!(foreign >= last.input && foreign <= last.input + last.output + Tokens(50), "{foreign}");
}

#[test]
fn missing_messages_show_as_a_gap() {
    let mut messages = session(40, 0, true);
    messages.drain(20..60);
    let gap = WindowMeter::of(&messages).read().unwrap().gap().unwrap();
    assert!(gap > 0.2, "{gap}");
}

#[test]
fn a_summary_replaces_what_came_before_its_tail() {
    let mut messages = session(20, 0, true);
    let tail = messages[36].info.id.clone();
    let kept: u64 = messages[36..].iter().map(|message| counted(&message.text())).sum();
    let marker = CompactionPart { tail_start: Some(tail), ..CompactionPart::default() };
    let mut mark = user(90, "");
    mark.parts = vec![Part::new("m.1".into(), PartBody::Compaction(marker))].into();
    let parent = mark.info.id.clone();
    messages.push(mark);
    let mut summary = Message::assistant("s".into(), vec![Part::text("s.1".into(), words(7, 200))]);
    (summary.info.summary, summary.info.parent_id) = (true, Some(parent));
    let sent = HIDDEN + counted(&summary.text()) + kept;
    messages.push(summary);
    let next = words(3, 400);
    messages.push(user(91, &next));
    messages.push(answer(91, "done", Usage::new(Tokens(sent + counted(&next)), Tokens(5))));
    let measured = WindowMeter::of(&messages).read().unwrap();
    let (recorded, rebuilt) = measured.requests().last().unwrap();
    assert!(near(rebuilt.0 as f64, recorded.0 as f64, 0.05), "{rebuilt} for {recorded}");
}

/// A window was shown as 0 tokens although the provider had counted 22,793 for its request: the file had more messages
/// than its tool sent, so that a summary took more out of the rebuilt window than out of the recorded one.
#[test]
fn the_first_request_after_a_summary_is_trusted() {
    let mut messages = session(20, 0, true);
    for number in 0..10 {
        messages.insert(20, user(200 + number, &words(number, 9_000)));
    }
    let mut mark = user(90, "");
    mark.parts = vec![Part::new("m.1".into(), PartBody::Compaction(CompactionPart::default()))].into();
    let mut summary = Message::assistant("s".into(), vec![Part::text("s.1".into(), words(7, 200))]);
    (summary.info.summary, summary.info.parent_id) = (true, Some(mark.info.id.clone()));
    messages.extend([mark, summary, user(91, &words(3, 400))]);
    messages.push(answer(91, "done", Usage::new(Tokens(22_793), Tokens(5))));
    let window = WindowMeter::of(&messages).read().unwrap().window();
    assert_eq!(window.tokens, Tokens(22_798));
}

#[test]
fn an_answer_weighs_what_it_was_billed_with_if_its_reasoning_is_sent_again() {
    for (comes_back, hidden) in [(true, 400), (false, 0)] {
        let mut messages = session(40, 400, comes_back);
        for message in messages.iter_mut().filter(|message| message.is_assistant()) {
            // Reasoning is counted separately, as most providers do, so that the part that is not sent again is known.
            let usage = message.info.tokens.as_mut().unwrap();
            (usage.output, usage.reasoning) = (usage.output - Tokens(400), Tokens(400));
        }
        let measured = WindowMeter::of(&messages).read().unwrap();
        assert_eq!(measured.resends_reasoning(), comes_back);
        let last = messages.last().unwrap();
        let weight = measured.reply(last).unwrap().0 as i64;
        let billed = last.info.tokens.as_ref().unwrap().output.0 as i64;
        assert_eq!(weight - billed, hidden, "{comes_back}");
    }
    let silent = [user(1, "hello"), answer(1, "hi", Usage::new(Tokens(100), Tokens(3))), user(2, "and?")];
    let measured = WindowMeter::of(&silent).read().unwrap();
    assert_eq!(measured.reply(&silent[0]), None, "it is not an answer");
}

#[test]
fn an_answer_that_failed_is_not_sent_again() {
    let mut messages = session(20, 0, true);
    let mut failed = answer(99, &words(1, 5_000), Usage::new(Tokens(0), Tokens(0)));
    failed.info.error = Some(json!({ "name": "APIError" }));
    messages.insert(10, failed);
    let measured = WindowMeter::of(&messages).read().unwrap();
    assert!(measured.gap().unwrap().abs() < 0.05, "{:?}", measured.gap());
}

/// An incomplete answer of a process that died is marked as aborted; the window must not change by that.
#[test]
fn the_usage_of_an_aborted_answer_counts() {
    let whole = session(20, 0, true);
    let mut broken = whole.clone();
    broken.last_mut().unwrap().info.error = Some(json!({ "name": "MessageAbortedError" }));
    let [whole, broken] = [whole, broken].map(|messages| WindowMeter::of(&messages).read().unwrap());
    assert_eq!(broken.window().tokens, whole.window().tokens);
    assert_eq!(broken.hidden(), whole.hidden());
}

#[test]
fn without_recorded_usage_nothing_is_measured() {
    let messages = [user(1, "hello"), answer(1, "hi", Usage::new(Tokens(0), Tokens(0)))];
    assert!(WindowMeter::of(&messages).read().is_none());
}

/// Replaces messages by a summary, as was done when `after` was the newest.
fn compact_range(messages: &mut [Message], summary: &str, after: &MessageId) {
    for (at, message) in messages.iter_mut().enumerate() {
        let text = if at == 0 { summary } else { "" };
        let set = LogPosition { at: Millis(1), after: Some(after.clone()) };
        let effect = Effect::Replace(text.into());
        let mark = Mark { receipt: Some(ReceiptId::new("r1")), effect, set, lifted: None };
        message.parts = message.parts.drain(..).map(|part| part.with_marks(vec![mark.clone()])).collect();
    }
}

/// Lifts the marks of a range again, as was done when `after` was the newest message.
fn undo_range(messages: &mut [Message], after: &MessageId) {
    let lifted = (LogPosition { at: Millis(2), after: Some(after.clone()) }, ReceiptId::new("r2"));
    let marks = messages.iter_mut().flat_map(|message| &mut message.parts).flat_map(|part| &mut part.marks);
    marks.for_each(|mark| mark.lifted = Some(lifted.clone()));
}

#[test]
fn a_range_takes_its_weight_out_of_the_window_and_no_more() {
    // With everything, with gaps, and with much of the session read twice.
    let (whole, mut torn, mut twice) = (session(40, 0, true), session(40, 0, true), session(40, 0, true));
    torn.drain(10..50);
    for number in 0..20 {
        twice.insert(20, user(200 + number, &words(number, 400)));
    }
    for (name, mut messages) in [("whole", whole), ("torn", torn), ("twice", twice)] {
        let before = WindowMeter::of(&messages).read().unwrap().window().tokens;
        let last = messages.last().unwrap().info.id.clone();
        let range = messages.len() - 12..messages.len() - 6;
        let (summary, gone) = (words(3, 100), &messages[range.clone()]);
        let freed: u64 = gone.iter().map(|message| counted(&message.text())).sum();
        let freed = freed - counted(&summary);
        compact_range(&mut messages[range.clone()], &summary, &last);
        let after = WindowMeter::of(&messages).read().unwrap().window().tokens;
        assert!(after < before, "{name}: {before}, then {after}");
        // If requests are twice or half as large as what is visible, so is what was removed.
        let share = if name == "whole" { 0.1 } else { 1.2 };
        assert!(
            near((before - after).0 as f64, freed as f64, share),
            "{name}: {before} - {freed} is not {after}"
        );
        undo_range(&mut messages[range], &last);
        assert_eq!(WindowMeter::of(&messages).read().unwrap().window().tokens, before, "{name}");
    }
}

#[test]
fn requests_after_a_range_are_rebuilt_without_it_and_after_its_undo_with_it() {
    let mut messages = session(20, 0, true);
    let range: u64 = messages[10..20].iter().map(|message| counted(&message.text())).sum();
    let summary = words(3, 100);
    let last = messages.last().unwrap();
    let mut sent = last.info.tokens.as_ref().unwrap().input.0 + counted(&last.text());
    let made = last.info.id.clone();
    sent = sent - range + counted(&summary);
    let mut undone = None;
    for number in 50..60 {
        if number == 55 {
            undone = Some(messages.last().unwrap().info.id.clone());
            sent = sent + range - counted(&summary);
        }
        let (question, reply) = (words(number, 300), words(number + 500, 60));
        sent += counted(&question);
        messages.push(user(number, &question));
        messages.push(answer(number, &reply, Usage::new(Tokens(sent), Tokens(counted(&reply)))));
        sent += counted(&reply);
    }
    compact_range(&mut messages[10..20], &summary, &made);
    undo_range(&mut messages[10..20], &undone.unwrap());
    let measured = WindowMeter::of(&messages).read().unwrap();
    for (recorded, rebuilt) in measured.requests().skip(FIRST_RESPONSES) {
        assert!(near(rebuilt.0 as f64, recorded.0 as f64, 0.05), "{rebuilt} for {recorded}");
    }
}

#[test]
fn an_undone_compaction_leaves_the_window_unchanged() {
    let mut messages = session(20, 0, true);
    let before = WindowMeter::of(&messages).read().unwrap().window().tokens;
    let mut mark = user(90, "");
    let marker = CompactionPart::default();
    mark.parts = vec![Part::new("m.1".into(), PartBody::Compaction(marker))].into();
    let parent = mark.info.id.clone();
    messages.push(mark);
    let mut summary = Message::assistant("s".into(), vec![Part::text("s.1".into(), words(7, 200))]);
    (summary.info.summary, summary.info.parent_id) = (true, Some(parent));
    messages.push(summary);
    let compacted = WindowMeter::of(&messages).read().unwrap().window().tokens;
    assert!(compacted < before && compacted > Tokens(HIDDEN), "{before}, then {compacted}");
    let place = messages.len() - 2;
    let PartBody::Compaction(marker) = &mut messages[place].parts[0].body else { panic!("the marker") };
    marker.set_aside = Some(LogPosition { at: Millis(1), after: Some("s".into()) });
    assert_eq!(WindowMeter::of(&messages).read().unwrap().window().tokens, before);
}
