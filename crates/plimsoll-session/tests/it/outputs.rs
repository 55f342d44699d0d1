//! Tool outputs, through layer 1.

use std::io::Write;

use plimsoll_session::blocking::Driver;
use plimsoll_session::{PartId, Plan, SessionError, ToolStatus};
use serde_json::json;

use crate::support::{Harbour, answer, call, request, shown};

fn calls(driver: &mut Driver, count: usize) -> Vec<PartId> {
    driver.prompt("Run it").unwrap();
    let events = (0..count).flat_map(|number| call(number, "bash", json!({ "command": "make" })));
    let made = answer(request(driver), events, None).calls;
    made.into_iter().map(|call| call.part).collect()
}

fn status(driver: &Driver) -> ToolStatus {
    driver.log().last().unwrap().parts[0].as_tool().unwrap().state.status.clone()
}

#[test]
fn a_truncated_output_is_stored_first_and_has_a_handle() {
    let harbour = Harbour::new();
    let mut driver = harbour.open("ses_1");
    let call = calls(&mut driver, 1).remove(0);
    assert_eq!(status(&driver), ToolStatus::Pending);
    driver.call(&call).unwrap().start().unwrap();
    assert_eq!((status(&driver), driver.open_calls().len()), (ToolStatus::Running, 1));
    let mut sink = driver.call(&call).unwrap().output().unwrap();
    for number in 0..20_000 {
        writeln!(sink, "line {number}").unwrap();
    }
    let receipt = driver.call(&call).unwrap().finish(sink).unwrap().unwrap();
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
    let sinks: Vec<_> = made.iter().map(|call| driver.call(call).unwrap().output().unwrap()).collect();
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
        let sink = thread.join().unwrap();
        let call = sink.call().clone();
        assert!(driver.call(&call).unwrap().finish(sink).unwrap().is_none(), "nothing was cut");
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
fn a_failed_tool_reports_its_error_and_answers_once() {
    let harbour = Harbour::new();
    let mut driver = harbour.open("ses_1");
    let call = calls(&mut driver, 1).remove(0);
    driver.call(&call).unwrap().fail("there is no `make`").unwrap();
    assert!(shown(&driver).contains("there is no `make`"));
    let late = driver.call(&call).unwrap().finish_with(&mut "late".as_bytes());
    assert!(late.is_err(), "a call is answered once");
    let text = driver.log()[0].parts[0].id.clone();
    assert!(matches!(driver.call(&text), Err(SessionError::NotACall(_))));
    assert_eq!(driver.log(), &harbour.stored(&driver));
}
