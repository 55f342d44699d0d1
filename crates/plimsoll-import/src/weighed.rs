//! Figures of a session for a list.

use plimsoll::{Message, Policy, Tokens, first_words};
use plimsoll_formats::{Format, Recorded, SessionInfo};
use plimsoll_session::{UsageGate, WindowScale};
use plimsoll_tokens::{MeterCheckpoint, WindowMeter};
use serde::{Deserialize, Serialize};

use crate::error::ImportError;
use crate::text::{FirstPrompt, TITLE};

/// Figures of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Weighed {
    /// Number of messages.
    pub messages: usize,
    /// Current size of the window.
    pub window: Tokens,
    /// Whether `window` is based on recorded usage instead of characters.
    pub is_measured: bool,
    /// Title, or the first words of the session.
    pub title: String,
    /// The last model.
    pub model: Option<String>,
    /// Context window that the tool recorded, unless the session was continued elsewhere.
    pub context: Option<Tokens>,
    /// The tool that wrote it, if its format is not the tool's own; `None` if the session was continued elsewhere.
    pub tool: Option<Format>,
    /// Time of its start, in milliseconds since 1970.
    pub started: Option<u64>,
    /// Usage that its providers reported.
    pub recorded: Recorded,
}

/// Weighs a session message by message.
#[derive(Clone)]
pub(crate) struct Weighing {
    gate: UsageGate,
    meter: WindowMeter,
    messages: usize,
    prompt: FirstPrompt,
}

impl Default for Weighing {
    fn default() -> Weighing {
        Weighing {
            gate: UsageGate::unlimited(),
            meter: WindowMeter::default(),
            messages: 0,
            prompt: FirstPrompt::default(),
        }
    }
}

/// State of a [`Weighing`] for storage. It has no content except the title.
#[derive(Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    meter: MeterCheckpoint,
    messages: usize,
    prompt: FirstPrompt,
}

impl From<Checkpoint> for Weighing {
    fn from(Checkpoint { meter, messages, prompt }: Checkpoint) -> Weighing {
        Weighing { gate: UsageGate::opened(), meter: meter.into(), messages, prompt }
    }
}

impl Weighing {
    pub(crate) fn add(&mut self, message: Message) {
        self.messages += 1;
        self.prompt.see(&message);
        self.gate.pass(message).for_each(|message| self.meter.add(&message));
    }

    /// Returns the state to resume from. `None` if no usage is known, or if a change has not taken effect yet.
    pub(crate) fn checkpoint(&self) -> Option<Checkpoint> {
        let meter = self.meter.checkpoint().filter(|_| self.gate.is_open())?;
        Some(Checkpoint { meter, messages: self.messages, prompt: self.prompt.clone() })
    }

    /// Returns the figures. The window is measured as by `plimsoll inspect`: by recorded usage, or by characters if there is
    /// none. `whole` reads the messages again, which few sessions need.
    pub(crate) fn end(
        self,
        policy: &Policy,
        info: &SessionInfo,
        recorded: Recorded,
        whole: impl FnOnce() -> Result<Vec<Message>, ImportError>,
    ) -> Result<Weighed, ImportError> {
        let (gate, scale) = (self.gate, WindowScale::new(self.meter.read(), policy));
        // Without usage, all messages are still in memory.
        let window = scale.tokens_of(policy, || if gate.is_open() { whole() } else { Ok(gate.waiting()) })?;
        let title = info.title.as_deref().map(|title| first_words(title, TITLE));
        Ok(Weighed {
            messages: self.messages,
            window,
            is_measured: scale.measured().is_some(),
            title: title.filter(|title| !title.is_empty()).unwrap_or_else(|| self.prompt.words()),
            model: info.model.clone(),
            context: info.context,
            tool: info.tool,
            started: info.started.map(|at| at.0),
            recorded,
        })
    }
}
