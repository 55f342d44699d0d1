//! Shows what a policy would have done to a recorded session.
//!
//! For each recorded call, the request is built as some [`Rules`] would have built it: a policy of the engine, or the
//! published rules of another system. The [`Report`] has the tokens sent, their cost with a prompt cache, the calls that
//! would not have fitted, and how much of what the model referred to was still in the window.
//!
//! ```
//! use plimsoll_replay::{ReplayParams, Recording, Rules};
//! # use plimsoll_testkit::History;
//! # let mut history = History::new();
//! # for turn in 0..40 {
//! #     history = history.user("look").tool("read", &format!("item_number_{turn}\n").repeat(500)).say("done");
//! # }
//! # let messages = history.messages();
//! let recording = Recording::of(messages);
//! let small = ReplayParams { context: plimsoll::Tokens(32_000), ..ReplayParams::default() };
//! let none = recording.replay(&Rules::None, &small)?;
//! let plimsoll = recording.replay(&"plimsoll".parse()?, &small)?;
//! assert!(none.deaths > 0 && plimsoll.deaths == 0);
//! assert!(plimsoll.fired.contains_key("compact"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ## Assumptions
//!
//! - Sizes of requests follow the session's usage: its model's tokens per estimated token, the hidden part of every request
//!   ([`Recording::measured`]), the billed output of answers, and the recorded size of each request. Without rules a request
//!   is as large as recorded, and requests under rules are scaled by the same factor. If no usage is recorded, tokens are
//!   characters over four. Rules decide by their own counters; only what fits and what it costs is measured.
//! - A request that does not fit is not sent: it costs nothing, and what the call needed counts as lost. Rules that can
//!   react to a rejection may do so, and only a second rejection is a death. A call whose recorded answer by itself fills
//!   the window cannot fit under any rules and is left out.
//! - The longest common prefix with the previous request is read from the cache, and the rest is written to it, at the prices
//!   of the call's model. A cache miss that the session records counts for all rules; otherwise the cache lives as long as the
//!   session's usage indicates.
//! - A summary request that is appended to the session's request reads that from the cache; one with a separate prompt reads
//!   nothing.
//! - Summaries are made without a model, unless the recording has one at the same call. They cost as much as a model's, and
//!   references that the summariser was not sent do not count.
//! - What a call needs counts as in the window only if it is there without a recall, see [`References`]. If the rules have
//!   handles, a recall brings back the rest: the model asks in an extra request, which is billed, and the result stays in the
//!   window. A recording cannot show whether a model would have asked, so this is a separate figure.

mod billing;
mod price;
mod recording;
mod report;
mod request;
mod rules;
mod run;
mod simulator;

pub use billing::{ReplayParams, guess_window, rebuilt_at_most};
pub use price::{Billed, DEFAULT_ROW, Price, PriceRow, Prices};
pub use recording::Recording;
pub use report::{
    AgainstNone, AgainstRecorded, CostParts, Fired, Medians, Reduction, References, Report, Sent, Share,
    compare_with_none,
};
pub use rules::{ClearTrigger, DEFAULTS, Rules};
pub use run::totals;
