//! Undoing reductions. Everything here runs in a transaction of the writer.

use std::collections::HashMap;

use plimsoll::log::{Effect, LogPosition, Mark};
use plimsoll::plan::CompactPlan;
use plimsoll::{Ids, Log, Message, Millis, PartId, Plan, Receipt, ReceiptId, Tokens};
use rusqlite::{Connection, OptionalExtension, params};

use super::chain::Chain;
use super::feed::{self, Changed};
use super::marks::{self, Marked, Undoing};
use super::pivots::set_aside;
use super::read::{self, Detail};
use super::reduce::{insert_receipt, moment, set_shaped};
use crate::error::StoreError;
use crate::store::{ChangeKind, Claim};

/// Undoes a reduction. The log stays; marks are lifted, a pivot is set aside.
pub(crate) fn undo(
    connection: &Connection,
    claim: &Claim,
    id: &ReceiptId,
    ids: &mut Ids,
    now: Millis,
) -> Result<Receipt, StoreError> {
    let chain = Chain::claimed(connection, claim)?;
    let (session, receipt) = read::receipt(connection, id)?;
    // A fork inherits the marks of its parent, but only the session of a receipt may undo it.
    if session != claim.session {
        return Err(StoreError::missing("receipt", id));
    }
    let done: Option<String> = connection
        .prepare_cached("SELECT id FROM receipt WHERE undoes = ?1")?
        .query_row([id.as_str()], |row| row.get(0))
        .optional()?;
    if let Some(done) = done {
        return Err(StoreError::Undone { receipt: id.clone(), by: ReceiptId::new(done) });
    }
    let moment = moment(connection, &session, now)?;
    let knows_marks = has_marks(connection, &chain, &receipt)?;
    // Marks that are stored under the receipt's id are in force: they were stored with it, and only an undo lifts them.
    // So their parts, of which there may be fifty thousand, need not be read. A compaction also has a pivot, and at
    // most a step's worth of marks.
    let affected = match &receipt.plan {
        Plan::Compact(_) => Some(AffectedContent::of(connection, &chain, &receipt)?),
        _ if knows_marks => None,
        _ => Some(AffectedContent::of(connection, &chain, &receipt)?),
    };
    let undone = match &affected {
        Some(affected) => receipt.undo(&mut affected.log(), ids, now)?,
        None => receipt.undoing(ids, now)?,
    };
    let undoing = Undoing { receipt: (&receipt.id, receipt.at), by: &undone.id, moment: &moment };
    if knows_marks {
        undoing.lift_all(connection, chain.own())?;
    } else if let Some(affected) = &affected {
        for (part, _) in receipt.plan.effects() {
            undoing.lift(connection, &affected.marked(&chain, part))?;
        }
    }
    if let (Plan::Compact(plan), Some(affected)) = (&receipt.plan, &affected) {
        undo_pivot(connection, &chain, plan, affected, (&undone.id, &moment))?;
    }
    insert_receipt(connection, chain.own(), &undone)?;
    let changed = Changed { key: chain.own(), session: &claim.session, now };
    let revision = changed.next_revision(connection)?;
    set_shaped(connection, chain.own(), revision)?;
    feed::add(connection, &claim.session, revision, ChangeKind::Undone, None, None)?;
    Ok(undone)
}

/// Corrects the sizes in a receipt.
pub(crate) fn resize_receipt(
    connection: &Connection,
    claim: &Claim,
    id: &ReceiptId,
    (before, after): (Tokens, Tokens),
) -> Result<(), StoreError> {
    Chain::claimed(connection, claim)?;
    let (session, mut receipt) = read::receipt(connection, id)?;
    if session != claim.session {
        return Err(StoreError::missing("receipt", id));
    }
    (receipt.before, receipt.after) = (before, after);
    connection
        .prepare_cached("UPDATE receipt SET data = ?2 WHERE id = ?1")?
        .execute(params![id.as_str(), serde_json::to_string(&receipt)?])?;
    Ok(())
}

/// Whether the marks of a receipt are stored under its id; those from before version 4 are not. They are stored
/// together or not at all, so the first one decides.
fn has_marks(connection: &Connection, chain: &Chain, receipt: &Receipt) -> Result<bool, StoreError> {
    let effects = receipt.plan.effects();
    let Some((part, _)) = effects.first() else { return Ok(false) };
    let marks = marks::of_part(connection, chain, part.as_str())?;
    Ok(marks.iter().any(|mark| mark.receipt.as_ref() == Some(&receipt.id)))
}

/// Content that a receipt affects, for the engine to decide whether it can be undone: parts without their texts, each
/// in a separate message, and the marker of a pivot.
struct AffectedContent {
    messages: Vec<Message>,
    /// Times of the parts' messages.
    times: HashMap<PartId, i64>,
}

impl AffectedContent {
    fn of(connection: &Connection, chain: &Chain, receipt: &Receipt) -> Result<AffectedContent, StoreError> {
        let mut parts: Vec<&PartId> = receipt.plan.effects().into_iter().map(|(part, _)| part).collect();
        let mut marker = None;
        if let Plan::Compact(plan) = &receipt.plan {
            parts.extend(&plan.continuation);
            marker = plan.marker.as_ref();
        }
        let mut affected = AffectedContent { messages: Vec::new(), times: HashMap::new() };
        for part in parts {
            let found = chain.find_part(connection, part.as_str())?;
            let (_, place) = found.ok_or_else(|| StoreError::missing("part", part))?;
            if affected.times.insert(part.clone(), place.time).is_none() {
                let marks = marks::of_part(connection, chain, part.as_str())?;
                let bare = read::outline_of(connection, chain, part)?.with_marks(marks);
                affected.messages.push(Message { parts: vec![bare].into(), ..Message::default() });
            }
        }
        if let Some(marker) = marker {
            let message = read::one(connection, chain, marker.as_str(), Detail::Outline)?;
            let mut message = message.ok_or_else(|| StoreError::missing("message", marker))?;
            // One of its parts may be among those above.
            message.parts.retain(|part| !affected.times.contains_key(&part.id));
            affected.messages.push(message);
        }
        Ok(affected)
    }

    fn log(&self) -> Log {
        Log::from_messages(self.messages.clone())
    }

    fn marked<'a>(&self, chain: &Chain, part: &'a PartId) -> Marked<'a> {
        let at = self.times.get(part).copied().unwrap_or_default();
        Marked { session: chain.own(), at, part: part.as_str() }
    }
}

/// Sets a pivot aside, and leaves out the notice that came with it.
fn undo_pivot(
    connection: &Connection,
    chain: &Chain,
    plan: &CompactPlan,
    affected: &AffectedContent,
    (by, moment): (&ReceiptId, &LogPosition),
) -> Result<(), StoreError> {
    if let Some(continuation) = &plan.continuation {
        let (receipt, set) = (Some(by.clone()), moment.clone());
        let mark = Mark { receipt, effect: Effect::Hide, set, lifted: None };
        affected.marked(chain, continuation).set(connection, &mark)?;
    }
    match &plan.marker {
        Some(marker) => set_aside(connection, chain, marker, moment),
        None => Ok(()),
    }
}
