//! What a session holds: messages, tokens, a title. Files are read side by side, and only if they changed since the last time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use plimsoll::{Limits, Policy, first_words};
use plimsoll_formats::{Chain, Transcript};
use plimsoll_session::{MeasuredBy, Weigher};
use plimsoll_store::Store;

use crate::cache::{Stamp, WeighedCache};
use crate::error::ImportError;
use crate::find::{Found, Kept};
use crate::source::Source;
use crate::text::{FirstPrompt, TITLE};
use crate::weighed::Weighed;

/// Weighs sessions, those of a store from the one that is given; `on_done` is called after each. Figures of files that did
/// not change come from `cache`, and those of others go there. What could not be read has an error in its place.
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
                    let cache = cache.filter(|_| matches!(session.kept, Kept::File));
                    let stamp = cache.and_then(|cache| Some((cache, Stamp::of(&session.path)?)));
                    let known = stamp.as_ref().and_then(|(cache, stamp)| cache.get(&session.path, stamp));
                    let weighed = known.map_or_else(
                        || {
                            let weighed = weigh(session, store, policy);
                            if let (Some((cache, stamp)), Ok(weighed)) = (stamp, &weighed) {
                                cache.put(&session.path, stamp, weighed);
                                has_new.store(true, Ordering::Relaxed);
                            }
                            weighed
                        },
                        Ok,
                    );
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

/// Weighs a session as every command shows it, message by message: it may be larger than the memory.
fn weigh(found: &Found, store: Option<&dyn Store>, policy: &Policy) -> Result<Weighed, ImportError> {
    let (mut weigher, mut prompt) = (Weigher::new(policy), FirstPrompt::default());
    let read = Source::of(found, store)?.visit(&|_| {}, &mut |chain, message| {
        if chain == Chain::Main {
            prompt.see(&message);
            weigher.add(message);
        }
    })?;
    let Transcript { info, recorded, .. } = read;
    let report = weigher.finish(Limits::default(), None);
    let title = info.title.as_deref().map(|title| first_words(title, TITLE));
    Ok(Weighed {
        messages: report.messages,
        window: report.window,
        is_measured: report.measured == MeasuredBy::Usage,
        title: title.filter(|title| !title.is_empty()).unwrap_or_else(|| prompt.words()),
        model: info.model,
        started: info.started.map(|at| at.0),
        recorded,
    })
}
