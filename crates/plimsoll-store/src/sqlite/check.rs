//! Checks for damage.

use plimsoll::Millis;
use rusqlite::Connection;

use super::leases::living;
use super::{sums, witness};
use crate::clock::utc;
use crate::error::StoreError;
use crate::holder::holder_name;
use crate::store::Findings;

/// Queries for rows that must not exist, and the message about each.
const PROBLEMS: [(&str, &str); 5] = [
    (
        "SELECT p.id FROM part p LEFT JOIN message m ON m.session = p.session AND m.at = p.at AND m.id = p.message
         WHERE m.id IS NULL",
        "part `{}` has no message",
    ),
    (
        "SELECT m.id FROM message m LEFT JOIN session s ON s.key = m.session WHERE s.key IS NULL",
        "message `{}` has no session",
    ),
    (
        "SELECT s.id FROM session s LEFT JOIN session f ON f.key = s.forked_from
         WHERE s.forked_from IS NOT NULL AND f.key IS NULL",
        "session `{}` was forked from a session that does not exist",
    ),
    (
        "SELECT c.marker FROM compaction c WHERE c.session IN (SELECT key FROM session WHERE forked_from IS NULL)
         AND NOT EXISTS (SELECT 1 FROM message m WHERE m.session = c.session AND m.id = c.marker)",
        "the compaction of `{}` has no marker",
    ),
    (
        "SELECT s.id FROM session s JOIN message m ON m.session = s.key
         WHERE (m.at, m.id) > (s.last_at, s.last_id) GROUP BY s.id",
        "session `{}` has a message after its last one",
    ),
];

/// Checks everything. Unreadable content is a finding, not an error.
pub(super) fn check(connection: &Connection, now: Millis) -> Result<Findings, StoreError> {
    let mut findings = Findings::default();
    let mut note = |problem: String| {
        if !findings.problems.contains(&problem) {
            findings.problems.push(problem);
        }
    };
    let lines = strings(connection, "PRAGMA integrity_check(20)", |line| {
        if line != "ok" {
            note(line);
        }
    });
    if let Err(error) = lines {
        note(error.to_string());
    }
    let refers = |table: String| format!("a row of `{table}` refers to a session that does not exist");
    if let Err(error) = strings(connection, "PRAGMA foreign_key_check", |table| note(refers(table))) {
        note(error.to_string());
    }
    for (query, problem) in PROBLEMS {
        let message = |id: String| problem.replace("{}", &id);
        if let Err(error) = strings(connection, &format!("{query} LIMIT 20"), |id| note(message(id))) {
            note(error.to_string());
        }
    }
    let mut open = Vec::new();
    if let Err(error) = open_calls(connection, now, &mut |call| open.push(call)) {
        note(error.to_string());
    }
    match witness::recorded(connection) {
        Ok(losses) => losses.iter().for_each(|loss| note(format!("found at {}: {loss}", utc(loss.at)))),
        Err(error) => note(error.to_string()),
    }
    let verified = sums::verify(connection, None)?;
    verified.damage.iter().for_each(|damage| note(damage.to_string()));
    findings.unverified = verified.unverified;
    findings.open_calls = open;
    let tables = [
        ("session", &mut findings.sessions),
        ("message", &mut findings.messages),
        ("part", &mut findings.parts),
        ("spill", &mut findings.spills),
    ];
    for (table, found) in tables {
        // A table that cannot be counted was reported as damaged above.
        let count = connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0));
        *found = count.unwrap_or_default();
    }
    Ok(findings)
}

fn strings(connection: &Connection, query: &str, mut see: impl FnMut(String)) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(query)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        see(row.get(0)?);
    }
    Ok(())
}

/// Returns open calls that will never be answered, by session. Calls of an imported session are skipped: the next
/// import may answer them.
fn open_calls(
    connection: &Connection,
    now: Millis,
    note: &mut impl FnMut(String),
) -> Result<(), rusqlite::Error> {
    let mut statement = connection.prepare(
        "SELECT s.id, p.id, coalesce(p.tool, 'tool'), l.holder, l.until FROM part p JOIN session s ON s.key = p.session
         LEFT JOIN lease l ON l.session = p.session
         WHERE p.status IN ('pending', 'running') AND s.removed IS NULL
         AND p.session NOT IN (SELECT session FROM import)",
    )?;
    let mut rows = statement.query([])?;
    let mut left = 20;
    while left > 0
        && let Some(row) = rows.next()?
    {
        let held = row.get::<_, Option<String>>(3)?.zip(row.get::<_, Option<u64>>(4)?.map(Millis));
        if living(held.filter(|(_, until)| *until > now)).is_some() {
            continue;
        }
        left -= 1;
        let (session, part, tool): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let why = match row.get::<_, Option<String>>(3)? {
            Some(holder) => format!("`{}`, which made it, has ended", holder_name(&holder)),
            None => "nothing runs the session".to_owned(),
        };
        note(format!(
            "session `{session}`: the call of {tool} in part `{part}` waits for an answer, and {why}; it is settled when the \
             session is run again"
        ));
    }
    Ok(())
}
