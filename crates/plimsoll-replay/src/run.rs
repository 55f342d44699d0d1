//! The replay itself.

use std::collections::BTreeMap;

use plimsoll::{Tokens, Usage};
use plimsoll_session::SessionError;

use crate::billing::{Billing, Circumstances};
use crate::price::Billed;
use crate::recording::{Call, Pieces, Recording};
use crate::report::{Fired, References, Report, Sent, Share};
use crate::request::{Found, Request};
use crate::rules::Rules;
use crate::sight::{self, Asked, Needed, Noted, Sight};

/// How often a request is made smaller that has no room, with its answer, in the window: as often as the agent does
/// that a provider refuses.
const REFUSALS: usize = 5;
/// Tokens that one recall brings back and tokens of the model's call for it, about. They are for the figure that tolerates
/// the cost of one recall. The default policy brings back at most 8,000 characters.
const RECALL_WRITTEN: u64 = 2_000;
const RECALL_ASKED: u64 = 60;

impl Recording {
    /// The smallest window with room for every call that was sent as the recording has it, with its answer. They were
    /// made, so a window that is not known was at least as large.
    pub fn room(&self, circumstances: &Circumstances) -> Result<Tokens, SessionError> {
        let endless = Circumstances { context: Tokens(u64::MAX / 2), ..*circumstances };
        let sent = self.replay(&Rules::None, &endless)?.windows;
        let calls = self.steps.iter().filter_map(|step| step.call.as_ref());
        let taken = sent.iter().zip(calls).map(|(sent, call)| sent.tokens.saturating_add(call.output));
        Ok(Tokens(taken.take(self.unreduced_calls).max().unwrap_or_default()))
    }

    /// What these rules would have done.
    pub fn replay(&self, rules: &Rules, circumstances: &Circumstances) -> Result<Report, SessionError> {
        self.replay_and_tell(rules, circumstances, &|| ())
    }

    /// Like [`replay`](Recording::replay), calling `on_call` after each call of the model.
    pub fn replay_and_tell(
        &self,
        rules: &Rules,
        circumstances: &Circumstances,
        on_call: &dyn Fn(),
    ) -> Result<Report, SessionError> {
        let mut pieces = Pieces::new(self);
        // A host knows its own system prompt and tools. What a file does not show of them, usage tells.
        let hidden = self.measured().map(plimsoll_tokens::Measured::hidden).unwrap_or_default();
        let fixed = Some(circumstances.fixed).filter(|fixed| *fixed > Tokens::ZERO).unwrap_or(hidden);
        let billing = Billing { circumstances, fixed: fixed.0 };
        let sight = sight::sight(rules, self, billing, &mut pieces)?;
        let report = Report { policy: rules.to_string(), ..Report::default() };
        let request = Request::new(self.references());
        let mut run = Run { recording: self, billing, pieces, sight, request, report };
        for step in &self.steps {
            let usage = match &step.call {
                Some(call) => {
                    on_call();
                    run.call(call)?
                }
                None => None,
            };
            run.sight.append(step, usage)?;
            run.note_reductions(None);
        }
        Ok(run.finish())
    }
}

struct Run<'a> {
    recording: &'a Recording,
    billing: Billing<'a>,
    pieces: Pieces<'a>,
    sight: Box<dyn Sight + 'a>,
    request: Request,
    report: Report,
}

impl Run<'_> {
    /// Make a recorded call; gives what the provider would have counted, if the call could be made at all.
    fn call(&mut self, call: &Call) -> Result<Option<Usage>, SessionError> {
        self.report.calls += 1;
        // The smallest request is measured as every request of this call is, with its scale.
        if call.output.saturating_add(self.billing.tokens(0, call)) >= self.billing.circumstances.context.0 {
            self.report.left_out += 1;
            self.note_sent(0, false, 0.0);
            return Ok(None);
        }
        self.prepare(call)?;
        let first: Vec<Found> =
            call.wanted.iter().map(|wanted| self.request.found(wanted.reference)).collect();
        let mut recalls = 0;
        if first.contains(&Found::Missing) && self.fits(call) && self.recall(call, &first)? {
            recalls = 1;
            self.prepare(call)?;
        }
        let (tokens, fits) = (self.tokens(call), self.fits(call));
        self.count(call, &first, fits, recalls);
        let price = self.billing.price(tokens, call);
        if fits {
            let billed = Billed { output: call.output, ..self.send(call) };
            if recalls > 0 {
                // The request in which the model asked was the one of this call; this one is there because of it.
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

    /// Bring the request up to date for a call, after what the rules do about it.
    fn prepare(&mut self, call: &Call) -> Result<(), SessionError> {
        self.sight.prepare(call, false, &mut self.request, &mut self.pieces)?;
        for _ in 0..REFUSALS {
            if self.fits(call) {
                break;
            }
            let before = self.tokens(call);
            self.sight.prepare(call, true, &mut self.request, &mut self.pieces)?;
            // Rules that have nothing more to give are not asked again.
            if self.tokens(call) >= before {
                break;
            }
        }
        self.note_reductions(Some(call));
        Ok(())
    }

    fn tokens(&self, call: &Call) -> u64 {
        self.billing.tokens(self.request.charged(), call)
    }

    /// Whether request and answer have room in the window.
    fn fits(&self, call: &Call) -> bool {
        // A sum of two numbers of 64 bits that does not fit is over every window.
        let all = self.tokens(call).checked_add(call.output);
        all.is_some_and(|all| all <= self.billing.circumstances.context.0)
    }

    /// Let the model ask for what it needs, in a request of its own; says whether anything came back.
    fn recall(&mut self, call: &Call, found: &[Found]) -> Result<bool, SessionError> {
        let missing = call.wanted.iter().zip(found).filter(|(_, found)| **found == Found::Missing);
        let needed: Vec<Needed<'_>> = missing
            .map(|(wanted, _)| Needed {
                result: &self.recording.results[wanted.result as usize],
                words: self.recording.words(wanted.reference),
            })
            .collect();
        let tokens = self.tokens(call);
        let usage = Usage::new(Tokens(tokens), Tokens::ZERO);
        let Some(output) = self.sight.recall(&needed, usage, &mut self.pieces)? else { return Ok(false) };
        let sent = self.send(call);
        let price = self.billing.price(tokens, call);
        self.report.parts.add_request(sent, price);
        let asked = Billed { output, ..Billed::default() };
        self.report.parts.recalls += price.of(asked);
        self.report.recalls += asked;
        self.report.billed += Billed { output, ..sent };
        Ok(true)
    }

    /// Send the request: what of it is read from the cache, and what is written to it.
    fn send(&mut self, call: &Call) -> Billed {
        let tokens = self.tokens(call);
        let read = self.billing.read(&self.request, call, &self.pieces);
        self.report.tokens_sent = self.report.tokens_sent.saturating_add(tokens);
        self.report.peak = self.report.peak.max(tokens);
        self.request.sent(&call.model, call.at, call.scale);
        Billed { read, written: tokens.saturating_sub(read), output: 0 }
    }

    /// Count what was there when it was needed. `first` is how the request showed it before anything was recalled.
    fn count(&mut self, call: &Call, first: &[Found], fits: bool, recalls: u64) {
        let mut found = References { recall_requests: recalls, ..References::default() };
        let (mut only, mut all) = (Count::default(), Count::default());
        for (wanted, first) in call.wanted.iter().zip(first) {
            // A recall may push out of the window what was in it.
            let now = if fits { self.request.found(wanted.reference) } else { Found::Missing };
            all.add(*first, now);
            if wanted.only_in_results {
                only.add(*first, now);
            }
        }
        (found.only_in_outputs, found.all) = (only.share(), all.share());
        self.report.references.add(&found);
    }

    /// Note what the rules have done, and bill what a summariser was asked for it.
    fn note_reductions(&mut self, call: Option<&Call>) {
        // What is cut as it arrives is cut for the next call.
        let number = (self.report.windows.len() as u64 + 1).max(self.report.calls);
        for Noted { mut reduction, asked } in self.sight.fired() {
            for Asked { own, read, more, answer } in asked {
                let paid =
                    Billed { read, written: own.saturating_sub(read).saturating_add(more), output: answer };
                self.report.billed += paid;
                self.report.summaries += paid;
                let sent = own.saturating_add(more);
                let price = call.map_or(self.billing.circumstances.price.for_prompt(sent), |call| {
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
        let context = self.billing.circumstances.context.0.max(1);
        let cost = self.report.parts.total();
        let visited = self.sight.visited();
        Report { cost, peak_share: self.report.peak as f64 / context as f64, visited, ..self.report }
    }
}

/// References that one call needed, by how they were found.
#[derive(Default)]
struct Count {
    references: u64,
    in_window: u64,
    strict: u64,
    recalled: u64,
}

impl Count {
    /// A reference that was found in one way at first and in another after the recalls of the call.
    fn add(&mut self, first: Found, now: Found) {
        self.references += 1;
        match (first, now) {
            (_, Found::Missing) => {}
            (Found::WithSurroundings, _) => {
                self.in_window += 1;
                self.strict += 1;
            }
            (Found::ByName, _) => self.in_window += 1,
            (Found::Recalled | Found::Missing, _) => self.recalled += 1,
        }
    }

    fn share(&self) -> Share {
        Share::of_call(self.references, self.in_window, self.strict, self.recalled)
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
