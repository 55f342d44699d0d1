//! Attacks on the built command: hostile files run with the ordinary tests, a hostile model by `just attack`.

mod input;
#[cfg(target_os = "linux")]
mod model;
