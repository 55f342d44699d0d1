//! Recall as a model asks for it.

use plimsoll::recall::{Lookup, RecallContent};
use plimsoll_session::blocking::Driver;
use plimsoll_session::{PartId, RecallQuery};
use serde_json::json;

use crate::support::{Harbour, answer, call, request};

/// Runs a tool that prints this. Returns the handle of what was spilled.
fn run(driver: &mut Driver, output: &str) -> (PartId, String) {
    driver.prompt("Run it").unwrap();
    let made = answer(request(driver), call(1, "bash", json!({ "command": "make" })), None).calls.remove(0);
    let receipt = driver.call(&made.part).unwrap().finish_with(&mut output.as_bytes()).unwrap().unwrap();
    (made.part, receipt.handles[0].to_string())
}

fn lines() -> String {
    let line = |n: u32| match n % 500 {
        0 => format!("error: step {n} failed\n"),
        _ => format!("step {n} is done, says a line that is as long as lines are\n"),
    };
    (0..20_000).map(line).collect()
}

#[test]
fn p4_an_answer_from_an_excerpt_equals_one_from_the_full_content() {
    let harbour = Harbour::new();
    let mut driver = harbour.open("ses_1");
    let output = lines();
    let (_, handle) = run(&mut driver, &output);
    let whole = Lookup::Found(RecallContent::new(handle.as_str(), "output of bash", output.as_str()));
    let queries = [
        json!({ "handle": handle }),
        json!({ "handle": handle, "from": 19_990 }),
        json!({ "handle": handle, "from": 500, "to": 503 }),
        json!({ "handle": handle, "search": "^error" }),
        json!({ "handle": handle, "search": "^error", "limit": 3 }),
        json!({ "handle": handle, "search": "^error", "from": 9_000, "to": 12_000 }),
        json!({ "handle": handle, "search": "step (" }),
        json!({ "handle": handle, "search": "nothing of the kind" }),
        json!({ "handle": handle, "from": 30_000 }),
    ];
    for query in queries {
        let query = RecallQuery::parse(&query).unwrap();
        let (answer, wanted) =
            (driver.recall(&query).unwrap(), query.answer(&whole, &driver.recall_policy()));
        assert_eq!(answer, wanted, "{query:?}");
    }
    // Room for the numbers in the header is kept by the length of the text, which an excerpt does not know.
    let query = RecallQuery::parse(&json!({ "handle": handle, "from": 501, "offset": 7 })).unwrap();
    let text = driver.recall(&query).unwrap().text;
    assert!(text.contains("starting at character 7]\n\nstep 500 failed\nstep 501 is done"), "{text}");
}

#[test]
fn p4_following_the_answers_brings_back_everything() {
    let harbour = Harbour::new();
    let mut driver = harbour.open("ses_1");
    let output = lines();
    let (_, handle) = run(&mut driver, &output);
    let (mut query, mut found, mut answers) = (Some(RecallQuery::of(handle)), String::new(), 0);
    while let Some(now) = query {
        let answer = driver.recall(&now).unwrap();
        assert!(!answer.is_error, "{}", answer.text);
        let text = answer.text.split_once("\n\n").unwrap().1;
        let text = text.rsplit_once("\n\n[lines ").map_or(text, |(text, _)| text);
        found.push_str(text);
        found.push('\n');
        query = answer.next;
        answers += 1;
    }
    assert!(answers > 10, "{answers}");
    assert_eq!(found, output);
}

#[test]
fn p4_a_session_reaches_only_what_it_can_see() {
    let harbour = Harbour::new();
    let mut driver = harbour.open("ses_1");
    let (_, handle) = run(&mut driver, &lines());
    let other = harbour.open("ses_2");
    let answer = other.recall(&RecallQuery::of(handle.as_str())).unwrap();
    assert!(answer.is_error && answer.text.contains("unknown handle"), "{}", answer.text);
    let search = RecallQuery::parse(&json!({ "search": "step 500 failed" })).unwrap();
    assert!(driver.recall(&search).unwrap().text.contains("error: step 500 failed"));
    assert!(other.recall(&search).unwrap().text.contains("no removed content matches"));
    let few = RecallQuery::parse(&json!({ "search": "^error", "limit": 3 })).unwrap();
    let text = driver.recall(&few).unwrap().text;
    assert!(text.starts_with("[recall: matches for `^error` in at least 1 place]"), "{text}");
    // The beginning of a handle will do.
    let short = RecallQuery::of(&handle[..14]);
    assert!(!driver.recall(&short).unwrap().is_error);
}
