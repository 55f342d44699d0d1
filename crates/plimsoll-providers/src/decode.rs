//! From the bytes of a stream to events, whatever the wire.

use plimsoll::AnswerEvent;

use crate::anthropic::AnthropicDecoder;
use crate::chat::ChatDecoder;
use crate::decoding::{Context, DecodeError};
use crate::endpoint::Wire;
use crate::error::{ProviderError, StreamFault};
use crate::lanes::{BYTES_PER_TOKEN, Said};
use crate::request::Request;
use crate::responses::ResponsesDecoder;
use crate::sse::{SseEvent, SseReader, TooLarge};

/// The largest event that is read. The closing event of the Responses API repeats the whole answer.
pub(crate) const DEFAULT_EVENT_LIMIT: usize = 32 << 20;

/// Maximum size of an answer in bytes, whatever was requested.
pub(crate) const DEFAULT_ANSWER_LIMIT: usize = 16 << 20;

/// Bytes that an answer may have however few tokens were requested: servers exist that do not count reasoning.
const LEAST_ANSWER_LIMIT: usize = 1 << 20;

/// Decodes the stream of one answer.
///
/// Bytes may come in any pieces. After an error, and after [`AnswerEvent::Finished`], nothing more is decoded.
#[derive(Debug)]
pub struct Decoder {
    sse: SseReader,
    wire: WireDecoder,
    /// Maximum bytes that the model may write.
    words_limit: usize,
    /// Maximum bytes of the whole answer.
    answer_limit: usize,
    /// How many events of the stream were read, for messages.
    read: u64,
    is_over: bool,
}

#[derive(Debug)]
enum WireDecoder {
    Anthropic(AnthropicDecoder),
    Chat(ChatDecoder),
    Responses(ResponsesDecoder),
}

impl Decoder {
    /// A decoder for the answer to a request.
    pub fn new(request: &Request) -> Decoder {
        Decoder::with_limits(request, DEFAULT_EVENT_LIMIT, DEFAULT_ANSWER_LIMIT)
    }

    /// A decoder that refuses events of more than `event_limit` bytes, and cuts off an answer of more than `answer_limit`
    /// bytes. An answer that is much longer than the output tokens that were requested is cut off earlier: the server
    /// ignores the limit or streams without an end.
    pub fn with_limits(request: &Request, event_limit: usize, answer_limit: usize) -> Decoder {
        let (provider, model) = (request.provider.clone(), request.model.clone());
        let context = Context { provider, model, tools: request.tools.clone() };
        let wire = match request.wire() {
            Wire::Anthropic => WireDecoder::Anthropic(AnthropicDecoder::new(context)),
            Wire::Chat => WireDecoder::Chat(ChatDecoder::new(context)),
            Wire::Responses => WireDecoder::Responses(ResponsesDecoder::new(context)),
        };
        let words = request.max_tokens().map(|most| most.saturating_mul(BYTES_PER_TOKEN));
        let words = words.map_or(usize::MAX, |words| usize::try_from(words).unwrap_or(usize::MAX));
        let words_limit = words.max(LEAST_ANSWER_LIMIT).min(answer_limit);
        Decoder { sse: SseReader::new(event_limit), wire, words_limit, answer_limit, read: 0, is_over: false }
    }

    /// Whether the answer has come to its end, well or not.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Decode more bytes. An error is the last thing that comes.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Result<AnswerEvent, ProviderError>> {
        let mut decoded = Vec::new();
        if self.is_over {
            return decoded;
        }
        let mut events = Vec::new();
        let result = self.sse.push(bytes, &mut events);
        for event in events {
            self.event(&event, &mut decoded);
        }
        if let Err(TooLarge { limit }) = result {
            self.fail(StreamFault::EventTooLarge { limit }.into(), &mut decoded);
        }
        decoded
    }

    /// The stream has ended. An answer that did not is an error.
    pub fn finish(&mut self) -> Vec<Result<AnswerEvent, ProviderError>> {
        let mut decoded = Vec::new();
        if self.is_over {
            return decoded;
        }
        // Some servers leave out the empty line after the last event. What is left of a cut one cannot be decoded,
        // and then the cut is what there is to report.
        if let Some(event) = self.sse.finish() {
            self.event(&event, &mut decoded);
            if matches!(decoded.last(), Some(Err(ProviderError::Stream(_)))) {
                decoded.pop();
                self.is_over = false;
            }
        }
        if !self.is_over {
            let mut out = Vec::new();
            let ended = match &mut self.wire {
                WireDecoder::Chat(chat) => chat.end(&mut out),
                WireDecoder::Anthropic(_) | WireDecoder::Responses(_) => false,
            };
            decoded.extend(out.into_iter().map(Ok));
            if ended {
                self.is_over = true;
            } else {
                self.fail(StreamFault::Unfinished { events: self.read }.into(), &mut decoded);
            }
        }
        decoded
    }

    fn event(&mut self, event: &SseEvent, decoded: &mut Vec<Result<AnswerEvent, ProviderError>>) {
        if self.is_over || event.data.trim().is_empty() {
            return;
        }
        self.read += 1;
        let mut out = Vec::new();
        let result = match &mut self.wire {
            WireDecoder::Anthropic(wire) => wire.event(&event.data, &mut out),
            WireDecoder::Chat(wire) => wire.event(&event.data, &mut out),
            WireDecoder::Responses(wire) => wire.event(&event.data, &mut out),
        };
        if let Some(limit) = self.exceeded() {
            self.fail(StreamFault::TooLong { limit }.into(), decoded);
            return;
        }
        self.is_over = matches!(out.last(), Some(AnswerEvent::Finished { .. }));
        decoded.extend(out.into_iter().map(Ok));
        if let Err(error) = result {
            let error = match error {
                DecodeError::Malformed(problem) => {
                    StreamFault::Malformed { event: self.read, problem }.into()
                }
                DecodeError::Provider(error) => error,
            };
            self.fail(error, decoded);
        }
    }

    /// The limit that the answer exceeds, if it does.
    fn exceeded(&self) -> Option<usize> {
        let Said { by_model, besides } = match &self.wire {
            WireDecoder::Anthropic(wire) => wire.said(),
            WireDecoder::Chat(wire) => wire.said(),
            WireDecoder::Responses(wire) => wire.said(),
        };
        if by_model > self.words_limit {
            return Some(self.words_limit);
        }
        (by_model.saturating_add(besides) > self.answer_limit).then_some(self.answer_limit)
    }

    fn fail(&mut self, error: ProviderError, decoded: &mut Vec<Result<AnswerEvent, ProviderError>>) {
        self.is_over = true;
        decoded.push(Err(error));
    }
}
