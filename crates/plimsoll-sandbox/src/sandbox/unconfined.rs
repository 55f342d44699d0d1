//! Systems on which nothing can be enforced.

use std::io;
use std::process::{Child, Command};

use super::{Guard, Rules};
use crate::process::Reaper;

/// Features of this system: none.
pub(super) struct Support;

impl Support {
    pub(super) fn detect() -> Support {
        Support
    }

    pub(super) fn holds(&self, _: Guard) -> bool {
        false
    }
}

pub(super) fn spawn(command: &mut Command, _: &Rules, _: &Support) -> io::Result<(Child, Option<Reaper>)> {
    Ok((command.spawn()?, None))
}
