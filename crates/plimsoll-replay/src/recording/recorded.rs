//! Recorded figures that a replay uses: how large each request was, and how much of it was read from the cache.
//!
//! Requests are rebuilt from what a file shows, and a file does not show everything: encrypted reasoning, attachments
//! that a tool adds, tools that change. The provider's count of a request is exact. Each call therefore has a scale,
//! its recorded request divided by the rebuilt one, and the requests that rules build for it are multiplied by it.
//! Without rules, a request is then as large as recorded.
//!
//! A provider's cache also misses for reasons that the session does not show. A recorded miss counts for all rules, in
//! proportion to what they could have read.

use plimsoll::{Tokens, Usage};

use super::layout::Layout;
use super::{ModelCall, RecordedMessage};

/// Plausible scales. Outside this range the usage is of another request, or lacks its cached part.
const BELIEVED: std::ops::RangeInclusive<f64> = 0.5..=2.0;
/// A request that is smaller than this share of the previous one was reduced by the recorded agent. Its cache reads say
/// nothing about other requests.
const REDUCED: f64 = 0.95;

/// How much of a request was read from the cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum CacheRead {
    /// Not recorded.
    Unknown,
    /// Share of the common prefix with the previous request.
    Share(f64),
    /// Tokens of a model's first request: another session had cached them.
    First(u64),
}

/// Returns all input tokens of a request.
pub(crate) fn request(usage: &Usage) -> Tokens {
    usage.input + usage.cache_read + usage.cache_write
}

/// Sets the scale of each call. Until the recorded agent reduces anything, it is that of the recorded request. After
/// that, or if the request was not recorded, it is the last known one.
///
/// Without scales, a replay without a policy would cost only 76 % of the recorded bills, because files do not show
/// reasoning that is sent again.
pub(crate) fn set_scales(steps: &mut [RecordedMessage], layout: &Layout, fixed: u64, unreduced_calls: usize) {
    let mut scale = 1.0;
    let mut number = 0;
    for (place, step) in steps.iter_mut().enumerate() {
        let Some(call) = &mut step.call else { continue };
        let rebuilt = layout.charged_to(layout.ends[place]).saturating_add(fixed);
        if let Some(recorded) = call.recorded.filter(|_| number < unreduced_calls && rebuilt > 0) {
            let own = recorded as f64 / rebuilt as f64;
            scale = if BELIEVED.contains(&own) { own } else { scale };
        }
        call.scale = scale;
        number += 1;
    }
}

/// Sets how much of each request was read from the cache. If a session records no read at all, the provider or the tool
/// does not report them.
pub(crate) fn set_reads(steps: &mut [RecordedMessage]) {
    let usages = |steps: &[RecordedMessage]| {
        steps.iter().filter(|step| step.call.is_some()).any(|step| {
            step.message.info.tokens.as_ref().is_some_and(|usage| usage.cache_read > Tokens::ZERO)
        })
    };
    if !usages(steps) {
        return;
    }
    let mut before: Option<Before> = None;
    let mut models: Vec<String> = Vec::new();
    for step in steps.iter_mut() {
        let Some(call) = &mut step.call else { continue };
        let usage = step.message.info.tokens.as_ref().filter(|usage| request(usage) > Tokens::ZERO);
        let Some(usage) = usage else {
            before = None;
            continue;
        };
        let (sent, read) = (request(usage).0, usage.cache_read.0);
        call.read = read_of(call, before.as_ref(), &models, sent, read);
        if !models.contains(&call.model) {
            models.push(call.model.clone());
        }
        // A single request that is much shorter was another one: the next one is as long as the session again.
        let longer = before.as_ref().filter(|before| before.is_longer(sent)).map(|before| before.sent);
        before = Some(Before { model: call.model.clone(), sent, longer });
    }
}

/// The request before a call.
struct Before {
    model: String,
    sent: u64,
    /// Size of the request before this one, if it was much longer.
    longer: Option<u64>,
}

impl Before {
    /// Whether a request of `sent` tokens is so short in comparison that something was reduced.
    fn is_longer(&self, sent: u64) -> bool {
        (sent as f64) < self.sent as f64 * REDUCED
    }
}

fn read_of(call: &ModelCall, before: Option<&Before>, models: &[String], sent: u64, read: u64) -> CacheRead {
    match before {
        _ if !models.contains(&call.model) => CacheRead::First(read),
        // After a switch of models or a request without usage, there is no request to compare with.
        None => CacheRead::Unknown,
        Some(before) if before.model != call.model => CacheRead::Unknown,
        Some(before) if call.summary.is_some() || before.is_longer(sent) => CacheRead::Unknown,
        Some(Before { sent: last, longer, .. }) => {
            let resumed = longer.filter(|longer| sent as f64 >= *longer as f64 * REDUCED);
            let last = resumed.unwrap_or(*last);
            CacheRead::Share((read as f64 / last.min(sent).max(1) as f64).min(1.0))
        }
    }
}
