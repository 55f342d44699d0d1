//! The scale of a session's recorded usage: the figures that every command shows for a session.
//!
//! A driver's own scale is made of its newest usage and an estimate of the same window, and takes all that they differ by
//! for a factor. In a session of another tool most of the difference is hidden: a system prompt and schemas of tools that
//! no transcript shows, and that no reduction takes away. [`WindowMeter`] separates the two, but has to see every
//! request. So all of the session is read again for each figure; the messages that a reduction is about to change are taken
//! as they will be.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll::compact::ladder::Situation;
use plimsoll::count::request_tokens;
use plimsoll::policy::Detector;
use plimsoll::prune::{self, Pressure, PruneChoice, PrunePlan};
use plimsoll::{Counter, Fixed, Limits, Log, Message, MessageId, Policy, SessionId, Tokens, Window};
use plimsoll_store::{Archive, CountWatch, PageRequest, StoreError};
use plimsoll_tokens::{Measured, WindowMeter, records_usage};

/// Number of messages that are read at a time.
const PAGE: u64 = 200;
/// Maximum number of messages to hold until one records usage. Without usage nothing is counted.
const MOST_WAITING: usize = 1_000;

/// Size of a session's window by its usage, and a counter for pieces of it.
#[derive(Clone)]
pub struct UsageScale {
    /// Tokens of the window.
    pub window: Tokens,
    /// Tokens of every request that the session does not show.
    hidden: Tokens,
    /// Counts pieces on this scale.
    counter: Arc<dyn Counter>,
}

impl UsageScale {
    /// The scale of a session with these messages; `None` if it records no usage.
    pub fn of(messages: &[Message], policy: &Policy) -> Option<UsageScale> {
        Some(UsageScale::new(&WindowMeter::of(messages).read()?, messages, policy))
    }

    /// The scale that a session is shown on: by its usage, or by characters over four if it records none.
    pub fn shown(messages: &[Message], policy: &Policy) -> UsageScale {
        UsageScale::of(messages, policy).unwrap_or_else(|| UsageScale::estimated(messages, policy))
    }

    /// The scale of a stored session, with `log` in the place of the messages that are stored under the same ids.
    pub(crate) fn read(
        archive: &Archive,
        session: &SessionId,
        log: &Log,
        policy: &Policy,
    ) -> Result<UsageScale, StoreError> {
        let mut newer: BTreeMap<&MessageId, &Message> =
            log.iter().map(|message| (&message.info.id, message)).collect();
        let mut follower = Follower::default();
        // What was counted once comes with its count from here on, also when the session is read again for the next figure.
        let mut counts = CountWatch::new(2 * MOST_WAITING);
        let mut from = None;
        loop {
            let request = PageRequest { from: from.take(), oldest_first: true, most: PAGE };
            let messages = archive.store().page(session, &request)?.messages;
            let Some(last) = messages.last() else { break };
            from = Some(last.info.id.clone());
            for message in messages {
                let newer = newer.remove(&message.info.id).cloned();
                let message = newer.unwrap_or(message);
                counts.watch(&message);
                follower.add(message);
            }
            counts.settle(archive.store(), session);
        }
        // A summary that is about to be stored.
        let appended = log.iter().filter(|message| newer.contains_key(&message.info.id));
        appended.for_each(|message| follower.add(message.clone()));
        let measured = follower.meter.and_then(WindowMeter::read);
        counts.finish(archive.store(), session);
        Ok(measured.map_or_else(
            || UsageScale::estimated(log, policy),
            |measured| UsageScale::new(&measured, log, policy),
        ))
    }

    fn new(measured: &Measured, messages: &[Message], policy: &Policy) -> UsageScale {
        let window = Window::of(messages, policy);
        let visible = request_tokens(&window, Fixed::default(), &measured.counter());
        UsageScale {
            window: measured.window_of(visible),
            hidden: measured.hidden(),
            counter: Arc::new(measured.window_counter()),
        }
    }

    /// The scale of a session that records no usage: by the policy's characters over four.
    fn estimated(messages: &[Message], policy: &Policy) -> UsageScale {
        let window = request_tokens(&Window::of(messages, policy), Fixed::default(), &policy.count);
        UsageScale { window, hidden: Tokens::ZERO, counter: Arc::new(policy.count) }
    }

    /// Makes a climb weigh by this scale. Policies that follow a document use the document's own figures, which know nothing
    /// hidden.
    pub fn weigh_in(&self, situation: &mut Situation) {
        if situation.policy.overflow.detector == Detector::Both {
            situation.fixed.system += self.hidden;
            situation.counter = Arc::clone(&self.counter);
        }
    }

    /// Tokens of a plan on this scale. Policies that follow a document plan by the document's own figures.
    pub fn of_plan(&self, tokens: Tokens, messages: &[Message], policy: &Policy) -> Tokens {
        if policy.overflow.detector == Detector::Both {
            return tokens;
        }
        let window = Window::of(messages, policy);
        let weight = |counter: &dyn Counter| request_tokens(&window, Fixed::default(), counter).0;
        let (shown, planned) = (weight(&*self.counter), weight(&policy.count).max(1));
        Tokens(
            (u128::from(tokens.0) * u128::from(shown) / u128::from(planned)).min(u128::from(u64::MAX)) as u64
        )
    }

    /// Plans a prune of the chosen outputs, down to a share of this window.
    pub fn plan_choice(
        &self,
        messages: &[Message],
        policy: &Policy,
        choice: &PruneChoice,
        limits: Limits,
    ) -> PrunePlan {
        let pressure = Pressure { load: self.window, limits };
        prune::plan_choice_by(messages, policy, choice, Some(pressure), &*self.counter)
    }
}

/// Follows a session once it is known to record usage.
#[derive(Default)]
struct Follower {
    waiting: Vec<Message>,
    meter: Option<WindowMeter>,
}

impl Follower {
    fn add(&mut self, message: Message) {
        if let Some(meter) = &mut self.meter {
            return meter.add(&message);
        }
        let counts = records_usage(&message) || self.waiting.len() >= MOST_WAITING;
        self.waiting.push(message);
        if counts {
            let mut meter = WindowMeter::default();
            self.waiting.drain(..).for_each(|message| meter.add(&message));
            self.meter = Some(meter);
        }
    }
}
