//! The window of a session that is being driven.

use plimsoll::compact::Trigger;
use plimsoll::{Limits, Line, Load, Message, Scale, Tokens};
use plimsoll_store::Session;
use serde::Serialize;

use super::Driver;
use crate::error::SessionError;
use crate::inspect::{BlockScale, Describer, MeasuredBy, Weigher, WindowReport, is_user_prompt};
use crate::scale::WindowSize;
use crate::stored::each_message_as;

/// Size of the next request of a session, and its distance from the line.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SessionLoad {
    /// The session, with its cost so far.
    pub session: Session,
    /// Size of the next request. After a reduction it stays on the scale of the newest usage, so that the difference is
    /// the size of what was reduced.
    pub load: Load,
    /// Converts estimates to `load.tokens`.
    pub scale: Scale,
    /// Limits of the model.
    pub limits: Limits,
    /// The line, if the model's window is known.
    pub line: Option<Line>,
}

impl Driver {
    /// Returns the size of the next request. It costs as much as the window is long.
    pub fn load(&self) -> Result<SessionLoad, SessionError> {
        let (load, scale) = self.shown_load();
        Ok(SessionLoad {
            session: self.archive.store().session(self.session())?,
            load,
            scale,
            limits: self.limits(),
            line: self.settings.policy.overflow.line(self.limits()),
        })
    }

    fn shown_load(&self) -> (Load, Scale) {
        let context = self.context(Trigger::Auto);
        let mut load = context.load(&self.log);
        let scale = context.scale(&load, &self.log);
        if load.usage_of.is_none() {
            load.tokens = scale.request(load.estimate);
        }
        (load, scale)
    }

    /// Returns what is in the window. It reads the whole session.
    ///
    /// A reader, which makes no request, gets the report that every host shows for the stored session.
    ///
    /// If the size of the next request is known from the usage of the last answer, this is the report that every host
    /// shows for the stored session. Otherwise the session records no request like the next one: this host has not made
    /// one yet, or something was reduced or added since. Then the window is weighed on the scale of [`Driver::load`].
    pub fn inspect(&self) -> Result<WindowReport, SessionError> {
        let policy = &self.settings.policy;
        let mut weigher = Weigher::new(policy);
        let mut turns = TurnsOf::new(&self.log);
        let mut weigh = |message| {
            turns.add(&message);
            weigher.add(message);
        };
        let (store, stop) = (self.archive.store(), self.stop.of_store());
        each_message_as(store, self.session(), stop, &mut |message| message, &mut weigh)?;
        let session = self.archive.store().session(self.session())?;
        let directory = session.directory.as_deref();
        let stored = weigher.finish(self.limits(), directory);
        if self.lease.is_readers() {
            return Ok(stored);
        }
        let (load, scale) = self.shown_load();
        if load.usage_of.is_some() && load.tokens == stored.window && stored.is_consistent() {
            return Ok(stored);
        }
        self.stop.check()?;
        let (counter, describer) = (self.counter(), Describer { directory });
        let blocks = BlockScale { policy, counter: &*counter, scale, describer };
        let seen = blocks.add_up(&self.log, &turns.of_log, Tokens::ZERO);
        let hidden = scale.piece(self.overhead().total()).min(load.tokens);
        let unseen = load.tokens - seen.visible - hidden;
        let size = WindowSize { tokens: load.tokens, hidden: Some(hidden), unseen: Some(unseen) };
        Ok(WindowReport {
            messages: stored.messages,
            measured: if load.usage_of.is_some() { MeasuredBy::Usage } else { MeasuredBy::Count },
            line: stored.line,
            pivots: stored.pivots,
            ..seen.with_size(size)
        })
    }
}

/// The turns of the messages that a driver holds, counted over the whole session.
struct TurnsOf<'a> {
    log: &'a [Message],
    of_log: Vec<u32>,
    turn: u32,
}

impl TurnsOf<'_> {
    fn new(log: &[Message]) -> TurnsOf<'_> {
        TurnsOf { log, of_log: Vec::with_capacity(log.len()), turn: 0 }
    }

    fn add(&mut self, message: &Message) {
        self.turn += u32::from(is_user_prompt(message));
        // Both lists are in the order of the session.
        if self.log.get(self.of_log.len()).is_some_and(|held| held.info.id == message.info.id) {
            self.of_log.push(self.turn);
        }
    }
}
