//! Stored sessions, written in formats of other tools.

use std::io::Write;

use plimsoll_formats::{EachMessage, Format, Lost, write_to};
use plimsoll_store::{Damage, Session, SessionReader, Store};

use crate::error::ImportError;
use crate::stored::about;

/// What is done about a session that is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDamage {
    /// Nothing altered leaves the store as if it were sound: nothing is written.
    Refuse,
    /// What can still be read is written, and the rest is listed.
    Salvage,
}

/// What was written of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exported {
    /// Messages that were written. A request has a message for each result of a tool.
    pub written: usize,
    /// Messages of the session that could be read.
    pub messages: usize,
    /// What the format has no place for.
    pub lost: Vec<Lost>,
    /// What is not as it was written to the store.
    pub damage: Vec<Damage>,
}

/// Writes a stored session, which is held against its checksums first. What other processes write meanwhile is not part of it.
pub fn export(
    store: &dyn Store,
    session: &Session,
    to: Format,
    on_damage: OnDamage,
    out: &mut dyn Write,
) -> Result<Exported, ImportError> {
    let mut exported = Err(ImportError::Unsettled);
    store.read_session(&session.id, &mut |reader| {
        exported = write(reader, session, to, on_damage, out);
        Ok(())
    })?;
    exported
}

fn write(
    reader: &dyn SessionReader,
    session: &Session,
    to: Format,
    on_damage: OnDamage,
    out: &mut dyn Write,
) -> Result<Exported, ImportError> {
    let (mut damage, mut messages) = (Vec::new(), 0);
    if on_damage == OnDamage::Refuse {
        damage = reader.damage()?;
        if !damage.is_empty() {
            return Err(ImportError::Damaged { damage });
        }
    }
    let each: EachMessage<'_, ImportError> = &mut |sink| {
        messages = 0;
        let mut count = |message| {
            messages += 1;
            sink(message);
        };
        match on_damage {
            OnDamage::Refuse => reader.each(&mut count)?,
            OnDamage::Salvage => damage = reader.salvage(&mut count)?,
        }
        Ok(())
    };
    let (written, lost) = write_to(to, &about(session).info, each, out)?;
    Ok(Exported { written, messages, lost, damage })
}
