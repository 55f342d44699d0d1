//! Decodes the bytes of a stream into events, for all wire formats.

use plimsoll::AnswerEvent;

use crate::anthropic::AnthropicDecoder;
use crate::chat::ChatDecoder;
use crate::decoding::{DecodeContext, DecodeError};
use crate::endpoint::Wire;
use crate::error::{ProviderError, StreamFault};
use crate::lanes::{AnswerBytes, BYTES_PER_TOKEN};
use crate::request::Request;
use crate::responses::ResponsesDecoder;
use crate::sse::{SseEvent, SseReader, TooLarge};

/// Maximum size of an event in bytes. The closing event of the Responses API repeats the whole answer.
pub(crate) const DEFAULT_EVENT_LIMIT: usize = 32 << 20;

/// Maximum size of an answer in bytes, regardless of the requested tokens.
///
/// A server that ignores the output limit would otherwise fill the memory and the disk.
pub(crate) const DEFAULT_ANSWER_LIMIT: usize = 16 << 20;

/// Minimum for the limit on an answer's bytes, even if few tokens were requested: some servers do not count reasoning.
const MIN_ANSWER_LIMIT: usize = 1 << 20;

/// Decodes the stream of one answer.
///
/// Bytes may be split at any position. After an error or [`AnswerEvent::Finished`], nothing more is decoded.
#[derive(Debug)]
pub struct Decoder {
    sse: SseReader,
    wire: WireDecoder,
    /// Maximum size of the model's content in bytes.
    words_limit: usize,
    /// Maximum size of the whole answer in bytes.
    answer_limit: usize,
    /// Number of decoded events, for error messages.
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
    /// Creates a decoder for the answer to a request.
    pub fn new(request: &Request) -> Decoder {
        Decoder::with_limits(request, DEFAULT_EVENT_LIMIT, DEFAULT_ANSWER_LIMIT)
    }

    /// Creates a decoder that rejects events of more than `event_limit` bytes and cuts off an answer of more than
    /// `answer_limit` bytes. An answer that far exceeds the requested output tokens is cut off earlier: the server
    /// ignores the limit or never ends its stream.
    pub fn with_limits(request: &Request, event_limit: usize, answer_limit: usize) -> Decoder {
        let (provider, model) = (request.provider.clone(), request.model.clone());
        let context = DecodeContext { provider, model, tools: request.tools.clone() };
        let wire = match request.wire() {
            Wire::Anthropic => WireDecoder::Anthropic(AnthropicDecoder::new(context)),
            Wire::Chat => WireDecoder::Chat(ChatDecoder::new(context)),
            Wire::Responses => WireDecoder::Responses(ResponsesDecoder::new(context)),
        };
        let words = request.max_tokens().map(|most| most.saturating_mul(BYTES_PER_TOKEN));
        let words = words.map_or(usize::MAX, |words| usize::try_from(words).unwrap_or(usize::MAX));
        let words_limit = words.max(MIN_ANSWER_LIMIT).min(answer_limit);
        Decoder { sse: SseReader::new(event_limit), wire, words_limit, answer_limit, read: 0, is_over: false }
    }

    /// Whether the answer has ended, successfully or not.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Decodes more bytes. An error is the last item.
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

    /// Ends the stream. An answer without its closing event is an error.
    pub fn finish(&mut self) -> Vec<Result<AnswerEvent, ProviderError>> {
        let mut decoded = Vec::new();
        if self.is_over {
            return decoded;
        }
        // Some servers omit the empty line after the last event. If the remainder is a truncated event, it cannot be
        // decoded, and the truncation is what is reported.
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

    /// Returns the limit that the answer exceeds.
    fn exceeded(&self) -> Option<usize> {
        let AnswerBytes { by_model, besides } = match &self.wire {
            WireDecoder::Anthropic(wire) => wire.bytes_so_far(),
            WireDecoder::Chat(wire) => wire.bytes_so_far(),
            WireDecoder::Responses(wire) => wire.bytes_so_far(),
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
