//! Inboxes and tasks: writes to a session without its lease.

use plimsoll_store::{
    ChangeKind, MemoryStore, NewLease, NewNote, NewSession, NewTask, Sequence, Store, StoreError, TaskFilter,
    TaskMove,
};
use rstest::rstest;
use serde_json::json;

use super::{NOW, fresh, millis, session, unleased};

fn either(real: bool, test: impl FnOnce(&dyn Store)) {
    if real { test(&*fresh()) } else { test(&MemoryStore::new()) }
}

fn note(id: &str, text: &str) -> NewNote {
    NewNote { id: id.into(), kind: "task.ended".into(), data: json!({ "text": text }) }
}

#[rstest]
fn notes_reach_a_session_that_another_process_runs(#[values(false, true)] real: bool) {
    either(real, |store| {
        let id = session(store, "ses_1");
        let lease = store.lease(&id, "the holder", millis(1_000)).unwrap();
        for (name, text) in [("note_1", "one"), ("note_2", "two"), ("note_3", "three")] {
            store.send(&id, note(name, text), NOW).unwrap();
            // The sender does not know whether it was stored.
            store.send(&id, note(name, text), NOW).unwrap();
        }
        let error = store.send(&id, note("note_1", "another"), NOW).unwrap_err();
        assert_eq!(error.to_string(), "note `note_1` already exists in this log");
        let names = |most| -> Vec<String> {
            store.notes(&id, most).unwrap().into_iter().map(|note| note.id).collect()
        };
        assert_eq!(names(2), ["note_1", "note_2"]);
        let ids = ["note_2".to_owned(), "note_none".to_owned()];
        let error = store.take_notes(&unleased(&id), &ids, NOW).unwrap_err();
        assert!(matches!(error, StoreError::Fenced { .. }), "only the holder takes them: {error}");
        let taken = store.take_notes(&lease.claim(), &ids, NOW).unwrap();
        assert_eq!(taken.iter().map(|note| &note.data["text"]).collect::<Vec<_>>(), ["two"]);
        assert_eq!(store.take_notes(&lease.claim(), &ids, NOW).unwrap(), [], "each is taken once");
        store.send(&id, note("note_2", "two"), NOW).unwrap();
        assert_eq!(names(0), ["note_1", "note_3"], "one that was taken does not come again");
        let noted = store.changes(Sequence(0), 0).unwrap().changes;
        assert_eq!(noted.iter().filter(|change| change.kind == ChangeKind::Noted).count(), 4);
        assert!(matches!(
            store.send(&"ses_none".into(), note("n", "x"), NOW),
            Err(StoreError::Missing { .. })
        ));
    });
}

#[rstest]
fn tasks_change_only_from_their_current_status(#[values(false, true)] real: bool) {
    either(real, |store| {
        let (id, other) = (session(store, "ses_1"), session(store, "ses_2"));
        let new = |task: &str, parent: &plimsoll::SessionId| NewTask {
            id: task.into(),
            parent: parent.clone(),
            session: None,
            status: "pending".into(),
            data: json!({ "prompt": "go" }),
        };
        for (task, parent) in [("tsk_1", &id), ("tsk_2", &id), ("tsk_3", &other)] {
            store.put_task(new(task, parent), NOW).unwrap();
            store.put_task(new(task, parent), NOW).unwrap();
        }
        assert!(store.put_task(new("tsk_1", &other), NOW).is_err());
        let start = TaskMove {
            from: "pending".into(),
            to: "running".into(),
            session: Some("ses_9".into()),
            ..TaskMove::default()
        };
        let running = store.move_task("tsk_1", start.clone(), NOW).unwrap();
        assert_eq!((running.status.as_str(), running.session.clone()), ("running", Some("ses_9".into())));
        assert_eq!(store.move_task("tsk_1", start.clone(), NOW).unwrap(), running, "the same again");
        let late = TaskMove { session: Some("ses_8".into()), ..start };
        let error = store.move_task("tsk_1", late, NOW).unwrap_err();
        assert_eq!(error.to_string(), "task `tsk_1` is `running` by now");
        let end = TaskMove {
            from: "running".into(),
            to: "done".into(),
            data: Some(json!({ "result": "ok" })),
            ..TaskMove::default()
        };
        store.move_task("tsk_1", end, NOW).unwrap();
        assert_eq!(store.task("tsk_1").unwrap().data, json!({ "result": "ok" }));
        let write = |over: serde_json::Value, data: serde_json::Value| TaskMove {
            from: "done".into(),
            to: "done".into(),
            over: Some(over),
            data: Some(data),
            ..TaskMove::default()
        };
        let (seen, mine) = (json!({ "result": "ok" }), json!({ "result": "ok", "note": 1 }));
        store.move_task("tsk_1", write(seen.clone(), mine.clone()), NOW).unwrap();
        store.move_task("tsk_1", write(seen.clone(), mine.clone()), NOW).unwrap();
        let unseen = store.move_task("tsk_1", write(seen, json!({ "result": "lost" })), NOW);
        assert!(matches!(unseen, Err(StoreError::TaskMoved { .. })), "what was not seen is not written over");
        assert_eq!(store.task("tsk_1").unwrap().data, mine);
        let listed = |filter: TaskFilter| -> Vec<String> {
            store.tasks(&filter).unwrap().into_iter().map(|task| task.id).collect()
        };
        assert_eq!(listed(TaskFilter::default()), ["tsk_1", "tsk_2", "tsk_3"]);
        assert_eq!(
            listed(TaskFilter { parent: Some(id.clone()), ..TaskFilter::default() }),
            ["tsk_1", "tsk_2"]
        );
        let pending = TaskFilter { status: Some("pending".into()), most: 1, ..TaskFilter::default() };
        assert_eq!(listed(pending.clone()), ["tsk_2"]);
        assert_eq!(listed(TaskFilter { after: Some("tsk_2".into()), ..pending }), ["tsk_3"]);
        store.remove(&unleased(&id), NOW).unwrap();
        assert!(matches!(store.task("tsk_1"), Err(StoreError::Missing { .. })));
        assert_eq!(store.check().unwrap().problems, Vec::<String>::new());
    });
}

fn task_of(parent: &plimsoll::SessionId, id: &str) -> NewTask {
    NewTask {
        id: id.into(),
        parent: parent.clone(),
        session: Some(id.into()),
        status: "running".into(),
        data: json!({ "prompt": "go" }),
    }
}

#[rstest]
fn a_session_is_created_with_its_task_and_lease_or_not_at_all(#[values(false, true)] real: bool) {
    either(real, |store| {
        let parent = session(store, "ses_1");
        let lease = NewLease { holder: "runner".into(), ttl: millis(60_000) };
        let born = |id: &str, task: NewTask| NewSession {
            parent: Some(parent.clone()),
            task: Some(task),
            lease: Some(lease.clone()),
            ..NewSession::new(id.into())
        };
        store.create(born("ses_2", task_of(&parent, "ses_2")), NOW).unwrap();
        store.fork(&parent, None, born("ses_3", task_of(&parent, "ses_3")), NOW).unwrap();
        for id in ["ses_2", "ses_3"] {
            assert_eq!(store.task(id).unwrap().status, "running");
            let taken = store.lease(&id.into(), "another", millis(60_000)).unwrap_err();
            assert!(matches!(&taken, StoreError::Leased { holder, .. } if holder == "runner"), "{taken}");
            // The holder itself starts it.
            store.lease(&id.into(), "runner", millis(60_000)).unwrap();
        }
        // If the record cannot be stored, there is no session either.
        let twice = NewTask { data: json!({}), ..task_of(&parent, "ses_2") };
        assert!(store.create(born("ses_4", twice.clone()), NOW).is_err());
        assert!(store.fork(&parent, None, born("ses_4", twice), NOW).is_err());
        assert!(store.session(&"ses_4".into()).is_err());
    });
}

#[rstest]
fn a_task_change_sends_its_notes_atomically_and_only_under_its_lease(#[values(false, true)] real: bool) {
    either(real, |store| {
        let parent = session(store, "ses_1");
        let task = store.create(NewSession::new("ses_2".into()), NOW).unwrap().id;
        store.put_task(task_of(&parent, "ses_2"), NOW).unwrap();
        let first = store.lease(&task, "first", millis(60_000)).unwrap();
        let second = store.break_lease(&task, "second", millis(60_000)).unwrap();
        let note = NewNote { id: "ended".into(), kind: "task.ended".into(), data: json!({}) };
        let end = |under: &plimsoll_store::Lease| TaskMove {
            from: "running".into(),
            to: "done".into(),
            notes: vec![(parent.clone(), note.clone()), ("ses_gone".into(), note.clone())],
            under: Some(under.claim()),
            ..TaskMove::default()
        };
        let lost = store.move_task("ses_2", end(&first), NOW).unwrap_err();
        assert!(matches!(lost, StoreError::Fenced { .. }), "{lost}");
        assert_eq!(store.task("ses_2").unwrap().status, "running");
        assert!(store.notes(&parent, 0).unwrap().is_empty());
        store.move_task("ses_2", end(&second), NOW).unwrap();
        store.move_task("ses_2", end(&second), NOW).unwrap();
        assert_eq!(store.notes(&parent, 0).unwrap().len(), 1, "also when the step is repeated");
    });
}
