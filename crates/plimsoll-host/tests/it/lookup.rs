//! Sessions are found by id, prefix, tool and directory.

use plimsoll_host::{ErrorKind, Flags};
use plimsoll_import::{Scope, Tool};

use crate::fixtures::{CLAUDE, claude, long_chat, stored};
use crate::hosts::Place;

#[test]
fn a_prefix_of_several_ids_is_ambiguous_and_the_error_lists_them() {
    let place = Place::new();
    let host = place.host();
    let config = host.config(&Flags::default()).unwrap();
    let first = stored(&place, &host, &config, &long_chat(1));
    let second = stored(&place, &host, &config, &long_chat(2));
    let error = first.opened.session("ses_", &host).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    for id in [&first.session.id, &second.session.id] {
        assert!(error.message().contains(id.as_str()), "{error}");
    }
    let found = first.opened.session(&second.session.id.as_str()[..16], &host).unwrap();
    assert_eq!(found.id, second.session.id);
}

#[test]
fn an_unknown_id_suggests_the_nearest_one() {
    let place = Place::new();
    let host = place.host();
    let config = host.config(&Flags::default()).unwrap();
    let session = stored(&place, &host, &config, &long_chat(1));
    let mut typo = session.session.id.to_string();
    typo.replace_range(6..7, if &typo[6..7] == "z" { "y" } else { "z" });
    let error = session.opened.session(&typo, &host).unwrap_err();
    assert_eq!(error.hints(), [format!("did you mean `{}`?", session.session.id)]);
}

#[test]
fn an_id_of_another_tool_is_found_and_can_be_limited_to_the_tool() {
    let place = Place::new();
    let host = place.host();
    claude(&place, &host, CLAUDE, &["Why is it slow?", "Because of the cache."]);
    let found = host.session_with_id("5d0c", Scope::All).unwrap().unwrap();
    assert_eq!((found.found.tool, found.found.id.as_str()), (Tool::ClaudeCode, CLAUDE));
    assert!(found.opened.is_none(), "it is not stored");
    assert!(host.session_with_id("claude-code:5d0c", Scope::All).unwrap().is_some());
    assert!(host.session_with_id("codex:5d0c", Scope::All).unwrap().is_none());
    // Among stored sessions the id is unknown, and the hint says how to store it.
    let config = host.config(&Flags::default()).unwrap();
    let opened = stored(&place, &host, &config, &long_chat(1)).opened;
    let error = opened.session("5d0c", &host).unwrap_err();
    assert!(error.hints()[0].contains(&format!("plimsoll sessions import {CLAUDE}")), "{:?}", error.hints());
}

#[test]
fn the_newest_session_is_that_of_the_nearest_directory_below_home() {
    let place = Place::new();
    let host = place.host();
    let config = host.config(&Flags::default()).unwrap();
    let session = stored(&place, &host, &config, &long_chat(1));
    let inside = host.at(host.directory().join("src/deep"));
    assert_eq!(session.opened.session_or_newest(None, &inside).unwrap().id, session.session.id);
    let home = host.at(host.directory().parent().unwrap().to_owned());
    assert_eq!(session.opened.session_or_newest(None, &home).unwrap_err().kind(), ErrorKind::Usage);
}
