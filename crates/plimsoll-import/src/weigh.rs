//! What a session holds: messages, tokens, a title. Files are read side by side, and only if they changed since the last time.

use std::fs::File;
use std::io::BufReader;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use plimsoll::count::request_tokens;
use plimsoll::{Counter, Fixed, Policy, Window};
use plimsoll_formats::Transcript;
use plimsoll_formats::database::Database;
use plimsoll_store::{CountWatch, Store};
use plimsoll_tokens::{Measured, WindowMeter};

use crate::cache::{Stamp, WeighedCache};
use crate::error::ImportError;
use crate::find::{Found, Kept};
use crate::stored::{self, Extent};
use crate::text::{TITLE, first_prompt, first_words};
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

fn weigh(found: &Found, store: Option<&dyn Store>, policy: &Policy) -> Result<Weighed, ImportError> {
    let read = match (&found.kept, store) {
        (Kept::Stored(session), Some(store)) => {
            let read = stored::transcript(store, session, Extent::Whole)?;
            let mut counts = CountWatch::default();
            read.messages.iter().for_each(|message| counts.watch(message));
            let weighed = Weighed::of(&read, policy);
            counts.finish(store, &session.id);
            return Ok(weighed);
        }
        (Kept::Row(_), _) => {
            Database::open(&found.path).and_then(|database| database.read(Some(&found.id)))?
        }
        (Kept::File | Kept::Stored(_), _) => {
            plimsoll_formats::read(BufReader::new(File::open(&found.path)?))?
        }
    };
    Ok(Weighed::of(&read, policy))
}

impl Weighed {
    /// A session that was read. The window is measured as `plimsoll inspect` measures it: by the usage that the session
    /// records, and by characters alone where it records none.
    fn of(read: &Transcript, policy: &Policy) -> Weighed {
        let Transcript { messages, info, recorded, .. } = read;
        let measured = WindowMeter::of(messages).read();
        let calibrated = measured.as_ref().map(Measured::counter);
        let counter: &dyn Counter = calibrated.as_ref().map_or(&policy.count, |counter| counter);
        let shown = request_tokens(&Window::of(messages, policy), Fixed::default(), counter);
        let title = info.title.as_deref().map(|title| first_words(title, TITLE));
        Weighed {
            messages: messages.len(),
            window: measured.as_ref().map_or(shown, |measured| measured.window_of(shown)),
            is_measured: measured.is_some(),
            title: title.filter(|title| !title.is_empty()).unwrap_or_else(|| first_prompt(messages)),
            model: info.model.clone(),
            started: info.started.map(|at| at.0),
            recorded: recorded.clone(),
        }
    }
}
