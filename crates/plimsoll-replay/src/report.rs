//! What came out of a replay.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::price::{Billed, Price};
use crate::sight::Reduction;

/// What some rules would have done to a session, or to several.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The rules.
    pub policy: String,
    /// Recorded calls of the model.
    pub calls: u64,
    /// Calls that no rules can fit, because the recorded answer alone is as long as the window. They are left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// Calls that would not have fitted. They cost nothing, and nothing is recalled in them.
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
    /// What was there when it was needed.
    pub recall: Recall,
    /// How often each kind of reduction fired.
    pub fired: BTreeMap<String, u64>,
    /// Each reduction; not in a total.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reductions: Vec<Fired>,
    /// The size of each request, in order; not in a total.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<Sent>,
}

pub(crate) fn is_zero(number: &u64) -> bool {
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sent {
    /// Its tokens.
    pub tokens: u64,
    /// Whether it would have fitted.
    pub fits: bool,
}

/// What was there when it was needed.
///
/// A call needs what its tool inputs refer to and a tool had mentioned before. What a window without any result of a
/// tool would show as well, because a prompt, an answer or an input repeats it, is not counted, unless these rules have
/// lost it all the same. So rules that never show a result have 0 %, rules that show everything 100 %, and each
/// reference that is lost makes it less.
///
/// Shares are means over the calls with anything to count, so that one call that writes a long file does not count for
/// more than a hundred others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Recall {
    /// Calls with anything to count.
    pub calls: u64,
    /// References in them that count.
    pub references: u64,
    /// Of these, in the window.
    pub visible: u64,
    /// Of these, out of sight, and brought back by a call of the recall tool that was paid for.
    pub recalled: u64,
    /// The mean share in the window, from 0 to 1.
    pub visible_share: f64,
    /// The mean share that was brought back.
    pub recalled_share: f64,
    /// Requests made to bring something back.
    pub requests: u64,
}

impl Recall {
    /// Take another call, or several, into account.
    pub(crate) fn add(&mut self, other: &Recall) {
        self.requests += other.requests;
        let calls = (self.calls + other.calls) as f64;
        if other.calls == 0 {
            return;
        }
        let mean = |a: f64, b: f64| (a * self.calls as f64 + b * other.calls as f64) / calls;
        *self = Recall {
            calls: self.calls + other.calls,
            references: self.references + other.references,
            visible: self.visible + other.visible,
            recalled: self.recalled + other.recalled,
            visible_share: mean(self.visible_share, other.visible_share),
            recalled_share: mean(self.recalled_share, other.recalled_share),
            requests: self.requests,
        };
    }

    /// The mean share that was there when it was needed, in the window or brought back.
    pub fn share(&self) -> f64 {
        self.visible_share + self.recalled_share
    }
}

impl Report {
    /// Several sessions under the same rules, taken together.
    pub fn total<'a>(policy: &str, reports: impl IntoIterator<Item = &'a Report>) -> Report {
        let mut total = Report { policy: policy.to_owned(), ..Report::default() };
        for report in reports {
            total.calls += report.calls;
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
            total.recall.add(&report.recall);
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
