//! Background tasks, against the scripted model.

mod forks;
mod lives;
mod support;
mod texts;
