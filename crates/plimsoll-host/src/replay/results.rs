//! Results of a replay.

use plimsoll::Tokens;
use plimsoll_replay::{AgainstRecorded, Price, Report, Rules};
use serde::Serialize;

use crate::recorded::WindowSource;

/// Sessions that were replayed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Replays {
    /// The window of all sessions; `None` if each was tried in its own.
    pub context: Option<u64>,
    /// Each session.
    pub sessions: Vec<SessionReplay>,
    /// All of them together, policy by policy.
    pub total: Vec<Report>,
    /// Comparison of replays without a policy with the recorded bills.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bills: Option<Bills>,
    /// Where the rules of each policy come from.
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
    /// The sum of all.
    #[serde(flatten)]
    pub sum: AgainstRecorded,
}

impl Bills {
    /// Largest share by which two bills count as equal.
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

/// A session under every policy.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SessionReplay {
    /// Where it came from.
    pub name: String,
    /// Format.
    pub format: String,
    /// Title.
    pub title: Option<String>,
    /// Model.
    pub model: Option<String>,
    /// The window it was tried in.
    pub context: u64,
    /// How the size of the window is known.
    pub context_source: WindowSource,
    /// The row of the prices.
    pub price: String,
    /// The prices of that row.
    pub prices: Price,
    /// The models that answered, if there are several, each with the row that its calls are priced with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<PricedModel>,
    /// How long its cache lived, in minutes.
    pub cache_minutes: u64,
    /// Whether tokens are as its recorded usage counts them.
    pub measured: bool,
    /// Tokens of every request that the session does not record.
    pub hidden: Tokens,
    /// Cost of the recorded usage, in dollars.
    pub recorded_cost: Option<f64>,
    /// Comparison of the replay without a policy with the recorded bill, over the calls that can be compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against_recorded: Option<AgainstRecorded>,
    /// The median share of its recorded tokens that a request is rebuilt with, before it is scaled to them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebuilt_share: Option<f64>,
    /// Recorded tokens of the request of each call; empty if none are recorded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recorded_requests: Vec<Option<u64>>,
    /// Why the recorded bill may differ from that of no policy.
    #[serde(skip)]
    pub bill_gap_causes: &'static str,
    /// Result of each policy.
    pub policies: Vec<Report>,
}

/// A model of a session, and the row of the prices that its calls are priced with.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PricedModel {
    /// The model.
    pub model: String,
    /// The row.
    pub price: String,
    /// Number of its calls.
    pub calls: usize,
}

/// A policy, and where its rules come from.
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
