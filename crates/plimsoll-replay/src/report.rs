//! What came out of a replay.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::price::Billed;
use crate::sight::Reduction;

/// What some rules would have done to a session, or to several.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The rules.
    pub policy: String,
    /// Recorded calls of the model.
    pub calls: u64,
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
    /// The same for calls of the summariser alone; it is part of `billed`.
    pub summaries: Billed,
    /// What that costs, in dollars.
    pub cost: f64,
    /// What was still there when it was needed.
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

/// What was still there when it was needed.
///
/// Shares are means over the calls that refer to anything said before, so that one call that writes a long file
/// does not count for more than a hundred others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Recall {
    /// Calls that refer to something said before.
    pub calls: u64,
    /// References in them.
    pub references: u64,
    /// Of these, in the window.
    pub visible: u64,
    /// Of these, out of sight but with a handle.
    pub handles: u64,
    /// The mean share in the window, from 0 to 1.
    pub visible_share: f64,
    /// The mean share out of sight but with a handle.
    pub handle_share: f64,
}

impl Recall {
    /// Take another call, or several, into account.
    pub(crate) fn add(&mut self, other: &Recall) {
        let calls = (self.calls + other.calls) as f64;
        if other.calls == 0 {
            return;
        }
        let mean = |a: f64, b: f64| (a * self.calls as f64 + b * other.calls as f64) / calls;
        *self = Recall {
            calls: self.calls + other.calls,
            references: self.references + other.references,
            visible: self.visible + other.visible,
            handles: self.handles + other.handles,
            visible_share: mean(self.visible_share, other.visible_share),
            handle_share: mean(self.handle_share, other.handle_share),
        };
    }

    /// The mean share that is in the window or has a handle.
    pub fn reachable_share(&self) -> f64 {
        self.visible_share + self.handle_share
    }
}

impl Report {
    /// Several sessions under the same rules, taken together.
    pub fn total<'a>(policy: &str, reports: impl IntoIterator<Item = &'a Report>) -> Report {
        let mut total = Report { policy: policy.to_owned(), ..Report::default() };
        for report in reports {
            total.calls += report.calls;
            total.deaths += report.deaths;
            total.tokens_sent = total.tokens_sent.saturating_add(report.tokens_sent);
            total.peak = total.peak.max(report.peak);
            total.peak_share = total.peak_share.max(report.peak_share);
            total.billed += report.billed;
            total.summaries += report.summaries;
            total.cost = (total.cost + report.cost).min(f64::MAX);
            total.recall.add(&report.recall);
            for (kind, count) in &report.fired {
                *total.fired.entry(kind.clone()).or_default() += count;
            }
        }
        total
    }

    /// What a call that was made cost on average, in dollars.
    pub fn cost_per_call(&self) -> f64 {
        self.cost / (self.calls - self.deaths).max(1) as f64
    }
}
