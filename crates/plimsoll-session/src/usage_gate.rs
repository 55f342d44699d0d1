//! Holds back messages until it is known whether their session records usage.

use plimsoll::{Message, Part, PartBody};
use plimsoll_tokens::records_usage;

/// Holds messages back until one of them records usage, then passes everything on in order.
///
/// A session without usage is measured by characters. Counting it with a vocabulary would take longer than reading it,
/// and the counts would never be used.
#[derive(Clone)]
pub struct UsageGate {
    waiting: Vec<Message>,
    bytes: usize,
    max_bytes: usize,
    is_open: bool,
}

/// Limit for sessions of any length, in bytes: beyond it, counting is cheaper than the memory.
const MAX_WAITING: usize = 8 << 20;

impl Default for UsageGate {
    /// Creates a closed gate that opens by itself when 8 MB of messages wait.
    fn default() -> UsageGate {
        UsageGate { waiting: Vec::new(), bytes: 0, max_bytes: MAX_WAITING, is_open: false }
    }
}

impl UsageGate {
    /// Creates a closed gate that holds any number of messages: [`waiting`](UsageGate::waiting) is then a whole session
    /// without usage.
    pub fn unlimited() -> UsageGate {
        UsageGate { max_bytes: usize::MAX, ..UsageGate::default() }
    }

    /// Creates an open gate, which passes every message on.
    pub fn opened() -> UsageGate {
        UsageGate { is_open: true, ..UsageGate::default() }
    }

    /// Whether messages are passed on.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Takes the next message of the session. Returns the messages that are passed on, oldest first.
    pub fn pass(&mut self, message: Message) -> impl Iterator<Item = Message> + use<> {
        if !self.is_open {
            self.bytes = self.bytes.saturating_add(size(&message));
            self.is_open = records_usage(&message) || self.bytes > self.max_bytes;
        }
        let (passed, newest) = if self.is_open {
            (std::mem::take(&mut self.waiting), Some(message))
        } else {
            self.waiting.push(message);
            (Vec::new(), None)
        };
        passed.into_iter().chain(newest)
    }

    /// Returns the messages that were held back, empty if the gate is open.
    pub fn waiting(self) -> Vec<Message> {
        self.waiting
    }
}

/// Returns roughly the memory that a message takes.
pub(crate) fn size(message: &Message) -> usize {
    let parts = message.parts.iter().map(|part| {
        let text = match &part.body {
            PartBody::Text(text) => text.text.len(),
            PartBody::Reasoning(thought) => thought.text.len(),
            PartBody::Tool(tool) => {
                let input = tool.state.input.as_ref().map_or(0, |input| 2 * input.json().len());
                let files = tool.state.attachments.iter().map(|file| file.to_string().len());
                input + tool.state.result().map_or(0, |text| text.len()) + files.sum::<usize>()
            }
            PartBody::ToolResult(result) => result.text.len(),
            PartBody::File(file) => file.url.as_ref().map_or(0, |url| url.len()),
            _ => 0,
        };
        // The struct, and a guess for its separately allocated strings.
        text + size_of::<Part>() + 200
    });
    parts.sum::<usize>() + size_of::<Message>() + 300
}

#[cfg(test)]
mod tests {
    use plimsoll::{Message, Tokens, Usage};

    use super::UsageGate;

    fn user(id: &str) -> Message {
        Message::user(id.into(), format!("{id}.1").as_str().into(), "Hello")
    }

    fn answer(id: &str) -> Message {
        let mut answer = Message::assistant(id.into(), Vec::new());
        answer.info.tokens = Some(Usage::new(Tokens(9), Tokens(1)));
        answer
    }

    fn ids(messages: impl IntoIterator<Item = Message>) -> Vec<String> {
        messages.into_iter().map(|message| message.info.id.to_string()).collect()
    }

    #[test]
    fn messages_wait_for_the_first_usage_and_then_pass_in_order() {
        let mut gate = UsageGate::unlimited();
        assert_eq!(ids(gate.pass(user("u1"))), [""; 0]);
        assert_eq!(ids(gate.pass(user("u2"))), [""; 0]);
        assert_eq!(ids(gate.pass(answer("a1"))), ["u1", "u2", "a1"]);
        assert_eq!(ids(gate.pass(user("u3"))), ["u3"]);
        assert!(gate.is_open() && gate.waiting().is_empty());
    }

    #[test]
    fn a_session_without_usage_waits_up_to_the_limit() {
        let (mut limited, mut unlimited) = (UsageGate::default(), UsageGate::unlimited());
        let long = Message::user("u1".into(), "u1.1".into(), "x".repeat(9 << 20).as_str());
        assert_eq!(ids(limited.pass(long.clone())), ["u1"]);
        assert_eq!(ids(unlimited.pass(long)), [""; 0]);
        assert!(limited.is_open() && !unlimited.is_open());
        assert_eq!(ids(unlimited.waiting()), ["u1"]);
    }
}
