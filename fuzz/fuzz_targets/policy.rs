//! Any text: a policy is accepted or rejected, and an accepted one survives a round trip through JSON.
#![no_main]
use libfuzzer_sys::fuzz_target;
use plimsoll::Policy;

fuzz_target!(|text: &str| {
    if let Ok(policy) = Policy::from_json(text) {
        let written = serde_json::to_string(&policy).expect("a policy can be written");
        assert_eq!(serde_json::from_str::<Policy>(&written).expect("and read"), policy);
    }
});
