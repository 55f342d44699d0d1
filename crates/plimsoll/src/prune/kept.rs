//! Names that stay in the window when a prune clears their content.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Cleared, IsStopped, PruneItem, PrunePlan};
use crate::chars::{Chars, Text};
use crate::log::{Message, Part, PartBody, PartId};
use crate::mentions::{self, Mentioned};
use crate::policy::{ClearedView, Policy};
use crate::redact::redact;
use crate::window::{Block, Window};

/// Adds to each item of a plan the names that would otherwise leave the window. A name in several items stays in the
/// newest.
pub(crate) fn keep_names(
    plan: &mut PrunePlan,
    messages: &[Message],
    policy: &Policy,
    is_stopped: IsStopped<'_>,
) {
    if !policy.names.enabled || policy.prune.view != ClearedView::Clear || plan.items.is_empty() {
        return;
    }
    keep_names_of(&mut plan.items, messages, policy, is_stopped);
    plan.freed_tokens = plan.items.iter().map(|item| item.tokens).sum();
}

/// Like [`keep_names`], for items in any order.
pub(crate) fn keep_names_of(
    items: &mut [PruneItem],
    messages: &[Message],
    policy: &Policy,
    is_stopped: IsStopped<'_>,
) {
    let window = Window::of(messages, policy);
    let going = |what: Cleared| -> BTreeSet<PartId> {
        items.iter().filter(|item| item.what == what).map(|item| item.part.clone()).collect()
    };
    let (outputs, inputs) = (going(Cleared::Output), going(Cleared::Input));
    let mut mentioned = mentioned_but(&window, &outputs, &inputs, is_stopped);
    let parts: std::collections::BTreeMap<&PartId, (usize, &Part)> = messages
        .iter()
        .flat_map(|message| &message.parts)
        .enumerate()
        .map(|(at, part)| (&part.id, (at, part)))
        .collect();
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|place| std::cmp::Reverse(parts.get(&items[*place].part).map(|(at, _)| *at)));
    for place in order {
        if is_stopped() {
            return;
        }
        let item = &mut items[place];
        let Some((_, part)) = parts.get(&item.part) else { continue };
        let text = match item.what {
            Cleared::Output => output(part).map(|text| text.as_str().to_owned()).unwrap_or_default(),
            Cleared::Input => clearable_texts(part, policy).join("\n"),
        };
        let room = policy.names.room(Chars::of(&text), &policy.count);
        // Redacted first, because secrets are recognised by their context, which a list of names does not have.
        if let Some(names) = mentions::list(&redact(&text).text, &mut mentioned, room) {
            item.names = Text::from(names);
            item.tokens = item.tokens - policy.count.of_chars(item.names.chars());
        }
    }
}

/// The names in a window, without the outputs and inputs of some parts.
pub(super) fn mentioned_but(
    window: &Window,
    outputs: &BTreeSet<PartId>,
    inputs: &BTreeSet<PartId>,
    is_stopped: IsStopped<'_>,
) -> Mentioned {
    let blocks = window.messages.iter().flat_map(|message| &message.blocks);
    let texts = blocks.filter_map(|block| match block {
        Block::Text { text, .. } | Block::Reasoning { text, .. } => Some(text),
        Block::Call { input, part, .. } if !inputs.contains(part) => Some(input.json()),
        Block::Result { text, part, .. } if !outputs.contains(part) => Some(text),
        _ => None,
    });
    Mentioned::in_texts(texts.take_while(|_| !is_stopped()))
}

/// The result of a tool.
pub(super) fn output(part: &Part) -> Option<&Text> {
    match &part.body {
        PartBody::Tool(tool) => tool.state.result(),
        PartBody::ToolResult(result) => Some(&result.text),
        _ => None,
    }
}

/// The texts of a call's input that are long enough to clear.
pub(crate) fn clearable_texts<'p>(part: &'p Part, policy: &Policy) -> Vec<&'p str> {
    fn gather<'v>(value: &'v Value, least: Chars, found: &mut Vec<&'v str>) {
        match value {
            Value::String(text) if text.len() as u64 >= least.0 && Chars::of(text) >= least => {
                found.push(text);
            }
            Value::Array(items) => items.iter().for_each(|item| gather(item, least, found)),
            Value::Object(map) => map.values().for_each(|item| gather(item, least, found)),
            _ => {}
        }
    }
    let input = match &part.body {
        PartBody::Tool(tool) => tool.state.input.as_ref(),
        PartBody::ToolCall(call) => call.input.as_ref(),
        _ => None,
    };
    let mut found = Vec::new();
    if let Some(input) = input {
        gather(input.value(), policy.prune.min_input_chars, &mut found);
    }
    found
}
