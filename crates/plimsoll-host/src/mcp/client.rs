//! The calling client: its tool, and its session.
//!
//! The newest session file of a tool may belong to another session: the file of a new session may not exist yet, and two
//! sessions may be open in one directory. Information from the client therefore has priority. Codex sends its thread id with
//! every call. Claude Code sends the call id, which it writes to the session a moment later, and passes its session id in the
//! environment when it starts the server. The call id has priority over the latter, because after `/clear` or `/resume` the
//! same server belongs to another session. For all other clients, the newest session is used.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::time::{Duration, Instant};

use plimsoll_import::{Found, Scope, Search, Tool};
use serde_json::{Map, Value};

use crate::host::Host;

/// Parts of client names, such as `codex-mcp-client` and `Roo Code`.
const CLIENTS: [(&str, Tool); 9] = [
    ("claude-code", Tool::ClaudeCode),
    ("codex", Tool::Codex),
    ("opencode", Tool::Opencode),
    ("gemini-cli", Tool::Gemini),
    ("goose", Tool::Goose),
    ("cline", Tool::Cline),
    ("roo", Tool::Cline),
    ("kimi", Tool::Kimi),
    ("pi", Tool::Pi),
];

/// Maximum time to wait for the session that a client names. Claude Code writes its session ten times a second.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
/// Number of newest sessions that are searched for the current call, which is at the end of its session.
const NEWEST: usize = 8;
const LAST_BYTES: u64 = 1 << 20;

/// A client, and the information it sends about the session of a call.
#[derive(Clone, Debug, Default)]
pub struct McpClient {
    /// The tool, if its sessions are supported.
    pub(super) tool: Option<Tool>,
    /// The session's id.
    session: Option<String>,
    /// The id of the call in its session.
    call: Option<String>,
}

impl McpClient {
    /// Creates a client by its name and the metadata that it sends with a call.
    pub fn new(name: &str, meta: &Map<String, Value>) -> McpClient {
        let field = |key: &str| meta.get(key).and_then(Value::as_str).map(str::to_owned);
        let tool = tool_of(name);
        match tool {
            Some(Tool::Codex) => McpClient { tool, session: field("threadId"), call: None },
            Some(Tool::ClaudeCode) => McpClient { tool, session: None, call: field("claudecode/toolUseId") },
            _ => McpClient { tool, ..McpClient::default() },
        }
    }

    /// Finds the client's session. If the client names a session, only that one is returned.
    pub(super) fn session(&self, host: &Host) -> Option<Found> {
        let scope = self.tool.map_or(Scope::Others, Scope::Only);
        let began = Instant::now();
        loop {
            let search = host.lookup(scope).search;
            let is_last_look = began.elapsed() >= LONGEST_WAIT;
            if let Some(call) = &self.call {
                let newest = search.sessions(None).take(NEWEST);
                let found = newest.into_iter().find(|found| ends_with_call(&found.path, call));
                if found.is_some() {
                    return found;
                }
            }
            // Calls of sub-agents are not in the session's own file.
            if self.call.is_none() || is_last_look {
                let Some(id) = self.named(host) else {
                    return search.newest(host.directory(), host.env.home.as_deref());
                };
                let found = exactly(&search, id);
                if found.is_some() || is_last_look {
                    return found;
                }
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }

    /// Returns the id of the session that it names.
    pub(super) fn named<'a>(&'a self, host: &'a Host) -> Option<&'a str> {
        let at_start = || match self.tool {
            Some(Tool::ClaudeCode) => host.env.variable("CLAUDE_CODE_SESSION_ID"),
            _ => None,
        };
        self.session.as_deref().or_else(at_start)
    }
}

/// Returns the tool of a client.
fn tool_of(client: &str) -> Option<Tool> {
    let client = client.to_ascii_lowercase();
    let is = |name: &str| {
        let rest = client.strip_prefix(name);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
    };
    CLIENTS.into_iter().find(|(name, _)| is(name)).map(|(_, tool)| tool)
}

fn exactly(search: &Search, id: &str) -> Option<Found> {
    search.with_id(id).into_iter().find(|found| found.id == id)
}

/// Whether the end of a file has a call of this id.
fn ends_with_call(path: &Path, call: &str) -> bool {
    let end = || {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LAST_BYTES)))?;
        let mut end = Vec::new();
        // Limited, because the file may grow during the read.
        file.take(LAST_BYTES).read_to_end(&mut end)?;
        Ok::<_, std::io::Error>(end)
    };
    let Ok(quoted) = serde_json::to_string(call) else { return false };
    end().is_ok_and(|end| memchr::memmem::find(&end, quoted.as_bytes()).is_some())
}
