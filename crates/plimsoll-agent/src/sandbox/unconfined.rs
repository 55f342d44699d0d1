//! Systems on which nothing can be held.

use std::convert::Infallible;
use std::io;
use std::process::{Child, Command};

use super::{Guard, Rules};

/// What the system can hold: nothing.
pub(super) struct Support;

impl Support {
    pub(super) fn of_this_system() -> Support {
        Support
    }

    pub(super) fn holds(&self, _: Guard) -> bool {
        false
    }
}

/// There is none.
pub(super) struct Reaper(Infallible);

impl Reaper {
    pub(super) fn end(self) -> bool {
        match self.0 {}
    }
}

pub(super) fn spawn(command: &mut Command, _: &Rules) -> io::Result<(Child, Option<Reaper>)> {
    Ok((command.spawn()?, None))
}
