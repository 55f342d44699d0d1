//! Any history: the digest stays within its budget and reports its length.
#![no_main]
use libfuzzer_sys::fuzz_target;
use plimsoll::fork::fork;
use plimsoll::{Chars, ForkPolicy, Message};

fuzz_target!(|text: &str| {
    if let Ok(messages) = Message::read_all(text) {
        for policy in [ForkPolicy::tiered(), ForkPolicy::uniform()] {
            let digest = fork(&messages, &policy);
            assert!(digest.stats.total_chars <= policy.char_budget);
            assert_eq!(digest.stats.total_chars, Chars::of(&digest.context));
        }
    }
});
