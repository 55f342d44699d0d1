//! The replay itself.

use std::collections::BTreeMap;

use plimsoll::{Limits, Millis, Tokens, Usage};
use plimsoll_session::SessionError;

use crate::pieces::{Piece, Pieces};
use crate::price::{Billed, Price};
use crate::recording::{Call, Recording};
use crate::report::{Fired, Recall, Report, Sent};
use crate::rules::Rules;
use crate::sight::{self, Sight};

/// Under what circumstances a session is replayed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Circumstances {
    /// The model's context window.
    pub context: Tokens,
    /// The model's longest answer, for which room is kept. By default an eighth of the window, at most 32,000.
    pub output: Option<Tokens>,
    /// What every request carries besides the conversation: a system prompt, schemas of tools. At zero, what the
    /// session's usage tells of it.
    pub fixed: Tokens,
    /// What tokens cost.
    pub price: Price,
    /// How long a prompt cache lives after it was last used.
    pub cache_lifetime: Millis,
}

impl Default for Circumstances {
    fn default() -> Circumstances {
        Circumstances {
            context: Tokens(200_000),
            output: None,
            fixed: Tokens::ZERO,
            price: Price::of_input(1.0),
            cache_lifetime: Millis(5 * 60 * 1_000),
        }
    }
}

impl Circumstances {
    /// What the model can take and give.
    pub fn limits(&self) -> Limits {
        let usual = Tokens(self.context.0 / 8).min(Tokens(32_000));
        Limits { context: self.context, input: None, output: self.output.unwrap_or(usual) }
    }
}

impl Recording {
    /// What these rules would have done.
    pub fn replay(&self, rules: &Rules, circumstances: &Circumstances) -> Result<Report, SessionError> {
        self.replay_and_tell(rules, circumstances, &|| ())
    }

    /// The same; `told` is called after every call.
    pub fn replay_and_tell(
        &self,
        rules: &Rules,
        circumstances: &Circumstances,
        told: &dyn Fn(),
    ) -> Result<Report, SessionError> {
        let mut pieces = Pieces::new(self);
        let limits = circumstances.limits();
        // A host knows its own system prompt and tools. What a file does not show of them, usage tells.
        let hidden = self.measured().map(plimsoll_tokens::Measured::hidden).unwrap_or_default();
        let fixed = Some(circumstances.fixed).filter(|fixed| *fixed > Tokens::ZERO).unwrap_or(hidden);
        let sight = sight::sight(rules, self, limits, fixed.0, &mut pieces)?;
        let report = Report { policy: rules.to_string(), ..Report::default() };
        let mut run = Run { rules, circumstances, fixed: fixed.0, pieces, sight, report, sent: None };
        for step in &self.steps {
            let usage = match &step.call {
                Some(call) => {
                    told();
                    Some(run.call(call)?)
                }
                None => None,
            };
            run.sight.append(step, usage)?;
            run.note_reductions();
        }
        Ok(run.finish())
    }
}

struct Run<'a> {
    rules: &'a Rules,
    circumstances: &'a Circumstances,
    /// What every request carries besides the conversation.
    fixed: u64,
    pieces: Pieces<'a>,
    sight: Box<dyn Sight + 'a>,
    report: Report,
    /// The request before, and when it was sent.
    sent: Option<(Vec<Piece>, Option<Millis>)>,
}

impl Run<'_> {
    /// Make a recorded call; returns what the provider would have counted.
    fn call(&mut self, call: &Call) -> Result<Usage, SessionError> {
        self.report.calls += 1;
        self.sight.prepare(call, false, &mut self.pieces)?;
        let mut request = self.sight.request(&mut self.pieces);
        if !self.fits(&request, call) {
            self.sight.prepare(call, true, &mut self.pieces)?;
            request = self.sight.request(&mut self.pieces);
        }
        self.note_reductions();
        let tokens = self.weigh(&request);
        let fits = self.fits(&request, call);
        self.report.windows.push(Sent { tokens, fits });
        self.recall(call, &request, fits);
        if fits {
            self.bill(call, request, tokens);
        } else {
            self.report.deaths += 1;
        }
        Ok(Usage::new(Tokens(tokens), Tokens(call.output)))
    }

    fn weigh(&self, request: &[Piece]) -> u64 {
        self.pieces.charged(request).saturating_add(self.fixed)
    }

    /// Whether request and answer have room in the window.
    fn fits(&self, request: &[Piece], call: &Call) -> bool {
        // A sum of two numbers of 64 bits that does not fit is over every window.
        self.weigh(request).checked_add(call.output).is_some_and(|all| all <= self.circumstances.context.0)
    }

    fn bill(&mut self, call: &Call, request: Vec<Piece>, tokens: u64) {
        let read = match &self.sent {
            Some((before, at)) if self.cache_lives(*at, call.at) => {
                self.pieces.common(before, &request).saturating_add(self.fixed)
            }
            _ => 0,
        };
        self.report.billed += Billed { read, written: tokens.saturating_sub(read), output: call.output };
        self.report.tokens_sent = self.report.tokens_sent.saturating_add(tokens);
        self.report.peak = self.report.peak.max(tokens);
        self.sent = Some((request, call.at));
    }

    /// Where a time is not known, nothing speaks against the cache.
    fn cache_lives(&self, used: Option<Millis>, now: Option<Millis>) -> bool {
        match (used, now) {
            (Some(used), Some(now)) => now.0.saturating_sub(used.0) <= self.circumstances.cache_lifetime.0,
            _ => true,
        }
    }

    fn recall(&mut self, call: &Call, request: &[Piece], fits: bool) {
        if call.wanted.is_empty() {
            return;
        }
        self.pieces.show(request);
        let (mut visible, mut handles) = (0, 0);
        for reference in call.wanted.iter().filter(|_| fits) {
            if self.pieces.shows(*reference) {
                visible += 1;
            } else if self.rules.has_handles() && (self.rules.spills() || self.pieces.showed(*reference)) {
                handles += 1;
            }
        }
        let references = call.wanted.len() as u64;
        let share = |count: u64| count as f64 / references as f64;
        let (visible_share, handle_share) = (share(visible), share(handles));
        let recall = Recall { calls: 1, references, visible, handles, visible_share, handle_share };
        self.report.recall.add(&recall);
    }

    fn note_reductions(&mut self) {
        // What is cut as it arrives is cut for the next call.
        let call = (self.report.windows.len() as u64 + 1).max(self.report.calls);
        for reduction in self.sight.fired() {
            // A summary request has other tools and another prompt, so nothing of it is in the cache.
            let paid = Billed { read: 0, written: reduction.asked, output: reduction.answered };
            self.report.billed += paid;
            self.report.summaries += paid;
            *self.report.fired.entry(reduction.kind.clone()).or_default() += 1;
            self.report.reductions.push(Fired { call, reduction });
        }
    }

    fn finish(self) -> Report {
        let context = self.circumstances.context.0.max(1);
        let cost = self.circumstances.price.of(self.report.billed);
        Report { cost, peak_share: self.report.peak as f64 / context as f64, ..self.report }
    }
}

/// Sessions under several rules, rule by rule.
pub fn totals<'a>(reports: impl IntoIterator<Item = &'a Report>) -> Vec<Report> {
    let mut order: Vec<&str> = Vec::new();
    let mut by_policy: BTreeMap<&str, Vec<&Report>> = BTreeMap::new();
    for report in reports {
        if !by_policy.contains_key(report.policy.as_str()) {
            order.push(&report.policy);
        }
        by_policy.entry(&report.policy).or_default().push(report);
    }
    order.into_iter().map(|policy| Report::total(policy, by_policy[policy].iter().copied())).collect()
}
