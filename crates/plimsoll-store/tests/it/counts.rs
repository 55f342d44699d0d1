//! Exact token counts that are stored with parts.

use plimsoll::{Message, Part, PartBody, SessionId, Text, Tokens};
use plimsoll_store::{CountWatch, NewSession, PageRequest, PurgeTarget, Store};

use crate::{NOW, answer, begun, fresh, read, session, unleased, user};

fn messages(store: &dyn Store, id: &SessionId) -> Vec<Message> {
    store.page(id, &PageRequest { from: None, oldest_first: true, most: 1_000 }).unwrap().messages
}

fn text_of(part: &Part) -> Option<&Text> {
    match &part.body {
        PartBody::Text(said) => Some(&said.text),
        _ => None,
    }
}

/// The counts of parts: of the inputs and outputs of calls, otherwise of texts.
fn known(store: &dyn Store, id: &SessionId) -> Vec<Option<u64>> {
    let messages = messages(store, id);
    let parts = messages.iter().flat_map(|message| &message.parts);
    let count = |text: &Text| text.count_by("o200k").map(|tokens| tokens.0);
    parts
        .flat_map(|part| match part.as_tool() {
            Some(tool) => {
                let output = tool.state.output.as_ref();
                vec![count(tool.state.input.as_ref().unwrap().json()), output.and_then(count)]
            }
            None => vec![count(text_of(part).unwrap())],
        })
        .collect()
}

/// Reads a session and counts what has no count: 7 for each text, and 8, 9, ... for the next.
fn count(store: &dyn Store, id: &SessionId) {
    let mut watch = CountWatch::default();
    let mut number = 6;
    for message in messages(store, id) {
        watch.watch(&message);
        for part in &message.parts {
            let texts = match part.as_tool() {
                Some(tool) => {
                    [tool.state.input.as_ref().map(|input| input.json()), tool.state.output.as_ref()]
                }
                None => [text_of(part), None],
            };
            for text in texts.into_iter().flatten() {
                number += 1;
                text.remember_count("o200k", Tokens(number));
            }
        }
    }
    watch.finish(store, id);
}

#[test]
fn counts_come_back_with_the_parts_and_change_nothing_else() {
    let store = fresh();
    let id = session(&*store, "ses_1");
    let all =
        vec![user("msg_1", "Read it."), read("msg_2", "word ".repeat(20_000)), answer("msg_3", "Done.")];
    store.append(&unleased(&id), all, NOW).unwrap();
    let before = (store.session(&id).unwrap(), messages(&*store, &id));
    assert_eq!(known(&*store, &id), [None; 4]);
    count(&*store, &id);
    assert_eq!(known(&*store, &id), [7, 8, 9, 10].map(Some));
    assert_eq!((store.session(&id).unwrap(), messages(&*store, &id)), before);
    let again = store.again();
    assert_eq!(known(&*again, &id), [7, 8, 9, 10].map(Some));
    // A fork reads the same parts.
    let fork = store.fork(&id, None, NewSession::new("ses_2".into()), NOW).unwrap().id;
    assert_eq!(known(&*store, &fork), [7, 8, 9, 10].map(Some));
}

#[test]
fn a_fork_stores_counts_with_the_parts_it_shares() {
    let store = fresh();
    let id = session(&*store, "ses_1");
    store.append(&unleased(&id), vec![user("msg_1", &"word ".repeat(20_000))], NOW).unwrap();
    let fork = store.fork(&id, None, NewSession::new("ses_2".into()), NOW).unwrap().id;
    count(&*store, &fork);
    assert_eq!((known(&*store, &id), known(&*store, &fork)), (vec![Some(7)], vec![Some(7)]));
}

#[test]
fn a_part_that_was_purged_has_no_count() {
    let store = fresh();
    let id = session(&*store, "ses_1");
    let all = vec![user("msg_1", "hunter2"), answer("msg_2", &"word ".repeat(20_000))];
    store.append(&unleased(&id), all, NOW).unwrap();
    count(&*store, &id);
    store.purge(&unleased(&id), &PurgeTarget::Match("hunter2".into()), Vec::new(), NOW).unwrap();
    assert_eq!(known(&*store, &id), [None, Some(8)]);
}

#[test]
fn an_open_answer_has_no_count_and_a_grown_text_loses_it() {
    let store = fresh();
    let id = session(&*store, "ses_1");
    let (first, open) = (answer("msg_1", &"word ".repeat(20_000)), begun("msg_2", "So far"));
    store.append(&unleased(&id), vec![first, open], NOW).unwrap();
    count(&*store, &id);
    assert_eq!(known(&*store, &id), [Some(7), None]);
    // As if it had been counted before it grew.
    let database = rusqlite::Connection::open(store.path()).unwrap();
    let insert = "INSERT INTO counted SELECT seq, 'o200k', 0, 5 FROM part WHERE id = 'msg_2.1'";
    assert_eq!(database.execute(insert, []).unwrap(), 1);
    assert_eq!(known(&*store, &id), [Some(7), Some(5)]);
    store.extend(&unleased(&id), &"msg_2.1".into(), 6, " and more", NOW).unwrap();
    assert_eq!(known(&*store, &id), [Some(7), None]);
}

#[test]
fn a_removed_session_leaves_no_counts() {
    let store = fresh();
    let id = session(&*store, "ses_1");
    store.append(&unleased(&id), vec![user("msg_1", &"word ".repeat(20_000))], NOW).unwrap();
    count(&*store, &id);
    let database = rusqlite::Connection::open(store.path()).unwrap();
    let rows = || database.query_row("SELECT count(*) FROM counted", [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(rows(), 1);
    store.remove(&unleased(&id), NOW).unwrap();
    assert_eq!(rows(), 0);
}
