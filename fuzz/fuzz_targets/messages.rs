//! Any text: reading never panics, and messages survive a round trip.
#![no_main]
use libfuzzer_sys::fuzz_target;
use plimsoll::Message;

fuzz_target!(|text: &str| {
    if let Ok((messages, notes)) = Message::read_noted(text) {
        let written = serde_json::to_string(&messages).expect("messages can be written");
        let (again, noted) = Message::read_noted(&written).expect("written messages can be read");
        assert_eq!(again, messages);
        assert_eq!(noted.count(), notes.count());
    }
});
