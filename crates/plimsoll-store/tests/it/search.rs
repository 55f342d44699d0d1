//! Searches find everything outside the window, whatever the index contains.

use plimsoll::log::{CompactionPart, Effect, LogPosition, Mark, ToolCallPart};
use plimsoll::{Message, Part, PartBody, Role, SessionId};
use plimsoll_store::{MemoryStore, Search, Selection, Store};
use serde_json::json;

use super::{NOW, answer, begun, fresh, session, unleased, user};

fn found(store: &dyn Store, session: &SessionId, pattern: &str) -> Vec<String> {
    let search = Search { pattern: pattern.into(), literal: true, ..Search::default() };
    let hits = store.search(session, &Selection { search: Some(search), ..Selection::default() }).unwrap();
    hits.into_iter().map(|hit| hit.handle).collect()
}

pub(super) fn compact(store: &dyn Store, session: &SessionId, n: usize, tail: Option<&str>) {
    let (marker, summary) = (format!("marker_{n}"), format!("summary_{n}"));
    let tail_start = tail.map(Into::into);
    let body = PartBody::Compaction(CompactionPart { tail_start, ..CompactionPart::default() });
    let part = Part::new(format!("{marker}.1").as_str().into(), body);
    let mut asked = Message { parts: vec![part].into(), ..Message::default() };
    (asked.info.id, asked.info.role) = (marker.as_str().into(), Some(Role::User));
    let mut found = answer(&summary, "in short");
    (found.info.summary, found.info.parent_id) = (true, Some(marker.as_str().into()));
    found.info.finish = Some("stop".into());
    store.append(&unleased(session), vec![asked, found], NOW).unwrap();
}

/// A part was added to an older message after a newer one had started, so the index reached a part in the window.
#[test]
fn a_text_that_grew_after_it_was_indexed_is_found() {
    let store = fresh();
    let id = session(&*store, "ses_1");
    store
        .append(
            &unleased(&id),
            vec![user("msg_0", "go"), begun("msg_1", "first"), begun("msg_2", "grows")],
            NOW,
        )
        .unwrap();
    store
        .append_part(&unleased(&id), &"msg_1".into(), Part::text("late".into(), "a late part"), NOW)
        .unwrap();
    compact(&*store, &id, 1, Some("msg_2"));
    store.index().unwrap();
    store.advance(&unleased(&id), Part::text("msg_2.1".into(), "grows a needle"), NOW).unwrap();
    compact(&*store, &id, 2, None);
    assert_eq!(found(&*store, &id, "needle"), ["msg_2.1"], "before the index is brought up to date");
    store.index().unwrap();
    assert_eq!(found(&*store, &id, "needle"), ["msg_2.1"]);
    // A message that is being written may grow even if it precedes the summary.
    store
        .advance(&unleased(&id), Part::text("msg_2.1".into(), "grows a needle and a haystack"), NOW)
        .unwrap();
    assert_eq!(found(&*store, &id, "haystack"), ["msg_2.1"]);
    assert_eq!(found(&*store, &id, "late part"), ["late"]);
    assert_eq!(store.check().unwrap().problems, Vec::<String>::new());
}

/// Found by the property that compares both stores: a call that is separate from its answer had no tool in the
/// database's hits.
#[test]
fn the_input_of_a_hidden_call_is_found_with_its_tool() {
    let (real, model) = (fresh(), MemoryStore::new());
    for store in [&*real as &dyn Store, &model] {
        let id = session(store, "ses_1");
        let call = ToolCallPart::new("call_1", "bash", json!({ "command": "make" }));
        let hide = Mark {
            receipt: None,
            effect: Effect::Hide,
            set: LogPosition { at: NOW, after: None },
            lifted: None,
        };
        let mut asked = answer("msg_1", "I build it.");
        asked.parts.push(Part::new("prt_call".into(), PartBody::ToolCall(call)).with_marks(vec![hide]));
        store.append(&unleased(&id), vec![user("msg_0", "go"), asked], NOW).unwrap();
        let search = Search { pattern: "make".into(), literal: true, ..Search::default() };
        let hits = store.search(&id, &Selection { search: Some(search), ..Selection::default() }).unwrap();
        let found: Vec<_> = hits.iter().map(|hit| (hit.handle.as_str(), hit.tool.as_deref())).collect();
        assert_eq!(found, [("prt_call:input", Some("bash"))]);
    }
}
