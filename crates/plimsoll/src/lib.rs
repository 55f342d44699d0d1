#![doc = include_str!("../README.md")]

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
pub mod lane;
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
