//! The process that is killed.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use plimsoll::SessionId;
use plimsoll_agent::Event;
use tokio_util::sync::CancellationToken;

use super::{AT, DIRECTORY, PROMPT, URL, WIRE, agent};
use crate::journal::Journal;
use crate::support::{WIRES, die};

/// The child process: does nothing unless it was started as one.
#[tokio::test]
async fn the_killed_child() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let variable = |name: &str| std::env::var(name).unwrap();
    let wire = WIRES.iter().find(|(_, name)| *name == variable(WIRE)).unwrap().0;
    let at: usize = variable(AT).parse().unwrap();
    let directory = Path::new(&directory);
    let session = SessionId::new("ses_killed");
    let mut agent = agent(directory, wire, &variable(URL));
    let journal = Journal::new(Arc::clone(&agent.archive), session.clone(), &directory.join("journal"));
    let output = AtomicUsize::new(0);
    agent.events = Arc::new(move |event: &Event| {
        journal.note(event);
        if output.fetch_add(1, Ordering::SeqCst) + 1 == at {
            die();
        }
    });
    let mut conversation = agent.open(&session).await.unwrap();
    conversation.run(PROMPT, &CancellationToken::new()).await.unwrap();
}
