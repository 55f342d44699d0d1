//! A session is handed over as a copy of its window.

use plimsoll::prune::PruneChoice;
use plimsoll_host::{ErrorKind, Flags, HandoverRequest, InputSource, InputSpec, Reduced};
use plimsoll_import::Tool;

use crate::fixtures::{file, long_chat, output, stored};
use crate::hosts::Place;

fn request(input: InputSpec, to: Tool) -> HandoverRequest {
    HandoverRequest { input, to, dir: None, as_is: false }
}

#[test]
fn cleared_outputs_stay_cleared_and_the_original_is_unchanged() {
    let place = Place::new();
    let host = place.host();
    let config = host.config(&Flags::default()).unwrap();
    let session = stored(&place, &host, &config, &long_chat(3));
    let choice = PruneChoice { tools: vec!["read".to_owned()], keep: Some(1), ..PruneChoice::default() };
    let pruned = session.prune(Some(&choice), &config, false, &host).unwrap();
    assert!(matches!(pruned, Reduced::Done(..)));
    let source = InputSource::Session(session.session.id.to_string());
    let input = InputSpec { source, strict: false, flags: Flags::default() };
    let handover = host.hand_over(request(input, Tool::ClaudeCode)).unwrap();
    assert!(handover.is_stored && handover.reduced.is_none());
    assert_eq!(handover.command.as_deref(), Some(format!("claude --resume {}", handover.session).as_str()));
    let written = std::fs::read_to_string(&handover.path).unwrap();
    let first_line = |n| output(n).lines().next().unwrap().to_owned();
    assert!(!written.contains(&first_line(0)) && written.contains(&first_line(2)), "{written}");
    assert_eq!(session.opened.receipts(&session.session.id).unwrap().len(), 1);
    // The tool's own place is found by the next lookup.
    let found = host.session_with_id(&handover.session, plimsoll_import::Scope::Only(Tool::ClaudeCode));
    assert_eq!(found.unwrap().unwrap().found.path, handover.path);
}

#[test]
fn an_existing_file_is_not_overwritten() {
    let place = Place::new();
    let host = place.host();
    let config = host.config(&Flags::default()).unwrap();
    let session = stored(&place, &host, &config, &long_chat(1)).session.id;
    let input = || {
        let source = InputSource::Session(session.to_string());
        InputSpec { source, strict: false, flags: Flags::default() }
    };
    let first = host.hand_over(request(input(), Tool::Opencode)).unwrap();
    std::fs::write(&first.path, "mine").unwrap();
    // OpenCode's file is named after the session.
    let error = host.hand_over(request(input(), Tool::Opencode)).unwrap_err();
    assert!(error.kind() == ErrorKind::Usage && error.hints()[0].contains("--dir"), "{error:?}");
    assert_eq!(std::fs::read_to_string(&first.path).unwrap(), "mine");
}

#[test]
fn an_empty_session_cannot_be_handed_over() {
    let place = Place::new();
    let host = place.host();
    let path = place.write("project/empty.json", r#"{ "info": { "id": "ses_e" }, "messages": [] }"#);
    let error = host.hand_over(request(file(&path), Tool::Codex)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Negative, "{error}");
}

#[test]
fn a_directory_of_the_user_is_named_in_the_command_only_if_the_tool_can_find_it() {
    let place = Place::new();
    let host = place.host();
    let path = place.write("project/session.json", &long_chat(1));
    let to = |dir: &str| {
        let dir = Some(host.directory().join(dir));
        host.hand_over(HandoverRequest { dir, ..request(file(&path), Tool::Codex) }).unwrap()
    };
    let found = to("other/sessions").command.unwrap();
    assert!(found.starts_with("CODEX_HOME=") && found.contains("codex resume "), "{found}");
    assert_eq!(to("elsewhere").command, None);
}
