//! Extreme numbers: recorded usage and times, windows, fixed parts and prices of any size are accounted for without an
//! overflow.

use plimsoll::{Millis, Tokens, Usage};
use plimsoll_replay::{ClearTrigger, Price, Recording, ReplayParams, Report, Rules};

use super::{lines, reading};

const MOST: u64 = u64::MAX;

fn params() -> Vec<ReplayParams> {
    let usual = ReplayParams::default();
    let most = Tokens(MOST);
    let dear = Price { cache_read: f64::MAX, cache_write: f64::MAX, output: f64::MAX, long_prompt: None };
    vec![
        ReplayParams { context: Tokens(0), ..usual },
        ReplayParams { context: Tokens(1), output: Some(most), ..usual },
        ReplayParams { context: Tokens(2_000), output: Some(most), fixed: Tokens(100), ..usual },
        ReplayParams { context: most, output: Some(most), fixed: most, ..usual },
        ReplayParams { context: Tokens(i64::MAX as u64), fixed: Tokens(MOST / 2), ..usual },
        ReplayParams { context: most, price: dear, cache_lifetime: Millis(MOST), ..usual },
        ReplayParams { cache_lifetime: Millis(0), ..usual },
    ]
}

#[test]
fn usage_windows_and_prices_of_any_size_are_accounted_for() {
    let most = Tokens(MOST);
    let mut usage = Usage::new(most, most);
    (usage.total, usage.reasoning, usage.cache_read, usage.cache_write) = (Some(most), most, most, most);
    let rules = [
        "none",
        "plimsoll",
        "opencode",
        "opencode-1.18",
        "openfork",
        "anthropic-clear",
        "mask-0",
        "mask-1",
        "mask-1-by-3",
        "anthropic-clear-1",
        "codex",
        "claude-code",
    ];
    let named = rules.map(|name| name.parse::<Rules>().unwrap());
    let extreme = [
        Rules::ClearToolUses { trigger: ClearTrigger::Tokens(Tokens(MOST)), keep: usize::MAX },
        Rules::ClearToolUses { trigger: ClearTrigger::Share(0.0), keep: 0 },
        Rules::Mask { keep: usize::MAX, polling: usize::MAX },
        Rules::Codex { user_tokens: Tokens(MOST), output_tokens: Tokens(MOST) },
        Rules::Codex { user_tokens: Tokens(0), output_tokens: Tokens(0) },
    ];
    for usage in [Usage::new(Tokens(1), most), usage] {
        let mut messages = reading(4, 400).user(lines(600)).say("done").messages();
        for message in &mut messages {
            let time = message.info.time.get_or_insert_default();
            (time.created, time.completed) = (Some(Millis(MOST)), Some(Millis(MOST)));
            message.info.tokens = message.is_assistant().then(|| usage.clone());
        }
        let recording = Recording::of(messages);
        for rules in named.iter().chain(&extreme) {
            let reports: Vec<Report> =
                params().iter().map(|each| recording.replay(rules, each).unwrap()).collect();
            let total = Report::total("all", &reports);
            assert_eq!(total.calls, reports.len() as u64 * recording.calls() as u64);
            for report in reports.iter().chain([&total]) {
                assert!(
                    report.cost.is_finite() && report.cost_per_call().is_finite(),
                    "{rules}: {}",
                    report.cost
                );
                serde_json::to_string(report).unwrap();
            }
        }
    }
}
