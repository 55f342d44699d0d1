//! Background tasks, against the scripted model.

mod chaos;
mod forks;
mod lives;
mod machine;
mod restarts;
mod support;
mod texts;
