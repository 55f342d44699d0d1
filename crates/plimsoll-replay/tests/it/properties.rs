//! Properties of every session under all rules.

use plimsoll::{Message, Millis, Policy, Tokens};
use plimsoll_replay::{DEFAULTS, Recording, ReplayParams, Rules, compare_with_none};
use plimsoll_testkit::{History, histories};
use proptest::prelude::*;
use serde_json::json;

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, ..ProptestConfig::default() })]

    #[test]
    fn properties_a_replay_accounts_for_every_call_and_token(
        messages in histories(40),
        context in 500u64..60_000,
        rules in prop::sample::select(&DEFAULTS[..]),
    ) {
        let recording = Recording::of(messages);
        let params = ReplayParams { context: Tokens(context), ..ReplayParams::default() };
        let rules: Rules = rules.parse().unwrap();
        let report = recording.replay(&rules, &params).unwrap();
        prop_assert_eq!(report.calls as usize, recording.calls());
        prop_assert_eq!(report.windows.len(), recording.calls());
        prop_assert!(report.peak <= context && report.deaths + report.left_out <= report.calls);
        prop_assert_eq!(
            report.billed.read + report.billed.written,
            report.tokens_sent + report.summaries.read + report.summaries.written
        );
        for share in [report.references.only_in_outputs, report.references.all] {
            prop_assert!(share.in_window + share.recalled <= share.references);
            prop_assert!(share.strict <= share.in_window);
            prop_assert!((0.0..=1.0 + 1e-9).contains(&share.with_recall()));
            if rules == Rules::None && report.deaths == 0 {
                prop_assert_eq!((share.in_window, share.strict), (share.references, share.references));
            }
        }
        prop_assert!((report.parts.total() - report.cost).abs() < 1e-12);
        let fired: u64 = report.fired.values().sum();
        prop_assert_eq!(fired as usize, report.reductions.len());
        prop_assert!(report.windows.is_sorted_by(|a, b| a.spent <= b.spent));
    }
}

/// A step of a session, and the seconds that pass before it.
#[derive(Clone, Debug)]
enum Step {
    Prompt,
    Read(usize),
    Write(usize),
    Say(usize),
    /// Uses a name from the middle of the output that was read this many reads ago.
    Use(usize),
}

fn sessions() -> impl Strategy<Value = Vec<(Step, u64)>> {
    let step = prop_oneof![
        4 => Just(Step::Prompt),
        6 => (100usize..20_000).prop_map(Step::Read),
        3 => (100usize..20_000).prop_map(Step::Write),
        3 => (10usize..2_000).prop_map(Step::Say),
        2 => (0usize..12).prop_map(Step::Use),
    ];
    let pause = prop_oneof![8 => 1u64..60, 3 => 290u64..4_000];
    prop::collection::vec((step, pause), 1..80)
}

fn messages_of(steps: &[(Step, u64)]) -> Vec<Message> {
    let mut history = History::new().user("Begin");
    let mut reads = 0usize;
    for (step, _) in steps {
        history = match step {
            Step::Prompt => history.user("Continue"),
            Step::Read(tokens) => {
                reads += 1;
                let body: String = (0..tokens / 8)
                    .map(|line| format!("item_{reads:03}_{line:05} and some more words\n"))
                    .collect();
                history.tool_with("read", json!({ "path": format!("src/f{reads}.rs") }), body)
            }
            Step::Write(tokens) => {
                let body = "let value = compute(input);\n".repeat(tokens / 7 + 1);
                history.tool_with("write", json!({ "path": "src/out.rs", "content": body }), "written")
            }
            Step::Say(tokens) => history.say("word ".repeat(*tokens)),
            Step::Use(ago) => {
                let read = reads.saturating_sub(*ago);
                history.tool_with("grep", json!({ "pattern": format!("item_{read:03}_00777") }), "found")
            }
        };
    }
    let mut messages = history.messages();
    let mut now = 1_794_775_451_033;
    for (message, pause) in messages.iter_mut().zip(steps.iter().map(|(_, pause)| *pause).chain([1]).cycle())
    {
        now += pause * 1_000;
        let time = message.info.time.get_or_insert_default();
        (time.created, time.completed) = (Some(Millis(now)), Some(Millis(now)));
    }
    messages
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8, ..ProptestConfig::default() })]

    /// The guarantee of the purse, billed by code that does not use it.
    #[test]
    fn properties_under_the_line_no_session_ever_costs_more_than_without_a_policy(steps in sessions()) {
        let recording = Recording::of(messages_of(&steps));
        let wide = ReplayParams { context: Tokens(100_000_000), ..ReplayParams::default() };
        // Truncation on arrival is excluded: with it, a recall may be needed before anything was saved.
        let policy = json!({ "truncate": { "maxBytes": 100_000_000, "maxLines": 100_000_000,
            "defaultLimit": 100_000_000, "toolLimits": { "read": 100_000_000, "grep": 100_000_000 } } });
        let rules = Rules::from(Policy::from_value(policy).unwrap());
        let replay = |rules: &Rules| recording.replay(rules, &wide).unwrap();
        let mut reports = [replay(&Rules::None), replay(&rules), replay(&Rules::Proxy)];
        compare_with_none(&mut reports);
        prop_assume!(recording.calls() > 0);
        for report in &reports[1..] {
            let against = report.against_none.unwrap();
            let policy = &report.policy;
            prop_assert_eq!(against.dearer_by_more_than_a_recall, 0, "{} {:?} {:?}", policy, against, report.fired);
            if report.references.only_in_outputs.recalled == 0 {
                prop_assert_eq!(against.dearer_at_any_moment, 0, "{} {:?} {:?}", policy, against, report.reductions);
            }
        }
    }
}
