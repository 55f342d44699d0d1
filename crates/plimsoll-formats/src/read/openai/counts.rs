//! Token counts that an export stores outside of the messages.
//!
//! Tools that export sessions of other agents as chat messages write each block of a response as a separate message,
//! and put the counts into `meta.token_counts`, with the time of each block or of the end of each response. The counts
//! therefore show which messages are one response.

use plimsoll::log::At;
use plimsoll::{Millis, Tokens, Usage};

use crate::field_errors::FieldErrors;
use crate::json::Json;
use crate::recorded::Recorded;
use crate::time::millis;
use crate::transcript::SessionInfo;

/// Counts of a file in the order of time.
#[derive(Default)]
pub(super) struct Counts {
    counts: Vec<Count>,
}

struct Count {
    at: Millis,
    /// The response that it counts.
    response: usize,
    usage: Usage,
    model: Option<String>,
}

impl Counts {
    /// Reads the list in `token_counts`.
    pub(super) fn read(
        list: &[Json],
        field_errors: &mut FieldErrors,
        at: &At,
        info: &mut SessionInfo,
    ) -> Counts {
        let mut counts: Vec<Count> = Vec::new();
        for (index, entry) in list.iter().enumerate() {
            let at = At::Index(at, index);
            let Some(time) = millis(entry.get("_timestamp").or_else(|| entry.get("timestamp"))) else {
                continue;
            };
            let Some(details) = field_errors.object(entry, &at, "info") else { continue };
            let at = At::Key(&at, "info");
            if let Some(window) = field_errors.number(details, &at, "model_context_window") {
                info.context = Some(Tokens(window));
            }
            let Some(last) = field_errors.object(details, &at, "last_token_usage") else { continue };
            let usage = usage_of(last, field_errors, &At::Key(&at, "last_token_usage"));
            counts.push(Count { at: time, response: 0, usage, model: entry.string("model") });
        }
        // Some writers include cache reads in the input, others do not, and no field says which.
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

    /// Returns the response of a message with this time and its usage, if it was counted.
    pub(super) fn find(&self, at: Option<Millis>) -> Option<(usize, &Usage, Option<&str>)> {
        let at = at?;
        let place = self.counts.partition_point(|count| count.at < at);
        let count = self.counts.get(place)?;
        Some((count.response, &count.usage, count.model.as_deref()))
    }

    /// Records the usage of each response.
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

/// An answer is counted repeatedly while it is written. A message is found by its time, which may be that of the first
/// count, so each count of a response gets the output of the last.
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

/// If cache reads are not included in the input, these exports have no field for cache writes, which are most of what
/// is new in each request. They follow from the next response, which reads the old and the new part. For the last
/// response they are unknown.
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

/// Whether two counts are of one response: its output grows, its input does not change.
fn is_same(a: &Usage, b: &Usage) -> bool {
    (a.input, a.cache_read) == (b.input, b.cache_read)
}

/// Converts usage in which reasoning is part of the output.
fn usage_of(usage: &Json, field_errors: &mut FieldErrors, at: &At) -> Usage {
    let mut number = |key: &str| Tokens(field_errors.number(usage, at, key).unwrap_or(0));
    let reasoning = number("reasoning_output_tokens");
    let mut tokens = Usage::new(number("input_tokens"), number("output_tokens") - reasoning);
    (tokens.cache_read, tokens.reasoning) = (number("cached_input_tokens"), reasoning);
    tokens
}
