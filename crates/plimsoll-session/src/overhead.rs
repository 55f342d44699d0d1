//! Tokens of every request besides the conversation.

use std::sync::Arc;

use plimsoll::{Counter, RequestOverhead};

/// The system prompt and the declared tools, which every request carries besides the conversation.
///
/// Texts are counted with the session's own counter, and again whenever its calibration has moved. Tokens are added
/// unchanged, for hosts that know the figure and not the text.
///
/// ```
/// use plimsoll_session::{RequestOverhead, Overhead, Tokens};
///
/// let texts = Overhead::default().system("You are a pilot.").tools(["depth\nReturns the depth.\n{}"]);
/// let figures = Overhead::from(RequestOverhead { system: Tokens(1_200), tools: Tokens(3_400) });
/// # assert_ne!(texts, figures);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overhead {
    tokens: RequestOverhead,
    system: Arc<str>,
    tools: Arc<[String]>,
}

impl Overhead {
    /// Sets the text of the system prompt.
    #[must_use]
    pub fn system(mut self, text: impl Into<Arc<str>>) -> Overhead {
        self.system = text.into();
        self
    }

    /// Sets the texts of the declared tools, one for each: name, description and schema.
    #[must_use]
    pub fn tools<T: Into<String>>(mut self, declared: impl IntoIterator<Item = T>) -> Overhead {
        self.tools = declared.into_iter().map(Into::into).collect();
        self
    }

    pub(crate) fn count(&self, counter: &dyn Counter) -> RequestOverhead {
        let texts = RequestOverhead::count(&self.system, self.tools.iter().map(String::as_str), counter);
        RequestOverhead { system: self.tokens.system + texts.system, tools: self.tokens.tools + texts.tools }
    }
}

impl From<RequestOverhead> for Overhead {
    fn from(tokens: RequestOverhead) -> Overhead {
        Overhead { tokens, ..Overhead::default() }
    }
}
