//! Pauses a stream at a chosen event.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// Pauses a stream until a test releases it, for example after killing a process. Clones share one gate.
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

/// Timeout for tests that wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

impl Default for Gate {
    fn default() -> Gate {
        Gate::new()
    }
}

impl Gate {
    /// Creates a closed gate.
    pub fn new() -> Gate {
        Gate { state: Arc::new(watch::Sender::new(GateState::default())) }
    }

    /// Lets the stream continue.
    pub fn release(&self) {
        self.state.send_modify(|state| state.released = true);
    }

    /// Whether a stream has reached the gate.
    pub fn is_reached(&self) -> bool {
        self.state.borrow().reached
    }

    /// Waits until a stream has reached the gate.
    pub async fn reached(&self) {
        // The sender is held by `self`, so waiting cannot fail.
        let _ = self.state.subscribe().wait_for(|state| state.reached).await;
    }

    /// Like [`reached`](Gate::reached), for tests without a runtime. Returns whether a stream reached the gate within a
    /// minute.
    pub fn wait_reached(&self) -> bool {
        let begun = Instant::now();
        while !self.is_reached() && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.is_reached()
    }

    /// Called by a stream: waits until the gate is released.
    pub(crate) async fn pass(&self) {
        self.state.send_modify(|state| state.reached = true);
        let _ = self.state.subscribe().wait_for(|state| state.released).await;
    }
}
