//! Counting what happens in a run, from the agent's own events.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use plimsoll::Tokens;
use plimsoll_agent::Event;

use crate::shim::{Exchange, RequestKind};

/// Estimates are judged from this response on: the first ones teach what the model's vocabulary is.
const JUDGED_FROM: usize = 5;

/// Figures of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    weighed: Option<Tokens>,
    /// Of each answered request, what it was taken to weigh and what it did weigh.
    pub(crate) pairs: Vec<(u64, u64)>,
    pub(crate) refusals: u64,
    pub(crate) learned: Option<u64>,
    pub(crate) reductions: BTreeMap<&'static str, u64>,
    pub(crate) summaries_asked: u64,
    /// Size of tool outputs before truncation.
    pub(crate) output_bytes: u64,
    pub(crate) largest_output: u64,
}

impl Tally {
    pub(crate) fn note(&mut self, event: &Event) {
        match event {
            Event::Weighed { tokens, .. } => self.weighed = Some(*tokens),
            Event::Answered { usage: Some(usage), .. } => {
                let real = usage.input + usage.cache_read + usage.cache_write;
                if let Some(weighed) = self.weighed.take() {
                    self.pairs.push((weighed.0, real));
                }
            }
            Event::Refused { window } => {
                self.refusals += 1;
                self.learned = self.learned.or(window.map(|window| window.0));
            }
            Event::Reduced(figures) => *self.reductions.entry(figures.kind.name()).or_default() += 1,
            Event::Summarised { .. } => self.summaries_asked += 1,
            Event::CallEnded { bytes, .. } => {
                self.output_bytes += bytes;
                self.largest_output = self.largest_output.max(*bytes);
            }
            _ => {}
        }
    }
}

impl Tally {
    /// How often the server refused a request as too long.
    pub(crate) fn refused(&self) -> String {
        let window = self.learned.map(|window| format!(", the first with a window of {window} tokens"));
        format!("{} refusals{}", self.refusals, window.unwrap_or_default())
    }
}

/// How far an estimate was off.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Miss {
    /// Which answered request it was, from 1.
    request: usize,
    weighed: u64,
    real: u64,
    /// In percent of what the provider counted; below zero if the estimate was too low.
    percent: f64,
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Miss { request, weighed, real, percent } = self;
        write!(f, "{percent:+.1} % ({weighed} for {real}, request {request})")
    }
}

/// How far the estimates of a run were off.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Misses {
    judged: usize,
    median: f64,
    lowest: Miss,
    highest: Miss,
}

impl Misses {
    fn of(pairs: &[(u64, u64)]) -> Misses {
        let judged = pairs.iter().enumerate().skip(JUDGED_FROM - 1).filter(|(_, (_, real))| *real > 0);
        let mut misses: Vec<Miss> = judged
            .map(|(place, &(weighed, real))| {
                let percent = (weighed as f64 - real as f64) / real as f64 * 100.0;
                Miss { request: place + 1, weighed, real, percent }
            })
            .collect();
        let mut sizes: Vec<f64> = misses.iter().map(|miss| miss.percent.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        misses.sort_by(|one, other| one.percent.total_cmp(&other.percent));
        Misses {
            judged: misses.len(),
            median: sizes.get(sizes.len() / 2).copied().unwrap_or_default(),
            lowest: misses.first().copied().unwrap_or_default(),
            highest: misses.last().copied().unwrap_or_default(),
        }
    }
}

/// Report of a run.
#[derive(Debug)]
pub(crate) struct RunFigures {
    pub(crate) name: &'static str,
    pub(crate) turns: u64,
    /// Error that ended it early, if any.
    pub(crate) died: Option<String>,
    pub(crate) tally: Tally,
    pub(crate) by_model: u64,
    pub(crate) without_model: u64,
    pub(crate) exchanges: Vec<Exchange>,
    pub(crate) took: Duration,
}

impl fmt::Display for RunFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked =
            |asked: RequestKind| self.exchanges.iter().filter(|exchange| exchange.asked == asked).count();
        let waited: Duration = self.exchanges.iter().map(|exchange| exchange.took).sum();
        let Tally { pairs, reductions, summaries_asked, output_bytes, largest_output, .. } = &self.tally;
        let reduced: Vec<String> = reductions.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let largest = pairs.iter().map(|(_, real)| *real).max().unwrap_or_default();
        let misses = Misses::of(pairs);
        writeln!(f, "{}", self.name)?;
        writeln!(f, "  turns             {}", self.turns)?;
        if let Some(why) = &self.died {
            writeln!(f, "  died in turn      {}: {why}", self.turns + 1)?;
        }
        writeln!(
            f,
            "  requests          {} for answers, {} for summaries; the largest answered had {largest} tokens",
            asked(RequestKind::Answer),
            asked(RequestKind::Summary)
        )?;
        writeln!(f, "  refused           {}", self.tally.refused())?;
        writeln!(f, "  tool outputs      {output_bytes} bytes, the largest {largest_output}")?;
        let reduced = if reduced.is_empty() { "none".to_owned() } else { reduced.join(", ") };
        writeln!(f, "  reductions        {reduced}")?;
        writeln!(
            f,
            "  summaries         {summaries_asked} asked for; {} by the model, {} without a model",
            self.by_model, self.without_model
        )?;
        writeln!(
            f,
            "  estimates         {} judged; median error {:.1} %, lowest {}, highest {}",
            misses.judged, misses.median, misses.lowest, misses.highest
        )?;
        write!(
            f,
            "  time              {:.0} s, {:.0} s of it the model's",
            self.took.as_secs_f64(),
            waited.as_secs_f64()
        )
    }
}
