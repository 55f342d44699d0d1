//! # Plimsoll: the context engine
//!
//! Keeps the context window of an agent under the model's limit without losing content. The crate is pure: no I/O, clock,
//! randomness or async; the time, ids and answers of models are passed in.
//!
//! ```
//! use plimsoll::compact::{CompactionContext, Ladder, Reply, Step, Summariser};
//! use plimsoll::{Ids, Limits, Log, Message, Millis, Part, Policy, ToolState, Window};
//! use serde_json::json;
//!
//! let (policy, now) = (Policy::default(), Millis(1_794_775_451_033));
//! let mut seed = 1u64;
//! let mut ids = Ids::new(move || { seed = seed.wrapping_mul(0x5851f42d4c957f2d) + 1; seed });
//!
//! // Append messages. The log only grows.
//! let mut log = Log::new();
//! for turn in 0..20 {
//!     let question = format!("Look at file {turn}; never touch the tests.");
//!     log.append(Message::user(ids.message(now), ids.part(now), question))?;
//!     let read = ToolState::completed(json!({ "path": format!("src/{turn}.rs") }), "let x = 1;\n".repeat(900));
//!     let answer = vec![Part::tool(ids.part(now), format!("call_{turn}"), "read", read)];
//!     log.append(Message::assistant(ids.message(now), answer))?;
//! }
//! log.append(Message::user(ids.message(now), ids.part(now), "And now fix it"))?;
//!
//! // Climb the ladder: it prunes, asks for a summary, and continues without one if the model fails.
//! let limits = Limits::new(32_000, 4_000);
//! let summariser = Some(Summariser::named("a-small-model", Limits::new(200_000, 8_000)));
//! let context = CompactionContext { summariser, ..CompactionContext::new(&policy, limits, now) };
//! let mut ladder = Ladder::new(log.clone(), context);
//! let outcome = loop {
//!     match ladder.climb(&mut ids)? {
//!         Step::Ask(request) => {
//!             assert!(request.prompt().contains("never touch the tests")); // send it to a model …
//!             ladder.answer(Ok(Reply::finished("## Goal\nRead the files and fix them.")), &mut ids)?;
//!         }
//!         Step::Done(outcome) => break outcome,
//!     }
//! };
//!
//! // The climb worked on a copy. Messages that arrived meanwhile stay visible.
//! outcome.reduction.commit(&mut log)?;
//!
//! // The window that the model receives now, and what was done.
//! let window = Window::of(&log, &policy);
//! assert!(outcome.after < outcome.before && window.check().is_ok());
//! let receipt = &outcome.reduction.receipts[0]; // compact 36 messages, 45,054 tokens, … : 50,068 → 5,037 tokens
//! receipt.undo(&mut log, &mut ids, now)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ## Where to look
//!
//! | task | modules and types |
//! |---|---|
//! | hold a session's messages | [`log`], [`Log`], [`Message`], [`Part`] |
//! | configure | [`policy`], [`Policy`] |
//! | weigh a request against the line | [`Limits`], [`Line`], [`Load`], [`request_tokens`], [`floor`] |
//! | truncate an output on arrival | [`truncate`] |
//! | clear old outputs | [`prune`] |
//! | replace older messages by a summary | [`compact`], [`facts`], [`Pivot`] |
//! | build what the model receives | [`window`] |
//! | place cache breakpoints | [`cache`] |
//! | give a child session its parent's context | [`mod@fork`] |
//! | keep text in the window verbatim | [`pin`] |
//! | change or remove text on request | [`edit`] |
//! | show, store and undo reductions | [`plan`], [`receipt`], [`Reduction`] |
//! | bring back what left the window | [`recall`] |
//! | keep secrets out of summaries | [`redact`] |

mod answer;
pub mod cache;
mod chars;
pub mod compact;
mod count;
mod counter;
pub mod edit;
pub mod facts;
pub mod floor;
mod fnv;
pub mod fork;
mod gauge;
mod least;
mod limits;
mod line;
mod load;
pub mod log;
mod mentions;
mod names;
mod numbers;
mod pairs;
mod pattern;
pub mod pin;
mod pivot;
pub mod plan;
pub mod policy;
mod printable;
mod prose;
pub mod prune;
mod purse;
pub mod recall;
pub mod receipt;
pub mod redact;
mod reduction;
mod thrift;
mod tokens;
pub mod truncate;
pub mod window;
#[doc(hidden)]
pub mod work;

pub use answer::AnswerEvent;
pub use cache::CachePlan;
pub use chars::{Chars, Text, cut_middle, head, tail, thousands};
pub use count::{
    RequestOverhead, block_tokens, message_tokens, part_tokens, request_tokens, window_message_tokens,
};
pub use counter::{CharCounter, Counter, Memo, Rounding};
pub use fnv::Fnv;
pub use gauge::Scale;
pub use limits::Limits;
pub use line::Line;
pub use load::{Load, UsageTrust};
pub use log::{
    Ids, Info, Input, Log, LogError, Message, MessageId, MessageUpdate, Millis, Part, PartBody, PartId,
    ReadError, ReceiptId, Role, SessionId, ToolState, ToolStatus, Usage,
};
pub use names::is_common_number;
pub use pivot::{Pivot, VisibleRange};
pub use plan::{Handle, Plan};
pub use policy::{ForkPolicy, ForkRules, Policy, PolicyError, PolicySpec, Preset, SpillAs};
pub use printable::{first_words, is_printable, printable};
pub use purse::CacheTerms;
pub use receipt::Receipt;
pub use reduction::{Reduction, same_content};
pub use tokens::{InvalidTokens, Tokens};
pub use window::{Block, InvalidWindow, Window, WindowMessage, WindowRole};
