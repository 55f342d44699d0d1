//! Any text: redaction is idempotent.
#![no_main]
use libfuzzer_sys::fuzz_target;
use plimsoll_redact::redact;

fuzz_target!(|text: &str| {
    let once = redact(text).text;
    assert_eq!(redact(&once).text, once);
});
