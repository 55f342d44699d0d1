//! Framing of server-sent events.

use plimsoll_providers::sse::{SseEvent, SseReader, TooLarge};
use proptest::prelude::*;

fn read(pieces: &[&[u8]]) -> Vec<SseEvent> {
    let mut reader = SseReader::new(1 << 20);
    let mut events = Vec::new();
    for piece in pieces {
        reader.push(piece, &mut events).unwrap();
    }
    events.extend(reader.finish());
    events
}

fn event(name: Option<&str>, data: &str) -> SseEvent {
    SseEvent { event: name.map(str::to_owned), data: data.to_owned() }
}

#[test]
fn lines_end_in_lf_cr_or_crlf() {
    for end in ["\n", "\r", "\r\n"] {
        let text = ["event: a", "data: 1", "data: 2", "", ": comment", "data:3", "", ""].join(end);
        assert_eq!(read(&[text.as_bytes()]), [event(Some("a"), "1\n2"), event(None, "3")], "{end:?}");
    }
}

#[test]
fn a_byte_order_mark_comments_and_other_fields_are_skipped() {
    let text = "\u{feff}data: x\nid: 7\nretry: 100\n\n:keep-alive\n\ndata\n\n";
    assert_eq!(read(&[text.as_bytes()]), [event(None, "x"), event(None, "")]);
}

#[test]
fn an_event_above_the_limit_is_rejected_before_it_is_complete() {
    let mut reader = SseReader::new(10);
    let mut events = Vec::new();
    assert_eq!(reader.push(b"data: 1234\n\n", &mut events), Ok(()));
    assert_eq!(reader.push(b"data: 12345", &mut events), Err(TooLarge { limit: 10 }));
    // Many short lines also form one event.
    let mut reader = SseReader::new(20);
    let lines = "data: 123\n".repeat(10);
    assert_eq!(reader.push(lines.as_bytes(), &mut events), Err(TooLarge { limit: 20 }));
}

proptest! {
    #[test]
    fn properties_any_chunking_gives_the_same_events(
        text in "(\u{feff})?((data: ?[a-zä:]{0,5}|event: x|: c|)(\r\n|\r|\n)){0,12}(data: y)?",
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let bytes = text.as_bytes();
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        places.extend([0, bytes.len()]);
        places.sort_unstable();
        let pieces: Vec<&[u8]> = places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        prop_assert_eq!(read(&pieces), read(&[bytes]));
    }
}
