//! Speed, held against work on the same data in the same run.
//!
//! Writing a history as JSON visits every byte of it once. Planning that needs lengths alone is about ten times as fast in a
//! debug build and more in a release build, whatever else the machine does; with the names of what goes it takes about twice
//! as long as JSON. Anything superlinear is slower by orders of
//! magnitude at the sizes that are measured here.

use std::time::Duration;

use plimsoll::Message;

/// Fails if `work`, at its best of three, takes longer than writing `messages` as JSON so many times.
pub(crate) fn is_faster_than_json(messages: &[Message], times: u32, mut work: impl FnMut()) {
    let json = elapsed(&mut || drop(serde_json::to_vec(messages).unwrap()));
    let work = (0..3).map(|_| elapsed(&mut work)).min().unwrap_or_default();
    assert!(work <= json * times, "{work:?}, and {json:?} for JSON of {} messages", messages.len());
}

// The engine has no clock. This measures it from outside.
#[allow(clippy::disallowed_methods, clippy::disallowed_types)]
fn elapsed(work: &mut dyn FnMut()) -> Duration {
    let start = std::time::Instant::now();
    work();
    start.elapsed()
}
