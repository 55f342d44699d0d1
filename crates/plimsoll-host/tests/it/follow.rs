//! A session that grows is followed without reading it again.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use plimsoll_host::{Flags, Follower, WindowStatus};

use crate::fixtures::{CLAUDE, claude, claude_line, newest};
use crate::hosts::Place;

fn append(path: &Path, text: &str) {
    OpenOptions::new().append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

/// The next status. A follower rests between looks, so it may take several.
fn next(follower: &mut Follower<'_>, for_newer: bool) -> WindowStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = follower.poll(for_newer) {
            return status.unwrap();
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "no status");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn appended_messages_are_added_and_equal_a_reading_from_the_beginning() {
    let place = Place::new();
    let host = place.host();
    let config = host.config(&Flags::default()).unwrap();
    let path = claude(&place, &host, CLAUDE, &["Why is it slow?", "Because of the cache."]);
    let mut follower = Follower::new(&host, &config, &newest);
    let first = follower.read().unwrap();
    assert_eq!((first.messages, first.session.as_deref()), (2, Some(CLAUDE)));
    append(&path, &claude_line(host.directory(), CLAUDE, 3, "user", "Then mend the cache."));
    let grown = next(&mut follower, false);
    assert!(grown.messages == 3 && grown.tokens > first.tokens, "{grown:?}");
    assert_eq!(Follower::new(&host, &config, &newest).read().unwrap(), grown);
}

#[test]
fn an_unchanged_session_has_no_new_status() {
    let place = Place::new();
    let host = place.host();
    let config = host.config(&Flags::default()).unwrap();
    claude(&place, &host, CLAUDE, &["Why is it slow?"]);
    let mut follower = Follower::new(&host, &config, &newest);
    follower.read().unwrap();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(300) {
        assert!(follower.poll(true).is_none());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_rewritten_file_is_read_from_the_beginning() {
    let place = Place::new();
    let host = place.host();
    let config = host.config(&Flags::default()).unwrap();
    claude(&place, &host, CLAUDE, &["Why is it slow?", "Because of the cache.", "Really?"]);
    let mut follower = Follower::new(&host, &config, &newest);
    assert_eq!(follower.read().unwrap().messages, 3);
    claude(&place, &host, CLAUDE, &["Another question, which is longer than the first one was."]);
    assert_eq!(next(&mut follower, false).messages, 1);
}

#[test]
fn a_newer_session_of_the_directory_replaces_the_followed_one() {
    let place = Place::new();
    let host = place.host();
    let config = host.config(&Flags::default()).unwrap();
    let old = claude(&place, &host, CLAUDE, &["Why is it slow?"]);
    let hour_ago = std::time::SystemTime::now() - Duration::from_secs(3_600);
    OpenOptions::new().append(true).open(old).unwrap().set_modified(hour_ago).unwrap();
    let mut follower = Follower::new(&host, &config, &newest);
    assert_eq!(follower.read().unwrap().session.as_deref(), Some(CLAUDE));
    let newer = "5d0c31aa-1111-4222-8333-444455557777";
    claude(&place, &host, newer, &["A new session"]);
    assert_eq!(next(&mut follower, true).session.as_deref(), Some(newer));
}
