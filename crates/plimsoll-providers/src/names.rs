//! Names as providers take them, and the way back.

use std::collections::{HashMap, HashSet};

/// The longest name of a tool that every provider takes.
const TOOL_LIMIT: usize = 64;

/// How call ids have to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdRule {
    /// The longest id.
    pub(crate) limit: usize,
    /// Letters and digits only, and exactly as long as the limit.
    pub(crate) exact: bool,
}

/// Call ids in a request: letters, digits, `_` and `-`, within the provider's length; different ids stay different.
///
/// A name depends on the id and on those before it, never on what comes later: the beginning of a request stays as it
/// was while the conversation grows.
pub(crate) struct IdMap {
    rule: IdRule,
    given: HashMap<String, String>,
    taken: HashSet<String>,
}

impl IdMap {
    pub(crate) fn new(rule: IdRule) -> IdMap {
        IdMap { rule, given: HashMap::new(), taken: HashSet::new() }
    }

    /// The id to write for `id`, always the same one.
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
        // An id that does not fit is replaced by a hash of itself rather than cut: ids of one provider often differ
        // only in their last letters.
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

/// FNV-1a: stable across builds, unlike the hashers of the standard library.
fn hash(text: &str, round: u64) -> u64 {
    let bytes = text.bytes().chain(round.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
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

fn legal(name: &str) -> String {
    let letters = name.chars().map(|c| if c.is_ascii() && is_legal(c as u8) { c } else { '_' });
    let plain: String = letters.take(TOOL_LIMIT).collect();
    if plain.is_empty() { "unknown".into() } else { plain }
}

/// Names of tools as the provider knows them, and what they are called here.
///
/// Tools of MCP servers are named `server.tool` or longer than providers allow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolNames {
    to_wire: HashMap<String, String>,
    from_wire: HashMap<String, String>,
}

impl ToolNames {
    /// The provider's name for a tool, always the same one.
    pub(crate) fn wire(&mut self, tool: &str) -> String {
        if let Some(name) = self.to_wire.get(tool) {
            return name.clone();
        }
        let plain = legal(tool);
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

    /// What a tool is called here that the provider names so; an unknown name is passed on.
    pub fn own(&self, wire: &str) -> String {
        self.from_wire.get(wire).cloned().unwrap_or_else(|| wire.to_owned())
    }
}
