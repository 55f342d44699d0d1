//! The weight of a session, with what a list shows of it.

use plimsoll::{Message, Policy, Tokens, first_words};
use plimsoll_formats::{Recorded, SessionInfo};
use plimsoll_session::WindowScale;
use plimsoll_tokens::{MeterCheckpoint, WindowMeter, records_usage};
use serde::{Deserialize, Serialize};

use crate::error::ImportError;
use crate::text::{FirstPrompt, TITLE};

/// A session, weighed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Weighed {
    /// How many messages it has.
    pub messages: usize,
    /// What is in the window now.
    pub window: Tokens,
    /// Whether recorded usage tells so, rather than characters.
    pub is_measured: bool,
    /// What people call it, or the first words of it.
    pub title: String,
    /// The model, the last one if it changed.
    pub model: Option<String>,
    /// When it began, in milliseconds since 1970.
    pub started: Option<u64>,
    /// What its providers counted.
    pub recorded: Recorded,
}

/// A session being weighed, message by message. Messages are held until one records usage: a session without any is told by
/// characters, and a vocabulary is of no use for it.
#[derive(Clone)]
pub(crate) struct Weighing {
    waiting: Option<Vec<Message>>,
    meter: WindowMeter,
    messages: usize,
    prompt: FirstPrompt,
}

impl Default for Weighing {
    fn default() -> Weighing {
        Weighing {
            waiting: Some(Vec::new()),
            meter: WindowMeter::default(),
            messages: 0,
            prompt: FirstPrompt::default(),
        }
    }
}

/// The state of a [`Weighing`], as it is stored. It has figures and the title, and nothing else that was said.
#[derive(Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    meter: MeterCheckpoint,
    messages: usize,
    prompt: FirstPrompt,
}

impl From<Checkpoint> for Weighing {
    fn from(Checkpoint { meter, messages, prompt }: Checkpoint) -> Weighing {
        Weighing { waiting: None, meter: meter.into(), messages, prompt }
    }
}

impl Weighing {
    pub(crate) fn add(&mut self, message: Message) {
        self.messages += 1;
        self.prompt.see(&message);
        let Some(waiting) = &mut self.waiting else { return self.meter.add(&message) };
        let is_known = records_usage(&message);
        waiting.push(message);
        if is_known {
            self.waiting.take().into_iter().flatten().for_each(|message| self.meter.add(&message));
        }
    }

    /// The state to go on from; `None` if no usage is known, or something is still to take effect.
    pub(crate) fn checkpoint(&self) -> Option<Checkpoint> {
        let meter = self.meter.checkpoint().filter(|_| self.waiting.is_none())?;
        Some(Checkpoint { meter, messages: self.messages, prompt: self.prompt.clone() })
    }

    /// What all of it comes to. The window is measured as `plimsoll inspect` measures it: by the usage that the session
    /// records, and by characters alone if it records none. `whole` reads the messages again, which few sessions need.
    pub(crate) fn end(
        self,
        policy: &Policy,
        info: &SessionInfo,
        recorded: Recorded,
        whole: impl FnOnce() -> Result<Vec<Message>, ImportError>,
    ) -> Result<Weighed, ImportError> {
        let (waiting, scale) = (self.waiting, WindowScale::new(self.meter.read(), policy));
        let window = scale.tokens_of(policy, || match waiting {
            // Without usage every message is still held.
            Some(messages) => Ok(messages),
            None => whole(),
        })?;
        let title = info.title.as_deref().map(|title| first_words(title, TITLE));
        Ok(Weighed {
            messages: self.messages,
            window,
            is_measured: scale.measured().is_some(),
            title: title.filter(|title| !title.is_empty()).unwrap_or_else(|| self.prompt.words()),
            model: info.model.clone(),
            started: info.started.map(|at| at.0),
            recorded,
        })
    }
}
