//! Token counts that an export keeps beside the messages.
//!
//! Tools that export sessions of other agents as chat messages write each block of a response as a message of its own,
//! and put what was counted under `meta.token_counts`: with the time of each block, or of the end of each response.
//! So the counts tell which messages are one response.

use plimsoll::log::At;
use plimsoll::{Millis, Tokens, Usage};

use crate::json::Json;
use crate::misfits::Misfits;
use crate::recorded::Recorded;
use crate::time::millis;
use crate::transcript::SessionInfo;

/// The counts of a file, in the order of time.
#[derive(Default)]
pub(super) struct Counts {
    counts: Vec<Count>,
}

struct Count {
    at: Millis,
    /// Which response it counts.
    response: usize,
    usage: Usage,
    model: Option<String>,
}

impl Counts {
    /// Read the list under `token_counts`.
    pub(super) fn read(list: &[Json], misfits: &mut Misfits, at: &At, info: &mut SessionInfo) -> Counts {
        let mut counts: Vec<Count> = Vec::new();
        for (index, entry) in list.iter().enumerate() {
            let at = At::Index(at, index);
            let Some(time) = millis(entry.get("_timestamp").or_else(|| entry.get("timestamp"))) else {
                continue;
            };
            let Some(told) = misfits.object(entry, &at, "info") else { continue };
            let at = At::Key(&at, "info");
            if let Some(window) = misfits.number(told, &at, "model_context_window") {
                info.context = Some(Tokens(window));
            }
            let Some(last) = misfits.object(told, &at, "last_token_usage") else { continue };
            let usage = usage_of(last, misfits, &At::Key(&at, "last_token_usage"));
            counts.push(Count { at: time, response: 0, usage, model: entry.string("model") });
        }
        // Some writers count what the cache gave as part of the input, some beside it; nothing says which.
        let is_beside = counts.iter().any(|count| count.usage.cache_read > count.usage.input);
        counts.sort_by_key(|count| count.at);
        for number in 0..counts.len() {
            let response = match number.checked_sub(1).map(|before| &counts[before]) {
                Some(before) if is_same(&before.usage, &counts[number].usage) => before.response,
                Some(before) => before.response + 1,
                None => 0,
            };
            counts[number].response = response;
        }
        complete_outputs(&mut counts);
        if is_beside {
            add_writes(&mut counts);
        } else {
            counts
                .iter_mut()
                .for_each(|count| count.usage.input = count.usage.input - count.usage.cache_read);
        }
        Counts { counts }
    }

    /// The response that a message written at this time belongs to, if that was counted, with its usage.
    pub(super) fn find(&self, at: Option<Millis>) -> Option<(usize, &Usage, Option<&str>)> {
        let at = at?;
        let place = self.counts.partition_point(|count| count.at < at);
        let count = self.counts.get(place)?;
        Some((count.response, &count.usage, count.model.as_deref()))
    }

    /// Note what was counted for each response.
    pub(super) fn record(&self, model: Option<&str>, recorded: &mut Recorded) {
        let mut last = None;
        for count in &self.counts {
            match last {
                Some((response, place)) if response == count.response => recorded.again(place, &count.usage),
                _ => {
                    let place = recorded.add(count.model.as_deref().or(model), &count.usage, None);
                    last = place.map(|place| (count.response, place));
                }
            }
        }
    }
}

/// An answer is counted again while it is written. A message is found by its time, which may be that of the first count, so
/// that each count of a response gets the output of its last.
fn complete_outputs(counts: &mut [Count]) {
    let mut last: Option<(usize, Usage)> = None;
    for count in counts.iter_mut().rev() {
        match &last {
            Some((response, whole)) if *response == count.response => {
                count.usage.output = count.usage.output.max(whole.output);
                count.usage.reasoning = count.usage.reasoning.max(whole.reasoning);
            }
            _ => {}
        }
        last = Some((count.response, count.usage.clone()));
    }
}

/// Where the cache is counted beside the input, such exports have no field for what was written to it, which is most of
/// what is new in each request. It can be told from the next response: that reads what was there before and what was
/// written then. Of the last response nothing can be told.
fn add_writes(counts: &mut [Count]) {
    let mut next: Option<(usize, Tokens)> = None;
    let mut write = Tokens::ZERO;
    for count in counts.iter_mut().rev() {
        let read = count.usage.cache_read;
        match next {
            Some((response, _)) if response == count.response => {}
            Some((_, later)) => write = later - read,
            None => {}
        }
        next = Some((count.response, read));
        count.usage.cache_write = write;
    }
}

/// Whether two counts are of one response: the output grows while it is written, the input does not.
fn is_same(a: &Usage, b: &Usage) -> bool {
    (a.input, a.cache_read) == (b.input, b.cache_read)
}

/// Reasoning is part of the output here.
fn usage_of(usage: &Json, misfits: &mut Misfits, at: &At) -> Usage {
    let mut number = |key: &str| Tokens(misfits.number(usage, at, key).unwrap_or(0));
    let reasoning = number("reasoning_output_tokens");
    let mut tokens = Usage::new(number("input_tokens"), number("output_tokens") - reasoning);
    (tokens.cache_read, tokens.reasoning) = (number("cached_input_tokens"), reasoning);
    tokens
}
