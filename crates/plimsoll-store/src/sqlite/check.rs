//! Looking for damage.

use rusqlite::Connection;

use crate::error::StoreError;
use crate::session::Findings;

/// What must not be there, and how it is told.
const PROBLEMS: [(&str, &str); 7] = [
    (
        "SELECT p.id FROM part p LEFT JOIN message m ON m.session = p.session AND m.at = p.at AND m.id = p.message
         WHERE m.id IS NULL",
        "part `{}` belongs to no message",
    ),
    (
        "SELECT m.id FROM message m LEFT JOIN session s ON s.key = m.session WHERE s.key IS NULL",
        "message `{}` belongs to no session",
    ),
    (
        "SELECT s.id FROM session s LEFT JOIN session f ON f.key = s.forked_from
         WHERE s.forked_from IS NOT NULL AND f.key IS NULL",
        "session `{}` was forked from one that is gone",
    ),
    (
        "SELECT c.marker FROM compaction c WHERE c.session IN (SELECT key FROM session WHERE forked_from IS NULL)
         AND NOT EXISTS (SELECT 1 FROM message m WHERE m.session = c.session AND m.id = c.marker)",
        "the compaction of `{}` has lost its marker",
    ),
    (
        "SELECT s.id FROM session s WHERE s.messages <> (SELECT count(*) FROM message m WHERE m.session = s.key)",
        "session `{}` has miscounted its messages",
    ),
    (
        "SELECT s.id FROM session s JOIN message m ON m.session = s.key
         WHERE (m.at, m.id) > (s.last_at, s.last_id) GROUP BY s.id",
        "session `{}` has a message behind its last",
    ),
    (
        "SELECT p.id FROM part p WHERE p.status IN ('pending', 'running')
         AND p.session NOT IN (SELECT session FROM lease)",
        "the call in part `{}` waits for an answer, and nobody runs its session",
    ),
];

/// Look at everything.
pub(super) fn check(connection: &Connection) -> Result<Findings, StoreError> {
    let count = |table: &str| {
        connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get::<_, u64>(0))
    };
    let mut findings = Findings {
        sessions: count("session")?,
        messages: count("message")?,
        parts: count("part")?,
        spills: count("spill")?,
        problems: Vec::new(),
    };
    let mut statement = connection.prepare("PRAGMA integrity_check(20)")?;
    for line in statement.query_map([], |row| row.get::<_, String>(0))? {
        findings.problems.extend(Some(line?).filter(|line| line != "ok"));
    }
    let mut statement = connection.prepare("PRAGMA foreign_key_check")?;
    for table in statement.query_map([], |row| row.get::<_, String>(0))? {
        findings.problems.push(format!("a row of `{}` refers to a session that is gone", table?));
    }
    for (query, problem) in PROBLEMS {
        let mut statement = connection.prepare(&format!("{query} LIMIT 20"))?;
        for id in statement.query_map([], |row| row.get::<_, String>(0))? {
            findings.problems.push(problem.replace("{}", &id?));
        }
    }
    let mut statement = connection.prepare("SELECT id, data FROM part")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let data = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
        if let Err(error) = serde_json::from_str::<plimsoll::Part>(data) {
            findings.problems.push(format!("part `{}` cannot be read: {error}", row.get::<_, String>(0)?));
        }
    }
    Ok(findings)
}
