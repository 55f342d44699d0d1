//! A replay on a terminal: figures, the result as a sentence, and reductions.

use std::collections::BTreeMap;

use plimsoll_host::{Bills, FREE_PRICE, HostError, PricedModel, Replays, SessionReplay, dollars, list_price};
use plimsoll_replay::Report;

use super::figures::{self, Figure};
use super::{finding, listing, window_words};
use crate::output::{Column, Holds, Output, Table, counted, printable};
use crate::wrap::wrapped;

/// Prints the sessions and, for several, their total.
pub(super) fn show(replays: &Replays, per_session: bool, output: &mut Output) -> Result<(), HostError> {
    for session in replays.sessions.iter().filter(|_| per_session || replays.sessions.len() == 1) {
        let calls = counted(calls(&session.policies) as usize, "call");
        let model = session.model.as_deref().unwrap_or("unknown model");
        let heading = format!("{}: {calls}, {model}, {}", session.name, window_words(session));
        for line in std::iter::once(heading).chain(parameters(session)) {
            output.painted(&wrapped(&printable(&line), output.width()))?;
        }
        tables(&session.policies, figures::OUTCOME, output)?;
        finding(&finding::of_session(session), output)?;
        reductions(&session.policies, output)?;
    }
    if replays.sessions.len() > 1 {
        let sessions = counted(replays.sessions.len(), "session");
        let calls = counted(calls(&replays.total) as usize, "call");
        let context =
            replays.context.map(|context| format!("in a window of {} tokens", figures::count(context)));
        let context = context.unwrap_or_else(|| "each in its own window".to_owned());
        output.painted(&wrapped(&format!("{sessions}, {calls}, {context}"), output.width()))?;
        for line in prices_of_all(&replays.sessions) {
            output.painted(&wrapped(&printable(&line), output.width()))?;
        }
        if let Some(recorded) = &replays.bills {
            output.painted(&wrapped(&bills(recorded), output.width()))?;
        }
        tables(&replays.total, figures::OUTCOME_OF_SEVERAL, output)?;
        if let Some(compared) = compared(&replays.total) {
            output.painted(&format!("\n{compared}\n"))?;
            output.table(&table(&replays.total, figures::AGAINST))?;
        }
        finding(&finding::headline(&replays.total), output)?;
        reductions(&replays.total, output)?;
    }
    Ok(())
}

/// Describes a session's prices, and how its tokens were counted.
pub(super) fn parameters(session: &SessionReplay) -> Vec<String> {
    let SessionReplay { measured, hidden, recorded_cost, .. } = session;
    let counted = if *measured {
        // A recorded cost that can be compared is shown with the comparison.
        let cost = recorded_cost.filter(|_| session.against_recorded.is_none());
        let cost = cost.map(|cost| format!("; recorded: {}", dollars(cost, 2))).unwrap_or_default();
        format!("tokens by recorded usage, {hidden} hidden in every request{cost}")
    } else {
        "tokens estimated at 4 characters per token".to_owned()
    };
    let lines = [Some(format!("priced {}", priced(session))), Some(counted), bill(session), rebuilt(session)];
    lines.into_iter().flatten().collect()
}

/// Describes the model whose prices apply, and the prices.
fn priced(SessionReplay { price, prices, cache_minutes, models, .. }: &SessionReplay) -> String {
    if !models.is_empty() {
        let each = models.iter().map(|model| {
            let PricedModel { price, calls, .. } = model;
            format!("{} as {price}", counted(*calls, "call"))
        });
        return format!("by the model of each call: {}", each.collect::<Vec<_>>().join(", "));
    }
    if price == FREE_PRICE {
        return "at zero: every response was recorded with a cost of $0".to_owned();
    }
    let of = listing::provider(price).map(|name| format!(" ({name})")).unwrap_or_default();
    let [cache_read, cache_write, output] =
        [prices.cache_read, prices.cache_write, prices.output].map(list_price);
    format!(
        "as {price}{of}, per million tokens: {cache_read} cache reads, {cache_write} cache writes for {cache_minutes} min, \
         {output} output"
    )
}

/// Describes the prices of several sessions, one line per price, the most frequent first.
fn prices_of_all(sessions: &[SessionReplay]) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for session in sessions {
        *counts.entry(priced(session)).or_default() += 1;
    }
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let line = |(priced, count): &(String, usize)| match *count == sessions.len() {
        true => format!("all priced {priced}"),
        false => format!("{} priced {priced}", figures::count(*count as u64)),
    };
    counts.iter().map(line).collect()
}

/// Compares the recorded bill with the replayed cost of the same calls without a policy.
fn bill(session: &SessionReplay) -> Option<String> {
    let bill = session.against_recorded?;
    Some(format!(
        "{} recorded at {}; replayed without a policy: {} ({})",
        counted(bill.calls as usize, "call"),
        figures::dollars(bill.recorded),
        figures::dollars(bill.replayed),
        figures::percent(bill.share())
    ))
}

/// Reports the share of recorded tokens that requests are rebuilt with, if it is far from all.
fn rebuilt(session: &SessionReplay) -> Option<String> {
    let share = session.rebuilt_share.filter(|share| !(0.9..=1.1).contains(share))?;
    Some(format!(
        "the median request is rebuilt with {} of its recorded tokens; all requests are scaled to recorded usage",
        figures::percent(share)
    ))
}

/// Compares the recorded bills of sessions with their replayed cost without a policy.
fn bills(bills: &Bills) -> String {
    let Bills { sessions, differing, sum, .. } = bills;
    format!(
        "recorded bills of {}: {}; replayed without a policy: {} ({}); {differing} differ by more than {}",
        counted(*sessions, "session"),
        figures::dollars(sum.recorded),
        figures::dollars(sum.replayed),
        figures::percent(sum.share()),
        figures::percent(Bills::FAR)
    )
}

/// Heading of the comparison with no policy, if there is one.
pub(super) fn compared(totals: &[Report]) -> Option<String> {
    let sessions = totals.iter().find_map(|total| total.against_none)?.sessions as usize;
    let those = if sessions == 1 {
        "1 session that fits".to_owned()
    } else {
        format!("{sessions} sessions that fit")
    };
    Some(format!("More expensive than no policy, of {those} without one"))
}

fn calls(reports: &[Report]) -> u64 {
    reports.first().map(|report| report.calls).unwrap_or_default()
}

/// Prints the figures: all of one session in one table if there is room; otherwise the outcome and the parts of the cost.
fn tables(reports: &[Report], outcome: &'static [Figure], output: &mut Output) -> Result<(), HostError> {
    let width = output.width();
    let one = [figures::ALL, figures::BOTH].map(|figures| table(reports, figures));
    let is_one_session = std::ptr::eq(outcome, figures::OUTCOME);
    if let Some(table) = one.iter().find(|table| is_one_session && table.fits(width)) {
        return Ok(output.table(table)?);
    }
    output.table(&table(reports, outcome))?;
    output.painted("\nCost breakdown\n")?;
    Ok(output.table(&table(reports, figures::PARTS))?)
}

fn table(reports: &[Report], figures: &'static [Figure]) -> Table {
    let columns = figures.iter().enumerate().map(|(at, figure)| Column {
        heading: figure.heading,
        holds: if at == 0 { Holds::Names } else { Holds::Numbers },
    });
    let mut table = Table::new(columns.collect());
    reports.iter().for_each(|report| table.row(figures.iter().map(|figure| (figure.cell)(report))));
    table
}

fn finding(text: &str, output: &mut Output) -> Result<(), HostError> {
    output.painted("")?;
    let text = wrapped(&printable(text), output.width());
    // Lines of a paragraph are not indented.
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    Ok(output.painted(&lines.join("\n"))?)
}

/// Prints reductions by policy.
fn reductions(reports: &[Report], output: &mut Output) -> Result<(), HostError> {
    let mut text = String::from("\nReductions\n");
    let names = reports.iter().map(|report| printable(&report.policy).chars().count()).max().unwrap_or(0);
    for report in reports {
        let lines = match report.fired.is_empty() {
            true => vec!["–".to_owned()],
            false => when(report, output.width().saturating_sub(names + 4)),
        };
        for (number, line) in lines.iter().enumerate() {
            let name = if number == 0 { printable(&report.policy) } else { String::new() };
            text += &format!("  {name:<names$}  {line}\n");
        }
    }
    text.push('\n');
    Ok(output.report(&text)?)
}

/// Formats each kind of reduction with the calls it preceded: as many as fit on one line, or a few of each kind on several.
fn when(report: &Report, room: usize) -> Vec<String> {
    /// Maximum number of calls listed.
    const MOST: usize = 40;
    /// Minimum number of calls listed.
    const FEW: usize = 4;
    let with = |most: usize| -> Vec<String> {
        let kinds = report.fired.iter();
        kinds.map(|(kind, times)| of_kind(report, kind, *times, most)).collect()
    };
    let in_one = (FEW..=MOST).rev().map(|most| with(most).join(", "));
    if let Some(line) = in_one.into_iter().find(|line| line.chars().count() <= room) {
        return vec![line];
    }
    let mut lines: Vec<String> = Vec::new();
    for kind in with(FEW) {
        match lines.last_mut() {
            // A comma and a space between, and a comma at the end.
            Some(line) if line.chars().count() + kind.chars().count() + 3 <= room => {
                line.push_str(", ");
                line.push_str(&kind);
            }
            Some(line) => {
                line.push(',');
                lines.push(kind);
            }
            None => lines.push(kind),
        }
    }
    lines
}

/// Formats one kind of reduction with at most `most` of the calls it preceded.
fn of_kind(report: &Report, kind: &str, times: u64, most: usize) -> String {
    let fired = report.reductions.iter().filter(|fired| fired.reduction.kind == kind);
    let mut calls: Vec<u64> = fired.map(|fired| fired.call).collect();
    calls.dedup();
    let listed: Vec<String> = calls.iter().take(most).map(|call| figures::count(*call)).collect();
    let (times, listed, all) = (figures::count(times), listed.join(", "), calls.len());
    match all {
        // The total of several sessions has no calls.
        0 => format!("{kind} {times}"),
        1 if times == "1" => format!("{kind} at call {listed}"),
        _ if all <= most => format!("{kind} {times} (calls {listed})"),
        _ => format!("{kind} {times} (calls {listed}, …)"),
    }
}
