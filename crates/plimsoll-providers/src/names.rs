//! Names and ids that providers accept, and their mapping back.

use std::collections::{HashMap, HashSet};

use plimsoll::Fnv;
use plimsoll::window::legal_name;

/// Maximum length of a tool's name that every provider accepts.
const TOOL_LIMIT: usize = 64;

/// Format of call ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdRule {
    /// Maximum length.
    pub(crate) limit: usize,
    /// Whether only letters and digits are allowed, and exactly `limit` of them.
    pub(crate) exact: bool,
}

/// Maps call ids to ids that the provider accepts: letters, digits, `_` and `-`, within its maximum length. Different
/// ids stay different.
///
/// The new id depends on the id and on earlier ones, never on later ones. The beginning of a request therefore stays
/// byte-identical while the conversation grows, as the prompt cache requires.
pub(crate) struct IdMap {
    rule: IdRule,
    given: HashMap<String, String>,
    taken: HashSet<String>,
}

impl IdMap {
    pub(crate) fn new(rule: IdRule) -> IdMap {
        IdMap { rule, given: HashMap::new(), taken: HashSet::new() }
    }

    /// Returns the new id for `id`; always the same one.
    pub(crate) fn id(&mut self, id: &str) -> String {
        if let Some(given) = self.given.get(id) {
            return given.clone();
        }
        let IdRule { limit, exact } = self.rule;
        let fits = id.len() <= limit
            && !id.is_empty()
            && if exact {
                id.len() == limit && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
            } else {
                id.bytes().all(is_legal)
            };
        // An id that does not fit is replaced by its hash and not shortened: ids of one provider often differ only in
        // their last characters.
        let hashed = |round: u64| match exact {
            true => base36(hash(id, round), limit),
            false => format!("call_{}", base36(hash(id, round), 12)),
        };
        let mut free = if fits { id.to_owned() } else { hashed(0) };
        let mut round = 1;
        while !self.taken.insert(free.clone()) {
            free = hashed(round);
            round += 1;
        }
        self.given.insert(id.to_owned(), free.clone());
        free
    }
}

/// Unlike the hashers of the standard library this one is the same in every process, so a resumed session sends the
/// same request.
fn hash(text: &str, round: u64) -> u64 {
    Fnv::new().bytes(text.as_bytes()).number(round).finish()
}

fn base36(mut number: u64, digits: usize) -> String {
    let digit = |value: u64| char::from_digit(value as u32, 36).unwrap_or('0');
    let next = |_| {
        let last = digit(number % 36);
        number /= 36;
        last
    };
    (0..digits).map(next).collect()
}

fn is_legal(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// Maps names of tools to the provider's names and back.
///
/// Tools of MCP servers may be named `server.tool`, or have longer names than providers allow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolNames {
    to_wire: HashMap<String, String>,
    from_wire: HashMap<String, String>,
}

impl ToolNames {
    /// Returns the provider's name for a tool; always the same one.
    pub(crate) fn wire(&mut self, tool: &str) -> String {
        if let Some(name) = self.to_wire.get(tool) {
            return name.clone();
        }
        let plain = legal_name(tool, TOOL_LIMIT);
        let mut free = plain.clone();
        let mut number = 1u64;
        while self.from_wire.contains_key(&free) {
            number += 1;
            let end = format!("_{number}");
            free = format!("{}{end}", &plain[..plain.len().min(TOOL_LIMIT - end.len())]);
        }
        self.to_wire.insert(tool.to_owned(), free.clone());
        self.from_wire.insert(free.clone(), tool.to_owned());
        free
    }

    /// Returns the tool with this provider's name. An unknown name is returned unchanged.
    pub fn own(&self, wire: &str) -> String {
        self.from_wire.get(wire).cloned().unwrap_or_else(|| wire.to_owned())
    }
}
