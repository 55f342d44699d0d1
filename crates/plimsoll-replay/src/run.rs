//! Runs a replay.

use std::collections::BTreeMap;

use plimsoll::{Tokens, Usage};
use plimsoll_session::SessionError;

use crate::billing::{Billing, ReplayParams};
use crate::price::Billed;
use crate::recording::{ModelCall, Pieces, Recording};
use crate::report::{Fired, References, Report, Sent, Share};
use crate::request::{Request, Visibility};
use crate::rules::Rules;
use crate::simulator::{self, CostedReduction, NeededText, PolicySimulator, SummaryTokens};

/// Maximum attempts to reduce a request that does not fit with its answer; the agent makes as many after a provider's
/// rejection.
const REFUSALS: usize = 5;
/// Approximate tokens of a recall's result and of the model's call. They are used for the comparison that tolerates the
/// cost of one recall. The default policy returns at most 8,000 characters.
const RECALL_WRITTEN: u64 = 2_000;
const RECALL_ASKED: u64 = 60;

impl Recording {
    /// Returns the smallest window with room for every call, with its answer, that was sent unchanged.
    /// These calls happened, so an unknown window was at least this large.
    pub fn room(&self, params: &ReplayParams) -> Result<Tokens, SessionError> {
        // Half of the range, so that a sum of two sizes does not overflow.
        let endless = ReplayParams { context: Tokens(u64::MAX / 2), ..*params };
        let sent = self.replay(&Rules::None, &endless)?.windows;
        let calls = self.steps.iter().filter_map(|step| step.call.as_ref());
        let taken = sent.iter().zip(calls).map(|(sent, call)| sent.tokens.saturating_add(call.output));
        Ok(Tokens(taken.take(self.unreduced_calls).max().unwrap_or_default()))
    }

    /// Replays the session under some rules.
    pub fn replay(&self, rules: &Rules, params: &ReplayParams) -> Result<Report, SessionError> {
        self.replay_with_progress(rules, params, &|| true)
    }

    /// Like [`replay`](Recording::replay), calling `on_call` before each call of the model. If it returns
    /// `false`, the replay stops.
    pub fn replay_with_progress(
        &self,
        rules: &Rules,
        params: &ReplayParams,
        on_call: &dyn Fn() -> bool,
    ) -> Result<Report, SessionError> {
        let mut pieces = Pieces::new(self);
        // The caller knows its own system prompt and tools. If the file does not show them, usage does.
        let hidden = self.measured().map(plimsoll_tokens::Measured::hidden).unwrap_or_default();
        let fixed = Some(params.fixed).filter(|fixed| *fixed > Tokens::ZERO).unwrap_or(hidden);
        let billing = Billing { params, fixed: fixed.0 };
        let simulator = simulator::simulator(rules, self, billing, &mut pieces)?;
        let report = Report { policy: rules.to_string(), ..Report::default() };
        let request = Request::new(self.references());
        let mut run = Run { recording: self, billing, pieces, simulator, request, report };
        for step in &self.steps {
            let usage = match &step.call {
                Some(call) => {
                    if !on_call() {
                        return Err(SessionError::Stopped);
                    }
                    run.call(call)?
                }
                None => None,
            };
            run.simulator.append(step, usage)?;
            run.note_reductions(None);
        }
        Ok(run.finish())
    }
}

struct Run<'a> {
    recording: &'a Recording,
    billing: Billing<'a>,
    pieces: Pieces<'a>,
    simulator: Box<dyn PolicySimulator + 'a>,
    request: Request,
    report: Report,
}

impl Run<'_> {
    /// Replays a recorded call. Returns the usage that the provider would have reported, or `None` if the call did not
    /// fit.
    fn call(&mut self, call: &ModelCall) -> Result<Option<Usage>, SessionError> {
        self.report.calls += 1;
        // The smallest request is scaled like every request of this call.
        if call.output.saturating_add(self.billing.tokens(0, call)) >= self.billing.params.context.0 {
            self.report.left_out += 1;
            self.note_sent(0, false, 0.0);
            return Ok(None);
        }
        self.prepare(call)?;
        let first: Vec<Visibility> =
            call.wanted.iter().map(|wanted| self.request.visibility(wanted.reference)).collect();
        let mut recalls = 0;
        // A request that does not fit gets no answer, so the model cannot recall anything.
        if first.contains(&Visibility::Missing) && self.fits(call) && self.recall(call, &first)? {
            recalls = 1;
            self.prepare(call)?;
        }
        let (tokens, fits) = (self.tokens(call), self.fits(call));
        self.count(call, &first, fits, recalls);
        let price = self.billing.price(tokens, call);
        if fits {
            let billed = Billed { output: call.output, ..self.send(call) };
            if recalls > 0 {
                // The recall was requested in the request of this call; this is the additional request with its result.
                let again = Billed { output: 0, ..billed };
                self.report.recalls += again;
                self.report.parts.recalls += price.of(again);
                self.report.parts.add_request(Billed { output: call.output, ..Billed::default() }, price);
            } else {
                self.report.parts.add_request(billed, price);
            }
            self.report.billed += billed;
        } else {
            self.report.deaths += 1;
        }
        let recall = Billed { read: tokens, written: RECALL_WRITTEN, output: RECALL_ASKED };
        self.note_sent(tokens, fits, price.of(recall));
        Ok(Some(Usage::new(Tokens(tokens), Tokens(call.output))))
    }

    fn note_sent(&mut self, tokens: u64, fits: bool, recall_cost: f64) {
        let spent = self.report.parts.total();
        self.report.windows.push(Sent { tokens, fits, spent, recall_cost });
    }

    /// Updates the request for a call and lets the rules reduce it.
    fn prepare(&mut self, call: &ModelCall) -> Result<(), SessionError> {
        self.simulator.prepare(call, false, &mut self.request, &mut self.pieces)?;
        for _ in 0..REFUSALS {
            if self.fits(call) {
                break;
            }
            let before = self.tokens(call);
            self.simulator.prepare(call, true, &mut self.request, &mut self.pieces)?;
            // The rules cannot reduce any further.
            if self.tokens(call) >= before {
                break;
            }
        }
        self.note_reductions(Some(call));
        Ok(())
    }

    fn tokens(&self, call: &ModelCall) -> u64 {
        self.billing.tokens(self.request.charged(), call)
    }

    /// Whether the request and its answer fit in the window.
    fn fits(&self, call: &ModelCall) -> bool {
        // A sum that overflows 64 bits is over every window.
        let all = self.tokens(call).checked_add(call.output);
        all.is_some_and(|all| all <= self.billing.params.context.0)
    }

    /// Lets the model recall what it needs in an additional request. Returns whether anything came back.
    fn recall(&mut self, call: &ModelCall, found: &[Visibility]) -> Result<bool, SessionError> {
        let missing = call.wanted.iter().zip(found).filter(|(_, found)| **found == Visibility::Missing);
        let needed: Vec<NeededText<'_>> = missing
            .map(|(wanted, _)| NeededText {
                result: &self.recording.results[wanted.result as usize],
                words: self.recording.words(wanted.reference),
            })
            .collect();
        let tokens = self.tokens(call);
        let usage = Usage::new(Tokens(tokens), Tokens::ZERO);
        let Some(output) = self.simulator.recall(&needed, usage, &mut self.pieces)? else { return Ok(false) };
        let sent = self.send(call);
        let price = self.billing.price(tokens, call);
        self.report.parts.add_request(sent, price);
        let asked = Billed { output, ..Billed::default() };
        self.report.parts.recalls += price.of(asked);
        self.report.recalls += asked;
        self.report.billed += Billed { output, ..sent };
        Ok(true)
    }

    /// Sends the request. Returns what is read from the cache and what is written to it.
    fn send(&mut self, call: &ModelCall) -> Billed {
        let tokens = self.tokens(call);
        let read = self.billing.read(&self.request, call, &self.pieces);
        self.report.tokens_sent = self.report.tokens_sent.saturating_add(tokens);
        self.report.peak = self.report.peak.max(tokens);
        self.request.sent(&call.model, call.at, call.scale);
        Billed { read, written: tokens.saturating_sub(read), output: 0 }
    }

    /// Counts what the call needed. `first` is how the request showed it before any recall.
    fn count(&mut self, call: &ModelCall, first: &[Visibility], fits: bool, recalls: u64) {
        let mut found = References { recall_requests: recalls, ..References::default() };
        let (mut only, mut all) = (ReferenceCount::default(), ReferenceCount::default());
        for (wanted, first) in call.wanted.iter().zip(first) {
            // A recall may push out of the window what was in it.
            let now = if fits { self.request.visibility(wanted.reference) } else { Visibility::Missing };
            all.add(*first, now);
            if wanted.only_in_results {
                only.add(*first, now);
            }
        }
        (found.only_in_outputs, found.all) = (only.share(), all.share());
        self.report.references.add(&found);
    }

    /// Adds the reductions of the rules to the report, with the cost of their summary requests.
    fn note_reductions(&mut self, call: Option<&ModelCall>) {
        // What is cut on arrival is attributed to the next call.
        let number = (self.report.windows.len() as u64 + 1).max(self.report.calls);
        for CostedReduction { mut reduction, asked } in self.simulator.fired() {
            for SummaryTokens { own, read, more, answer } in asked {
                let paid =
                    Billed { read, written: own.saturating_sub(read).saturating_add(more), output: answer };
                self.report.billed += paid;
                self.report.summaries += paid;
                let sent = own.saturating_add(more);
                let price = call.map_or(self.billing.params.price.for_prompt(sent), |call| {
                    self.billing.price(sent, call)
                });
                self.report.parts.summaries += price.of(paid);
                reduction.asked = reduction.asked.saturating_add(sent);
                reduction.asked_cached = reduction.asked_cached.saturating_add(read);
                reduction.answered = reduction.answered.saturating_add(answer);
            }
            *self.report.fired.entry(reduction.kind.clone()).or_default() += 1;
            self.report.reductions.push(Fired { call: number, reduction });
        }
    }

    fn finish(self) -> Report {
        let context = self.billing.params.context.0.max(1);
        let cost = self.report.parts.total();
        let visited = self.simulator.visited();
        Report { cost, peak_share: self.report.peak as f64 / context as f64, visited, ..self.report }
    }
}

/// References that one call needed, by how they were found.
#[derive(Default)]
struct ReferenceCount {
    references: u64,
    in_window: u64,
    strict: u64,
    recalled: u64,
}

impl ReferenceCount {
    /// Adds a reference, with how it was found at first and after the recalls of the call.
    fn add(&mut self, first: Visibility, now: Visibility) {
        self.references += 1;
        match (first, now) {
            (_, Visibility::Missing) => {}
            (Visibility::WithSurroundings, _) => {
                self.in_window += 1;
                self.strict += 1;
            }
            (Visibility::ByName, _) => self.in_window += 1,
            (Visibility::Recalled | Visibility::Missing, _) => self.recalled += 1,
        }
    }

    fn share(&self) -> Share {
        Share::of_call(self.references, self.in_window, self.strict, self.recalled)
    }
}

/// Combines the reports of sessions by rules.
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
