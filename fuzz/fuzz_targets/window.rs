//! Any history: the window is a legal conversation, and the ladder ends.
#![no_main]
use libfuzzer_sys::fuzz_target;
use plimsoll::compact::ladder::{Ladder, Situation, Step};
use plimsoll::{Ids, Limits, Log, Message, Millis, Preset, Window};

fuzz_target!(|text: &str| {
    let Ok(messages) = Message::read_all(text) else { return };
    for preset in Preset::ALL {
        let policy = preset.policy();
        Window::of(&messages, &policy).check().expect("a legal window");
        let mut log = Log::from_messages(messages.clone());
        let mut ids = Ids::new(|| 7);
        let situation = Situation::new(&policy, Limits::new(2_000, 200), Millis(1));
        let mut ladder = Ladder::new(&mut log, &mut ids, situation);
        let step = ladder.climb().expect("the log takes what the ladder appends");
        assert!(matches!(step, Step::Done(_)));
        Window::of(&log, &policy).check().expect("a legal window afterwards");
    }
});
