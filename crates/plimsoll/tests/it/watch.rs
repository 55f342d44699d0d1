//! A watch over a growing window agrees with reading all of it.

use plimsoll::compact::{CompactionContext, Ladder, Reply, Step, Summariser, Trigger, Watch};
use plimsoll::policy::Thrift;
use plimsoll::{
    CacheTerms, Ids, Limits, Log, Message, Millis, Part, Policy, Preset, Tokens, ToolState, Usage, Window,
    recall,
};
use plimsoll_testkit::ids;
use proptest::prelude::*;
use serde_json::json;

const LIFETIME: Millis = Millis(300_000);

/// A step of a session. Strategies add the seconds that pass before it.
#[derive(Clone, Debug)]
enum Event {
    Prompt,
    Say(usize),
    Read(usize),
    Write(usize),
    Recall,
    Fail,
}

fn sessions() -> impl Strategy<Value = Vec<(Event, u64)>> {
    let event = prop_oneof![
        3 => Just(Event::Prompt),
        2 => (1usize..400).prop_map(Event::Say),
        6 => (1usize..6_000).prop_map(Event::Read),
        2 => (1usize..3_000).prop_map(Event::Write),
        1 => Just(Event::Recall),
        1 => Just(Event::Fail),
    ];
    let pause = prop_oneof![12 => 1u64..60, 1 => 250u64..4_000];
    prop::collection::vec((event, pause), 1..120)
}

fn policies() -> impl Strategy<Value = Policy> {
    prop_oneof![
        3 => Just(Preset::Plimsoll.policy()),
        2 => Just(with_thrift(Thrift::Frugal)),
        1 => Just(with_thrift(Thrift::Off)),
        1 => Just(Preset::Opencode.policy()),
        1 => Just(Preset::Openfork.policy()),
    ]
}

fn with_thrift(thrift: Thrift) -> Policy {
    let mut spec = Preset::Plimsoll.policy().into_spec();
    spec.thrift = thrift;
    Policy::new(spec).unwrap()
}

/// A session that is driven call by call, with counts of full readings that the watch avoided.
struct Driven {
    log: Log,
    ids: Ids,
    policy: Policy,
    context: u64,
    now: u64,
    watch: Option<Watch>,
    window: Window,
    grown: usize,
    calls: usize,
    reductions: usize,
}

impl Driven {
    fn new(policy: Policy, context: u64) -> Driven {
        Driven {
            log: Log::from_messages([Message::user("msg_0".into(), "prt_0".into(), "Begin").at(Millis(1))]),
            ids: ids(),
            policy,
            context,
            now: 1,
            watch: None,
            window: Window::default(),
            grown: 0,
            calls: 0,
            reductions: 0,
        }
    }

    fn context(&self) -> CompactionContext {
        let limits = Limits::new(self.context, self.context / 8);
        CompactionContext {
            summariser: Some(Summariser::own(limits)),
            cache: Some(CacheTerms { read: 0.1, write: 1.25, output: 5.0, lifetime: LIFETIME }),
            trigger: Trigger::Auto,
            ..CompactionContext::new(&self.policy, limits, Millis(self.now))
        }
    }

    /// Prepares a request, with the watch and without it, and compares. Returns its estimate.
    fn prepare(&mut self) -> Tokens {
        self.calls += 1;
        let context = self.context();
        let (load, window) = context.load_and_window(&self.log);
        let calls = context.wants_climb(&self.log, &load);
        let grown = self.watch.take().and_then(|watch| context.growth(watch, &self.log));
        if let Some((growth, watch)) = grown {
            assert!(!calls, "the watch missed a reduction at call {}", self.calls);
            assert_eq!(growth.load, load);
            self.window.messages.extend(growth.messages);
            assert_eq!(self.window, window);
            self.grown += 1;
            self.watch = Some(watch);
            return load.estimate;
        }
        if !calls {
            self.watch = context.watch(&self.log, &window, &load);
            self.window = window;
            return load.estimate;
        }
        let mut ladder = Ladder::new(self.log.clone(), context);
        let outcome = loop {
            match ladder.climb(&mut self.ids).unwrap() {
                Step::Ask(_) => {
                    let reply = ladder.offline().map(|text| Reply::finished(text.as_str()));
                    ladder.answer(reply.ok_or_else(String::new), &mut self.ids).unwrap();
                }
                Step::Done(outcome) => break outcome,
            }
        };
        self.reductions += outcome.reduction.receipts.len();
        outcome.reduction.commit(&mut self.log).unwrap();
        let context = self.context();
        let (load, window) = context.load_and_window(&self.log);
        self.watch = context.watch(&self.log, &window, &load);
        self.window = window;
        load.estimate
    }

    fn step(&mut self, event: &Event, pause: u64, factor: f64) {
        self.now += pause * 1_000;
        let number = self.log.len();
        let (id, part) = (format!("msg_{number}"), format!("prt_{number}"));
        if matches!(event, Event::Prompt) {
            let prompt = Message::user(id.as_str().into(), part.as_str().into(), "Go on with the next one");
            self.log.append(prompt.at(Millis(self.now))).unwrap();
            return;
        }
        let sent = self.prepare();
        let call = |tool: &str, input, output: String| {
            Part::tool(
                part.as_str().into(),
                format!("call_{number}"),
                tool,
                ToolState::completed(input, output),
            )
        };
        let part = match event {
            Event::Read(tokens) => {
                let text = format!("the_name_{number}\n").repeat(tokens / 4 + 1);
                call("read", json!({ "path": format!("src/f{number}.rs") }), text)
            }
            Event::Write(tokens) => {
                let text = format!("let the_value_{number} = compute(input);\n").repeat(tokens / 9 + 1);
                call("write", json!({ "path": "src/out.rs", "content": text }), "written".to_owned())
            }
            Event::Recall => call(recall::NAME, json!({ "handle": "prt_1" }), "brought back\n".repeat(90)),
            Event::Say(tokens) => Part::text(part.as_str().into(), "word ".repeat(*tokens)),
            Event::Fail | Event::Prompt => Part::text(part.as_str().into(), "cut off"),
        };
        let mut answer = Message::assistant(id.as_str().into(), vec![part]).at(Millis(self.now));
        answer.info.time.get_or_insert_default().completed = Some(Millis(self.now));
        answer.info.finish = Some("stop".into());
        if matches!(event, Event::Fail) {
            answer.info.error = Some(json!({ "name": "APIError" }));
        } else {
            answer.info.tokens = Some(Usage::new(Tokens((sent.0 as f64 * factor) as u64), Tokens(40)));
        }
        self.log.append(answer).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, ..ProptestConfig::default() })]

    #[test]
    fn properties_a_watch_agrees_with_reading_the_whole_window(
        events in sessions(),
        policy in policies(),
        context in prop::sample::select(&[20_000u64, 60_000, 200_000, 2_000_000][..]),
        factor in prop::sample::select(&[0.8, 1.0, 1.001, 1.3][..]),
    ) {
        let mut session = Driven::new(policy, context);
        for (event, pause) in &events {
            session.step(event, *pause, factor);
        }
    }
}

#[test]
fn a_watch_avoids_almost_all_full_readings_of_a_session_that_fits() {
    let mut session = Driven::new(Preset::Plimsoll.policy(), 2_000_000);
    for _ in 0..300 {
        session.step(&Event::Read(500), 20, 1.2);
    }
    assert_eq!((session.calls, session.grown, session.reductions), (300, 299, 0));
}

#[test]
fn a_watch_avoids_most_full_readings_of_a_reduced_session() {
    let mut session = Driven::new(Preset::Plimsoll.policy(), 60_000);
    for number in 0..600 {
        let event = if number % 5 == 0 { Event::Prompt } else { Event::Read(500) };
        session.step(&event, 20, 1.0);
    }
    assert!(session.reductions > 3, "{} reductions", session.reductions);
    assert!(session.grown * 5 >= session.calls * 4, "{} of {} calls", session.grown, session.calls);
}
