//! What came out of a replay.

mod compare;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::price::{Billed, Price};
pub use compare::{AgainstNone, AgainstRecorded, Medians, compare_with_none};

/// What some rules would have done to a session, or to several.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The rules.
    pub policy: String,
    /// Recorded calls of the model.
    pub calls: u64,
    /// Calls left out, because the recorded answer fills the window together with the system prompt and the tools, so that no
    /// rules can fit them.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// Calls that would not have fitted. They cost nothing, and nothing they need is in their window.
    pub deaths: u64,
    /// Tokens of all requests that were sent, compactions' own not among them.
    pub tokens_sent: u64,
    /// Tokens of the largest request.
    pub peak: u64,
    /// The same as a share of the context window.
    pub peak_share: f64,
    /// What the provider would have counted.
    pub billed: Billed,
    /// The part of `billed` that calls of the summariser have.
    pub summaries: Billed,
    /// The part of `billed` that requests have which bring back what had left the window.
    pub recalls: Billed,
    /// What all of that costs, in dollars.
    pub cost: f64,
    /// What the cost is made of.
    pub parts: CostParts,
    /// References that calls needed, and how many of them were in the window.
    pub references: References,
    /// The medians of the sessions' shares; only in a total.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub medians: Option<Medians>,
    /// How the cost compares with that of no policy, if that was replayed as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against_none: Option<AgainstNone>,
    /// How often each kind of reduction fired.
    pub fired: BTreeMap<String, u64>,
    /// Each reduction; not in a total.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reductions: Vec<Fired>,
    /// The size of each request, in order; not in a total.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<Sent>,
    /// Messages of windows that the engine built, a measure of the replay's own work. Other rules build none.
    #[serde(skip)]
    pub visited: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What a cost is made of, in dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CostParts {
    /// Input that was read from the cache.
    pub cached: f64,
    /// Input that was written to it.
    pub written: f64,
    /// The recorded answers.
    pub output: f64,
    /// Calls of the summariser: what it is sent, and what it answers.
    pub summaries: f64,
    /// Calls of the recall tool: the model's request for it, the window once more, and what comes back.
    pub recalls: f64,
}

impl CostParts {
    /// All of it.
    pub fn total(&self) -> f64 {
        let CostParts { cached, written, output, summaries, recalls } = *self;
        // Infinity cannot be written down, and says no more than the largest number there is.
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

/// A reduction that fired.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reduction {
    /// What kind: truncate, prune, compact, shed, clear, mask.
    pub kind: String,
    /// Tokens of the request before, as the provider counts them; of a truncated output its own, as the rules count them.
    pub before: u64,
    /// The same after.
    pub after: u64,
    /// Tokens sent to the summariser, if one was asked.
    #[serde(skip_serializing_if = "is_zero")]
    pub asked: u64,
    /// Of these, tokens that were read from the cache.
    #[serde(skip_serializing_if = "is_zero")]
    pub asked_cached: u64,
    /// Tokens it answered.
    #[serde(skip_serializing_if = "is_zero")]
    pub answered: u64,
}

/// A reduction, and before which call it fired.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fired {
    /// The call, from 1.
    pub call: u64,
    /// What was done.
    #[serde(flatten)]
    pub reduction: Reduction,
}

/// A request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sent {
    /// Its tokens.
    pub tokens: u64,
    /// Whether it would have fitted.
    pub fits: bool,
    /// Cost of the session up to the end of the call, in dollars.
    pub spent: f64,
    /// Cost of one recall at this point: the window once more, the model's call and the text that comes back.
    #[serde(skip)]
    pub recall_cost: f64,
}

/// References that calls needed, and how many of them were in the window.
///
/// A call needs what its tool inputs refer to and a tool output had mentioned before. What counts does not depend on the
/// policy, so that shares of different policies have the same denominator. A call that did not fit had nothing in its window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct References {
    /// References that only tool outputs had mentioned: no prompt, no answer and no input repeats them. A policy that shows
    /// no output has 0 % of them.
    pub only_in_outputs: Share,
    /// All references that a tool output had mentioned, wherever else they stand.
    pub all: Share,
    /// Requests made to bring something back.
    pub recall_requests: u64,
}

/// How much of what calls needed was there.
///
/// Shares are means over the calls with anything to count, so that one call that writes a long file does not count for
/// more than a hundred others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Share {
    /// Calls with anything to count.
    pub calls: u64,
    /// References in them that count.
    pub references: u64,
    /// Of these, in the window without any recall.
    pub in_window: u64,
    /// Of those in the window, references that are shown with their surroundings or in text that no reduction wrote. A name
    /// that only a list, an index or a summary repeats is not among them.
    pub strict: u64,
    /// Out of the window, or there only because of an earlier recall: a recall brings them back, if the model asks for it.
    pub recalled: u64,
    /// The mean share in the window, from 0 to 1.
    pub in_window_share: f64,
    /// The mean share in the window with its surroundings.
    pub strict_share: f64,
    /// The mean share that recalls bring back.
    pub recalled_share: f64,
}

impl References {
    /// Takes another call, or several, into account.
    pub(crate) fn add(&mut self, other: &References) {
        self.only_in_outputs.add(&other.only_in_outputs);
        self.all.add(&other.all);
        self.recall_requests += other.recall_requests;
    }
}

impl Share {
    /// The share of one call.
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

    /// The mean share that was in the window or could be brought back.
    pub fn with_recall(&self) -> f64 {
        self.in_window_share + self.recalled_share
    }
}

impl Report {
    /// Several sessions under the same rules, taken together.
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

    /// What a call that was made cost on average, in dollars.
    pub fn cost_per_call(&self) -> f64 {
        self.cost / (self.calls - self.deaths - self.left_out).max(1) as f64
    }
}
