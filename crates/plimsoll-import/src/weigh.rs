//! What a session holds: messages, tokens, a title. Sessions are read side by side, and of a transcript that was read before
//! only what is new.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use plimsoll::count::request_tokens;
use plimsoll::{Fixed, Message, Policy, Tokens, Window};
use plimsoll_formats::database::Database;
use plimsoll_formats::{Chain, Recorded, SessionInfo};
use plimsoll_store::Store;
use plimsoll_tokens::{MeterCheckpoint, WindowMeter, records_usage};
use serde::{Deserialize, Serialize};

use crate::cache::{Known, Stamp, WeighedCache};
use crate::error::ImportError;
use crate::find::{Found, Kept};
use crate::resume;
use crate::stored;
use crate::text::{FirstPrompt, TITLE, first_words};

/// A session, weighed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Weighed {
    /// How many messages it has.
    pub messages: usize,
    /// What is in the window now.
    pub window: Tokens,
    /// Whether recorded usage tells so, rather than characters.
    pub is_measured: bool,
    /// What people call it, or the first words of it.
    pub title: String,
    /// The model, the last one if it changed.
    pub model: Option<String>,
    /// When it began, in milliseconds since 1970.
    pub started: Option<u64>,
    /// What its providers counted.
    pub recorded: Recorded,
}

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
                    let weighed = match (&session.kept, store) {
                        (Kept::Stored(stored), Some(store)) => weigh_stored(store, stored, policy),
                        (Kept::Row(_), _) => weigh_row(session, policy),
                        (Kept::File | Kept::Stored(_), _) => weigh_file(session, policy, cache, &has_new),
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

/// A session being weighed, message by message. Messages are held until one records usage: a session without any is told by
/// characters, and a vocabulary is of no use for it.
#[derive(Clone)]
pub(crate) struct Weighing {
    waiting: Option<Vec<Message>>,
    meter: WindowMeter,
    messages: usize,
    prompt: FirstPrompt,
}

impl Default for Weighing {
    fn default() -> Weighing {
        Weighing {
            waiting: Some(Vec::new()),
            meter: WindowMeter::default(),
            messages: 0,
            prompt: FirstPrompt::default(),
        }
    }
}

/// The state of a [`Weighing`], as it is stored. It has figures and the title, and nothing else that was said.
#[derive(Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    meter: MeterCheckpoint,
    messages: usize,
    prompt: FirstPrompt,
}

impl From<Checkpoint> for Weighing {
    fn from(Checkpoint { meter, messages, prompt }: Checkpoint) -> Weighing {
        Weighing { waiting: None, meter: meter.into(), messages, prompt }
    }
}

impl Weighing {
    pub(crate) fn add(&mut self, message: Message) {
        self.messages += 1;
        self.prompt.see(&message);
        let Some(waiting) = &mut self.waiting else { return self.meter.add(&message) };
        let is_known = records_usage(&message);
        waiting.push(message);
        if is_known {
            self.waiting.take().into_iter().flatten().for_each(|message| self.meter.add(&message));
        }
    }

    /// The state to go on from; `None` if no usage is known, or something is still to take effect.
    pub(crate) fn checkpoint(&self) -> Option<Checkpoint> {
        let meter = self.meter.checkpoint().filter(|_| self.waiting.is_none())?;
        Some(Checkpoint { meter, messages: self.messages, prompt: self.prompt.clone() })
    }

    /// What all of it comes to. The window is measured as `plimsoll inspect` measures it: by the usage that the session
    /// records, and by characters alone if it records none. `whole` reads the messages again, which few sessions need.
    pub(crate) fn end(
        self,
        policy: &Policy,
        info: &SessionInfo,
        recorded: Recorded,
        whole: impl FnOnce() -> Result<Vec<Message>, ImportError>,
    ) -> Result<Weighed, ImportError> {
        let shown = |messages: &[Message], counter: &dyn plimsoll::Counter| {
            request_tokens(&Window::of(messages, policy), Fixed::default(), counter)
        };
        let (mut failed, measured) = (None, self.meter.read());
        let window = match &measured {
            None => shown(self.waiting.as_deref().unwrap_or_default(), &policy.count),
            Some(measured) => measured.window_of(|| match whole() {
                Ok(messages) => shown(&messages, &measured.counter()),
                Err(error) => {
                    failed = Some(error);
                    Tokens::ZERO
                }
            }),
        };
        if let Some(error) = failed {
            return Err(error);
        }
        let title = info.title.as_deref().map(|title| first_words(title, TITLE));
        Ok(Weighed {
            messages: self.messages,
            window,
            is_measured: measured.is_some(),
            title: title.filter(|title| !title.is_empty()).unwrap_or_else(|| self.prompt.words()),
            model: info.model.clone(),
            started: info.started.map(|at| at.0),
            recorded,
        })
    }
}
