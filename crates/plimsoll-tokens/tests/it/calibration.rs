//! Learning of a calibration, and its limits.

use plimsoll::floor::Floor;
use plimsoll::{Counter, Memo, Text, Tokens};
use plimsoll_tokens::{Bpe, Calibrated, Calibration, Estimate, Measure, Observed};
use proptest::prelude::*;
use rstest::rstest;

/// A provider with its own vocabulary, and a growing session.
#[derive(Clone, Copy, Debug)]
struct Session {
    factor: f64,
    per_block: f64,
    hidden: f64,
    sent: Measure,
    turn: u64,
}

impl Session {
    fn new(factor: f64) -> Session {
        let sent = Measure::new(Tokens(500), 1);
        Session { factor, per_block: 12.0, hidden: 18_000.0, sent, turn: 0 }
    }

    /// Returns the tokens that the provider charges for the current request.
    fn charge(&self) -> Tokens {
        let content = self.factor * self.sent.base.0 as f64 + self.per_block * self.sent.blocks as f64;
        Tokens((self.hidden + content) as u64 + self.sent.exact.0)
    }

    /// Adds a reply and a tool result, of different sizes each turn.
    fn grow(&mut self) {
        self.turn += 1;
        let result = [120, 4_000, 30, 900, 2_500, 60, 7_000][(self.turn % 7) as usize];
        self.sent = self.sent + Measure::new(Tokens(result), 1 + self.turn % 3).with_exact(Tokens(200));
    }

    fn teach(&mut self, calibration: &mut Calibration, turns: usize) {
        for _ in 0..turns {
            calibration.observe(self.sent, self.charge());
            self.grow();
        }
    }
}

fn taught(factor: f64) -> (Session, Calibration) {
    let (mut session, mut calibration) = (Session::new(factor), Calibration::new("claude-sonnet-4-6"));
    session.teach(&mut calibration, 12);
    (session, calibration)
}

/// Error of an estimate in percent.
#[track_caller]
fn miss(estimate: Estimate, truth: Tokens) -> f64 {
    assert!(estimate.low <= estimate.tokens && estimate.tokens <= estimate.high, "{estimate:?}");
    100.0 * estimate.tokens.0.abs_diff(truth.0) as f64 / truth.0 as f64
}

#[rstest]
#[case("claude-opus-4-7", 1.4)]
#[case("us.anthropic.claude-sonnet-4-6-v1:0", 1.4)]
#[case("gpt-5.6", 1.0)]
#[case("openai/o3-mini", 1.0)]
#[case("codex-mini", 1.0)]
#[case("glm-4.7", 1.2)]
#[case("", 1.2)]
fn a_model_starts_from_what_is_known_of_its_family(#[case] model: &str, #[case] factor: f64) {
    let calibration = Calibration::new(model);
    assert_eq!((calibration.factor(), calibration.constant()), (factor, 0.0));
    assert_eq!((calibration.model(), calibration.observations()), (model, 0));
}

#[rstest]
#[case::better_than_o200k(0.85)]
#[case::the_same(1.0)]
#[case::sonnet(1.25)]
#[case::opus(1.7)]
#[case::worst(2.0)]
fn the_next_request_is_known_from_the_fifth_response_on(#[case] factor: f64) {
    let (mut session, mut calibration) = (Session::new(factor), Calibration::new("unheard-of"));
    session.teach(&mut calibration, 4);
    for _ in 0..20 {
        let (next, scratch) = (calibration.next(session.sent), calibration.estimate(session.sent));
        // The worst case starts three standard deviations from the prior and is still converging.
        assert!(miss(next, session.charge()) < 3.0, "{next:?} {}", session.charge());
        assert!(miss(scratch, session.charge()) < 6.0, "{scratch:?} {}", session.charge());
        session.teach(&mut calibration, 1);
    }
    assert!((calibration.factor() - factor).abs() < 0.05, "{}", calibration.factor());
}

#[test]
fn the_first_response_determines_the_hidden_part() {
    let (session, mut calibration) = (Session::new(1.4), Calibration::new("claude-sonnet-4-6"));
    let before = calibration.estimate(session.sent);
    assert!(before.high > session.charge(), "until then, much may be hidden: {before:?}");
    calibration.observe(session.sent, session.charge());
    assert!((calibration.constant() - session.hidden).abs() < 100.0, "{}", calibration.constant());
    assert_eq!(calibration.next(session.sent).tokens, session.charge());
}

#[test]
fn an_increment_can_be_predicted_by_itself() {
    let (mut session, mut calibration) = taught(1.3);
    calibration.observe(session.sent, session.charge());
    let added = Measure::new(Tokens(5_000), 2).with_exact(Tokens(700));
    let since = calibration.since(added);
    session.sent = session.sent + added;
    assert_eq!(since, calibration.next(session.sent));
    assert!(miss(since, session.charge()) < 1.0, "{since:?} {}", session.charge());
}

#[test]
fn the_error_bar_narrows_with_experience_and_widens_with_distance() {
    let (session, calibration) = taught(1.3);
    let width = |estimate: Estimate| estimate.high.0 - estimate.low.0;
    let added = Measure::new(Tokens(3_000), 1);
    let fresh = Calibration::new("claude-sonnet-4-6");
    assert!(width(calibration.since(added)) * 5 < width(fresh.since(added)));
    assert!(width(calibration.since(added)) * 3 < width(calibration.since(Measure::new(Tokens(30_000), 1))));
    assert!(miss(calibration.next(session.sent), session.charge()) < 1.0);
}

#[test]
fn a_reported_compaction_is_predicted() {
    let (mut session, mut calibration) = taught(1.6);
    session.sent = Measure::new(Tokens(3_000), 2);
    let next = calibration.next(session.sent);
    assert!(miss(next, session.charge()) < 5.0, "{next:?} {}", session.charge());
    assert_eq!(calibration.observe(session.sent, session.charge()), Observed::Learned);
}

#[test]
fn hidden_content_that_a_compaction_removes_does_not_change_the_factor() {
    let (mut session, mut calibration) = taught(1.6);
    session.teach(&mut calibration, 30);
    let factor = calibration.factor();
    // Reasoning that was never billed as output, and old search results, were removed with their messages.
    session.hidden -= 0.05 * session.charge().0 as f64;
    session.sent = Measure::new(Tokens(3_000), 2);
    calibration.observe(session.sent, session.charge());
    assert_eq!(calibration.factor(), factor);
    session.grow();
    assert!(miss(calibration.next(session.sent), session.charge()) < 2.0);
}

#[test]
fn an_unrecorded_compaction_is_trusted_when_seen_twice() {
    let (mut session, mut calibration) = taught(1.3);
    session.teach(&mut calibration, 30);
    let factor = calibration.factor();
    // From now on the provider receives far less than the transcript contains.
    session.hidden -= 0.8 * session.charge().0 as f64;
    assert_eq!(calibration.observe(session.sent, session.charge()), Observed::Doubted);
    session.grow();
    assert_eq!(calibration.observe(session.sent, session.charge()), Observed::Reanchored);
    session.grow();
    assert!(miss(calibration.next(session.sent), session.charge()) < 3.0);
    assert_eq!(calibration.factor(), factor);
}

#[test]
fn hidden_search_results_move_the_constant_and_not_the_factor() {
    let (mut session, mut calibration) = taught(1.3);
    let (factor, constant) = (calibration.factor(), calibration.constant());
    session.hidden += 9_000.0;
    assert_eq!(calibration.observe(session.sent, session.charge()), Observed::Reanchored);
    assert_eq!(calibration.factor(), factor);
    assert!(calibration.constant() > constant + 8_000.0);
    session.grow();
    assert!(miss(calibration.next(session.sent), session.charge()) < 2.0);
}

#[test]
fn calibration_is_not_poisoned_by_zero_usage() {
    let mut calibration = Calibration::new("glm-4.7");
    let fresh = calibration.clone();
    for _ in 0..10 {
        assert_eq!(calibration.observe(Measure::new(Tokens(9_000), 3), Tokens::ZERO), Observed::Refused);
    }
    assert_eq!(calibration, fresh);

    let (session, mut calibration) = taught(1.3);
    let before = calibration.clone();
    calibration.observe(session.sent, Tokens::ZERO);
    assert_eq!(calibration, before);
}

// LibreChat-AI/agents#296, opencode#4416, claude-code#82863: cached tokens counted twice.
#[test]
fn calibration_is_not_poisoned_by_cache_fields_counted_twice() {
    let (mut session, mut calibration) = taught(1.3);
    let factor = calibration.factor();
    let last = session.charge();
    session.grow();
    calibration.observe(session.sent, session.charge() + last);
    session.grow();
    session.teach(&mut calibration, 1);
    assert!((calibration.factor() - factor).abs() < 0.03, "{} {factor}", calibration.factor());
    assert!(miss(calibration.next(session.sent), session.charge()) < 2.0);
}

// openclaw/openclaw#99843: 5.7 times too much.
#[test]
fn a_number_five_times_too_large_is_doubted_and_forgotten() {
    let (mut session, mut calibration) = taught(1.3);
    let before = calibration.clone();
    let wrong = Tokens(session.charge().0 * 57 / 10);
    assert_eq!(calibration.observe(session.sent, wrong), Observed::Doubted);
    assert_eq!(calibration.next(session.sent), before.next(session.sent));
    session.grow();
    assert_eq!(calibration.observe(session.sent, session.charge()), Observed::Learned);
    assert!((calibration.factor() - before.factor()).abs() < 0.02);
}

// Anthropic's `input_tokens` excludes what was read from the cache, which is nearly all.
#[test]
fn usage_without_its_cached_part_is_doubted() {
    let mut calibration = Calibration::new("claude-sonnet-4-6");
    let sent = Measure::new(Tokens(9_000), 3);
    assert_eq!(calibration.observe(sent, Tokens(3)), Observed::Doubted, "also at the very beginning");
    assert_eq!((calibration.observations(), calibration.constant()), (0, 0.0));

    let (session, mut calibration) = taught(1.3);
    assert_eq!(calibration.observe(session.sent, Tokens(1)), Observed::Doubted);
    assert!(miss(calibration.next(session.sent), session.charge()) < 2.0);
}

#[test]
fn absurd_numbers_are_refused() {
    let (session, mut calibration) = taught(1.3);
    let before = calibration.clone();
    let huge = u64::MAX;
    assert_eq!(calibration.observe(session.sent, Tokens(huge)), Observed::Refused);
    assert_eq!(calibration.observe(Measure::new(Tokens(huge), 1), Tokens(9_000)), Observed::Refused);
    assert_eq!(calibration.observe(Measure::new(Tokens(1), huge), Tokens(9_000)), Observed::Refused);
    assert_eq!(calibration, before);
}

#[test]
fn another_session_keeps_the_factor_and_learns_its_own_constant() {
    let (_, mut calibration) = taught(1.6);
    let factor = calibration.factor();
    calibration.begin_session();
    let mut other = Session { hidden: 3_000.0, ..Session::new(1.6) };
    other.teach(&mut calibration, 1);
    assert_eq!(calibration.factor(), factor);
    assert!(miss(calibration.next(other.sent), other.charge()) < 2.0);
    assert!((calibration.constant() - 3_000.0).abs() < 300.0, "{}", calibration.constant());
}

#[test]
fn a_calibration_survives_being_stored() {
    let (mut session, mut calibration) = taught(1.3);
    calibration.observe(session.sent, Tokens(1)); // with a doubt pending
    let stored = serde_json::to_string(&calibration).unwrap();
    let mut restored: Calibration = serde_json::from_str(&stored).unwrap();
    assert_eq!(restored.observations(), 12);
    assert_eq!(restored.next(session.sent), calibration.next(session.sent));
    assert_eq!(restored.estimate(session.sent), calibration.estimate(session.sent));
    session.grow();
    assert_eq!(restored.observe(session.sent, session.charge()), Observed::Learned);
}

#[rstest]
#[case::factor("/fit/factor", "-3.0")]
#[case::wrapping("/fit/perBlock", "1e300")]
#[case::variance("/fit/variance/0", "-1.0")]
#[case::covariance("/fit/variance/1", "50.0")]
#[case::spread("/fit/spread", "7.0")]
#[case::centre("/fit/centre/charged", "1e200")]
#[case::last("/last/actual", "0")]
fn a_stored_calibration_that_cannot_be_true_is_replaced_by_the_prior(
    #[case] place: &str,
    #[case] nonsense: &str,
) {
    let (_, calibration) = taught(1.7);
    let mut stored = serde_json::to_value(&calibration).unwrap();
    *stored.pointer_mut(place).expect(place) = serde_json::from_str(nonsense).unwrap();
    let restored: Calibration = serde_json::from_value(stored).unwrap();
    assert_eq!(restored, Calibration::new("claude-sonnet-4-6"));
}

#[test]
fn the_counter_scales_a_base_that_is_counted_once() {
    let base = Memo::new(Bpe::O200k);
    let text = Text::from("fn main() {}\n".repeat(500));
    let (mut session, mut calibration) = taught(1.3);
    let plain = base.count_text(&text);
    for _ in 0..5 {
        session.teach(&mut calibration, 1);
        let counter = calibration.counter(&base);
        let expected = Tokens((plain.0 as f64 * calibration.factor()).ceil() as u64);
        assert_eq!((counter.count_text(&text), counter.count(&text)), (expected, expected));
        assert_eq!(counter.message_overhead(), Tokens(calibration.per_block().round() as u64));
        assert_eq!(counter.name(), "calibrated");
    }
    // Once for the memo, and once for each plain string, which cannot store its count.
    assert_eq!(base.computed(), 1 + 5);
}

#[test]
fn the_counter_can_own_its_base() {
    let counter: Calibrated<Box<dyn Counter>> = Calibration::new("gpt-5").counter(Box::new(Bpe::O200k));
    assert_eq!(counter.count("hello world"), Tokens(2));
}

fn any_measure() -> impl Strategy<Value = Measure> {
    let size = || prop_oneof![0u64..100_000, any::<u64>()];
    (size(), size(), size())
        .prop_map(|(base, blocks, exact)| Measure::new(Tokens(base), blocks).with_exact(Tokens(exact)))
}

proptest! {
    #[test]
    fn properties_no_observation_breaks_a_calibration(
        samples in prop::collection::vec((any_measure(), prop_oneof![0u64..1_000_000, any::<u64>()]), 0..60),
        asked in any_measure(),
    ) {
        let mut calibration = Calibration::new("claude-sonnet-4-6");
        for (measure, actual) in samples {
            calibration.observe(measure, Tokens(actual));
            prop_assert!((0.6..=2.5).contains(&calibration.factor()));
            prop_assert!((0.0..=80.0).contains(&calibration.per_block()));
            prop_assert!(calibration.constant().is_finite());
        }
        for estimate in [calibration.estimate(asked), calibration.next(asked), calibration.since(asked)] {
            prop_assert!(estimate.low <= estimate.tokens && estimate.tokens <= estimate.high);
        }
        // Not replaced by the prior: validation accepts whatever learning leads to.
        let stored = serde_json::to_string(&calibration).unwrap();
        let restored: Calibration = serde_json::from_str(&stored).unwrap();
        prop_assert_eq!(restored.observations(), calibration.observations());
    }

    /// Content varies: here each increment is up to a fifth more or less expensive.
    #[test]
    fn properties_it_learns_a_provider_from_noisy_content(
        factor in 0.8f64..2.0,
        hidden in 0u64..40_000,
        steps in prop::collection::vec((20u64..8_000, 0u64..1_500, -0.2f64..0.2), 25..60),
    ) {
        let mut calibration = Calibration::new("unheard-of");
        let mut sent = Measure::new(Tokens(800), 1);
        let mut charged = hidden as f64 + factor * 800.0;
        let mut misses = Vec::new();
        for (place, (base, reply, noise)) in steps.into_iter().enumerate() {
            let truth = Tokens(charged as u64);
            if place >= 4 {
                misses.push(miss(calibration.next(sent), truth));
            }
            calibration.observe(sent, truth);
            sent = sent + Measure::new(Tokens(base), 1).with_exact(Tokens(reply));
            charged += factor * (1.0 + noise) * base as f64 + 10.0 + reply as f64;
        }
        misses.sort_by(f64::total_cmp);
        prop_assert!(misses[misses.len() / 2] < 5.0, "{misses:?}");
        prop_assert!((calibration.factor() / factor - 1.0).abs() < 0.2, "{} {factor}", calibration.factor());
    }
}

#[test]
fn a_window_can_be_measured() {
    let log = [plimsoll::Message::user("m".into(), "p".into(), "hello world")];
    let window = plimsoll::Window::of(&log, &plimsoll::Policy::default());
    let measure = Measure::of_window(&window, &plimsoll_tokens::Bpe::O200k);
    let least = Floor::of_text(&"hello world".into(), &plimsoll_tokens::Bpe::O200k);
    assert_eq!(measure, Measure { least, ..Measure::new(Tokens(2), 1) });
    // Claude's vocabularies never need fewer tokens than o200k; those of other models may.
    let of = |model: &str| Calibration::new(model).least(measure.least);
    assert_eq!((of("claude-opus-4-7"), of("gpt-5")), (Tokens(2), Tokens(1)));
}

/// Usage of 64 bits is refused, and estimates stay finite, whatever was learned.
#[test]
fn extreme_numbers_do_no_harm() {
    let most = Tokens(u64::MAX);
    let huge = Measure { exact: most, ..Measure::new(most, u64::MAX) };
    let mut calibration = Calibration::new("m");
    for (measure, actual) in
        [(huge, most), (huge, Tokens(1)), (Measure::new(Tokens(1), 1), most), (Measure::default(), Tokens(0))]
    {
        assert_eq!(calibration.observe(measure, actual), Observed::Refused);
    }
    for measure in [huge, huge + huge, Measure::default().with_exact(most)] {
        for estimate in [calibration.estimate(measure), calibration.next(measure), calibration.since(measure)]
        {
            assert!(estimate.low <= estimate.tokens && estimate.tokens <= estimate.high);
        }
    }
    let counter = calibration.counter(&Memo::new(Bpe::O200k)).count("hello");
    assert_eq!(counter, Calibration::new("m").counter(&Memo::new(Bpe::O200k)).count("hello"));

    calibration.observe(Measure::new(Tokens(1_000), 1), Tokens(2_000));
    let stored = serde_json::to_string(&calibration).unwrap();
    let stored = stored.replace("\"observations\":1", "\"observations\":18446744073709551615");
    let mut calibration: Calibration = serde_json::from_str(&stored).unwrap();
    assert_eq!(calibration.observe(Measure::new(Tokens(1_200), 2), Tokens(2_300)), Observed::Learned);
    assert_eq!(calibration.observations(), u64::MAX);
}
