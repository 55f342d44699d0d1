//! What a session holds: messages, tokens, a title. Files are read side by side.

use std::fs::File;
use std::io::BufReader;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use plimsoll::count::message_tokens;
use plimsoll::policy::UsageSum;
use plimsoll::{Fixed, Load, Message, Policy, Tokens};
use plimsoll_formats::Transcript;
use plimsoll_formats::opencode_db::Database;
use plimsoll_store::{PageRequest, Session, StoreError};

use super::{Found, Kept};
use crate::output::first_words;
use crate::progress::Progress;
use crate::store::Opened;

/// Longest title.
const TITLE: usize = 80;

/// A session, weighed.
pub(super) struct Weighed {
    pub(super) messages: usize,
    /// The next request: the usage of the last response where it is recorded, and an estimate of the rest.
    pub(super) load: Load,
    /// An estimate of everything in the log.
    pub(super) log: Tokens,
    pub(super) title: String,
    pub(super) model: Option<String>,
    pub(super) started: Option<u64>,
}

/// Weigh sessions; what could not be read has an error in its place.
pub(super) fn all(found: &[Found], policy: &Policy) -> Vec<Result<Weighed, String>> {
    let progress = Progress::things("reading sessions", found.len() as u64);
    let policy = &whole_usage(policy);
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Result<Weighed, String>)>> = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(2, usize::from).min(found.len().max(1));
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((at, session)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    found.get(at).map(|session| (at, session))
                } {
                    let weighed = weigh(session, policy);
                    progress.step();
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

fn weigh(found: &Found, policy: &Policy) -> Result<Weighed, String> {
    let read = match &found.kept {
        Kept::Stored(opened, session) => {
            return stored(opened, session, policy).map_err(|error| error.to_string());
        }
        Kept::Row(_) => Database::open(&found.path).and_then(|database| database.read(Some(&found.id))),
        Kept::File => {
            let file = File::open(&found.path).map_err(|error| error.to_string())?;
            plimsoll_formats::read(BufReader::new(file))
        }
    };
    let Transcript { messages, info, .. } = read.map_err(|error| error.to_string())?;
    let title = info.title.as_deref().map(|title| first_words(title, TITLE));
    Ok(Weighed {
        messages: messages.len(),
        load: Load::of(&messages, policy, Fixed::default(), &policy.count),
        log: messages.iter().map(|message| message_tokens(message, &policy.count)).sum(),
        title: title.filter(|title| !title.is_empty()).unwrap_or_else(|| first_prompt(&messages)),
        model: info.model,
        started: info.started.map(|at| at.0),
    })
}

/// A stored session: what is in view says how much the next request weighs, without its texts being read.
fn stored(opened: &Opened, session: &Session, policy: &Policy) -> Result<Weighed, StoreError> {
    let store = opened.archive.store();
    let view = store.outline(&session.id)?.log;
    let load = Load::of(&view, policy, Fixed::default(), &policy.count);
    let (mut messages, mut log) = (0, Tokens::ZERO);
    let mut add = |message: &Message| {
        messages += 1;
        log += message_tokens(message, &policy.count);
    };
    if store.compactions(&session.id, None, u64::MAX)?.is_empty() {
        // Then everything is in view.
        view.iter().for_each(&mut add);
    } else {
        opened.each(&session.id, &mut |message| add(&message))?;
    }
    let mut title = first_words(&session.title, TITLE);
    if title.is_empty() {
        let first = PageRequest { from: None, oldest_first: true, most: 20 };
        title = first_prompt(&store.page(&session.id, &first)?.messages);
    }
    let (model, started) = (session.model.clone(), Some(session.created.0));
    Ok(Weighed { messages, load, log, title, model, started })
}

/// The first words a person said. What hosts put before them stands in tags or names its file.
pub(crate) fn first_prompt(messages: &[Message]) -> String {
    let prompts = messages.iter().filter(|message| message.starts_turn()).take(20).map(Message::text);
    let prompts = prompts.filter(|text| !text.trim().is_empty());
    let mut first = None;
    for prompt in prompts {
        let words = first_words(&prompt, TITLE);
        if !words.starts_with('<') && !words.starts_with("# AGENTS.md") && !words.starts_with("Caveat:") {
            return words;
        }
        first.get_or_insert(words);
    }
    first.unwrap_or_default()
}
