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
//! - Requests weigh what the session's own usage says: the factor by which its model counts, the hidden part that goes with
//!   every request ([`Recording::measured`]), the billed output of answers, and the recorded size of each request: without
//!   rules a request is as large as recorded, and those of rules are scaled alike. If no usage is recorded, tokens are
//!   characters over four. Rules decide by their own counters; only what fits and what it costs is measured.
//! - A request that does not fit is not sent: it costs nothing, and what the call needed counts as lost. Where
//!   the rules can react to a refusal, they may, and only a second refusal is a death. A call whose recorded answer
//!   alone is as long as the window fits under no rules, and is left out.
//! - The longest common beginning with the request before is read from the cache, the rest is written to it, at the prices of
//!   the call's model. A cache miss that the session records counts for all rules; otherwise the cache lives as long as the
//!   session's usage indicates.
//! - A summary request that is appended to the session's own reads that from the cache; one with a prompt of its own
//!   reads nothing.
//! - Summaries are made without a model, except where the recording has one at that very point. They cost what
//!   a model's would, and they are not credited with what no summariser was sent.
//! - What a call needs counts as in the window only if it is there without a recall, see [`References`]. What is not is
//!   brought back if the rules have handles: the model asks for it in an extra request, which is paid for, and what comes
//!   back stays in the window. No recording says whether a model would have asked, so this is a separate figure.

mod billing;
mod price;
mod recording;
mod report;
mod request;
mod rules;
mod run;
mod sight;

pub use billing::{Circumstances, guess_window, rebuilt_at_most};
pub use price::{Billed, DEFAULT_ROW, Price, PriceRow, Prices};
pub use recording::Recording;
pub use report::{
    AgainstNone, AgainstRecorded, CostParts, Fired, Medians, Reduction, References, Report, Sent, Share,
    compare_with_none,
};
pub use rules::{ClearTrigger, DEFAULTS, Rules};
pub use run::totals;
