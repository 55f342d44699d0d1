//! Compares policies with no policy, and sessions with each other.

use serde::Serialize;

use super::{Report, Share};

/// Relative difference below which costs count as equal: they are sums of the same prices in another order.
const SAME: f64 = 1e-9;

/// Comparison of a policy's cost with that of no policy, over sessions that fit without one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AgainstNone {
    /// Sessions compared: those in which every call fits without a policy.
    pub sessions: u64,
    /// Sessions that cost more than without a policy.
    pub dearer_at_end: u64,
    /// Largest excess at the end, in dollars.
    pub end_excess: f64,
    /// Largest excess at the end, relative to the cost without a policy.
    pub end_excess_share: f64,
    /// Sessions that had cost more than without a policy after any of their calls.
    pub dearer_at_any_moment: u64,
    /// Largest excess after any call, in dollars.
    pub worst_excess: f64,
    /// Largest excess after any call, relative to the cost without a policy up to that call.
    pub worst_excess_share: f64,
    /// Sessions that had after any call cost more than without a policy plus one recall.
    pub dearer_by_more_than_a_recall: u64,
}

impl AgainstNone {
    /// Compares two replays of the same session; `None` if it does not fit without a policy.
    pub fn of(report: &Report, none: &Report) -> Option<AgainstNone> {
        if none.deaths > 0 || report.windows.len() != none.windows.len() || none.windows.is_empty() {
            return None;
        }
        let mut against = AgainstNone { sessions: 1, ..AgainstNone::default() };
        let (mut is_dearer, mut is_beyond) = (false, false);
        for (ours, theirs) in report.windows.iter().zip(&none.windows) {
            let excess = excess(ours.spent, theirs.spent);
            is_dearer |= excess > 0.0;
            is_beyond |= excess > ours.recall_cost;
            against.worst_excess = against.worst_excess.max(excess);
            against.worst_excess_share = against.worst_excess_share.max(share(excess, theirs.spent));
        }
        against.end_excess = excess(report.cost, none.cost);
        against.end_excess_share = share(against.end_excess, none.cost);
        against.dearer_at_end = u64::from(against.end_excess > 0.0);
        against.dearer_at_any_moment = u64::from(is_dearer);
        against.dearer_by_more_than_a_recall = u64::from(is_beyond);
        Some(against)
    }

    pub(crate) fn add(&mut self, other: &AgainstNone) {
        *self = AgainstNone {
            sessions: self.sessions + other.sessions,
            dearer_at_end: self.dearer_at_end + other.dearer_at_end,
            end_excess: self.end_excess.max(other.end_excess),
            end_excess_share: self.end_excess_share.max(other.end_excess_share),
            dearer_at_any_moment: self.dearer_at_any_moment + other.dearer_at_any_moment,
            worst_excess: self.worst_excess.max(other.worst_excess),
            worst_excess_share: self.worst_excess_share.max(other.worst_excess_share),
            dearer_by_more_than_a_recall: self.dearer_by_more_than_a_recall
                + other.dearer_by_more_than_a_recall,
        };
    }
}

/// Returns by how much one cost exceeds another.
fn excess(ours: f64, theirs: f64) -> f64 {
    let excess = ours - theirs;
    if excess > theirs.abs() * SAME { excess } else { 0.0 }
}

/// Returns a ratio. 0 of 0 is 0, and anything else of 0 is 1.
fn share(part: f64, whole: f64) -> f64 {
    if part <= 0.0 {
        return 0.0;
    }
    if whole > 0.0 { (part / whole).min(f64::MAX) } else { 1.0 }
}

/// Compares the replays of a session with the one without a policy, if there is one.
pub fn compare_with_none(reports: &mut [Report]) {
    let Some(none) = reports.iter().find(|report| report.policy == "none").cloned() else { return };
    for report in reports {
        report.against_none = AgainstNone::of(report, &none);
    }
}

/// Comparison of a replay without a policy with the recorded cost, over the comparable calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AgainstRecorded {
    /// Calls compared: those with a recorded cost, before the recorded agent reduced anything.
    pub calls: u64,
    /// Recorded cost of these calls, in dollars.
    pub recorded: f64,
    /// Cost of these calls in the replay, in dollars.
    pub replayed: f64,
}

impl AgainstRecorded {
    /// Compares a replay without a policy with the recorded cost of each call. The first `unreduced_calls` were sent as
    /// the recording has them. `None` if nothing can be compared.
    pub fn of(none: &Report, recorded: &[Option<f64>], unreduced_calls: usize) -> Option<AgainstRecorded> {
        let mut compared = AgainstRecorded::default();
        let mut before = 0.0;
        for (sent, recorded) in none.windows.iter().zip(recorded).take(unreduced_calls) {
            if let Some(recorded) = recorded.filter(|_| sent.fits) {
                compared.calls += 1;
                compared.recorded += recorded;
                compared.replayed += sent.spent - before;
            }
            before = sent.spent;
        }
        (compared.recorded > 0.0).then_some(compared)
    }

    /// Returns the replayed cost relative to the recorded one.
    pub fn share(&self) -> f64 {
        self.replayed / self.recorded
    }
}

impl std::ops::AddAssign for AgainstRecorded {
    fn add_assign(&mut self, other: AgainstRecorded) {
        self.calls += other.calls;
        self.recorded += other.recorded;
        self.replayed += other.replayed;
    }
}

/// Medians of the shares of several sessions with anything to count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Medians {
    /// In the window, of references that only tool outputs had mentioned.
    pub only_in_outputs: Option<f64>,
    /// Like `only_in_outputs`, but shown with their surroundings.
    pub strict: Option<f64>,
    /// In the window, of all references that a tool output had mentioned.
    pub all: Option<f64>,
}

impl Medians {
    pub(crate) fn of(reports: &[&Report]) -> Medians {
        let of = |share: fn(&Report) -> &Share, value: fn(&Share) -> f64| {
            let shares = reports.iter().map(|report| share(report)).filter(|share| share.calls > 0);
            median(shares.map(value).collect())
        };
        Medians {
            only_in_outputs: of(|report| &report.references.only_in_outputs, |share| share.in_window_share),
            strict: of(|report| &report.references.only_in_outputs, |share| share.strict_share),
            all: of(|report| &report.references.all, |share| share.in_window_share),
        }
    }
}

/// Returns the middle value, or the mean of the two middle ones.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.len().checked_sub(1)? / 2, values.len() / 2);
    Some((values.get(low)? + values.get(high)?) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::{AgainstNone, median};
    use crate::report::{Report, Sent};

    fn spending(policy: &str, spent: &[f64]) -> Report {
        let sent = |spent: &f64| Sent { tokens: 9, fits: true, spent: *spent, recall_cost: 0.05 };
        let cost = spent.last().copied().unwrap_or_default();
        Report {
            policy: policy.to_owned(),
            cost,
            windows: spent.iter().map(sent).collect(),
            ..Report::default()
        }
    }

    #[test]
    fn a_policy_that_pays_first_is_dearer_at_some_call_but_not_at_the_end() {
        let none = spending("none", &[0.1, 0.2, 0.4, 0.8]);
        let Some(found) = AgainstNone::of(&spending("ours", &[0.1, 0.3, 0.35, 0.5]), &none) else {
            unreachable!()
        };
        assert_eq!((found.sessions, found.dearer_at_end, found.dearer_at_any_moment), (1, 0, 1));
        assert!((found.worst_excess - 0.1).abs() < 1e-12 && (found.worst_excess_share - 0.5).abs() < 1e-12);
        assert_eq!((found.end_excess, found.dearer_by_more_than_a_recall), (0.0, 1));
        let within = AgainstNone::of(&spending("ours", &[0.1, 0.24, 0.3, 0.9]), &none).unwrap_or_default();
        assert_eq!((within.dearer_at_end, within.dearer_by_more_than_a_recall), (1, 1));
        let recall = AgainstNone::of(&spending("ours", &[0.1, 0.24, 0.3, 0.7]), &none).unwrap_or_default();
        assert_eq!((recall.dearer_at_any_moment, recall.dearer_by_more_than_a_recall), (1, 0));
    }

    #[test]
    fn sessions_that_do_not_fit_without_a_policy_are_not_compared() {
        let none = Report { deaths: 1, ..spending("none", &[0.1, 0.1]) };
        assert_eq!(AgainstNone::of(&spending("ours", &[0.1, 0.3]), &none), None);
    }

    #[test]
    fn the_median_of_an_even_number_is_between_two() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 8.0]), Some(3.0));
    }
}
