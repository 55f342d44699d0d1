//! Results of a replay.

mod compare;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::price::{Billed, Price};
pub use compare::{AgainstNone, AgainstRecorded, Medians, compare_with_none};

/// Result of replaying one or more sessions under some rules.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Report {
    /// Name of the rules.
    pub policy: String,
    /// Recorded calls of the model.
    pub calls: u64,
    /// Calls left out because the recorded answer, the system prompt and the tools fill the window, so that they cannot
    /// fit under any rules.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// Calls that would not have fitted. They cost nothing, and nothing that they need counts as in their window.
    pub deaths: u64,
    /// Tokens of all requests that were sent, except those of compactions.
    pub tokens_sent: u64,
    /// Tokens of the largest request.
    pub peak: u64,
    /// Tokens of the largest request as a share of the context window.
    pub peak_share: f64,
    /// Tokens that the provider would have billed.
    pub billed: Billed,
    /// Tokens of `billed` in calls of the summariser.
    pub summaries: Billed,
    /// Tokens of `billed` in recalls.
    pub recalls: Billed,
    /// Cost of all calls in dollars.
    pub cost: f64,
    /// Breakdown of the cost.
    pub parts: CostParts,
    /// References that calls needed, and how many of them were in the window.
    pub references: References,
    /// Medians of the sessions' shares; only in a total.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub medians: Option<Medians>,
    /// Comparison with the cost of no policy, if that was replayed as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against_none: Option<AgainstNone>,
    /// Number of reductions by kind.
    pub fired: BTreeMap<String, u64>,
    /// Each reduction; not in a total.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reductions: Vec<Fired>,
    /// The size of each request, in order; not in a total.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<Sent>,
    /// Messages of windows that the engine built, as a measure of the replay's own work. Zero for rules other than the
    /// engine's.
    #[serde(skip)]
    pub visited: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Breakdown of a cost in dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CostParts {
    /// Cached input.
    pub cached: f64,
    /// Cache writes.
    pub written: f64,
    /// The recorded answers.
    pub output: f64,
    /// Calls of the summariser: input and output.
    pub summaries: f64,
    /// Calls of the recall tool: the model's request, the window once more, and the recalled text.
    pub recalls: f64,
}

impl CostParts {
    /// Returns the total.
    pub fn total(&self) -> f64 {
        let CostParts { cached, written, output, summaries, recalls } = *self;
        // JSON has no infinity.
        (cached + written + output + summaries + recalls).min(f64::MAX)
    }

    pub(crate) fn add_request(&mut self, billed: Billed, price: Price) {
        let Billed { read, written, output } = billed;
        self.cached += price.of(Billed { read, ..Billed::default() });
        self.written += price.of(Billed { written, ..Billed::default() });
        self.output += price.of(Billed { output, ..Billed::default() });
    }

    fn add(&mut self, other: &CostParts) {
        for (sum, part) in [
            (&mut self.cached, other.cached),
            (&mut self.written, other.written),
            (&mut self.output, other.output),
            (&mut self.summaries, other.summaries),
            (&mut self.recalls, other.recalls),
        ] {
            *sum = (*sum + part).min(f64::MAX);
        }
    }
}

/// A reduction.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Reduction {
    /// Kind: truncate, prune, compact, shed, clear, mask.
    pub kind: String,
    /// Tokens of the request before, as the provider counts them. For a truncated output, its own tokens as the rules
    /// count them.
    pub before: u64,
    /// Tokens after the reduction.
    pub after: u64,
    /// Tokens sent to the summariser, if it was called.
    #[serde(skip_serializing_if = "is_zero")]
    pub asked: u64,
    /// Tokens of `asked` that were read from the cache.
    #[serde(skip_serializing_if = "is_zero")]
    pub asked_cached: u64,
    /// Tokens of the summariser's answer.
    #[serde(skip_serializing_if = "is_zero")]
    pub answered: u64,
}

/// A reduction and the call before which it happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Fired {
    /// Number of the call, from 1.
    pub call: u64,
    /// The reduction.
    #[serde(flatten)]
    pub reduction: Reduction,
}

/// A request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Sent {
    /// Tokens of the request.
    pub tokens: u64,
    /// Whether it would have fitted.
    pub fits: bool,
    /// Cost of the session up to the end of the call, in dollars.
    pub spent: f64,
    /// Cost of one recall at this point: the window once more, the model's call and the recalled text.
    #[serde(skip)]
    pub recall_cost: f64,
}

/// References that calls needed, and how many of them were in the window.
///
/// A call needs the references in its tool inputs that a tool output had mentioned before. This does not depend on the
/// policy, so shares of different policies have the same denominator. A call that did not fit had nothing in its
/// window.
///
/// The policy must not decide what counts. Otherwise the shares of different policies could not be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct References {
    /// References that only tool outputs had mentioned: no prompt, answer or input repeats them. A policy that shows no
    /// output has 0 % of them.
    pub only_in_outputs: Share,
    /// All references that a tool output had mentioned, even if something else repeats them.
    pub all: Share,
    /// Requests of the recall tool.
    pub recall_requests: u64,
}

/// How much of what calls needed was available.
///
/// Shares are means over the calls with anything to count, so that one call that writes a long file does not outweigh a
/// hundred others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Share {
    /// Calls with anything to count.
    pub calls: u64,
    /// References in them.
    pub references: u64,
    /// References in the window without any recall.
    pub in_window: u64,
    /// References in the window that are shown with their surroundings or in text that no reduction wrote. A name that
    /// only a list, an index or a summary repeats is not included.
    pub strict: u64,
    /// References that a recall brings back, if the model calls it: outside the window, or there only because of an
    /// earlier recall.
    pub recalled: u64,
    /// Mean share in the window, from 0 to 1.
    pub in_window_share: f64,
    /// Mean share in the window with surroundings.
    pub strict_share: f64,
    /// Mean share that recalls bring back.
    pub recalled_share: f64,
}

impl References {
    /// Adds the references of one or more calls.
    pub(crate) fn add(&mut self, other: &References) {
        self.only_in_outputs.add(&other.only_in_outputs);
        self.all.add(&other.all);
        self.recall_requests += other.recall_requests;
    }
}

impl Share {
    /// Creates the share of one call.
    pub(crate) fn of_call(references: u64, in_window: u64, strict: u64, recalled: u64) -> Share {
        let share = |count: u64| count as f64 / references.max(1) as f64;
        Share {
            calls: u64::from(references > 0),
            references,
            in_window,
            strict,
            recalled,
            in_window_share: share(in_window),
            strict_share: share(strict),
            recalled_share: share(recalled),
        }
    }

    fn add(&mut self, other: &Share) {
        if other.calls == 0 {
            return;
        }
        let calls = (self.calls + other.calls) as f64;
        let mean = |a: f64, b: f64| (a * self.calls as f64 + b * other.calls as f64) / calls;
        *self = Share {
            calls: self.calls + other.calls,
            references: self.references + other.references,
            in_window: self.in_window + other.in_window,
            strict: self.strict + other.strict,
            recalled: self.recalled + other.recalled,
            in_window_share: mean(self.in_window_share, other.in_window_share),
            strict_share: mean(self.strict_share, other.strict_share),
            recalled_share: mean(self.recalled_share, other.recalled_share),
        };
    }

    /// Returns the mean share that was in the window or could be brought back.
    pub fn with_recall(&self) -> f64 {
        self.in_window_share + self.recalled_share
    }
}

impl Report {
    /// Combines reports of several sessions under the same rules.
    pub fn total<'a>(policy: &str, reports: impl IntoIterator<Item = &'a Report>) -> Report {
        let mut total = Report { policy: policy.to_owned(), ..Report::default() };
        let reports: Vec<&Report> = reports.into_iter().collect();
        total.medians = Some(Medians::of(&reports));
        for report in reports {
            total.calls += report.calls;
            total.visited += report.visited;
            total.left_out += report.left_out;
            total.deaths += report.deaths;
            total.tokens_sent = total.tokens_sent.saturating_add(report.tokens_sent);
            total.peak = total.peak.max(report.peak);
            total.peak_share = total.peak_share.max(report.peak_share);
            total.billed += report.billed;
            total.summaries += report.summaries;
            total.recalls += report.recalls;
            total.cost = (total.cost + report.cost).min(f64::MAX);
            total.parts.add(&report.parts);
            total.references.add(&report.references);
            if let Some(other) = &report.against_none {
                total.against_none.get_or_insert_default().add(other);
            }
            for (kind, count) in &report.fired {
                *total.fired.entry(kind.clone()).or_default() += count;
            }
        }
        total
    }

    /// Returns the mean cost of a call that was sent, in dollars.
    pub fn cost_per_call(&self) -> f64 {
        self.cost / (self.calls - self.deaths - self.left_out).max(1) as f64
    }
}
