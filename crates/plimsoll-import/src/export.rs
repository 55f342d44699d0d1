//! Exporting stored sessions in formats of other tools.

use std::io::Write;

use plimsoll_formats::{ConversionLoss, EachMessage, Format, write_to};
use plimsoll_store::{Damage, Session, SessionReader, Store};

use crate::error::ImportError;
use crate::stored::about;

/// How an export handles a damaged session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnDamage {
    /// Fail, so that altered content is never exported as if it were intact.
    Refuse,
    /// Write what is still readable, and list the rest.
    Salvage,
}

/// Result of an export.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exported {
    /// Number of messages that were written. A request has a message for each result of a tool.
    pub written: usize,
    /// Number of readable messages of the session.
    pub messages: usize,
    /// Content that the format cannot represent.
    pub lost: Vec<ConversionLoss>,
    /// Damage of the session.
    pub damage: Vec<Damage>,
}

/// Writes a stored session after verifying its checksums. Concurrent writes by other processes are not included.
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
