//! Any text: reading it never panics, and what was read is written back so that it reads the same.
#![no_main]
use libfuzzer_sys::fuzz_target;
use plimsoll::Message;

fuzz_target!(|text: &str| {
    if let Ok((messages, notes)) = Message::read_noted(text) {
        let written = serde_json::to_string(&messages).expect("messages can be written");
        let (again, noted) = Message::read_noted(&written).expect("what was written can be read");
        assert_eq!(again, messages);
        assert_eq!(noted.count(), notes.count());
    }
});
