//! Models, the requests to them, and their collected answers.

use plimsoll::{Block, CachePlan, Limits, MessageId, Usage, Window};
use plimsoll_providers::{
    AnswerEvent, BuildError, Client, ClientOptions, Endpoint, ModelRef, Prompt, ProviderError, Request,
    RequestOptions, RetryNotice, ToolSpec, Wire,
};
use plimsoll_tokens::{ModelPrice, ModelTable};

/// A model: its client, limits and options.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Model {
    /// Name.
    pub name: ModelRef,
    /// Sends the requests.
    pub client: Client,
    /// Limits, if known.
    pub limits: Option<Limits>,
    /// Price, if known.
    pub price: Option<ModelPrice>,
    /// Options for its answers.
    pub options: RequestOptions,
    /// The newest message when the provider last rejected reasoning. Reasoning up to it is not sent again.
    pub(crate) refused_thoughts: Option<MessageId>,
}

/// A request to a model.
#[derive(Clone, Copy)]
pub(crate) struct Question<'a> {
    pub(crate) window: &'a Window,
    pub(crate) system: &'a [String],
    pub(crate) tools: &'a [ToolSpec],
    pub(crate) cache: Option<&'a CachePlan>,
    pub(crate) options: &'a RequestOptions,
}

/// A complete answer, collected from its stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct CollectedAnswer {
    pub(crate) text: String,
    pub(crate) calls: Vec<String>,
    pub(crate) finish: String,
    pub(crate) usage: Option<Usage>,
}

impl Model {
    /// Creates a model at an endpoint, with what the model table knows about it.
    pub fn new(
        name: ModelRef,
        endpoint: Endpoint,
        table: &ModelTable,
        client: ClientOptions,
    ) -> Result<Model, ProviderError> {
        let facts = table.find(&name.model).unwrap_or_default();
        let options = endpoint.request_options();
        let client = Client::new(endpoint, client)?;
        Ok(Model { name, client, limits: facts.limits, price: facts.price, options, refused_thoughts: None })
    }

    /// Returns the wire format.
    pub fn wire(&self) -> Wire {
        self.client.endpoint().wire
    }

    /// Returns the cost of a response in dollars, if the price is known.
    pub fn cost(&self, usage: &Usage) -> Option<f64> {
        self.price.map(|price| price.cost(usage))
    }

    pub(crate) fn request(&self, question: Question<'_>) -> Result<Request, BuildError> {
        let Question { window, system, tools, cache, options } = question;
        let unsigned;
        let window = match &self.refused_thoughts {
            Some(message) => {
                unsigned = without_signatures(window, message);
                &unsigned
            }
            None => window,
        };
        let prompt = Prompt {
            system,
            tools,
            cache,
            ..Prompt::new(&self.name.provider, &self.name.model, window, options)
        };
        Request::build(self.wire(), &prompt)
    }

    /// Sends a request and waits for the complete answer.
    pub(crate) async fn ask(
        &self,
        request: &Request,
        on_retry: impl FnMut(&RetryNotice),
    ) -> Result<CollectedAnswer, ProviderError> {
        let mut answer = self.client.stream(request, on_retry).await?;
        let mut said = CollectedAnswer::default();
        while let Some(event) = answer.next().await {
            match event? {
                AnswerEvent::Text(text) => said.text.push_str(&text),
                AnswerEvent::CallBegin { tool, .. } => said.calls.push(tool),
                AnswerEvent::Usage(usage) => said.usage = Some(usage),
                AnswerEvent::Finished { reason, usage } => {
                    (said.finish, said.usage) = (reason, usage.or(said.usage));
                }
                AnswerEvent::Thinking(_)
                | AnswerEvent::Signature(_)
                | AnswerEvent::CallInput(_)
                | AnswerEvent::CallReady(_)
                | AnswerEvent::Block(_)
                | AnswerEvent::PartEnd => {}
            }
        }
        Ok(said)
    }
}

/// Returns the window without the signatures of reasoning up to and including a message; unchanged if the message is
/// not in it. Requests leave out reasoning without a signature. The blocks stay, because cache breakpoints refer to
/// them by index.
fn without_signatures(window: &Window, message: &MessageId) -> Window {
    let mut window = window.clone();
    let until = window.messages.iter().rposition(|shown| shown.message.as_ref() == Some(message));
    for shown in window.messages.iter_mut().take(until.map_or(0, |until| until + 1)) {
        shown.signed = 0;
        for block in &mut shown.blocks {
            if let Block::Reasoning { metadata, .. } = block {
                *metadata = None;
            }
        }
    }
    window
}
