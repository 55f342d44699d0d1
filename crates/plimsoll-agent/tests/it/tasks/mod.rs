//! Background tasks, against the scripted model.

mod bounds;
mod calls;
mod captured;
mod chaos;
mod configured;
mod defects;
mod ends;
mod forks;
mod kills;
mod lives;
mod machine;
mod marks;
mod notes_to_parents;
mod permits;
mod restarts;
mod reverts;
mod slots;
mod spends;
mod support;
mod takeovers;
mod texts;
