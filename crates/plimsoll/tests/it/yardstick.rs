//! Speed, compared with work on the same data in the same run.
//!
//! Writing a history as JSON reads every byte once. Planning that needs only lengths is about ten times as fast in a
//! debug build, and more in a release build, whatever else the machine does. With names of cleared content it takes
//! about twice as long as JSON. Anything superlinear is slower by orders of magnitude at the sizes measured here.

use std::time::Duration;

use plimsoll::Message;

/// Fails if the fastest of three runs of `work` takes longer than writing `messages` as JSON `times` times.
pub(crate) fn is_faster_than_json(messages: &[Message], times: u32, mut work: impl FnMut()) {
    let json = elapsed(&mut || drop(serde_json::to_vec(messages).unwrap()));
    let work = (0..3).map(|_| elapsed(&mut work)).min().unwrap_or_default();
    assert!(work <= json * times, "{work:?}, and {json:?} for JSON of {} messages", messages.len());
}

// The engine does not use a clock, so the test measures from outside.
#[allow(clippy::disallowed_methods, clippy::disallowed_types)]
fn elapsed(work: &mut dyn FnMut()) -> Duration {
    let start = std::time::Instant::now();
    work();
    start.elapsed()
}
