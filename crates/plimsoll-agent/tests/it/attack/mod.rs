//! Attacks: hostile checkouts run with the ordinary tests, the probe of the sandbox by `just attack`.

mod checkouts;
#[cfg(target_os = "linux")]
mod sandbox;
