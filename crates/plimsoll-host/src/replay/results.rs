//! Results of a replay.

use plimsoll::Tokens;
use plimsoll_replay::{AgainstRecorded, Price, Report, Rules};
use serde::Serialize;

use crate::recorded::WindowSource;

/// Results of replayed sessions.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Replays {
    /// The window of all sessions; `None` if each was replayed in its own.
    pub context: Option<u64>,
    /// The sessions.
    pub sessions: Vec<SessionReplay>,
    /// Totals of all sessions, by policy.
    pub total: Vec<Report>,
    /// Comparison of replays without a policy with the recorded bills.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bills: Option<Bills>,
    /// Sources of the rules of each policy.
    pub rules: Vec<RuleSource>,
}

/// Comparison of replays without a policy with the bills that sessions record.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Bills {
    /// Number of sessions that were compared.
    pub sessions: usize,
    /// Number of sessions whose bills differ by more than 5 %.
    pub differing: usize,
    /// Sums of all sessions.
    #[serde(flatten)]
    pub sum: AgainstRecorded,
}

impl Bills {
    /// Maximum relative difference of two bills that count as equal.
    pub const FAR: f64 = 0.05;

    pub(super) fn of(sessions: &[SessionReplay]) -> Option<Bills> {
        let mut bills = Bills::default();
        for bill in sessions.iter().filter_map(|session| session.against_recorded) {
            bills.sessions += 1;
            bills.differing += usize::from((bill.share() - 1.0).abs() > Bills::FAR);
            bills.sum += bill;
        }
        (bills.sessions > 0).then_some(bills)
    }
}

/// A session replayed under every policy.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SessionReplay {
    /// Its file, or its database and id.
    pub name: String,
    /// Format.
    pub format: String,
    /// Title.
    pub title: Option<String>,
    /// Model.
    pub model: Option<String>,
    /// The window it was replayed in.
    pub context: u64,
    /// Source of the size of the window.
    pub context_source: WindowSource,
    /// Name of the price row.
    pub price: String,
    /// Prices of that row.
    pub prices: Price,
    /// The models with their price rows, if several models answered.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<PricedModel>,
    /// Lifetime of its cache, in minutes.
    pub cache_minutes: u64,
    /// Whether tokens are scaled to its recorded usage.
    pub measured: bool,
    /// Tokens of every request that the session does not record.
    pub hidden: Tokens,
    /// Cost of the recorded usage, in dollars.
    pub recorded_cost: Option<f64>,
    /// Comparison of the replay without a policy with the recorded bill, over the calls that can be compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against_recorded: Option<AgainstRecorded>,
    /// Median ratio of the size of a rebuilt request, before scaling, to its recorded size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebuilt_share: Option<f64>,
    /// Recorded tokens of the request of each call; empty if none are recorded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recorded_requests: Vec<Option<u64>>,
    /// Possible reasons why the recorded bill differs from the cost without a policy.
    #[serde(skip)]
    pub bill_gap_causes: &'static str,
    /// Result of each policy.
    pub policies: Vec<Report>,
}

/// A model of a session, and the price row of its calls.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PricedModel {
    /// The model.
    pub model: String,
    /// Name of the price row.
    pub price: String,
    /// Number of its calls.
    pub calls: usize,
}

/// A policy and the source of its rules.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RuleSource {
    /// The policy.
    pub policy: String,
    /// The source.
    pub source: &'static str,
}

impl From<&Rules> for RuleSource {
    fn from(rules: &Rules) -> RuleSource {
        RuleSource { policy: rules.to_string(), source: rules.source() }
    }
}
