//! What a session holds: messages, tokens, a title. Files are read side by side.

use std::fs::File;
use std::io::BufReader;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use plimsoll::count::message_tokens;
use plimsoll::policy::UsageSum;
use plimsoll::{Fixed, Load, Message, Policy, Tokens};
use plimsoll_formats::database::Database;
use plimsoll_formats::{Recorded, Transcript};
use plimsoll_store::{PageRequest, Session, Store, StoreError};

use crate::error::ImportError;
use crate::find::{Found, Kept};
use crate::stored;
use crate::text::{TITLE, first_prompt, first_words};

/// A session, weighed.
#[derive(Clone, Debug)]
pub struct Weighed {
    /// How many messages it has.
    pub messages: usize,
    /// The next request: the usage of the last response where it is recorded, and an estimate of the rest.
    pub load: Load,
    /// An estimate of everything in the log.
    pub log: Tokens,
    /// What people call it, or the first words of it.
    pub title: String,
    /// The model, the last one if it changed.
    pub model: Option<String>,
    /// When it began, in milliseconds since 1970.
    pub started: Option<u64>,
    /// What its providers counted.
    pub recorded: Recorded,
}

/// Weigh sessions, those of a store from the one that is given; `on_done` is called after each. What could not be read has
/// an error in its place.
pub fn weigh_all(
    found: &[Found],
    store: Option<&dyn Store>,
    policy: &Policy,
    on_done: &(dyn Fn() + Sync),
) -> Vec<Result<Weighed, ImportError>> {
    let policy = &whole_usage(policy);
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Result<Weighed, ImportError>)>> = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(2, usize::from).min(found.len().max(1));
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((at, session)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    found.get(at).map(|session| (at, session))
                } {
                    let weighed = weigh(session, store, policy);
                    on_done();
                    if let Ok(mut done) = done.lock() {
                        done.push((at, weighed));
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, weighed)| weighed).collect()
}

/// The policy, but counting all of a recorded usage. A line may be held against a part of it; here it is asked how
/// large a session is, and what was written to the provider's cache belongs to that.
fn whole_usage(policy: &Policy) -> Policy {
    let mut spec = policy.clone().into_spec();
    spec.overflow.usage = UsageSum::TotalOrAll;
    Policy::new(spec).unwrap_or_else(|_| policy.clone())
}

fn weigh(found: &Found, store: Option<&dyn Store>, policy: &Policy) -> Result<Weighed, ImportError> {
    let read = match (&found.kept, store) {
        (Kept::Stored(session), Some(store)) => return Ok(weigh_stored(store, session, policy)?),
        (Kept::Row(_), _) => {
            Database::open(&found.path).and_then(|database| database.read(Some(&found.id)))?
        }
        (Kept::File | Kept::Stored(_), _) => {
            plimsoll_formats::read(BufReader::new(File::open(&found.path)?))?
        }
    };
    let Transcript { messages, info, recorded, .. } = read;
    let title = info.title.as_deref().map(|title| first_words(title, TITLE));
    Ok(Weighed {
        messages: messages.len(),
        load: Load::of(&messages, policy, Fixed::default(), &policy.count),
        log: messages.iter().map(|message| message_tokens(message, &policy.count)).sum(),
        title: title.filter(|title| !title.is_empty()).unwrap_or_else(|| first_prompt(&messages)),
        model: info.model,
        started: info.started.map(|at| at.0),
        recorded,
    })
}

/// A stored session: what is in view says how much the next request weighs, without its texts being read.
fn weigh_stored(store: &dyn Store, session: &Session, policy: &Policy) -> Result<Weighed, StoreError> {
    let view = store.outline(&session.id)?.log;
    let load = Load::of(&view, policy, Fixed::default(), &policy.count);
    let (mut messages, mut log, mut recorded) = (0, Tokens::ZERO, Recorded::default());
    let mut add = |message: &Message| {
        messages += 1;
        recorded.add_message(message);
        log += message_tokens(message, &policy.count);
    };
    if store.compactions(&session.id, None, 1)?.is_empty() {
        // Then everything is in view.
        view.iter().for_each(&mut add);
    } else {
        stored::each(store, &session.id, &mut |message| add(&message))?;
    }
    let mut title = first_words(&session.title, TITLE);
    if title.is_empty() {
        let first = PageRequest { from: None, oldest_first: true, most: 20 };
        title = first_prompt(&store.page(&session.id, &first)?.messages);
    }
    let (model, started) = (session.model.clone(), Some(session.created.0));
    Ok(Weighed { messages, load, log, title, model, started, recorded })
}
