//! What would this policy have done to my session?
//!
//! A recorded session is gone through call by call, and for each the request is built as some [`Rules`] would
//! have built it: a policy of the engine, or the published rules of another system. Out comes a [`Report`]: the
//! tokens sent, what they cost with a prompt cache, the calls that would not have fitted, and how much of what
//! the model referred to was still in sight.
//!
//! ```
//! use plimsoll_replay::{Circumstances, Recording, Rules};
//! # use plimsoll_testkit::History;
//! # let mut history = History::new();
//! # for turn in 0..40 {
//! #     history = history.user("look").tool("read", &format!("item_number_{turn}\n").repeat(500)).say("done");
//! # }
//! # let messages = history.messages();
//! let recording = Recording::of(messages);
//! let small = Circumstances { context: plimsoll::Tokens(32_000), ..Circumstances::default() };
//! let none = recording.replay(&Rules::None, &small)?;
//! let plimsoll = recording.replay(&"plimsoll".parse()?, &small)?;
//! assert!(none.deaths > 0 && plimsoll.deaths == 0);
//! assert!(plimsoll.fired.contains_key("compact"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ## What is assumed
//!
//! - Requests weigh what the session's own usage says: the factor by which its model counts, and the hidden part that
//!   goes with every request ([`Recording::measured`]). Where it records none, tokens are characters over four. Rules
//!   decide by counters of their own, which know characters; only what fits and what it costs is measured.
//! - A request that does not fit is not sent: it costs nothing, and what the call needed counts as lost. Where
//!   the rules can react to a refusal, they may, and only a second refusal is a death.
//! - The longest common beginning with the request before is read from the cache, the rest is written to it. A
//!   summary request has a prompt of its own and no tools, so nothing of it is read.
//! - Summaries are made without a model, except where the recording has one at that very point. They cost what
//!   a model's would.
//! - Everything the engine lets out of the window can be recalled by its handle, under every policy.

mod pieces;
mod price;
mod recording;
mod references;
mod report;
mod rules;
mod run;
mod sight;

pub use price::{Billed, DEFAULT_ROW, Price, Prices};
pub use recording::Recording;
pub use report::{Fired, Recall, Report, Sent};
pub use rules::{DEFAULTS, Rules};
pub use run::{Circumstances, totals};
pub use sight::Reduction;
