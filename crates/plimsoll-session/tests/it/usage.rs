//! Usage that is lower than the estimate: honest, made stale by a reduction, or impossible.

use plimsoll_session::blocking::Driver;
use plimsoll_session::{
    AnswerEvent, Content, Counting, Limits, Plan, Prepared, Reply, SessionModel, Summariser, Tokens, Usage,
    Window, WindowMessage,
};
use plimsoll_tokens::{Bpe, Measure};
use rstest::rstest;
use serde_json::json;

use crate::support::{Harbour, answer, call, model, request};

const LIMITS: Limits = Limits { context: Tokens(200_000), input: None, output: Tokens(32_000) };

fn open(harbour: &Harbour, id: &str) -> Driver {
    harbour.builder().model(model(LIMITS)).session(harbour.session(id)).open_blocking().unwrap()
}

/// The next request, whatever it takes; without a model.
fn ready(driver: &mut Driver) -> Content {
    request(driver).into_content()
}

/// A turn with an output, whose answers have the usage that `share` of the estimate is.
fn turn(driver: &mut Driver, number: usize, prompt: &str, output: &str, share: f64) {
    driver.prompt(format!("Look at number {number}. {prompt}")).unwrap();
    let usage = |content: &Content| {
        let input = (content.load.estimate.0 as f64 * share) as u64;
        Some(Usage::new(Tokens(input), Tokens(10)))
    };
    let next = request(driver);
    let counted = usage(&next);
    let made = answer(next, call(number, "read", json!({ "path": "a.b64" })), counted).calls.remove(0);
    driver.call(&made.part).unwrap().start().unwrap();
    driver.call(&made.part).unwrap().finish_with(&mut output.as_bytes()).unwrap();
    let next = request(driver);
    let counted = usage(&next);
    answer(next, [AnswerEvent::Text("Seen.".into())], counted);
}

/// Lines of base64, 40,000 characters in all.
fn base64(seed: usize) -> String {
    let digit =
        |n: usize| char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[n % 64]);
    let line = |line: usize| {
        (0..79).map(|n| digit((n * 31 + line * 17 + seed) * 2_654_435_761 % 1_000_003)).collect()
    };
    (0..500).map(line).collect::<Vec<String>>().join("\n")
}

/// Clearing old outputs to save money makes the usage stale. The estimate, which is higher than the line, once ended
/// such a session with "begin a new session", without a request and without a compaction.
#[test]
fn a_session_under_its_line_by_usage_continues_after_outputs_were_cleared() {
    let harbour = Harbour::new();
    let mut driver = open(&harbour, "ses_stale");
    // Prompts are not cleared: the estimate stays over the line whatever is.
    for number in 0..14 {
        turn(&mut driver, number, &base64(number), &base64(number + 50)[..24_000], 0.6);
    }
    driver.prompt("Go on.").unwrap();
    // The cache is cold, so clearing costs nothing.
    harbour.wait(3_600_000);
    let line = 168_000;
    let content = ready(&mut driver);
    assert!(
        content.receipts.iter().any(|receipt| matches!(receipt.plan, Plan::Prune(_))),
        "{:?}",
        content.receipts
    );
    assert!(content.load.estimate > Tokens(line) && content.load.tokens < Tokens(line), "{:?}", content.load);
    assert_eq!(content.room, LIMITS.output, "the answer has all its room");
    // The request may fail and be made again, also by another process.
    let again = ready(&mut driver);
    assert!(again.receipts.is_empty() && again.load.tokens < Tokens(line), "{:?}", again.load);
}

/// A 2.1 MB request was once believed to weigh 65 tokens, and grew to several times the model's window.
#[test]
fn usage_far_below_the_size_of_its_request_is_not_trusted() {
    let harbour = Harbour::new();
    let mut driver = open(&harbour, "ses_low");
    let words = "the window is weighed by what it holds\n".repeat(1_000);
    for number in 0..30 {
        turn(&mut driver, number, "", &words, 0.001);
        let weighed = ready(&mut driver).load;
        assert!(weighed.usage_of.is_none() && weighed.tokens == weighed.estimate, "{weighed:?}");
        assert!(weighed.tokens <= Tokens(168_000), "{weighed:?}");
    }
}

/// Vocabularies differ: usage well below an estimate of characters over four is ordinary.
#[test]
fn usage_of_a_third_of_the_estimate_is_trusted() {
    let harbour = Harbour::new();
    let mut driver = open(&harbour, "ses_third");
    turn(&mut driver, 0, "", &"fn weigh(window: &Window) -> Tokens {\n".repeat(500), 0.33);
    driver.prompt("And now?").unwrap();
    let weighed = ready(&mut driver).load;
    assert!(weighed.usage_of.is_some() && weighed.tokens < weighed.estimate, "{weighed:?}");
}

/// A provider of a Claude model that needs 1.4 tokens for each of o200k, with a prompt cache.
struct Provider {
    /// Share of the truth that it reports.
    share: f64,
    reports_cached: bool,
    cached: Vec<WindowMessage>,
}

impl Provider {
    fn tokens(messages: &[WindowMessage]) -> Tokens {
        let window = Window { messages: messages.to_vec(), ..Window::default() };
        Tokens((Measure::of_window(&window, &Bpe::O200k).base.0 as f64 * 1.4) as u64)
    }

    /// Takes a request. Returns its true size, and the input tokens that are reported.
    fn take(&mut self, window: &Window) -> (Tokens, Tokens) {
        let known = self.cached.iter().zip(&window.messages).take_while(|(one, other)| one == other).count();
        self.cached = window.messages.clone();
        let whole = Provider::tokens(&window.messages);
        let charged = if self.reports_cached { whole } else { Provider::tokens(&window.messages[known..]) };
        (whole, Tokens((charged.0 as f64 * self.share) as u64))
    }
}

/// Lines of a program, of about `chars` characters.
fn program(seed: usize, chars: usize) -> String {
    let line = |n: usize| {
        let n = seed * 1_000 + n;
        format!(
            "    let depth_{n} = gauge.read(Channel::new({n}))?.clamp(0.0, {}.5); // metres below the mark\n",
            n % 40
        )
    };
    (0..).map(line).take(chars / 85 + 1).collect()
}

/// A gateway that reported half of each request, or only its uncached tokens, let requests grow to 2.8 times a model's
/// window, and 4 of 14 sessions ended with a request that could not fit.
#[rstest]
fn no_request_is_larger_than_its_window_if_a_provider_reports_too_little(
    #[values((0.5, true), (1.0, false))] reported: (f64, bool),
    #[values(2_000, 12_000)] output: usize,
    #[values(true, false)] summarises: bool,
) {
    let limits = Limits::new(16_384, 4_096);
    let (share, reports_cached) = reported;
    let mut provider = Provider { share, reports_cached, cached: Vec::new() };
    let harbour = Harbour::new();
    let claude = SessionModel::new("claude-sonnet-4-6").limits(limits);
    let mut builder = harbour.builder().model(claude).counting(Counting::Calibrated);
    if summarises {
        builder = builder.summariser(Summariser::own(limits));
    }
    let mut driver = builder.session(harbour.session("ses_gateway")).open_blocking().unwrap();
    for number in 0..30 {
        driver.prompt(format!("Look at part {number}. {}", program(number, 800))).unwrap();
        for step in 0..3 {
            let request = loop {
                match driver.prepare().unwrap() {
                    Prepared::Ready(request) => break request,
                    Prepared::Summarise(call) => {
                        drop(call.answer(Ok(Reply::finished("## Goal\nRead on."))).unwrap());
                        continue;
                    }
                    other => panic!("turn {number}, step {step}: {other:?}"),
                }
            };
            let (size, reported) = provider.take(&request.window);
            let load = &request.load;
            assert!(size <= limits.context, "turn {number}, step {step}: {size} tokens were sent; {load:?}");
            let usage = Some(Usage::new(reported, Tokens(60)));
            if step == 2 {
                answer(request, [AnswerEvent::Text("Seen.".into())], usage);
                continue;
            }
            let made =
                answer(request, call(10 * number + step, "read", json!({ "path": "gauge.rs" })), usage);
            let part = made.calls[0].part.clone();
            driver.call(&part).unwrap().start().unwrap();
            driver.call(&part).unwrap().finish_with(&mut program(900 + number, output).as_bytes()).unwrap();
        }
        driver.end_turn().unwrap();
    }
}
