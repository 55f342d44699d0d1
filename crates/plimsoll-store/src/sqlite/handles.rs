//! Resolving handles by index.

use std::collections::HashSet;

use plimsoll::{Message, MessageId, Part, PartId, SessionId};
use rusqlite::{Connection, OptionalExtension, params};

use super::chain::{Chain, Segment};
use super::position::Position;
use super::spills::{self, COLUMNS};
use crate::error::StoreError;
use crate::recall::Scope;
use crate::store::{HandleMatch, HandleTarget, Page, PageRequest};

/// Resolves a handle. An exact id wins over ids that start with it.
pub(super) fn find(
    connection: &Connection,
    scope: Scope<'_>,
    handle: &str,
    most: usize,
) -> Result<Vec<HandleMatch>, StoreError> {
    if handle.is_empty() {
        return Ok(Vec::new());
    }
    let visible = match scope {
        Scope::Session(session) => Some(VisibleChains::of(connection, session)?),
        Scope::Everywhere => None,
    };
    for last in [handle.to_owned(), format!("{handle}\u{10ffff}")] {
        let names = Names { connection, first: handle, last: &last, most };
        let found = match &visible {
            Some(visible) => names.visible_in(visible)?,
            None => names.everywhere()?,
        };
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(Vec::new())
}

/// The logs that a session can see, nearest first, each with the id of the session it is read through.
struct VisibleChains(Vec<(SessionId, Chain)>);

impl VisibleChains {
    fn of(connection: &Connection, session: &SessionId) -> Result<VisibleChains, StoreError> {
        // The session itself must exist; those it came from may have been removed.
        Chain::of(connection, session)?;
        let mut visible: Vec<(SessionId, Chain)> = Vec::new();
        let mut next = vec![session.clone()];
        let mut seen: HashSet<SessionId> = HashSet::new();
        while let Some(session) = next.pop() {
            if !seen.insert(session.clone()) {
                continue;
            }
            let Some(chain) = chain_of(connection, &session)? else { continue };
            for segment in &chain.0 {
                let parent: Option<Option<String>> = connection
                    .prepare_cached("SELECT parent FROM session WHERE key = ?1")?
                    .query_row([segment.key], |row| row.get(0))
                    .optional()?;
                next.extend(parent.flatten().map(SessionId::new));
            }
            visible.push((session, chain));
        }
        Ok(VisibleChains(visible))
    }
}

/// Returns the chain of a session, including a removed one that is still needed.
fn chain_of(connection: &Connection, session: &SessionId) -> Result<Option<Chain>, StoreError> {
    let key: Option<i64> = connection
        .prepare_cached("SELECT key FROM session WHERE id = ?1")?
        .query_row([session.as_str()], |row| row.get(0))
        .optional()?;
    key.map(|key| Chain::of_key(connection, key)).transpose()
}

const PARTS: &str =
    "SELECT id, at, message FROM part WHERE session = ?1 AND id BETWEEN ?2 AND ?3 ORDER BY id LIMIT ?4";
const MESSAGES: &str =
    "SELECT id, at, id FROM message WHERE session = ?1 AND id BETWEEN ?2 AND ?3 ORDER BY id LIMIT ?4";

/// A range of ids.
struct Names<'a> {
    connection: &'a Connection,
    first: &'a str,
    last: &'a str,
    most: usize,
}

impl Names<'_> {
    fn visible_in(&self, visible: &VisibleChains) -> Result<Vec<HandleMatch>, StoreError> {
        let mut found = Vec::new();
        for (session, chain) in &visible.0 {
            for segment in chain.0.iter().rev() {
                self.rows(PARTS, &HandleTarget::Part, (session, segment), &mut found)?;
                self.rows(MESSAGES, &HandleTarget::Message, (session, segment), &mut found)?;
                self.spills(session, chain, segment, &mut found)?;
            }
        }
        Ok(found)
    }

    fn add(&self, found: &mut Vec<HandleMatch>, session: &SessionId, handle: String, target: HandleTarget) {
        if found.len() < self.most && !found.iter().any(|other| other.handle == handle) {
            found.push(HandleMatch { session: session.clone(), handle, target });
        }
    }

    /// Adds the parts or messages of a segment.
    fn rows(
        &self,
        query: &str,
        target: &HandleTarget,
        (session, segment): (&SessionId, &Segment),
        found: &mut Vec<HandleMatch>,
    ) -> Result<(), StoreError> {
        let mut statement = self.connection.prepare_cached(query)?;
        let mut rows = statement.query(params![segment.key, self.first, self.last, self.most as i64])?;
        while let Some(row) = rows.next()? {
            if segment.holds(&Position::read(row, 1)?) {
                self.add(found, session, row.get(0)?, target.clone());
            }
        }
        Ok(())
    }

    fn spills(
        &self,
        session: &SessionId,
        chain: &Chain,
        segment: &Segment,
        found: &mut Vec<HandleMatch>,
    ) -> Result<(), StoreError> {
        let mut statement = self.connection.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM spill WHERE session = ?1 AND handle BETWEEN ?2 AND ?3 ORDER BY handle LIMIT ?4"
        ))?;
        let mut rows = statement.query(params![segment.key, self.first, self.last, self.most as i64])?;
        while let Some(row) = rows.next()? {
            let spill = spills::record_of(row)?;
            let is_seen = match (&segment.upto, &spill.part) {
                (Some(_), Some(part)) => chain.find_part(self.connection, part.as_str())?.is_some(),
                _ => true,
            };
            if is_seen {
                self.add(found, session, spill.handle.clone(), HandleTarget::Spill(Box::new(spill)));
            }
        }
        Ok(())
    }

    /// Searches all sessions. Removed sessions that are still needed come last, existing spills before expired ones.
    fn everywhere(&self) -> Result<Vec<HandleMatch>, StoreError> {
        let mut found = Vec::new();
        for (table, target) in [("part", HandleTarget::Part), ("message", HandleTarget::Message)] {
            // The index on ids is used first; joining first would visit every session.
            let mut statement = self.connection.prepare_cached(&format!(
                "SELECT x.id, s.id FROM {table} x JOIN session s ON s.key = x.session WHERE x.id BETWEEN ?1 AND ?2
                 AND x.session NOT IN (SELECT session FROM staged)
                 ORDER BY x.id, s.removed IS NOT NULL, s.updated DESC, s.key DESC LIMIT 1000"
            ))?;
            let mut rows = statement.query([self.first, self.last])?;
            while let Some(row) = rows.next()? {
                let session = SessionId::new(row.get::<_, String>(1)?);
                self.add(&mut found, &session, row.get(0)?, target.clone());
            }
        }
        let mut statement = self.connection.prepare_cached(&format!(
            "SELECT {}, s.id FROM spill p JOIN session s ON s.key = p.session WHERE p.handle BETWEEN ?1 AND ?2
             ORDER BY p.handle, p.expired IS NOT NULL, s.removed IS NOT NULL, p.seq DESC LIMIT 1000",
            COLUMNS.split(", ").map(|column| format!("p.{column}")).collect::<Vec<_>>().join(", ")
        ))?;
        let mut rows = statement.query([self.first, self.last])?;
        while let Some(row) = rows.next()? {
            let (spill, session) = (spills::record_of(row)?, SessionId::new(row.get::<_, String>(10)?));
            self.add(&mut found, &session, spill.handle.clone(), HandleTarget::Spill(Box::new(spill)));
        }
        Ok(found)
    }
}

/// Returns a part, possibly of a removed session.
pub(super) fn part(connection: &Connection, session: &SessionId, id: &PartId) -> Result<Part, StoreError> {
    let chain = chain_of(connection, session)?.ok_or_else(|| StoreError::missing("session", session))?;
    super::read::part_of(connection, &chain, id)
}

/// Returns a message, possibly of a removed session.
pub(super) fn message(
    connection: &Connection,
    session: &SessionId,
    id: &MessageId,
) -> Result<Message, StoreError> {
    let chain = chain_of(connection, session)?.ok_or_else(|| StoreError::missing("session", session))?;
    let found = super::read::one(connection, &chain, id.as_str(), super::read::Detail::Whole)?;
    found.ok_or_else(|| StoreError::missing("message", id))
}

/// Messages, possibly of a removed session.
pub(super) fn page(
    connection: &Connection,
    session: &SessionId,
    request: &PageRequest,
) -> Result<Page, StoreError> {
    let chain = chain_of(connection, session)?.ok_or_else(|| StoreError::missing("session", session))?;
    super::read::page_of(connection, &chain, request)
}
