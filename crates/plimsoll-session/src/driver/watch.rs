//! Requests of a session that only grows, for hosts that do not send them.

use plimsoll::compact::{Growth, Trigger, Watch};
use plimsoll::{Load, Window};

use super::Driver;

impl Driver {
    /// Begins a watch over the window as [`prepare`](Driver::prepare) has just weighed it. `None` if sums do not
    /// determine the size of the next request. A watch ends with the next change other than an append.
    pub fn watch(&self, window: &Window, load: &Load) -> Option<Watch> {
        self.context(Trigger::Auto).watch(&self.log, window, load)
    }

    /// Returns the messages that the window has gained under a watch: those that [`prepare`](Driver::prepare) would add
    /// to the window that it returned before. It is O(new messages). `None` if something may have to be reduced: then
    /// prepare.
    pub fn growth(&self, watch: Watch) -> Option<(Growth, Watch)> {
        self.is_at_rest().then(|| self.context(Trigger::Auto).growth(watch, &self.log)).flatten()
    }
}
