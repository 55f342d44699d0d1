//! Reductions: appended messages, marks and receipts. Everything here runs in a transaction of the writer.

use plimsoll::log::{LogPosition, Mark};
use plimsoll::{MessageId, Millis, Receipt, ReceiptId, Reduction, SessionId};
use rusqlite::{Connection, OptionalExtension, params};

use super::append::{add_appended, insert_messages};
use super::chain::Chain;
use super::feed::{self, Changed};
use super::imports;
use super::marks::Marked;
use super::position::Position;
use super::read::{self, Detail};
use super::rows::integer;
use crate::error::StoreError;
use crate::store::{ChangeKind, Claim, Revision};

/// Records reductions: appended messages, marks and receipts, all or nothing.
pub(crate) fn reduce(
    connection: &Connection,
    claim: &Claim,
    reduction: &Reduction,
    planned_on: Option<Revision>,
    now: Millis,
) -> Result<(), StoreError> {
    let (chain, last) = Chain::claimed_with_end(connection, claim)?;
    // First of all checks: a repeated call must succeed although its own first attempt made the plan stale.
    if is_recorded(connection, claim, &reduction.receipts)? {
        return Ok(());
    }
    if let Some(planned_on) = planned_on {
        require_fresh(connection, claim, chain.own(), planned_on)?;
    }
    let (mut appended, mut revision) = (Vec::new(), None);
    if !reduction.appended.is_empty() {
        let missed = missed(connection, &chain, reduction)?;
        let place =
            |id: &MessageId| chain.find(connection, id.as_str()).ok().flatten().map(|(_, place)| place);
        appended = reduction
            .appended_before(missed.as_ref().map(|place| MessageId::new(&*place.id)).as_ref(), place);
        revision = Some(insert_messages(connection, &chain, last, &appended, now)?);
        imports::note_reduction(connection, chain.own(), appended.len())?;
    }
    let mut shapes = !appended.is_empty();
    for receipt in &reduction.receipts {
        let moment = moment(connection, &claim.session, receipt.at)?;
        for (part, effect) in receipt.plan.effects() {
            let found = chain.find_part(connection, part.as_str())?;
            let (_, place) = found.ok_or_else(|| StoreError::missing("part", part))?;
            let mark = Mark { receipt: Some(receipt.id.clone()), effect, set: moment.clone(), lifted: None };
            Marked { session: chain.own(), at: place.time, part: part.as_str() }.set(connection, &mark)?;
            shapes = true;
        }
        insert_receipt(connection, chain.own(), receipt)?;
    }
    let changed = Changed { key: chain.own(), session: &claim.session, now };
    let revision = match revision {
        Some(revision) => revision,
        None => changed.next_revision(connection)?,
    };
    if shapes {
        set_shaped(connection, chain.own(), revision)?;
    }
    add_appended(connection, claim, revision, &appended)?;
    feed::add(connection, &claim.session, revision, ChangeKind::Reduced, None, None)
}

/// Whether a reduction was recorded before. Its receipts are stored together or not at all, so the first one decides.
fn is_recorded(connection: &Connection, claim: &Claim, receipts: &[Receipt]) -> Result<bool, StoreError> {
    let Some(first) = receipts.first() else { return Ok(false) };
    match read::receipt(connection, &first.id) {
        Err(StoreError::Missing { .. }) => Ok(false),
        Ok((session, there)) if session == claim.session && there == *first => Ok(true),
        Ok(_) => Err(StoreError::duplicate("receipt", &first.id)),
        Err(error) => Err(error),
    }
}

/// Returns an error if the window was reduced or widened since the plan.
fn require_fresh(
    connection: &Connection,
    claim: &Claim,
    session: i64,
    planned_on: Revision,
) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached("SELECT shaped FROM session WHERE key = ?1")?;
    let reduced_in = Revision(statement.query_row([session], |row| row.get(0))?);
    if reduced_in > planned_on {
        let session = claim.session.clone();
        return Err(StoreError::Stale { session, planned_on, reduced_in });
    }
    Ok(())
}

/// Stores the revision in which the window was last reduced or widened.
pub(super) fn set_shaped(
    connection: &Connection,
    session: i64,
    revision: Revision,
) -> Result<(), StoreError> {
    connection
        .prepare_cached("UPDATE session SET shaped = ?2 WHERE key = ?1")?
        .execute((session, integer(revision.0)))?;
    Ok(())
}

/// Returns the current position in the session's log.
pub(super) fn moment(
    connection: &Connection,
    session: &SessionId,
    now: Millis,
) -> Result<LogPosition, StoreError> {
    let (_, newest) = Chain::with_end(connection, session)?;
    Ok(LogPosition { at: now, after: Some(newest.id).filter(|id| !id.is_empty()).map(MessageId::new) })
}

/// Returns the first message that the snapshot of a reduction did not have, or did not have completely.
fn missed(
    connection: &Connection,
    chain: &Chain,
    reduction: &Reduction,
) -> Result<Option<Position>, StoreError> {
    let seen = match &reduction.seen {
        Some(seen) => {
            let found = chain.find(connection, seen.as_str())?;
            found.map(|(_, place)| place).ok_or_else(|| StoreError::missing("message", seen))?
        }
        // Without a snapshot, the reduction is of the current log.
        None => return Ok(None),
    };
    // Only the session's own segment is appended to.
    let new: Option<Position> = connection
        .prepare_cached(
            "SELECT at, id FROM message WHERE session = ?1 AND (at, id) > (?2, ?3) AND role <> 'system'
             ORDER BY at, id LIMIT 1",
        )?
        .query_row(params![chain.own(), seen.time, seen.id], |row| Position::read(row, 0))
        .optional()?;
    let mut missed = new;
    for open in &reduction.open {
        let id = open.info.id.as_str();
        let now = read::one(connection, chain, id, Detail::Whole)?;
        let now = now.ok_or_else(|| StoreError::missing("message", id))?;
        if !plimsoll::same_content(open, &now) {
            let place = chain.find(connection, id)?.map(|(_, place)| place);
            missed = missed.into_iter().chain(place).min();
        }
    }
    Ok(missed)
}

pub(super) fn insert_receipt(
    connection: &Connection,
    session: i64,
    receipt: &Receipt,
) -> Result<(), StoreError> {
    connection
        .prepare_cached("INSERT INTO receipt (id, session, at, undoes, data) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![
            receipt.id.as_str(),
            session,
            receipt.at.0,
            receipt.undoes.as_ref().map(ReceiptId::as_str),
            serde_json::to_string(receipt)?
        ])?;
    Ok(())
}
