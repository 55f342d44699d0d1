//! The engine under one of its policies, driven as a running agent would drive it: by the driver of a turn, on a store in
//! memory. A replay cannot differ from what really runs, because it is the same code.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll::compact::accept::Reply;
use plimsoll::compact::request::Summariser;
use plimsoll::{
    CharCounter, Counter, Fixed, Ids, Limits, Millis, Plan, Policy, Receipt, SessionId, Text, Tokens, Usage,
    Window,
};
use plimsoll_session::{Counting, Driver, Prepared, SessionError, Settings};
use plimsoll_store::{Archive, Clock, NewSession};

use super::{Reduction, Sight};
use crate::pieces::{Piece, Pieces};
use crate::recording::{Call, Step};

pub(super) struct Engine {
    driver: Driver,
    fixed: Fixed,
    /// Counts steps. Recorded times may be missing or jump, and marks must be told from what was before them.
    clock: Arc<AtomicU64>,
    /// Whether the turn has an answer, so that the next prompt ends it.
    answered: bool,
    /// The window that was prepared, if nothing has changed since.
    prepared: Option<Window>,
    fired: Vec<Reduction>,
}

impl Engine {
    pub(super) fn new(policy: &Policy, limits: Limits, fixed: u64) -> Result<Engine, SessionError> {
        let clock = Arc::new(AtomicU64::new(1));
        let time = Arc::clone(&clock);
        let settings = Settings {
            policy: Arc::new(policy.clone()),
            limits: Some(limits),
            summariser: Some(Summariser::named("summariser", limits)),
            counting: Counting::Fixed(Arc::new(policy.count)),
            clock: Clock::new(move || Millis(time.load(Ordering::Relaxed))),
            ..Settings::new("")
        };
        let archive = Arc::new(Archive::in_memory());
        let session = SessionId::new("ses_replay");
        archive.store().create(NewSession::new(session.clone()), Millis(1))?;
        // The same replay names the same things.
        let mut seed = 0u64;
        let ids = Ids::new(move || {
            seed += 1;
            seed
        });
        let driver = Driver::open(archive, &session, settings)?.with_ids(ids);
        let fixed = Fixed { system: Tokens(fixed), tools: Tokens::ZERO };
        Ok(Engine { driver, fixed, clock, answered: false, prepared: None, fired: Vec::new() })
    }

    fn tick(&self) -> Millis {
        Millis(self.clock.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Note what was done. `paid` is what the summariser was sent and answered for it.
    fn note(&mut self, receipts: &[Receipt], mut paid: (u64, u64)) {
        for receipt in receipts {
            let kind = match receipt.plan {
                Plan::Truncate(_) => "truncate",
                Plan::Prune(_) => "prune",
                Plan::Compact(_) => "compact",
                Plan::Shed(_) => "shed",
                Plan::Fork(_) => "fork",
                Plan::Purge(_) => "purge",
                Plan::Pin(_) => "pin",
            };
            let (asked, answered) = if kind == "compact" { std::mem::take(&mut paid) } else { (0, 0) };
            let (before, after) = (receipt.before.0, receipt.after.0);
            self.fired.push(Reduction { kind: kind.into(), before, after, asked, answered });
        }
        let (asked, answered) = paid;
        if asked > 0 {
            // A summary that was paid for and not taken.
            self.fired.push(Reduction { kind: "compact".into(), asked, answered, ..Reduction::default() });
        }
    }
}

fn tokens(text: &Text) -> u64 {
    CharCounter::default().count_text(text).0
}

impl Sight for Engine {
    fn append(&mut self, step: &Step, usage: Option<Usage>) -> Result<(), SessionError> {
        if self.answered && step.message.starts_turn() {
            self.answered = false;
            self.tick();
            let receipt = self.driver.end_turn(self.fixed)?;
            self.note(receipt.as_slice(), (0, 0));
        }
        self.answered |= step.call.is_some();
        self.prepared = None;
        let mut message = step.message.clone();
        let now = self.tick();
        let time = message.info.time.get_or_insert_default();
        (time.created, time.completed) = (Some(now), Some(now));
        message.info.tokens = usage;
        let (_, receipts) = self.driver.append_recorded(message)?;
        self.note(&receipts, (0, 0));
        Ok(())
    }

    fn prepare(&mut self, call: &Call, refused: bool, _: &mut Pieces<'_>) -> Result<(), SessionError> {
        if refused {
            self.driver.refused(None, self.fixed);
        }
        self.tick();
        let (mut asked, mut answered) = (0u64, 0u64);
        loop {
            match self.driver.prepare(self.fixed)? {
                Prepared::Ready(content) => {
                    self.note(&content.receipts, (asked, answered));
                    self.prepared = Some(content.window);
                    return Ok(());
                }
                Prepared::Summarise(request) => {
                    asked = asked.saturating_add(request.tokens.0);
                    let recorded = call.summary.clone().filter(|_| request.chunk == request.of);
                    let reply = recorded.or_else(|| self.driver.offline_summary());
                    answered = answered.saturating_add(reply.as_ref().map(tokens).unwrap_or_default());
                    let reply = reply.map(|text| Reply::finished(text.as_str()));
                    self.driver
                        .summarised(reply.ok_or_else(|| "there is too little to summarise".to_owned()))?;
                }
                Prepared::CannotFit { receipts, .. } => {
                    self.note(&receipts, (asked, answered));
                    self.prepared = Some(self.driver.window());
                    return Ok(());
                }
            }
        }
    }

    fn request(&mut self, pieces: &mut Pieces<'_>) -> Vec<Piece> {
        let window = self.prepared.take().unwrap_or_else(|| self.driver.window());
        let mut request = Vec::new();
        window.messages.iter().for_each(|message| pieces.message(message, &mut request));
        self.prepared = Some(window);
        request
    }

    fn fired(&mut self) -> Vec<Reduction> {
        std::mem::take(&mut self.fired)
    }
}
