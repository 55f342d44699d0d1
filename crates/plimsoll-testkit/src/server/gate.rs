//! Holding a stream at a chosen event.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// Holds a stream until a test lets it go on: the moment to kill a process or to cancel. Clones are the same gate.
///
/// A gate that was released stays open.
#[derive(Clone, Debug)]
pub struct Gate {
    state: Arc<watch::Sender<GateState>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct GateState {
    reached: bool,
    released: bool,
}

/// Longer than any test should take to get somewhere.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

impl Default for Gate {
    fn default() -> Gate {
        Gate::new()
    }
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Gate {
        Gate { state: Arc::new(watch::Sender::new(GateState::default())) }
    }

    /// Let the stream go on.
    pub fn release(&self) {
        self.state.send_modify(|state| state.released = true);
    }

    /// Whether a stream has come to the gate.
    pub fn is_reached(&self) -> bool {
        self.state.borrow().reached
    }

    /// Wait until a stream has come to the gate.
    pub async fn reached(&self) {
        // The sender is held by `self`, so waiting cannot fail.
        let _ = self.state.subscribe().wait_for(|state| state.reached).await;
    }

    /// Like [`reached`](Gate::reached) for a test without a runtime; whether it came to the gate within a minute.
    pub fn wait_reached(&self) -> bool {
        let begun = Instant::now();
        while !self.is_reached() && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.is_reached()
    }

    /// The stream has come to the gate and waits.
    pub(crate) async fn pass(&self) {
        self.state.send_modify(|state| state.reached = true);
        let _ = self.state.subscribe().wait_for(|state| state.released).await;
    }
}
