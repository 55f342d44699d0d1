//! The engine compared with a yardstick: counting newlines with `memchr` in the same bytes, in the same run.
//!
//! Read a row as a multiple of the `yardstick` of the same size. Planning reads only lengths, so its rows do not grow with
//! the text. Forking and truncating read every byte at most a few times.

#![allow(missing_docs)]

use divan::{Bencher, black_box, counter::BytesCount};
use plimsoll::fork::fork;
use plimsoll::{
    CachePlan, CharCounter, Counter, Log, Message, Millis, Part, PartId, Policy, ToolState, Window, prune,
    truncate,
};
use serde_json::json;

fn main() {
    divan::main();
}

const MEGABYTES: [usize; 3] = [1, 10, 100];

/// A session with `megabytes` of tool results, in results of `each` bytes.
fn history(megabytes: usize, each: usize) -> Vec<Message> {
    let line = "    let value = compute(input, 42); // an ordinary line of code\n";
    let output = line.repeat(each / line.len());
    let count = (megabytes << 20) / output.len();
    let mut messages = Vec::new();
    for n in 0..count {
        messages.push(Message::user(
            format!("u{n}").as_str().into(),
            format!("u{n}.0").as_str().into(),
            "next",
        ));
        let state = ToolState::completed(json!({ "path": "src/lib.rs" }), output.as_str());
        let part = Part::tool(format!("a{n}.0").as_str().into(), format!("call_{n}"), "read", state);
        messages.push(Message::assistant(format!("a{n}").as_str().into(), vec![part]));
    }
    messages
}

fn bytes(messages: &[Message]) -> Vec<u8> {
    let parts = messages.iter().flat_map(|message| &message.parts);
    let outputs = parts.filter_map(|part| part.as_tool()?.state.output.clone());
    outputs.flat_map(|text| text.as_bytes().to_vec()).collect()
}

mod by_size {
    use super::*;

    #[divan::bench(args = MEGABYTES)]
    fn a_yardstick_memchr_newlines(bencher: Bencher, megabytes: usize) {
        let bytes = bytes(&history(megabytes, 50_000));
        bencher
            .counter(BytesCount::new(bytes.len()))
            .bench_local(|| memchr::memchr_iter(b'\n', black_box(&bytes)).count());
    }

    #[divan::bench(args = MEGABYTES)]
    fn fork_digest(bencher: Bencher, megabytes: usize) {
        let messages = history(megabytes, 50_000);
        let policy = Policy::default();
        bencher
            .counter(BytesCount::new(megabytes << 20))
            .bench_local(|| fork(black_box(&messages), &policy.fork));
    }

    #[divan::bench(args = MEGABYTES)]
    fn truncate_output(bencher: Bencher, megabytes: usize) {
        let output = bytes(&history(megabytes, 50_000));
        let policy = Policy::default();
        bencher
            .counter(BytesCount::new(output.len()))
            .bench_local(|| truncate::plan(black_box(&output), "bash", &policy));
    }

    #[divan::bench(args = MEGABYTES)]
    fn truncate_one_line(bencher: Bencher, megabytes: usize) {
        let output = vec![b'x'; megabytes << 20];
        let policy = Policy::default();
        bencher
            .counter(BytesCount::new(output.len()))
            .bench_local(|| truncate::plan(black_box(&output), "bash", &policy));
    }

    #[divan::bench(args = MEGABYTES)]
    fn count_chars_over_four(bencher: Bencher, megabytes: usize) {
        let output = String::from_utf8(bytes(&history(megabytes, 50_000))).unwrap_or_default();
        let counter = CharCounter::default();
        bencher.counter(BytesCount::new(output.len())).bench_local(|| counter.count(black_box(&output)));
    }
}

/// 2,000 results of increasing length: operations that read only lengths must not get slower.
mod by_length_of_text {
    use super::*;

    const EACH: [usize; 3] = [500, 5_000, 50_000];

    #[divan::bench(args = EACH)]
    fn a_yardstick_memchr_newlines(bencher: Bencher, each: usize) {
        let bytes = bytes(&same_parts(each));
        bencher.bench_local(|| memchr::memchr_iter(b'\n', black_box(&bytes)).count());
    }

    fn same_parts(each: usize) -> Vec<Message> {
        let mut messages = history(each * 2_100 / (1 << 20) + 1, each);
        messages.truncate(4_000);
        messages
    }

    #[divan::bench(args = EACH)]
    fn prune_plan(bencher: Bencher, each: usize) {
        let messages = same_parts(each);
        let policy = Policy::default();
        bencher.bench_local(|| prune::plan(black_box(&messages), &policy, None));
    }

    #[divan::bench(args = EACH)]
    fn window(bencher: Bencher, each: usize) {
        let messages = same_parts(each);
        let policy = Policy::default();
        bencher.bench_local(|| Window::of(black_box(&messages), &policy));
    }

    /// Texts cache their hash, so only the first plan reads them.
    #[divan::bench(args = EACH)]
    fn cache_plan(bencher: Bencher, each: usize) {
        let messages = same_parts(each);
        let policy = Policy::default();
        let window = Window::of(&messages, &policy);
        let sent = CachePlan::new(&window, &messages, None, 2, &policy.cache).fingerprint;
        bencher.bench_local(|| CachePlan::new(black_box(&window), &messages, Some(&sent), 2, &policy.cache));
    }

    #[divan::bench(args = EACH, sample_count = 20)]
    fn first_cache_plan(bencher: Bencher, each: usize) {
        let policy = Policy::default();
        bencher
            .with_inputs(|| {
                let messages = same_parts(each);
                (Window::of(&messages, &policy), messages)
            })
            .bench_local_refs(|(window, messages)| {
                CachePlan::new(black_box(window), messages, None, 2, &policy.cache)
            });
    }
}

/// An increasing number of parts of one length: must be linear.
mod by_number_of_parts {
    use super::*;

    const PARTS: [usize; 3] = [1_000, 10_000, 100_000];

    fn parts(count: usize) -> Vec<Message> {
        let mut messages = history(count * 600 / (1 << 20) + 1, 500);
        messages.truncate(2 * count);
        messages
    }

    #[divan::bench(args = PARTS)]
    fn prune_plan(bencher: Bencher, count: usize) {
        let messages = parts(count);
        let policy = Policy::default();
        bencher.bench_local(|| prune::plan(black_box(&messages), &policy, None));
    }

    #[divan::bench(args = PARTS)]
    fn window(bencher: Bencher, count: usize) {
        let messages = parts(count);
        let policy = Policy::default();
        bencher.bench_local(|| Window::of(black_box(&messages), &policy));
    }
}

/// An answer that streams in deltas of six chars, after a thousand older messages. Linear means that the ratio of a row to
/// its yardstick is the same at 10 MB as at 100 kB.
mod by_streamed_deltas {
    use super::*;

    const BYTES: [usize; 4] = [100_000, 400_000, 1_000_000, 10_000_000];
    const DELTA: &str = "delta ";

    fn begun(parts: &[&str]) -> Log {
        let mut log = Log::from_messages(history(25, 50_000));
        let parts = parts.iter().map(|id| Part::text((*id).into(), "")).collect();
        let begun = Message { parts, ..Message::begun("msg_answer".into(), Millis(1)) };
        let _ = log.append(begun);
        log
    }

    #[divan::bench(args = BYTES)]
    fn a_yardstick_push_str(bencher: Bencher, bytes: usize) {
        bencher.bench_local(|| {
            let mut text = String::new();
            for _ in 0..bytes / DELTA.len() {
                text.push_str(black_box(DELTA));
            }
            text
        });
    }

    #[divan::bench(args = BYTES)]
    fn extend_the_newest_part(bencher: Bencher, bytes: usize) {
        let part = PartId::new("prt_1e0f40599001MqRMKGqo0oDpjo");
        let log = begun(&[part.as_str()]);
        bencher.with_inputs(|| log.clone()).bench_local_values(|mut log| {
            for _ in 0..bytes / DELTA.len() {
                let _ = log.extend(&part, black_box(DELTA));
            }
            log
        });
    }

    #[divan::bench(args = BYTES)]
    fn extend_an_older_part(bencher: Bencher, bytes: usize) {
        let part = PartId::new("prt_1e0f40599001MqRMKGqo0oDpjo");
        let log = begun(&[part.as_str(), "prt_1e0f40599002MqRMKGqo0oDpjo"]);
        bencher.with_inputs(|| log.clone()).bench_local_values(|mut log| {
            for _ in 0..bytes / DELTA.len() {
                let _ = log.extend(&part, black_box(DELTA));
            }
            log
        });
    }

    /// Without `extend`: the whole text is set again with every delta.
    #[divan::bench(args = [20_000, 40_000, 80_000])]
    fn advance_with_the_whole_text(bencher: Bencher, bytes: usize) {
        let part = PartId::new("prt_1e0f40599001MqRMKGqo0oDpjo");
        let log = begun(&[part.as_str()]);
        bencher.with_inputs(|| log.clone()).bench_local_values(|mut log| {
            let mut text = String::new();
            for _ in 0..bytes / DELTA.len() {
                text.push_str(black_box(DELTA));
                let _ = log.advance(Part::text(part.clone(), text.as_str()));
            }
            log
        });
    }
}
