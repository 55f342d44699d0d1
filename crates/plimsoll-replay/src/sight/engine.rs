//! The engine under one of its policies: every layer, as a runtime would drive it.

use plimsoll::compact::accept::Reply;
use plimsoll::compact::ladder::{Breaker, Ladder, Situation, Step as Next, Trigger};
use plimsoll::compact::request::Summariser;
use plimsoll::count::request_tokens;
use plimsoll::pivot::Visible;
use plimsoll::prune::{self, Pressure};
use plimsoll::truncate::{self, Address, Spill};
use plimsoll::{
    CharCounter, Counter, Fixed, Ids, Limits, Log, LogError, Message, Millis, PartBody, Plan, Policy, Text,
    Tokens, Usage, Window,
};

use super::{Reduction, Sight};
use crate::pieces::{Piece, Pieces};
use crate::recording::{Call, Step};

pub(super) struct Engine<'a> {
    policy: &'a Policy,
    limits: Limits,
    fixed: Fixed,
    log: Log,
    ids: Ids,
    breaker: Breaker,
    /// Counts steps. Recorded times may be missing or jump, and marks must be told from what was before them.
    clock: u64,
    answered: bool,
    /// Requests below this are far from anything that could fire.
    calm: u64,
    /// Tokens of the newest answer, which count against the line where usage does.
    last_output: u64,
    /// The request, if it was built and nothing has changed since.
    ready: Option<Vec<Piece>>,
    fired: Vec<Reduction>,
}

/// The load from which on a policy may do something, with room for the differences between counters.
fn calm(policy: &Policy, limits: Limits) -> u64 {
    let line = policy.overflow.line(limits).map(|line| line.at);
    let share = policy.prune.gate_share.map(|share| limits.context.share(share));
    let headroom = policy.prune.gate_headroom.map(|headroom| limits.context - headroom);
    let first = [line, share, headroom].into_iter().flatten().min().unwrap_or_default();
    first.share(0.9).0
}

impl<'a> Engine<'a> {
    pub(super) fn new(policy: &'a Policy, limits: Limits, fixed: u64) -> Engine<'a> {
        let mut seed = 0u64;
        let limits = policy.limits("", Some(limits));
        Engine {
            policy,
            limits,
            calm: calm(policy, limits),
            last_output: 0,
            ready: None,
            fixed: Fixed { system: Tokens(fixed), tools: Tokens::ZERO },
            log: Log::new(),
            // The same replay names the same things.
            ids: Ids::new(move || {
                seed += 1;
                seed
            }),
            breaker: Breaker::default(),
            clock: 1,
            answered: false,
            fired: Vec::new(),
        }
    }

    fn now(&mut self) -> Millis {
        self.clock += 1;
        Millis(self.clock)
    }

    /// Layer 1: cut what tools answered as it arrives.
    fn truncate(&mut self, message: &mut Message) {
        for part in &mut message.parts {
            let (tool, output) = match &mut part.body {
                PartBody::Tool(tool) => match &mut tool.state.output {
                    Some(output) => (tool.tool.as_str(), output),
                    None => continue,
                },
                PartBody::ToolResult(result) => {
                    (result.tool.as_deref().unwrap_or("unknown"), &mut result.text)
                }
                _ => continue,
            };
            let plan = truncate::plan(output.as_bytes(), tool, self.policy);
            if !plan.loses() {
                continue;
            }
            let spill = if plan.wants_spill() {
                Spill::Saved(Address::Handle(format!("spill_{}", part.id)))
            } else {
                Spill::Off
            };
            let shown = plan.render(&spill);
            let (before, after) = (tokens(output), tokens(&shown));
            if after < before {
                *output = shown;
                self.fired.push(Reduction { kind: "truncate".into(), before, after, ..Reduction::default() });
            }
        }
    }

    /// Layer 2 after a turn, for policies that want it then.
    fn prune(&mut self) -> Result<(), LogError> {
        let now = self.now();
        let load = plimsoll::Load::of(&self.log, self.policy, self.fixed, &self.policy.count);
        let pressure = Pressure { load: load.tokens, limits: self.limits };
        let plan = prune::plan(&self.log, self.policy, Some(pressure));
        if plan.items.is_empty() {
            return Ok(());
        }
        let before = self.weigh();
        let receipt = self.ids.receipt(now);
        Plan::Prune(plan).mark(&mut self.log, &receipt, now)?;
        let after = self.weigh();
        self.fired.push(Reduction { kind: "prune".into(), before, after, ..Reduction::default() });
        Ok(())
    }

    fn weigh(&self) -> u64 {
        request_tokens(&Window::of(&self.log, self.policy), self.fixed, &self.policy.count).0
    }

    fn climb(&mut self, call: &Call, trigger: Trigger) -> Result<(), LogError> {
        let now = self.now();
        let (policy, limits) = (self.policy, self.limits);
        let situation = Situation {
            summariser: Some(Summariser::named("summariser", limits)),
            fixed: self.fixed,
            breaker: self.breaker,
            trigger,
            ..Situation::new(policy, limits, now)
        };
        let mut ladder = Ladder::new(self.log.clone(), situation);
        let (mut asked, mut answered) = (0u64, 0u64);
        let outcome = loop {
            match ladder.climb(&mut self.ids)? {
                Next::Ask(request) => {
                    asked = asked.saturating_add(request.tokens.0);
                    let recorded = call.summary.clone().filter(|_| request.chunk == request.of);
                    let reply = recorded.or_else(|| ladder.offline());
                    answered = answered.saturating_add(reply.as_ref().map(tokens).unwrap_or_default());
                    let reply = match reply {
                        Some(text) => Ok(Reply::finished(text.as_str())),
                        None => Err("there is too little to summarise".into()),
                    };
                    ladder.answer(reply, &mut self.ids)?;
                }
                Next::Done(outcome) => break outcome,
            }
        };
        outcome.reduction.commit(&mut self.log)?;
        self.breaker = outcome.breaker;
        let mut pivoted = false;
        for receipt in &outcome.reduction.receipts {
            let kind = match receipt.plan {
                Plan::Truncate(_) => "truncate",
                Plan::Prune(_) => "prune",
                Plan::Compact(_) => "compact",
                Plan::Shed(_) => "shed",
                Plan::Fork(_) => "fork",
                Plan::Pin(_) => "pin",
            };
            let compacts = kind == "compact";
            pivoted |= compacts;
            let paid =
                if compacts { (std::mem::take(&mut asked), std::mem::take(&mut answered)) } else { (0, 0) };
            self.fired.push(Reduction {
                kind: kind.into(),
                before: receipt.before.0,
                after: receipt.after.0,
                asked: paid.0,
                answered: paid.1,
            });
        }
        if asked > 0 {
            // A summary that was paid for and not taken.
            let (before, after) = (outcome.before.0, outcome.after.0);
            self.fired.push(Reduction { kind: "compact".into(), before, after, asked, answered });
        }
        if pivoted {
            self.forget();
        }
        Ok(())
    }

    /// Hold only what is in view: everything before a pivot is found in the recording.
    fn forget(&mut self) {
        let places = Visible::of(&self.log).needed(&self.log);
        self.log = Log::from_messages(places.into_iter().map(|place| self.log[place].clone()));
    }
}

fn tokens(text: &Text) -> u64 {
    CharCounter::default().count_text(text).0
}

impl Sight for Engine<'_> {
    fn append(&mut self, step: &Step, usage: Option<Usage>) -> Result<(), LogError> {
        if self.answered && step.message.starts_turn() {
            self.answered = false;
            if self.policy.prune.after_turn {
                self.prune()?;
            }
        }
        self.answered |= step.call.is_some();
        self.ready = None;
        let mut message = step.message.clone();
        self.truncate(&mut message);
        let now = self.now();
        let time = message.info.time.get_or_insert_default();
        (time.created, time.completed) = (Some(now), Some(now));
        self.last_output = usage.as_ref().map(|usage| usage.output.0).unwrap_or(self.last_output);
        message.info.tokens = usage;
        self.log.append(message)
    }

    fn prepare(&mut self, call: &Call, refused: bool, pieces: &mut Pieces<'_>) -> Result<(), LogError> {
        let request = self.request(pieces);
        let load = Tokens(pieces.tokens(&request)) + self.fixed.total() + Tokens(self.last_output);
        if !refused && load < Tokens(self.calm) {
            self.ready = Some(request);
            return Ok(());
        }
        self.climb(call, if refused { Trigger::Refused } else { Trigger::Auto })
    }

    fn request(&mut self, pieces: &mut Pieces<'_>) -> Vec<Piece> {
        if let Some(request) = self.ready.take() {
            return request;
        }
        let window = Window::of(&self.log, self.policy);
        let mut request = Vec::new();
        window.messages.iter().for_each(|message| pieces.message(message, &mut request));
        request
    }

    fn fired(&mut self) -> Vec<Reduction> {
        std::mem::take(&mut self.fired)
    }
}
