//! Outputs taken, forked, removed, swept and recalled: a database with a directory behaves like the store in memory.

use std::collections::BTreeSet;

use plimsoll::{Millis, SessionId};
use plimsoll_store::{Archive, NewSession, Retention, Scope, Search, Selection};
use proptest::prelude::*;
use tempfile::TempDir;

use super::super::{NOW, read, unleased, user};
use super::{all, noise, open, take_all};

/// An operation on content.
#[derive(Clone, Debug)]
enum Op {
    Create,
    /// A tool prints some lines of one of a few texts; the same text may be printed again, here or elsewhere.
    Take {
        session: usize,
        lines: u64,
        text: u64,
    },
    Fork(usize),
    /// A session that this one starts as a task.
    Task(usize),
    Remove(usize),
    /// Expires what is older than an age, or exceeds a size.
    Sweep {
        age: Option<u64>,
        bytes: Option<u64>,
    },
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        2 => Just(Op::Create),
        6 => (any::<usize>(), prop_oneof![Just(10u64), 2_001u64..2_400], 0u64..4)
            .prop_map(|(session, lines, text)| Op::Take { session, lines, text }),
        2 => any::<usize>().prop_map(Op::Fork),
        1 => any::<usize>().prop_map(Op::Task),
        1 => any::<usize>().prop_map(Op::Remove),
        2 => (prop::option::of(1u64..30), prop::option::of(1u64..400_000))
            .prop_map(|(age, bytes)| Op::Sweep { age, bytes }),
    ];
    prop::collection::vec(op, 1..24)
}

/// Returns the result of an archive for a handle, in a form that both share.
fn said(archive: &Archive, scope: Scope<'_>, handle: &str) -> String {
    match archive.recall(scope, handle, &all()) {
        Ok(found) => {
            format!("{} {}: {}", found.handle, found.what, blake3::hash(found.found.text().as_bytes()))
        }
        Err(error) => error.to_string(),
    }
}

fn searched(archive: &Archive, session: &SessionId, pattern: &str) -> Vec<(String, u64)> {
    let search = Some(Search { pattern: pattern.into(), ..Search::default() });
    let wanted = Selection { search, max_bytes: usize::MAX, max_matches: usize::MAX, ..Selection::default() };
    let hits = archive.search(session, &wanted).unwrap_or_default();
    hits.into_iter().map(|hit| (hit.handle, hit.found.matches)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 20, ..ProptestConfig::default() })]

    #[test]
    fn properties_content_in_a_database_behaves_like_content_in_memory(ops in ops()) {
        let directory = TempDir::new().unwrap();
        let mut both = [open(&directory.path().join("p.db")), Archive::in_memory()];
        let mut sessions: Vec<SessionId> = Vec::new();
        let mut handles: Vec<String> = Vec::new();
        // Memory keeps nothing of a removed session; separate tests cover what forks keep.
        let mut forked: BTreeSet<SessionId> = BTreeSet::new();
        for (at, op) in ops.iter().enumerate() {
            let now = Millis(NOW.0 + at as u64);
            let id = SessionId::new(format!("ses_{at}"));
            let pick = |which: usize| sessions.get(which % sessions.len().max(1)).cloned();
            let mut made = Vec::new();
            match op {
                Op::Create => {
                    both.iter().for_each(|a| drop(a.store().create(NewSession::new(id.clone()), now).unwrap()));
                    made.push(id);
                }
                Op::Take { session, lines, text } => {
                    let Some(session) = pick(*session) else { continue };
                    let (output, message) = (noise(*lines, *text), format!("msg_{at}"));
                    let mut taken = Vec::new();
                    for archive in &both {
                        let of_part = format!("{message}r.1");
                        let shown = take_all(archive, &session, &of_part, &output);
                        let said = vec![user(&message, "run it"), read(&format!("{message}r"), shown.shown.as_str())];
                        archive.store().append(&unleased(&session), said, now).unwrap();
                        taken.push(shown.receipt.map(|receipt| plimsoll_store::handles(&receipt)));
                    }
                    prop_assert_eq!(&taken[0], &taken[1]);
                    handles.extend(taken.remove(0).into_iter().flatten());
                    handles.push(format!("{message}r.1"));
                }
                Op::Fork(which) => {
                    let Some(parent) = pick(*which) else { continue };
                    for archive in &both {
                        archive.store().fork(&parent, None, NewSession::new(id.clone()), now).unwrap();
                    }
                    forked.insert(parent);
                    made.push(id);
                }
                Op::Task(which) => {
                    let Some(parent) = pick(*which) else { continue };
                    for archive in &both {
                        let new = NewSession { parent: Some(parent.clone()), ..NewSession::new(id.clone()) };
                        archive.store().create(new, now).unwrap();
                    }
                    forked.insert(parent);
                    made.push(id);
                }
                Op::Remove(which) => {
                    let Some(session) = pick(*which).filter(|id| !forked.contains(id)) else { continue };
                    both.iter().for_each(|archive| archive.remove(&unleased(&session), now).unwrap());
                    sessions.retain(|other| both[1].store().session(other).is_ok());
                }
                Op::Sweep { age, bytes: max_bytes } => {
                    let age = age.map(Millis);
                    // Stored sizes differ, because a directory compresses. By age they agree.
                    let max_bytes = max_bytes.filter(|_| age.is_none() && *max_bytes == Some(1));
                    both.iter_mut().for_each(|archive| archive.retention = Retention { age, max_bytes });
                    let gone = both.each_ref().map(|archive| archive.sweep(now).unwrap().expired.len());
                    prop_assert_eq!(gone[0], gone[1]);
                }
            }
            sessions.extend(made);
            // Everything is read again each time, which takes long; taking and creating change little for others.
            let is_last = at + 1 == ops.len();
            if !is_last && matches!(op, Op::Create | Op::Take { .. } | Op::Task(_)) {
                continue;
            }
            for handle in &handles {
                prop_assert_eq!(
                    said(&both[0], Scope::Everywhere, handle), said(&both[1], Scope::Everywhere, handle), "{}", handle
                );
                for session in &sessions {
                    let found = both.each_ref().map(|archive| said(archive, Scope::Session(session), handle));
                    prop_assert_eq!(&found[0], &found[1], "{} of {} after {:?}", handle, session, op);
                }
            }
            for session in &sessions {
                let found = both.each_ref().map(|archive| searched(archive, session, "^a"));
                prop_assert_eq!(&found[0], &found[1], "{} after {:?}", session, op);
            }
        }
        prop_assert_eq!(both[0].check().unwrap().problems, Vec::<String>::new());
    }
}
