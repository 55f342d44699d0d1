//! Background tasks, against the scripted model.

mod calls;
mod chaos;
mod configured;
mod forks;
mod kills;
mod lives;
mod machine;
mod permits;
mod restarts;
mod reverts;
mod support;
mod texts;
