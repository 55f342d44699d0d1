//! Processes that end with everything they have started.

mod environment;
mod group;
mod programs;
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
mod reaper;
mod session;
mod stragglers;

pub use environment::needed_environment;
pub(crate) use group::Ending;
pub use group::{ProcessGroup, ProcessWaiter};
pub(crate) use programs::{is_program, system_program};
pub(crate) use reaper::Reaper;
pub(crate) use session::{SessionStarter, withhold_descriptors};
