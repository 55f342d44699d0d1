//! Figures of sessions: messages, tokens, title. Sessions are read in parallel. Of a transcript that was read before, only the
//! appended part is read.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use plimsoll::Policy;
use plimsoll_formats::Chain;
use plimsoll_formats::database::Database;
use plimsoll_store::Store;

use crate::cache::{Known, Stamp, WeighedCache};
use crate::error::ImportError;
use crate::find::{Found, SessionStorage};
use crate::resume;
use crate::stored;
use crate::weighed::{Weighed, Weighing};

/// Weighs sessions, and calls `on_done` after each. Stored sessions are read from `store`. Figures of unchanged files come from
/// `cache`, and new ones are stored there. The result for an unreadable session is an error.
pub fn weigh_all(
    found: &[Found],
    store: Option<&dyn Store>,
    policy: &Policy,
    cache: Option<&WeighedCache>,
    on_done: &(dyn Fn() + Sync),
) -> Vec<Result<Weighed, ImportError>> {
    let next = AtomicUsize::new(0);
    let has_new = AtomicBool::new(false);
    let done: Mutex<Vec<(usize, Result<Weighed, ImportError>)>> = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(2, usize::from).min(found.len().max(1));
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((at, session)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    found.get(at).map(|session| (at, session))
                } {
                    let weighed = match (&session.kept, store) {
                        (SessionStorage::Stored(stored), Some(store)) => weigh_stored(store, stored, policy),
                        (SessionStorage::Row(_), _) => weigh_row(session, policy),
                        (SessionStorage::File | SessionStorage::Stored(_), _) => {
                            weigh_file(session, policy, cache, &has_new)
                        }
                    };
                    on_done();
                    if let Ok(mut done) = done.lock() {
                        done.push((at, weighed));
                    }
                }
            });
        }
    });
    if let Some(cache) = cache.filter(|_| has_new.load(Ordering::Relaxed)) {
        cache.sweep();
    }
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, weighed)| weighed).collect()
}

fn weigh_stored(
    store: &dyn Store,
    session: &plimsoll_store::Session,
    policy: &Policy,
) -> Result<Weighed, ImportError> {
    let mut weighing = Weighing::default();
    let about = stored::visit(store, session, &mut |message| weighing.add(message))?;
    weighing
        .end(policy, &about.info, about.recorded, || Ok(store.window(&session.id)?.log.messages().to_vec()))
}

fn weigh_row(found: &Found, policy: &Policy) -> Result<Weighed, ImportError> {
    let database = Database::open(&found.path)?;
    let mut weighing = Weighing::default();
    let about = database.visit(Some(&found.id), &mut |chain, message| {
        if chain == Chain::Main {
            weighing.add(message);
        }
    })?;
    let whole = || Ok(database.read(Some(&found.id))?.messages);
    weighing.end(policy, &about.info, about.recorded, whole)
}

fn weigh_file(
    found: &Found,
    policy: &Policy,
    cache: Option<&WeighedCache>,
    has_new: &AtomicBool,
) -> Result<Weighed, ImportError> {
    let path = &found.path;
    let Some((cache, stamp)) = cache.and_then(|cache| Some((cache, Stamp::of(path)?))) else {
        return Ok(resume::read(path, policy)?.0);
    };
    let grown = match cache.get(path, &stamp) {
        Some(Known::Same(weighed)) => return Ok(weighed),
        Some(Known::Grown(weighed, resume)) => resume::read_on(path, &weighed, *resume, policy),
        None => None,
    };
    let (weighed, resume) = match grown {
        Some(grown) => grown,
        None => resume::read(path, policy)?,
    };
    cache.put(path, stamp, &weighed, resume);
    has_new.store(true, Ordering::Relaxed);
    Ok(weighed)
}
