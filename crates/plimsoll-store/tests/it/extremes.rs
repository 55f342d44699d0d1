//! Extreme numbers: usage, times, lengths and limits of 64 bits are stored without an overflow. The database's integers
//! are signed, so larger numbers are clamped.

use std::time::Duration;

use plimsoll::{Message, Millis, Usage};
use plimsoll_store::{Filter, MemoryStore, PageRequest, Recalled, Search, Selection, Session, Store, Totals};
use serde_json::json;

use super::{answer, fresh, session, unleased, user};

const MOST: u64 = u64::MAX;

/// Messages with the largest possible numbers.
fn messages() -> Vec<Message> {
    let json = json!([
        { "info": { "id": "msg_1", "role": "user", "time": { "created": MOST, "completed": MOST } },
          "parts": [{ "id": "prt_1", "type": "text", "text": "hello",
            "plimsoll": { "cut": { "keep": MOST, "at": MOST }, "lifted": MOST } }] },
        { "info": { "id": "msg_2", "role": "assistant", "time": { "created": MOST, "completed": MOST },
            "finish": "stop", "cost": 1e308, "tokens": { "total": MOST, "input": MOST, "output": MOST,
            "reasoning": MOST, "cache": { "read": MOST, "write": MOST } } },
          "parts": [{ "id": "prt_2", "type": "tool", "callID": "c", "tool": "bash", "state": {
            "status": "completed", "input": {}, "output": "out",
            "time": { "start": MOST, "end": MOST, "compacted": MOST } } }] },
        { "info": { "id": "msg_3", "role": "user", "time": { "created": MOST } },
          "parts": [{ "id": "prt_3", "type": "compaction", "compactedMessages": MOST, "compactedTokens": MOST }] },
        { "info": { "id": "msg_4", "role": "assistant", "parentID": "msg_3", "summary": true, "finish": "stop",
            "time": { "created": MOST, "completed": MOST } },
          "parts": [{ "id": "prt_4", "type": "text", "text": "We talked." }] },
        { "info": { "id": "msg_5", "role": "user", "time": { "created": MOST } },
          "parts": [{ "id": "prt_5", "type": "compaction", "setAside": MOST, "summary": "inside" }] }
    ]);
    Message::read_strict(&json.to_string()).unwrap()
}

fn all() -> Usage {
    messages()[1].info.tokens.clone().unwrap()
}

fn exercise(store: &dyn Store) -> Session {
    let now = Millis(i64::MAX as u64);
    let id = session(store, "ses_1");
    store.append(&unleased(&id), messages(), now).unwrap();
    store.append(&unleased(&id), vec![user("msg_6", "next"), answer("msg_7", "open")], now).unwrap();
    store.finish(&unleased(&id), &"msg_7".into(), "stop", Some(all()), now).unwrap();
    assert_eq!(store.session(&id).unwrap().usage.cache_write, Totals::MOST);
    let known = store.session(&id).unwrap();
    assert!(known.messages == 7 && known.cost > 0.0);
    assert_eq!(store.sessions(&Filter::default()).unwrap().len(), 1);

    let page = PageRequest { from: None, most: MOST, oldest_first: false };
    assert_eq!(store.page(&id, &page).unwrap().messages.len(), 7);
    assert!(!store.window(&id).unwrap().is_empty());
    assert!(!store.outline(&id).unwrap().is_empty());
    assert!(!store.compactions(&id, None, u64::MAX).unwrap().is_empty());

    let lease = store.lease(&id, "host", Duration::MAX).unwrap();
    assert_eq!(store.expire_spills(Some(now), Some(MOST), now, 9).unwrap(), []);
    store.remove(&lease.claim(), now).unwrap();
    known
}

#[test]
fn numbers_of_64_bits_are_stored() {
    let (memory, store) = (exercise(&MemoryStore::default()), fresh());
    let stored = exercise(&*store);
    assert_eq!((stored.usage, stored.cost), (memory.usage, memory.cost));
}

#[test]
fn recall_is_bounded_by_the_content_and_not_by_the_request() {
    let search = Search { pattern: "two".into(), context: usize::MAX, ..Search::default() };
    let ask = Selection {
        lines: Some((1, MOST)),
        search: Some(search),
        max_bytes: usize::MAX,
        max_matches: usize::MAX,
        ..Selection::default()
    };
    let recalled = Recalled::of("one\ntwo\nthree", &ask).unwrap();
    assert_eq!(recalled.text(), "one\ntwo\nthree");
}
