//! What tools print, through layer 1.

use std::io::Write;

use plimsoll::{PartId, Plan, ToolStatus};
use plimsoll_session::{AnswerEnd, AnswerEvent, Driver, SessionError};
use serde_json::json;

use crate::support::{Harbour, shown};

fn calls(driver: &mut Driver, count: usize) -> Vec<PartId> {
    driver.prompt("Run it").unwrap();
    driver.begin_answer(None).unwrap();
    let mut made = Vec::new();
    for number in 0..count {
        let call = format!("call_{number}");
        driver.write(AnswerEvent::CallBegin { call, tool: "bash".into() }).unwrap();
        made.extend(driver.write(AnswerEvent::CallReady(json!({ "command": "make" }))).unwrap());
    }
    driver.end_answer(AnswerEnd::Finished { reason: "tool_use".into(), usage: None, cost: None }).unwrap();
    made
}

#[test]
fn what_is_cut_is_kept_first_and_has_a_handle() {
    let harbour = Harbour::new();
    let mut driver = harbour.open("ses_1");
    let call = calls(&mut driver, 1).remove(0);
    driver.start_call(&call).unwrap();
    assert_eq!(driver.open_calls()[0].as_tool().unwrap().state.status, ToolStatus::Running);
    let mut sink = driver.output(&call).unwrap();
    for number in 0..20_000 {
        writeln!(sink, "line {number}").unwrap();
    }
    let receipt = driver.finish_output(sink).unwrap().unwrap();
    assert!(matches!(receipt.plan, Plan::Truncate(_)));
    let text = shown(&driver);
    assert!(text.contains(&receipt.handles[0].to_string()), "the window names the handle");
    assert!(text.len() < 120_000, "{}", text.len());
    assert!(driver.open_calls().is_empty());
    assert_eq!(driver.log(), &harbour.stored(&driver));
}

#[test]
fn several_tools_print_at_once() {
    let harbour = Harbour::new();
    let mut driver = harbour.open("ses_1");
    let made = calls(&mut driver, 3);
    let sinks: Vec<_> = made.iter().map(|call| driver.output(call).unwrap()).collect();
    let threads: Vec<_> = sinks
        .into_iter()
        .enumerate()
        .map(|(number, mut sink)| {
            std::thread::spawn(move || {
                write!(sink, "output of {number}").unwrap();
                sink
            })
        })
        .collect();
    for thread in threads {
        assert!(driver.finish_output(thread.join().unwrap()).unwrap().is_none(), "nothing was cut");
    }
    let outputs: Vec<String> = driver
        .log()
        .last()
        .unwrap()
        .parts
        .iter()
        .map(|part| part.as_tool().unwrap().state.output.as_ref().unwrap().to_string())
        .collect();
    assert_eq!(outputs, ["output of 0", "output of 1", "output of 2"]);
}

#[test]
fn a_tool_that_fails_says_so_and_answers_once() {
    let harbour = Harbour::new();
    let mut driver = harbour.open("ses_1");
    let call = calls(&mut driver, 1).remove(0);
    driver.fail_call(&call, "there is no `make`").unwrap();
    assert!(shown(&driver).contains("there is no `make`"));
    assert!(driver.take_output(&call, &mut "late".as_bytes()).is_err(), "a call is answered once");
    let text = driver.log()[0].parts[0].id.clone();
    assert!(matches!(driver.start_call(&text), Err(SessionError::NotACall(_))));
    assert_eq!(driver.log(), &harbour.stored(&driver));
}
