//! What holds for every session and all rules.

use plimsoll::Tokens;
use plimsoll_replay::{Circumstances, DEFAULTS, Recording, Rules};
use plimsoll_testkit::histories;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, ..ProptestConfig::default() })]

    #[test]
    fn properties_a_replay_accounts_for_every_call_and_token(
        messages in histories(40),
        context in 500u64..60_000,
        rules in prop::sample::select(&DEFAULTS[..]),
    ) {
        let recording = Recording::of(messages);
        let circumstances = Circumstances { context: Tokens(context), ..Circumstances::default() };
        let rules: Rules = rules.parse().unwrap();
        let report = recording.replay(&rules, &circumstances).unwrap();
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
