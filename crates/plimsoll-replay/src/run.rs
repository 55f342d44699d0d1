//! The replay itself.

use std::collections::BTreeMap;

use plimsoll::{Limits, Millis, Tokens, Usage};
use plimsoll_session::SessionError;

use crate::pieces::{Piece, Pieces};
use crate::price::{Billed, Price};
use crate::recording::{Call, Recording, Wanted};
use crate::report::{Fired, Recall, Report, Sent};
use crate::rules::Rules;
use crate::sight::{self, Asked, Needed, Noted, Sight};

/// How often a request is made smaller that has no room, with its answer, in the window: as often as the agent does
/// that a provider refuses.
const REFUSALS: usize = 5;

/// Sizes that models' windows have. A guess is rounded up to one of them.
const USUAL_SIZES: [u64; 11] =
    [8_000, 16_000, 32_000, 64_000, 128_000, 200_000, 256_000, 400_000, 1_000_000, 1_048_576, 2_000_000];
/// What is rebuilt of a request may be larger than what was counted for it, in most recordings by less than one part in
/// so many. A replay adds what its own requests need.
const REBUILT_MARGIN: u64 = 20;

/// What a request that took so much, with its answer, comes to at most when it is rebuilt.
pub fn rebuilt_at_most(taken: Tokens) -> Tokens {
    Tokens(taken.0.saturating_add(taken.0 / REBUILT_MARGIN))
}

/// A window that a session of which nothing else is known may have had: a size that models have, with room for the largest
/// request that it took.
///
/// ```
/// use plimsoll::Tokens;
/// assert_eq!(plimsoll_replay::guess_window(Tokens(297_027)), Tokens(400_000));
/// ```
pub fn guess_window(taken: Tokens) -> Tokens {
    const MILLION: u64 = 1_000_000;
    let rebuilt = rebuilt_at_most(taken).0;
    let usual = USUAL_SIZES.into_iter().find(|size| *size >= rebuilt);
    Tokens(usual.unwrap_or_else(|| rebuilt.div_ceil(MILLION).saturating_mul(MILLION)))
}

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
        let sight = sight::sight(rules, self, circumstances, fixed.0, &mut pieces)?;
        let report = Report { policy: rules.to_string(), ..Report::default() };
        let mut run =
            Run { recording: self, circumstances, fixed: fixed.0, pieces, sight, report, sent: None };
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
    /// Make a recorded call; gives what the provider would have counted, if the call could be made at all.
    fn call(&mut self, call: &Call) -> Result<Option<Usage>, SessionError> {
        self.report.calls += 1;
        if call.output.saturating_add(self.fixed) >= self.circumstances.context.0 {
            self.report.left_out += 1;
            self.report.windows.push(Sent { tokens: 0, fits: false });
            return Ok(None);
        }
        let mut request = self.prepare(call)?;
        let missing = self.missing(call, &request);
        let mut recalls = 0;
        if self.fits(&request, call.output) && !missing.is_empty() && self.recall(call, &missing, &request)? {
            recalls = 1;
            request = self.prepare(call)?;
        }
        let (tokens, fits) = (self.weigh(&request), self.fits(&request, call.output));
        self.report.windows.push(Sent { tokens, fits });
        self.count(call, &request, &missing, fits, recalls);
        if fits {
            let billed = Billed { output: call.output, ..self.send(call, request) };
            let price = self.circumstances.price.for_prompt(tokens);
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
        Ok(Some(Usage::new(Tokens(tokens), Tokens(call.output))))
    }

    /// The request for a call, after what the rules do about it.
    fn prepare(&mut self, call: &Call) -> Result<Vec<Piece>, SessionError> {
        self.sight.prepare(call, false, &mut self.pieces)?;
        let mut request = self.sight.request(&mut self.pieces);
        for _ in 0..REFUSALS {
            if self.fits(&request, call.output) {
                break;
            }
            let before = self.weigh(&request);
            self.sight.prepare(call, true, &mut self.pieces)?;
            request = self.sight.request(&mut self.pieces);
            // Rules that have nothing more to give are not asked again.
            if self.weigh(&request) >= before {
                break;
            }
        }
        self.note_reductions(Some(call));
        Ok(request)
    }

    fn weigh(&self, request: &[Piece]) -> u64 {
        self.pieces.charged(request).saturating_add(self.fixed)
    }

    /// Whether request and answer have room in the window.
    fn fits(&self, request: &[Piece], output: u64) -> bool {
        // A sum of two numbers of 64 bits that does not fit is over every window.
        self.weigh(request).checked_add(output).is_some_and(|all| all <= self.circumstances.context.0)
    }

    /// What a call needs and its request does not show.
    fn missing(&mut self, call: &Call, request: &[Piece]) -> Vec<Wanted> {
        self.pieces.show(request);
        call.wanted.iter().filter(|wanted| !self.pieces.shows(wanted.reference)).copied().collect()
    }

    /// Let the model ask for what it needs, in a request of its own; says whether anything came back.
    fn recall(&mut self, call: &Call, missing: &[Wanted], request: &[Piece]) -> Result<bool, SessionError> {
        let needed: Vec<Needed<'_>> = missing
            .iter()
            .map(|wanted| Needed {
                result: &self.recording.results[wanted.result as usize],
                words: self.recording.words(wanted.reference),
            })
            .collect();
        let tokens = self.weigh(request);
        let usage = Usage::new(Tokens(tokens), Tokens::ZERO);
        let Some(output) = self.sight.recall(&needed, usage, &mut self.pieces)? else { return Ok(false) };
        let sent = self.send(call, request.to_vec());
        let price = self.circumstances.price.for_prompt(tokens);
        self.report.parts.add_request(sent, price);
        let asked = Billed { output, ..Billed::default() };
        self.report.parts.recalls += price.of(asked);
        self.report.recalls += asked;
        self.report.billed += Billed { output, ..sent };
        Ok(true)
    }

    /// Send a request: what of it is read from the cache, and what is written to it.
    fn send(&mut self, call: &Call, request: Vec<Piece>) -> Billed {
        let tokens = self.weigh(&request);
        let read = self.cached(&request, call.at);
        self.report.tokens_sent = self.report.tokens_sent.saturating_add(tokens);
        self.report.peak = self.report.peak.max(tokens);
        self.sent = Some((request, call.at));
        Billed { read, written: tokens.saturating_sub(read), output: 0 }
    }

    /// How much of a request is in the cache.
    fn cached(&self, request: &[Piece], now: Option<Millis>) -> u64 {
        match &self.sent {
            Some((before, at)) if self.cache_lives(*at, now) => {
                self.pieces.common(before, request).saturating_add(self.fixed)
            }
            _ => 0,
        }
    }

    /// Where a time is not known, nothing speaks against the cache.
    fn cache_lives(&self, used: Option<Millis>, now: Option<Millis>) -> bool {
        match (used, now) {
            (Some(used), Some(now)) => now.0.saturating_sub(used.0) <= self.circumstances.cache_lifetime.0,
            _ => true,
        }
    }

    /// Count what was there when it was needed. `missing` was not in the window at first.
    fn count(&mut self, call: &Call, request: &[Piece], missing: &[Wanted], fits: bool, recalls: u64) {
        self.report.recall.requests += recalls;
        self.pieces.show(request);
        let (mut references, mut visible, mut recalled) = (0u64, 0u64, 0u64);
        for wanted in &call.wanted {
            let was_missing = missing.iter().any(|missing| missing.reference == wanted.reference);
            // What every window shows says nothing, unless this one has lost it.
            if !wanted.only_in_results && !was_missing && fits {
                continue;
            }
            references += 1;
            match (fits && self.pieces.shows(wanted.reference), was_missing) {
                (true, true) => recalled += 1,
                (true, false) => visible += 1,
                (false, _) => {}
            }
        }
        if references == 0 {
            return;
        }
        let share = |count: u64| count as f64 / references as f64;
        let (visible_share, recalled_share) = (share(visible), share(recalled));
        let one =
            Recall { calls: 1, references, visible, recalled, visible_share, recalled_share, requests: 0 };
        self.report.recall.add(&one);
    }

    /// Note what the rules have done, and bill what a summariser was asked for it.
    fn note_reductions(&mut self, call: Option<&Call>) {
        // What is cut as it arrives is cut for the next call.
        let number = (self.report.windows.len() as u64 + 1).max(self.report.calls);
        for Noted { mut reduction, asked } in self.sight.fired() {
            for Asked { prefix, more, answer } in asked {
                let own = prefix
                    .map(|prefix| (self.weigh(&prefix), self.cached(&prefix, call.and_then(|call| call.at))));
                let (own, read) = own.unwrap_or_default();
                let paid =
                    Billed { read, written: own.saturating_sub(read).saturating_add(more), output: answer };
                self.report.billed += paid;
                self.report.summaries += paid;
                let price = self.circumstances.price.for_prompt(own.saturating_add(more));
                self.report.parts.summaries += price.of(paid);
                reduction.asked = reduction.asked.saturating_add(own).saturating_add(more);
                reduction.asked_cached = reduction.asked_cached.saturating_add(read);
                reduction.answered = reduction.answered.saturating_add(answer);
            }
            *self.report.fired.entry(reduction.kind.clone()).or_default() += 1;
            self.report.reductions.push(Fired { call: number, reduction });
        }
    }

    fn finish(self) -> Report {
        let context = self.circumstances.context.0.max(1);
        let cost = self.report.parts.total();
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
