//! Any bytes as OpenCode's database: an error or readable sessions, never a panic, and the file is not changed.
#![no_main]
use libfuzzer_sys::fuzz_target;
use plimsoll::{Log, Policy, Window};
use plimsoll_formats::database::Database;

fuzz_target!(|bytes: &[u8]| {
    let path = std::env::temp_dir().join(format!("plimsoll-fuzz-{}.db", std::process::id()));
    std::fs::write(&path, bytes).expect("a writable temporary directory");
    if let Ok(database) = Database::open(&path) {
        for session in database.sessions().unwrap_or_default() {
            let Ok(read) = database.read(session.info.id.as_deref()) else { continue };
            let log = Log::from_messages(read.messages);
            Window::of(&log, &Policy::default()).check().expect("a legal window");
        }
        let _ = database.read(None);
    }
    assert!(std::fs::read(&path).is_ok_and(|now| now == bytes), "the file was changed");
});
