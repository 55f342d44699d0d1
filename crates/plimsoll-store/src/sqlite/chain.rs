//! A session and those it was forked from, as one log.
//!
//! A fork copies nothing. It stores the last message it shares, and the newest mark and compaction of its parent at
//! that time, so that later changes of the parent are not visible. A session's log is therefore a chain of segments,
//! oldest first, each cut off where the next was forked.

use plimsoll::SessionId;
use rusqlite::{Connection, OptionalExtension};

use super::position::Position;
use crate::error::StoreError;
use crate::store::Claim;

/// A segment of one session's log.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    /// The session's key.
    pub(crate) key: i64,
    /// The last visible message; `None` means all.
    pub(crate) upto: Option<Position>,
    /// The newest visible mark.
    pub(crate) marks: i64,
    /// The newest visible compaction.
    pub(crate) compactions: i64,
}

impl Segment {
    /// All of a session's own log.
    fn whole(key: i64) -> Segment {
        Segment { key, upto: None, marks: i64::MAX, compactions: i64::MAX }
    }

    /// Returns the end as a position, to compare with in SQL.
    pub(crate) fn end(&self) -> Position {
        self.upto.clone().unwrap_or_else(Position::end)
    }

    /// Whether a position is before the end of the segment.
    pub(crate) fn holds(&self, place: &Position) -> bool {
        self.upto.as_ref().is_none_or(|upto| place <= upto)
    }
}

/// The segments of a session's log, oldest first; the last one is its own.
pub(crate) struct Chain(pub(crate) Vec<Segment>);

impl Chain {
    /// Returns the chain of a session.
    pub(crate) fn of(connection: &Connection, session: &SessionId) -> Result<Chain, StoreError> {
        Ok(Chain::with_end(connection, session)?.0)
    }

    /// Returns the chain of a session, and the position of its newest message.
    pub(crate) fn with_end(
        connection: &Connection,
        session: &SessionId,
    ) -> Result<(Chain, Position), StoreError> {
        let (chain, end, _) = Chain::with_epoch(connection, session)?;
        Ok((chain, end))
    }

    /// Returns the chain of a claimed session, if the claim is valid.
    pub(crate) fn claimed(connection: &Connection, claim: &Claim) -> Result<Chain, StoreError> {
        Ok(Chain::claimed_with_end(connection, claim)?.0)
    }

    /// Returns the chain of a claimed session and the position of its newest message, if the claim is valid.
    pub(crate) fn claimed_with_end(
        connection: &Connection,
        claim: &Claim,
    ) -> Result<(Chain, Position), StoreError> {
        let (chain, end, epoch) = Chain::with_epoch(connection, &claim.session)?;
        require_epoch(connection, claim, chain.own(), epoch)?;
        Ok((chain, end))
    }

    fn with_epoch(
        connection: &Connection,
        session: &SessionId,
    ) -> Result<(Chain, Position, u64), StoreError> {
        let found = connection
            .prepare_cached(
                "SELECT key, forked_from, last_at, last_id, epoch FROM session WHERE id = ?1 AND removed IS NULL",
            )?
            .query_row([session.as_str()], |row| {
                Ok((row.get(0)?, row.get::<_, Option<i64>>(1)?, Position::read(row, 2)?, row.get(4)?))
            })
            .optional()?;
        let (key, forked_from, end, epoch) = found.ok_or_else(|| StoreError::missing("session", session))?;
        match forked_from {
            None => Ok((Chain(vec![Segment::whole(key)]), end, epoch)),
            Some(_) => Ok((Chain::of_key(connection, key)?, end, epoch)),
        }
    }

    pub(crate) fn of_key(connection: &Connection, key: i64) -> Result<Chain, StoreError> {
        let mut segments = Vec::new();
        let mut next = Some(Segment::whole(key));
        while let Some(segment) = next {
            let parent = connection
                .prepare_cached(
                    "SELECT forked_from, fork_at, fork_id, fork_mark, fork_compaction FROM session WHERE key = ?1",
                )?
                .query_row([segment.key], |row| {
                    let Some(key) = row.get::<_, Option<i64>>(0)? else { return Ok(None) };
                    let upto = Position::read(row, 1)?;
                    Ok(Some((key, upto, row.get(3)?, row.get(4)?)))
                })?;
            next = parent.map(|(key, upto, marks, compactions)| {
                // A fork of a fork may start before the point where that one was forked.
                let upto = match &segment.upto {
                    Some(nearer) if *nearer < upto => nearer.clone(),
                    _ => upto,
                };
                Segment { key, upto: Some(upto), marks, compactions }
            });
            segments.push(segment);
        }
        segments.reverse();
        Ok(Chain(segments))
    }

    /// Returns the segments of other sessions.
    pub(crate) fn inherited(&self) -> &[Segment] {
        &self.0[..self.0.len().saturating_sub(1)]
    }

    /// Returns the session's own key.
    pub(crate) fn own(&self) -> i64 {
        self.0.last().map(|segment| segment.key).unwrap_or_default()
    }

    /// Returns the segment and position of a message.
    pub(crate) fn find(
        &self,
        connection: &Connection,
        id: &str,
    ) -> Result<Option<(&Segment, Position)>, StoreError> {
        Chain::find_among(&self.0, connection, id)
    }

    /// Like [`find`](Chain::find), in some segments.
    pub(crate) fn find_among<'a>(
        segments: &'a [Segment],
        connection: &Connection,
        id: &str,
    ) -> Result<Option<(&'a Segment, Position)>, StoreError> {
        let query = "SELECT at, id FROM message WHERE session = ?1 AND id = ?2";
        find_row(segments, connection, query, id)
    }

    /// Returns the segment of a part, and the position of its message.
    pub(crate) fn find_part(
        &self,
        connection: &Connection,
        id: &str,
    ) -> Result<Option<(&Segment, Position)>, StoreError> {
        Chain::find_part_among(&self.0, connection, id)
    }

    /// Like [`find_part`](Chain::find_part), in some segments.
    pub(crate) fn find_part_among<'a>(
        segments: &'a [Segment],
        connection: &Connection,
        id: &str,
    ) -> Result<Option<(&'a Segment, Position)>, StoreError> {
        let query = "SELECT at, message FROM part WHERE session = ?1 AND id = ?2";
        find_row(segments, connection, query, id)
    }
}

/// Returns the newest segment with a row of this id, and the position in the row's first two columns.
fn find_row<'a>(
    segments: &'a [Segment],
    connection: &Connection,
    query: &str,
    id: &str,
) -> Result<Option<(&'a Segment, Position)>, StoreError> {
    let mut statement = connection.prepare_cached(query)?;
    for segment in segments.iter().rev() {
        let found = statement.query_row((segment.key, id), |row| Position::read(row, 0)).optional()?;
        if let Some(place) = found.filter(|place| segment.holds(place)) {
            return Ok(Some((segment, place)));
        }
    }
    Ok(None)
}

/// Returns the key of a claimed session, if the claim is valid.
pub(crate) fn claimed_key(connection: &Connection, claim: &Claim) -> Result<i64, StoreError> {
    let (key, epoch) = connection
        .prepare_cached("SELECT key, epoch FROM session WHERE id = ?1 AND removed IS NULL")?
        .query_row([claim.session.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?
        .ok_or_else(|| StoreError::missing("session", &claim.session))?;
    require_epoch(connection, claim, key, epoch)?;
    Ok(key)
}

/// Refuses a writer whose lease was taken over or released.
fn require_epoch(connection: &Connection, claim: &Claim, key: i64, epoch: u64) -> Result<(), StoreError> {
    if claim.epoch.0 == epoch {
        return Ok(());
    }
    let held_by = connection
        .prepare_cached("SELECT holder FROM lease WHERE session = ?1")?
        .query_row([key], |row| row.get(0))
        .optional()?;
    Err(StoreError::Fenced { session: claim.session.clone(), held_by })
}

/// Returns the key of a session that was not removed.
pub(crate) fn key(connection: &Connection, session: &SessionId) -> Result<i64, StoreError> {
    connection
        .prepare_cached("SELECT key FROM session WHERE id = ?1 AND removed IS NULL")?
        .query_row([session.as_str()], |row| row.get(0))
        .optional()?
        .ok_or_else(|| StoreError::missing("session", session))
}
