//! Orders tool outputs by usefulness.
//!
//! Used if only some of the outputs have to be cleared. Age is not enough: an old file may be the subject of the work,
//! while the confirmation of an edit is useless a minute later.

use std::collections::{BTreeMap, BTreeSet};

use super::{IsStopped, PruneItem, kept};
use crate::fnv::Fnv;
use crate::log::{Input, Message, PartBody, PartId};
use crate::policy::Policy;
use crate::window::Window;

/// Words in the names of tools whose output only confirms their input.
const EDITS: [&str; 8] = ["edit", "write", "patch", "replace", "create", "insert", "update", "todo"];

/// Sorts items, the least useful first: outputs of calls that were repeated since, confirmations of edits, then outputs
/// whose names have not been used by a call for the longest time. Ties go to the output with the fewest unique names
/// per token.
pub(crate) fn by_value(
    items: &mut [PruneItem],
    messages: &[Message],
    policy: &Policy,
    is_stopped: IsStopped<'_>,
) {
    let facts = Facts::of(items, messages, policy, is_stopped);
    items.sort_by_cached_key(|item| facts.key(item));
}

struct Facts {
    /// Position of each part's message, and a hash of its call.
    calls: BTreeMap<PartId, (usize, Option<u64>)>,
    /// Newest position of each call.
    newest: BTreeMap<u64, usize>,
    /// Newest position at which a call's input uses a name in the part, and the number of its unique names.
    names: BTreeMap<PartId, (usize, usize)>,
}

impl Facts {
    fn of(items: &[PruneItem], messages: &[Message], policy: &Policy, is_stopped: IsStopped<'_>) -> Facts {
        let (mut calls, mut newest, mut used) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut by_call: BTreeMap<&str, u64> = BTreeMap::new();
        for (place, message) in messages.iter().enumerate().take_while(|_| !is_stopped()) {
            for part in &message.parts {
                let call = match &part.body {
                    PartBody::Tool(tool) => {
                        tool.state.input.as_ref().map(|input| call_hash(&tool.tool, input))
                    }
                    PartBody::ToolCall(call) => {
                        let hash = call.input.as_ref().map(|input| call_hash(&call.tool, input));
                        by_call.extend(hash.map(|hash| (call.call_id.as_str(), hash)));
                        hash
                    }
                    PartBody::ToolResult(result) => by_call.get(result.call_id.as_str()).copied(),
                    _ => continue,
                };
                calls.insert(part.id.clone(), (place, call));
                newest.extend(call.map(|call| (call, place)));
                if let Some(input) = input(&part.body) {
                    used.extend(input.json().name_hashes().iter().map(|name| (*name, place)));
                }
            }
        }
        let going: BTreeSet<PartId> = items.iter().map(|item| item.part.clone()).collect();
        let window = Window::of(messages, policy);
        let elsewhere = kept::mentioned_but(&window, &going, &BTreeSet::new(), is_stopped);
        let mut names = BTreeMap::new();
        let parts = messages.iter().flat_map(|message| &message.parts);
        for part in parts.filter(|part| going.contains(&part.id)).take_while(|_| !is_stopped()) {
            let Some(text) = kept::output(part) else { continue };
            let own = text.name_hashes().iter().filter(|name| !elsewhere.has_hash(**name));
            let last_use = text.name_hashes().iter().filter_map(|name| used.get(name)).max().copied();
            names.insert(part.id.clone(), (last_use.unwrap_or_default(), own.count()));
        }
        Facts { calls, newest, names }
    }

    fn key(&self, item: &PruneItem) -> (u8, usize, u64, usize) {
        let (place, call) = self.calls.get(&item.part).copied().unwrap_or_default();
        let was_repeated = call.and_then(|call| self.newest.get(&call)).is_some_and(|newest| *newest > place);
        let tool = item.tool.to_lowercase();
        let rank = match (was_repeated, EDITS.iter().any(|word| tool.contains(word))) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => 2,
        };
        let (last_use, names) = self.names.get(&item.part).copied().unwrap_or_default();
        let per_token = names as u64 * 1_000 / item.tokens.0.max(1);
        (rank, last_use, per_token, place)
    }
}

fn call_hash(tool: &str, input: &Input) -> u64 {
    Fnv::new().text(tool).text(input.json()).finish()
}

fn input(body: &PartBody) -> Option<&Input> {
    match body {
        PartBody::Tool(tool) => tool.state.input.as_ref(),
        PartBody::ToolCall(call) => call.input.as_ref(),
        _ => None,
    }
}
