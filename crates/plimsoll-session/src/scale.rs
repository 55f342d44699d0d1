//! The scale on which windows are shown, and plans that are made on it.
//!
//! A driver's own scale is made of its newest usage and an estimate of the same window, and treats all of the
//! difference as a factor. In a session of another tool most of the difference is hidden: a system prompt and tool
//! schemas that no transcript contains and no reduction removes. [`WindowMeter`] separates the two, but has to see
//! every request. So the whole session is read for each figure, with the messages that a reduction is about to change
//! in their future state.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use plimsoll::compact::CompactionContext;
use plimsoll::policy::Detector;
use plimsoll::prune::{self, Pressure, PruneChoice, PrunePlan};
use plimsoll::{
    CharCounter, Counter, Limits, Log, Message, MessageId, Policy, RequestOverhead, SessionId, Tokens,
    Window, request_tokens,
};
use plimsoll_store::{Archive, StopFlag, StoreError};
use plimsoll_tokens::{Measured, WindowMeter};

use crate::stored::each_message_as;
use crate::usage_gate::UsageGate;

/// The scale on which a session is shown: the usage that it records, or characters over four if it records none.
pub struct WindowScale {
    measured: Option<Measured>,
    chars: CharCounter,
}

/// Size of a window on a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WindowSize {
    /// Tokens of the window.
    pub tokens: Tokens,
    /// Tokens of every request that the session does not record; `None` without usage.
    pub hidden: Option<Tokens>,
    /// Other tokens that the session does not record; `None` without usage.
    pub unseen: Option<Tokens>,
}

impl WindowScale {
    /// Returns the scale of a session with these messages.
    pub fn of(messages: &[Message], policy: &Policy) -> WindowScale {
        WindowScale::new(WindowMeter::of(messages).read(), policy)
    }

    /// Returns the scale of a session whose usage was read.
    pub fn new(measured: Option<Measured>, policy: &Policy) -> WindowScale {
        WindowScale { measured, chars: policy.count }
    }

    /// Returns the recorded usage, if there is any.
    pub fn measured(&self) -> Option<&Measured> {
        self.measured.as_ref()
    }

    /// Returns the counter of what the session records.
    pub fn counter(&self) -> Box<dyn Counter + '_> {
        match &self.measured {
            Some(measured) => Box::new(measured.counter()),
            None => Box::new(self.chars),
        }
    }

    /// Returns the size of a window of which the session records `visible` tokens by [`WindowScale::counter`].
    pub fn size(&self, visible: Tokens) -> WindowSize {
        let Some(measured) = &self.measured else {
            return WindowSize { tokens: visible, hidden: None, unseen: None };
        };
        let tokens = measured.window_of(|| visible);
        // The pieces are estimates; their sum is the counted size.
        let unrecorded = tokens - visible;
        let hidden = measured.hidden().min(unrecorded);
        WindowSize { tokens, hidden: Some(hidden), unseen: Some(unrecorded - hidden) }
    }

    /// Returns the tokens of a window. `messages` is called only if usage does not determine the size.
    pub fn tokens_of<M: AsRef<[Message]>, E>(
        &self,
        policy: &Policy,
        messages: impl FnOnce() -> Result<M, E>,
    ) -> Result<Tokens, E> {
        let mut failed = None;
        let visible = || match messages() {
            Ok(messages) => {
                let window = Window::of(messages.as_ref(), policy);
                request_tokens(&window, RequestOverhead::default(), &*self.counter())
            }
            Err(error) => {
                failed = Some(error);
                Tokens::ZERO
            }
        };
        let tokens = match &self.measured {
            Some(measured) => measured.window_of(visible),
            None => visible(),
        };
        failed.map_or(Ok(tokens), Err)
    }
}

/// Size of a session's window by its usage, and a counter for plans about its pieces.
#[derive(Clone)]
#[non_exhaustive]
pub struct UsageScale {
    /// Tokens of the window now.
    pub window: Tokens,
    /// Tokens of every request that the session does not record.
    hidden: Tokens,
    /// Counter of pieces.
    counter: Arc<dyn Counter>,
}

impl UsageScale {
    /// Returns the scale of a session with these messages; `None` if it records no usage.
    pub fn of(messages: &[Message], policy: &Policy) -> Option<UsageScale> {
        let scale = WindowScale::of(messages, policy);
        scale.measured.is_some().then(|| UsageScale::new(&scale, messages, policy))
    }

    /// Returns the scale that a session is shown on: by its usage, or by characters over four if it records none.
    pub fn shown(messages: &[Message], policy: &Policy) -> UsageScale {
        UsageScale::new(&WindowScale::of(messages, policy), messages, policy)
    }

    /// Returns the scale of a stored session, with `log` in the place of the messages that are stored under the same
    /// ids.
    pub(crate) fn read(
        archive: &Archive,
        session: &SessionId,
        log: &Log,
        policy: &Policy,
    ) -> Result<UsageScale, StoreError> {
        let mut newer: BTreeMap<&MessageId, &Message> =
            log.iter().map(|message| (&message.info.id, message)).collect();
        let (mut gate, mut meter) = (UsageGate::default(), WindowMeter::default());
        let mut follow = |message: Message| gate.pass(message).for_each(|message| meter.add(&message));
        let mut current = |message: Message| newer.remove(&message.info.id).cloned().unwrap_or(message);
        each_message_as(archive.store(), session, &StopFlag::default(), &mut current, &mut follow)?;
        // A summary that is about to be stored.
        let appended = log.iter().filter(|message| newer.contains_key(&message.info.id));
        appended.cloned().for_each(follow);
        Ok(UsageScale::new(&WindowScale::new(meter.read(), policy), log, policy))
    }

    fn new(scale: &WindowScale, messages: &[Message], policy: &Policy) -> UsageScale {
        let counter: Arc<dyn Counter> = match &scale.measured {
            Some(measured) => Arc::new(measured.window_counter()),
            None => Arc::new(scale.chars),
        };
        let Ok(window) = scale.tokens_of(policy, || Ok::<_, Infallible>(messages));
        UsageScale { window, hidden: scale.measured.as_ref().map_or(Tokens::ZERO, Measured::hidden), counter }
    }

    /// Makes a climb weigh by this scale. Policies that follow a document keep the document's own figures, which do not
    /// include hidden content.
    pub fn apply_to(&self, context: &mut CompactionContext) {
        if context.policy.overflow.detector == Detector::Both {
            context.fixed.system += self.hidden;
            context.counter = Arc::clone(&self.counter);
        }
    }

    /// Converts tokens of a plan to this scale. Policies that follow a document plan by the document's own figures.
    pub fn of_plan(&self, tokens: Tokens, messages: &[Message], policy: &Policy) -> Tokens {
        if policy.overflow.detector == Detector::Both {
            return tokens;
        }
        let window = Window::of(messages, policy);
        let weight = |counter: &dyn Counter| request_tokens(&window, RequestOverhead::default(), counter).0;
        let (shown, planned) = (weight(&*self.counter), weight(&policy.count).max(1));
        Tokens(
            (u128::from(tokens.0) * u128::from(shown) / u128::from(planned)).min(u128::from(u64::MAX)) as u64
        )
    }

    /// Plans a prune of what is chosen, down to a share of the shown window.
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
