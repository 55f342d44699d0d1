//! Sizes of a session after each turn, and the state of its prompt cache.

use std::collections::BTreeMap;

use plimsoll::{Limits, Millis, Tokens, Usage};
use plimsoll_session::{Weigher, each_message, is_user_prompt};
use plimsoll_store::{PageRequest, Session};
use serde::Serialize;

use crate::config::HostConfig;
use crate::error::HostError;
use crate::store::OpenStore;

/// Maximum number of messages that are read to find the newest answer.
const LOOK_BACK: u64 = 50;
const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;

/// A session at the end of a turn.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TurnSize {
    /// Number of the turn, from 1.
    pub turn: usize,
    /// First words of the prompt.
    pub prompt: String,
    /// Time of the prompt.
    pub at: Option<Millis>,
    /// Tokens of the log so far, which only grows.
    pub log: Tokens,
    /// Tokens of the last request of the turn and its answer; `None` if no usage is recorded.
    pub window: Option<Tokens>,
    /// Recorded cost of the turn, in dollars.
    pub cost: f64,
}

/// State of the provider's prompt cache, derived from the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CacheState {
    /// Time of the newest answer.
    pub used: Millis,
    /// How long the cache lives after its last use, in milliseconds.
    pub lifetime: Millis,
    /// Time at which it expires.
    pub until: Millis,
    /// Whether the usage of that request shows a cache. If not, a cache is assumed.
    pub is_recorded: bool,
}

impl OpenStore {
    /// Returns the sizes of a session after each turn. For a very long session, some turns are left out.
    pub fn history(&self, session: &Session, config: &HostConfig) -> Result<Vec<TurnSize>, HostError> {
        #[derive(Default)]
        struct TurnFigures {
            at: Option<Millis>,
            window: Option<Tokens>,
            cost: f64,
        }
        let mut weigher = Weigher::with_log(&config.policy);
        let (mut turn, mut seen): (usize, BTreeMap<usize, TurnFigures>) = (0, BTreeMap::new());
        each_message(self.archive.store(), &session.id, &mut |message| {
            if is_user_prompt(&message) {
                turn += 1;
                let at = message.info.time.as_ref().and_then(|time| time.created);
                seen.insert(turn, TurnFigures { at, ..TurnFigures::default() });
            }
            if let Some(seen) =
                seen.get_mut(&turn).filter(|_| message.is_assistant() && !message.info.summary)
            {
                seen.cost +=
                    message.info.cost.as_ref().and_then(|cost| cost.as_f64()).unwrap_or_default().max(0.0);
                let sent = message.info.tokens.as_ref().map(exchange).filter(|sent| *sent > Tokens::ZERO);
                seen.window = sent.or(seen.window);
            }
            weigher.add(message);
        })?;
        let report = weigher.finish(Limits::default(), session.directory.as_deref());
        let turns = report.growth.into_iter().map(|grown| {
            let TurnFigures { at, window, cost } = seen.remove(&grown.turn).unwrap_or_default();
            TurnSize { turn: grown.turn, prompt: grown.prompt, at, log: grown.tokens, window, cost }
        });
        Ok(turns.collect())
    }

    /// Returns the state of the prompt cache that the newest request of a session used; `None` before the first answer. The
    /// lifetime is that of the policy, or an hour if the request was cached for an hour.
    pub fn cache_state(
        &self,
        session: &Session,
        config: &HostConfig,
    ) -> Result<Option<CacheState>, HostError> {
        let request = PageRequest { from: None, oldest_first: false, most: LOOK_BACK };
        let page = self.archive.store().page(&session.id, &request)?;
        let state = page.messages.iter().filter(|message| message.is_assistant()).find_map(|message| {
            let time = message.info.time.as_ref()?;
            let used = time.completed.or(time.created)?;
            let usage = message.info.tokens.clone().unwrap_or_default();
            let is_hour = usage.cache_write_hour > Tokens::ZERO;
            let lifetime = if is_hour { HOUR } else { config.policy.cache.minutes.saturating_mul(MINUTE) };
            Some(CacheState {
                used,
                lifetime: Millis(lifetime),
                until: Millis(used.0.saturating_add(lifetime)),
                is_recorded: usage.cache_read + usage.cache_write > Tokens::ZERO,
            })
        });
        Ok(state)
    }
}

/// Tokens of a request and its answer.
fn exchange(usage: &Usage) -> Tokens {
    usage.input + usage.cache_read + usage.cache_write + usage.output + usage.reasoning
}
