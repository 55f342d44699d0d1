//! Any history: the window is a legal conversation, and the ladder ends.
#![no_main]
use libfuzzer_sys::fuzz_target;
use plimsoll::compact::{CompactionContext, Ladder, Step};
use plimsoll::{Ids, Limits, Log, Message, Millis, Preset, Window};

fuzz_target!(|text: &str| {
    let Ok(messages) = Message::read_all(text) else { return };
    for preset in Preset::ALL {
        let policy = preset.policy();
        Window::of(&messages, &policy).check().expect("a legal window");
        let mut log = Log::from_messages(messages.clone());
        let mut ids = Ids::new(|| 7);
        let context = CompactionContext::new(&policy, Limits::new(2_000, 200), Millis(1));
        let mut ladder = Ladder::new(log.clone(), context);
        let step = ladder.climb(&mut ids).expect("the log accepts messages of the ladder");
        let Step::Done(outcome) = step else { panic!("a summary request without a summariser") };
        outcome.reduction.commit(&mut log).expect("the reduction fits the log");
        Window::of(&log, &policy).check().expect("a legal window after the climb");
    }
});
