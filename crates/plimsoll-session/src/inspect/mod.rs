//! Inspection of a session's window, for every host that shows it.
//!
//! | part | does |
//! |---|---|
//! | `weigher`, `view`, `log`, `growth` | [`Weigher`], which takes a session message by message in bounded memory |
//! | `kind` | [`ContentKind`], the one table of kinds and labels |
//! | `tally`, `ranking`, `describe` | the blocks of a window by kind, tool, file and turn |
//! | `report` | [`WindowReport`], which hosts render |

mod describe;
mod growth;
mod kind;
mod log;
mod ranking;
mod report;
mod tally;
mod view;
mod weigher;

pub use describe::Describer;
pub use kind::{ContentKind, is_user_prompt};
pub use ranking::Share;
pub use report::{
    Item, LargeOutput, LogReport, MeasuredBy, Rebuilt, Repeated, Turn, WindowReport, percent, percents,
};
pub(crate) use tally::BlockScale;
pub use weigher::Weigher;
