//! # Plimsoll: the context engine
//!
//! An agent's context window is a load line. This crate keeps the window under it and loses nothing while doing
//! so. It is pure: no I/O, no clock, no randomness, no async; `now`, ids and model answers are handed in.
//!
//! ```
//! use plimsoll::compact::accept::Reply;
//! use plimsoll::compact::ladder::{Ladder, Situation, Step};
//! use plimsoll::compact::request::Summariser;
//! use plimsoll::{Ids, Limits, Log, Message, Millis, Part, Policy, ToolState, Window};
//! use serde_json::json;
//!
//! let (policy, now) = (Policy::default(), Millis(1_794_775_451_033));
//! let mut seed = 1u64;
//! let mut ids = Ids::new(move || { seed = seed.wrapping_mul(0x5851f42d4c957f2d) + 1; seed });
//!
//! // Append what was said and done. The log only ever grows.
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
//! // Climb the ladder: it prunes, asks for a summary, and if need be goes on without one.
//! let limits = Limits::new(32_000, 4_000);
//! let summariser = Some(Summariser::named("a-small-model", Limits::new(200_000, 8_000)));
//! let situation = Situation { summariser, ..Situation::new(&policy, limits, now) };
//! let mut ladder = Ladder::new(log.clone(), situation);
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
//! // The climb worked on a copy; whatever the log has become meanwhile, nothing new is hidden.
//! outcome.reduction.commit(&mut log)?;
//!
//! // What the model is given now, and what was done to get there.
//! let window = Window::of(&log, &policy);
//! assert!(outcome.after < outcome.before && window.check().is_ok());
//! let receipt = &outcome.reduction.receipts[0]; // compact 36 messages, 45,054 tokens, … : 50,068 → 5,037 tokens
//! receipt.undo(&mut log, &mut ids, now)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ## The rooms of the house
//!
//! | to … | go to |
//! |---|---|
//! | hold a session's messages | [`log`], [`Log`], [`Message`], [`Part`] |
//! | choose numbers | [`policy`], [`Policy`] |
//! | know where the line is | [`limits`], [`load`], [`floor`] |
//! | cut an output as it arrives | [`truncate`] |
//! | clear old outputs | [`prune`] |
//! | put a summary in place of older messages | [`compact`], [`pivot`] |
//! | see what the model is given | [`window`] |
//! | hit the provider's cache | [`cache`] |
//! | give a child session its parent's context | [`mod@fork`] |
//! | keep text in view whatever is reduced | [`pin`] |
//! | show, store and undo reductions | [`receipt`], [`reduction`] |
//! | bring back what left the window | [`recall`] |
//! | keep secrets out of summaries | [`redact`] |

mod answer;
pub mod cache;
pub mod chars;
pub mod compact;
pub mod count;
pub mod floor;
mod fnv;
pub mod fork;
mod gauge;
pub mod limits;
pub mod load;
pub mod log;
mod names;
mod pairs;
mod pattern;
pub mod pin;
pub mod pivot;
pub mod policy;
mod printable;
pub mod prune;
pub mod purse;
pub mod recall;
pub mod receipt;
pub mod redact;
pub mod reduction;
mod thrift;
pub mod truncate;
pub mod window;
#[doc(hidden)]
pub mod work;

pub use answer::AnswerEvent;
pub use cache::CachePlan;
pub use chars::{Chars, Text};
pub use count::{CharCounter, Counter, Fixed, InvalidTokens, Memo, Rounding, Tokens};
pub use gauge::Scale;
pub use limits::{Limits, Line};
pub use load::{BelievedUsage, Load};
pub use log::{
    Ids, Info, Input, Log, LogError, Message, MessageId, MessageUpdate, Millis, Part, PartBody, PartId,
    ReadError, ReceiptId, Role, SessionId, ToolState, ToolStatus, Usage,
};
pub use policy::{ForkPolicy, ForkRules, Policy, PolicyError, PolicySpec, Preset, SpillAs};
pub use printable::{first_words, is_printable, printable};
pub use receipt::{Handle, Plan, Receipt};
pub use reduction::Reduction;
pub use window::{Block, Illegal, Window, WindowMessage, WindowRole};
