//! Any bytes: the output is within its limits, and everything lost is reported.
#![no_main]
use libfuzzer_sys::fuzz_target;
use plimsoll::truncate::{self, Spill};
use plimsoll::{Policy, Preset};

fuzz_target!(|input: (bool, u8, &[u8])| {
    let (terminal, repeat, bytes) = input;
    let output = bytes.repeat(usize::from(repeat) + 1);
    let tool = if terminal { "bash" } else { "read" };
    for policy in [Policy::default(), Preset::Opencode118.policy()] {
        let plan = truncate::plan(&output, tool, &policy);
        assert!(plan.kept_lines <= plan.original_lines);
        let shown = plan.render(&Spill::Off);
        if !plan.loses_content() {
            assert_eq!(shown.as_bytes(), output);
        }
    }
});
