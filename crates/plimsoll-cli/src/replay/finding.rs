//! The result of a replay in a sentence.

use plimsoll_host::{SessionReplay, WindowSource};
use plimsoll_replay::Report;

use super::figures;
use crate::output::counted;

/// Maximum fill of a window that never came near its line, so that the session does not separate policies.
const NEAR: f64 = 0.6;
/// Minimum relative difference between recorded and replayed cost that is reported.
const FAR: f64 = 0.1;
/// Relative difference below which two costs or shares count as equal.
const SAME: f64 = 0.0005;

/// Describes the result for one session, with what was left out or could not be seen.
pub(super) fn of_session(session: &SessionReplay) -> String {
    let mut text = headline(&session.policies);
    let none = session.policies.iter().find(|report| report.policy == "none");
    // Rebuilt requests can be smaller than those that were sent.
    let recorded = session.recorded_requests.iter().flatten().max().copied().unwrap_or_default();
    let fullest = |none: &Report| none.peak.max(recorded);
    let is_seen = |none: &&Report| {
        let share = fullest(none) as f64 / session.context.max(1) as f64;
        none.deaths == 0 && none.left_out < none.calls && share < NEAR
    };
    if let Some(none) = none.filter(is_seen) {
        let smaller = [128_000, 64_000, 32_000, 16_000].into_iter().find(|size| *size < none.peak);
        let advice = smaller.map(|size| format!("; try `--context {size}`")).unwrap_or_default();
        let the = match session.context_source {
            WindowSource::LargestRequest => "The guessed window never came near its",
            _ => "The window never came near the",
        };
        text += &format!(
            " {the} line: at most {} of {}{advice}.",
            figures::count(fullest(none)),
            figures::count(session.context)
        );
    }
    text + &bill_gap(session).unwrap_or_default()
}

/// Reports a recorded bill that is far from the replayed cost of the same calls.
fn bill_gap(session: &SessionReplay) -> Option<String> {
    let bill = session.against_recorded.filter(|bill| (bill.share() - 1.0).abs() > FAR)?;
    Some(format!(
        " {} were recorded at {} and cost {} here without a policy: {}.",
        counted(bill.calls as usize, "call"),
        figures::dollars(bill.recorded),
        figures::dollars(bill.replayed),
        session.bill_gap_causes
    ))
}

/// Describes the result: the cost of `plimsoll` against that of no policy, and its share in the window; without it, the
/// cheapest policy. It does not mention recall: no recording shows whether a model would have used it.
pub(super) fn headline(reports: &[Report]) -> String {
    if reports.iter().all(|report| report.left_out == report.calls) {
        return "No policy could be tried: the recorded answer of every call, with its system prompt and tools, fills the window."
            .to_owned();
    }
    let none = reports.iter().find(|report| report.policy == "none");
    let ours = reports.iter().find(|report| report.policy == "plimsoll");
    let mut text = match (none, ours) {
        (Some(none), Some(ours)) if none.deaths == 0 && ours.fired.is_empty() => {
            "`plimsoll` would have changed nothing.".to_owned()
        }
        (Some(none), Some(ours)) if none.deaths == 0 => {
            format!("`plimsoll` would have cost {}, with {}.", against(ours, none), in_window(ours))
        }
        (Some(none), Some(ours)) => format!(
            "Without a policy {} of {} calls would not have fitted; `plimsoll` would have made {} for {}, with {}.",
            figures::count(none.deaths),
            figures::count(none.calls),
            if ours.deaths == 0 {
                "all of them".to_owned()
            } else {
                figures::count(ours.calls - ours.deaths)
            },
            figures::dollars(ours.cost),
            in_window(ours)
        ),
        _ => cheapest(reports),
    };
    text += &ours.map(|ours| rivals(ours, reports)).unwrap_or_default();
    if is_free(reports) {
        text += " Every price here is zero, so no policy saves money.";
    }
    let left_out = reports.iter().map(|report| report.left_out).max().unwrap_or_default();
    if left_out > 0 {
        text += &format!(
            " Left out: {} whose recorded answer, with system prompt and tools, fills the window.",
            if left_out == 1 { "1 call".to_owned() } else { format!("{} calls", figures::count(left_out)) }
        );
    }
    text
}

/// The cheapest other policy that made every call with as much in the window if it cost less, or else the cheapest with
/// less. A result that names only our own policy would be an advertisement.
fn rivals(ours: &Report, reports: &[Report]) -> String {
    let cheaper = |report: &&Report| {
        report.policy != ours.policy
            && report.policy != "none"
            && report.deaths <= ours.deaths
            && report.cost < ours.cost * (1.0 - SAME)
    };
    let has_as_much = |report: &&Report| share(report) >= share(ours) - SAME;
    let cheapest = |reports: &mut dyn Iterator<Item = &'_ Report>| -> Option<String> {
        let best = reports.min_by(|a, b| a.cost.total_cmp(&b.cost))?;
        Some(format!(
            "`{}`, at {} with {}",
            best.policy,
            figures::dollars(best.cost),
            figures::percent(share(best))
        ))
    };
    if let Some(best) = cheapest(&mut reports.iter().filter(cheaper).filter(has_as_much)) {
        return format!(" Cheaper, with as much in the window: {best}.");
    }
    match cheapest(&mut reports.iter().filter(cheaper)) {
        Some(best) => format!(" The cheapest with less in the window: {best}."),
        None => String::new(),
    }
}

/// Whether every request was free although some were sent.
fn is_free(reports: &[Report]) -> bool {
    reports.iter().all(|report| report.cost == 0.0)
        && reports.iter().any(|report| report.deaths + report.left_out < report.calls)
}

fn cheapest(reports: &[Report]) -> String {
    let fitting = reports.iter().filter(|report| report.deaths == 0);
    match fitting.min_by(|a, b| a.cost.total_cmp(&b.cost)) {
        Some(best) => format!(
            "`{}` is the cheapest policy under which every call fits, at {}, with {}.",
            best.policy,
            figures::dollars(best.cost),
            in_window(best)
        ),
        None => "No policy makes every call fit.".to_owned(),
    }
}

/// Compares two costs.
fn against(ours: &Report, none: &Report) -> String {
    let change = if none.cost > 0.0 { ours.cost / none.cost - 1.0 } else { 0.0 };
    match change {
        _ if ours.cost == 0.0 && none.cost == 0.0 => "nothing".to_owned(),
        _ if change.abs() < SAME => "the same as no policy".to_owned(),
        _ if change < 0.0 => format!("{} less than no policy", figures::percent(-change)),
        _ => format!("{} more than no policy", figures::percent(change)),
    }
}

/// Share in the window of names that only tool outputs had mentioned; 1 if none was needed.
pub(super) fn share(report: &Report) -> f64 {
    let only = figures::only(report);
    if only.calls == 0 { 1.0 } else { only.in_window_share }
}

fn in_window(report: &Report) -> String {
    match figures::only(report).calls {
        0 => "nothing needed that only a tool output had mentioned".to_owned(),
        _ if share(report) > 1.0 - SAME => {
            "everything in the window that calls needed from tool outputs".to_owned()
        }
        _ => format!(
            "{} in the window of what calls needed from tool outputs",
            figures::percent(share(report))
        ),
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_replay::Report;

    use super::headline;

    fn report(policy: &str, cost: f64, deaths: u64, share: f64) -> Report {
        let mut report = Report::default();
        (report.policy, report.calls, report.cost, report.deaths) = (policy.to_owned(), 10, cost, deaths);
        let in_outputs = &mut report.references.only_in_outputs;
        (in_outputs.calls, in_outputs.in_window_share) = (9, share);
        report.fired = [("prune".to_owned(), 1)].into();
        report
    }

    #[test]
    fn without_a_matching_call_there_is_no_result() {
        let tiny = ["none", "plimsoll"].map(|policy| {
            let mut tiny = report(policy, 0.0, 0, 1.0);
            (tiny.left_out, tiny.fired) = (10, [].into());
            tiny
        });
        let found = headline(&tiny);
        assert!(found.starts_with("No policy could be tried"), "{found}");
    }

    #[test]
    fn the_result_is_a_sentence() {
        let text = |reports: &[Report]| headline(reports);
        assert_eq!(
            text(&[report("none", 1.0, 0, 1.0), report("plimsoll", 0.82, 0, 1.0)]),
            "`plimsoll` would have cost 18.0 % less than no policy, with everything in the window that calls needed from \
             tool outputs."
        );
        let others = [
            report("none", 1.0, 0, 1.0),
            report("plimsoll", 0.82, 0, 0.99),
            report("mask-3", 0.4, 0, 0.5),
            report("codex", 0.7, 0, 0.7),
        ];
        assert!(
            text(&others)
                .ends_with(" The cheapest with less in the window: `mask-3`, at $0.400 with 50.0 %."),
            "{}",
            text(&others)
        );
        let others = [others.as_slice(), &[report("openfork", 0.8, 0, 0.99)]].concat();
        assert!(
            text(&others)
                .ends_with(" Cheaper, with as much in the window: `openfork`, at $0.800 with 99.0 %."),
            "{}",
            text(&others)
        );
        assert_eq!(
            text(&[report("none", 0.2, 7, 0.3), report("plimsoll", 0.82, 0, 0.97)]),
            "Without a policy 7 of 10 calls would not have fitted; `plimsoll` would have made all of them for $0.820, with \
             97.0 % in the window of what calls needed from tool outputs."
        );
        assert_eq!(
            text(&[report("mask-3", 0.2, 7, 0.3), report("codex", 0.5, 0, 0.9)]),
            "`codex` is the cheapest policy under which every call fits, at $0.500, with 90.0 % in the window of what calls \
             needed from tool outputs."
        );
    }

    #[test]
    fn the_headline_ignores_what_a_recall_could_bring_back() {
        let none = report("none", 1.0, 0, 1.0);
        let plain = report("plimsoll", 0.82, 0, 0.761);
        let mut recalls = plain.clone();
        recalls.references.only_in_outputs.recalled_share = 0.235;
        assert_eq!(headline(&[none.clone(), plain]), headline(&[none, recalls]));
    }
}
