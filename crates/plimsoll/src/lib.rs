#![doc = include_str!("../README.md")]

mod answer;
pub mod cache;
pub mod chars;
pub mod compact;
pub mod count;
mod counter;
pub mod facts;
pub mod floor;
mod fnv;
pub mod fork;
mod gauge;
mod least;
mod limits;
mod line;
pub mod load;
pub mod log;
mod mentions;
mod names;
mod numbers;
mod pairs;
mod pattern;
pub mod pin;
pub mod pivot;
pub mod plan;
pub mod policy;
mod printable;
mod prose;
pub mod prune;
pub mod purse;
pub mod recall;
pub mod receipt;
pub mod redact;
pub mod reduction;
mod thrift;
mod tokens;
pub mod truncate;
pub mod window;
#[doc(hidden)]
pub mod work;

pub use answer::AnswerEvent;
pub use cache::CachePlan;
pub use chars::{Chars, Text};
pub use count::RequestOverhead;
pub use counter::{CharCounter, Counter, Memo, Rounding};
pub use gauge::Scale;
pub use limits::Limits;
pub use line::Line;
pub use load::{Load, UsageTrust};
pub use log::{
    Ids, Info, Input, Log, LogError, Message, MessageId, MessageUpdate, Millis, Part, PartBody, PartId,
    ReadError, ReceiptId, Role, SessionId, ToolState, ToolStatus, Usage,
};
pub use plan::{Handle, Plan};
pub use policy::{ForkPolicy, ForkRules, Policy, PolicyError, PolicySpec, Preset, SpillAs};
pub use printable::{first_words, is_printable, printable};
pub use receipt::Receipt;
pub use reduction::Reduction;
pub use tokens::{InvalidTokens, Tokens};
pub use window::{Block, InvalidWindow, Window, WindowMessage, WindowRole};
