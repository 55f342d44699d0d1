//! The last rungs: clear tool outputs, cut long parts, hide parts that can be spared.
//!
//! Nothing here needs a model, so nothing here can fail. Each function returns items for one
//! [`ShedPlan`](crate::receipt::ShedPlan) or [`CompactPlan`](crate::receipt::CompactPlan) and leaves the log unchanged.

use std::collections::{BTreeMap, BTreeSet};

use crate::chars::{Chars, level};
use crate::count::{RequestOverhead, block_tokens, request_tokens};
use crate::counter::Counter;
use crate::log::{Effect, Log, LogError, Message, MessageId, Part, PartBody, PartId, ReceiptId, pins};
use crate::pivot::VisibleRange;
use crate::plan::{CutItem, HideItem};
use crate::policy::{ClearedView, Policy};
use crate::prune::{self, PruneItem};
use crate::tokens::Tokens;
use crate::window::{Block, PLACEHOLDER, Window, WindowRole};

/// Content that is spared longest: the user's newest message and the model's newest answer, as positions in the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewestPlaces {
    pub(super) prompt: Option<usize>,
    pub(super) step: Option<usize>,
    /// The summary at the beginning of the window.
    summary: Option<usize>,
}

impl NewestPlaces {
    pub(super) fn of(messages: &[Message]) -> NewestPlaces {
        let visible = VisibleRange::of(messages);
        let step = visible.places.iter().copied().rev().find(|place| messages[*place].is_assistant());
        let summary = visible.pivot.map(|pivot| pivot.summary);
        NewestPlaces { prompt: visible.newest_prompt(messages), step, summary }
    }

    /// Whether a message belongs to the newest step: the answer itself, or results after it.
    fn is_step(&self, place: usize) -> bool {
        self.step.is_some_and(|step| place >= step)
    }
}

/// Clears tool outputs before the newest step until `excess` is freed, the least useful first.
pub(super) fn clear(log: &Log, policy: &Policy, excess: Tokens, counter: &dyn Counter) -> Vec<PruneItem> {
    let mut items = Vec::new();
    let is_protected = |tool: &str| policy.prune.protected_tools.iter().any(|p| p.eq_ignore_ascii_case(tool));
    let newest = NewestPlaces::of(log);
    for place in VisibleRange::of(log).places.into_iter().filter(|place| !newest.is_step(*place)) {
        let message = &log[place];
        for part in &message.parts {
            let Some((tool, chars)) = result_chars(part, message, policy) else { continue };
            // The placeholder contains the handle, which is the id of the part.
            let stays = Chars::of(PLACEHOLDER) + Chars(part.id.as_str().len() as u64);
            let gain = match policy.prune.view {
                ClearedView::Clear => prune::freed(chars - stays - pinned_chars(part), policy),
                ClearedView::Retain => prune::freed(chars, policy),
            };
            if gain == Tokens::ZERO || part.cleared().is_some() || is_protected(&tool) {
                continue;
            }
            items.push(PruneItem::output(part.id.clone(), message.info.id.clone(), tool, gain));
        }
    }
    prune::by_value(&mut items, log, policy, &|| counter.is_stopped());
    let keeps_names = policy.names.enabled && policy.prune.view == ClearedView::Clear;
    // The names of an item are only known after all items are chosen, because finding them reads the whole window.
    // Until then, each item is assumed to keep the maximum of names.
    let lost_to_names = if keeps_names { policy.names.share } else { 0.0 };
    let mut freed = Tokens::ZERO;
    let enough = items.iter().position(|item| {
        let was_enough = freed >= excess;
        freed += item.tokens - item.tokens.share(lost_to_names);
        was_enough
    });
    items.truncate(enough.unwrap_or(items.len()));
    if keeps_names {
        prune::keep_names_of(&mut items, log, policy, &|| counter.is_stopped());
    }
    items
}

fn result_chars(part: &Part, message: &Message, policy: &Policy) -> Option<(String, Chars)> {
    match &part.body {
        PartBody::Tool(tool) => {
            let per_file = policy.count.file_tokens.0.saturating_mul(policy.count.chars_per_token);
            let files = Chars((tool.state.attachments.len() as u64).saturating_mul(per_file));
            Some((tool.tool.clone(), tool.state.result()?.chars() + files))
        }
        PartBody::ToolResult(result) if !message.info.summary => {
            Some((result.tool.clone().unwrap_or_default(), result.text.chars()))
        }
        _ => None,
    }
}

fn pinned_chars(part: &Part) -> Chars {
    part.pins().map(|pin| pin.chars()).sum()
}

/// Limits for cutting.
pub(super) struct Goal {
    /// Maximum weight of the whole request.
    pub(super) room: Tokens,
    /// Parts that may be cut.
    pub(super) reach: Reach,
    /// Minimum length that a cut leaves.
    pub(super) least: Chars,
}

/// Which parts may be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// The results of the newest step.
    NewestResults,
    /// All parts of the message at this position.
    Message(usize),
    /// All parts except those of the user's newest message and of the summary, the only trace of what it replaces.
    AllButPrompt,
}

/// Content of the window that can be cut.
struct Piece {
    part: PartId,
    chars: Chars,
    tokens: Tokens,
    /// Whether it can only be removed as a whole, like images and thoughts.
    whole: bool,
}

/// Cuts all parts in reach to one length, the longest with which the request fits. One length for all is a single
/// linear pass and leaves short parts whole; cutting the largest part again and again does neither. Trial cuts are
/// applied to the log and reverted.
pub(super) fn cut(
    log: &mut Log,
    policy: &Policy,
    fixed: RequestOverhead,
    goal: &Goal,
    counter: &dyn Counter,
) -> Result<Vec<CutItem>, LogError> {
    let window = Window::of(log, policy);
    let load = request_tokens(&window, fixed, counter);
    if load <= goal.room {
        return Ok(Vec::new());
    }
    let pieces = pieces(&window, log, goal.reach, counter);
    // More than the excess must be removed: cut markers take room, and estimates are inexact. Hence several rounds.
    let mut goes = load - goal.room;
    let mut items = Vec::new();
    let trial = ReceiptId::new("trial");
    for _ in 0..policy.shed.rounds {
        let next = lower(log, &pieces, goes, goal.least);
        if next.is_empty() || next == items {
            break;
        }
        items = next;
        for item in &items {
            log.mark(&item.part, Effect::Cut(item.keep), &trial, Default::default())?;
        }
        let after = request_tokens(&Window::of(log, policy), fixed, counter);
        for item in &items {
            log.forget_marks(&item.part, &trial)?;
        }
        if after <= goal.room {
            break;
        }
        goes += after - goal.room;
    }
    Ok(items)
}

/// Returns cuts to one length that remove about `goes` tokens.
fn lower(log: &Log, pieces: &[Piece], goes: Tokens, least: Chars) -> Vec<CutItem> {
    let texts = || pieces.iter().filter(|piece| !piece.whole);
    let spare =
        |piece: &Piece| piece.tokens.share((piece.chars - least).0 as f64 / piece.chars.0.max(1) as f64);
    let spare: Tokens = texts().map(spare).sum();
    let mut items = Vec::new();
    let mut goes = goes;
    let mut known = BTreeSet::new();
    // Images and thoughts can only be removed whole, so they go only if cutting texts is not enough, the oldest first.
    for piece in pieces.iter().filter(|piece| piece.whole) {
        if goes <= spare {
            break;
        }
        if known.insert(&piece.part) {
            goes = goes - piece.tokens;
            items.push(CutItem { part: piece.part.clone(), chars: piece.chars, keep: Chars::ZERO });
        }
    }
    if goes == Tokens::ZERO {
        return items;
    }
    let (chars, tokens): (Chars, Tokens) =
        (texts().map(|piece| piece.chars).sum(), texts().map(|piece| piece.tokens).sum());
    let per_token = chars.0 as f64 / tokens.0.max(1) as f64;
    let stays = Chars(((tokens - goes).0 as f64 * per_token) as u64);
    let level = level(texts().map(|piece| piece.chars), stays).max(least);
    for piece in texts().filter(|piece| piece.chars > level) {
        let before = log.part(&piece.part).ok().and_then(Part::cut).map(|cut| cut.keep);
        // Marks of a part do not add up: the strictest one counts, so a weaker cut would free nothing.
        if before.is_none_or(|before| level < before) && known.insert(&piece.part) {
            items.push(CutItem { part: piece.part.clone(), chars: piece.chars, keep: level });
        }
    }
    items
}

fn pieces(window: &Window, log: &Log, reach: Reach, counter: &dyn Counter) -> Vec<Piece> {
    let newest = NewestPlaces::of(log);
    let mut pieces = Vec::new();
    for message in &window.messages {
        let Some(place) = message.place else { continue };
        let reached = match reach {
            Reach::NewestResults => newest.is_step(place) && message.role == WindowRole::Tool,
            Reach::Message(only) => place == only,
            Reach::AllButPrompt => Some(place) != newest.prompt && Some(place) != newest.summary,
        };
        if !reached {
            continue;
        }
        let calls = message.blocks.iter().any(|block| matches!(block, Block::Call { .. }));
        for block in &message.blocks {
            let (part, chars, whole) = match block {
                Block::Text { text, part: Some(part) } => (part, text.chars(), false),
                Block::Result { text, part, .. } => (part, text.chars(), false),
                Block::Call { input, part, .. } => (part, input.json().chars(), false),
                // Providers require signed thoughts before the calls they led to.
                Block::Reasoning { metadata: Some(_), .. } if calls => continue,
                Block::Reasoning { text, part, .. } => (part, text.chars(), true),
                Block::Provider { value, part } => (part, value.json().chars(), true),
                Block::File { part, .. } => (part, Chars::ZERO, true),
                Block::Text { part: None, .. } => continue,
            };
            // Pinned text is shown again after the cut, so cutting a mostly pinned part saves nothing.
            let pinned = log.part(part).map(pinned_chars).unwrap_or_default();
            if pinned + pinned >= chars && pinned > Chars::ZERO {
                continue;
            }
            pieces.push(Piece { part: part.clone(), chars, tokens: block_tokens(block, counter), whole });
        }
    }
    pieces
}

/// Content of the window that can be hidden.
struct Hideable {
    part: PartId,
    message: MessageId,
    tokens: Tokens,
    kind: HideableKind,
}

/// Role of hideable content in its message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HideableKind {
    /// A call, with its result.
    Call,
    /// A signed thought. It is hidden together with the last call of its message.
    SignedThought,
    /// Anything else.
    Other,
}

/// Hides parts until `excess` is freed. First parts older than the newest step; then the calls of the newest step
/// except the last one and the system parts except the first one, the heavier of these groups first; then the last call
/// and the first system part. The user's newest message and pinned texts stay.
pub(super) fn hide(log: &Log, policy: &Policy, excess: Tokens, counter: &dyn Counter) -> Vec<HideItem> {
    let newest = NewestPlaces::of(log);
    let (mut older, mut step, mut system) = (Vec::new(), Vec::new(), Vec::new());
    let mut thoughts: BTreeMap<MessageId, Vec<Hideable>> = BTreeMap::new();
    let mut calls: BTreeMap<MessageId, usize> = BTreeMap::new();
    for (place, hideable) in hideables(log, policy, counter) {
        if Some(place) == newest.prompt {
            continue;
        }
        match hideable.kind {
            HideableKind::SignedThought => {
                thoughts.entry(hideable.message.clone()).or_default().push(hideable);
                continue;
            }
            HideableKind::Call => *calls.entry(hideable.message.clone()).or_default() += 1,
            HideableKind::Other => {}
        }
        let group = match log[place].info.role {
            Some(crate::Role::System) => &mut system,
            _ if newest.is_step(place) => &mut step,
            _ => &mut older,
        };
        group.push(hideable);
    }
    let last_call = step.pop();
    let first_word = if system.is_empty() { None } else { Some(system.remove(0)) };
    let weight = |group: &[Hideable]| group.iter().map(|hideable| hideable.tokens).sum::<Tokens>();
    if weight(&system) > weight(&step) {
        std::mem::swap(&mut system, &mut step);
    }
    let order = older.into_iter().chain(step).chain(system).chain(last_call).chain(first_word);
    let mut freed = Tokens::ZERO;
    let mut items = Vec::new();
    for hideable in order {
        if freed >= excess {
            break;
        }
        let mut going = Vec::new();
        if hideable.kind == HideableKind::Call {
            let left = calls.entry(hideable.message.clone()).or_default();
            *left = left.saturating_sub(1);
            if *left == 0 {
                going = thoughts.remove(&hideable.message).unwrap_or_default();
            }
        }
        going.push(hideable);
        for Hideable { part, message, tokens, .. } in going {
            freed += tokens;
            items.push(HideItem { part, message, tokens });
        }
    }
    items
}

/// Content that can be hidden, in the order of the window, with the position of its message. A call includes its
/// result.
fn hideables(log: &Log, policy: &Policy, counter: &dyn Counter) -> Vec<(usize, Hideable)> {
    let window = Window::of(log, policy);
    let summary = VisibleRange::of(log).pivot.map(|pivot| pivot.summary);
    let mut hideables: Vec<(usize, Hideable)> = Vec::new();
    let mut by_call: BTreeMap<&str, usize> = BTreeMap::new();
    for message in &window.messages {
        let Some(place) = message.place.filter(|place| Some(*place) != summary) else { continue };
        let calls = message.blocks.iter().any(|block| matches!(block, Block::Call { .. }));
        for block in &message.blocks {
            let tokens = block_tokens(block, counter);
            let part = match block {
                Block::Result { id, .. } => {
                    if let Some(call) = by_call.get(id.as_str()) {
                        hideables[*call].1.tokens += tokens;
                    }
                    continue;
                }
                Block::Text { part: None, .. } => continue,
                Block::Text { part: Some(part), .. }
                | Block::Reasoning { part, .. }
                | Block::Provider { part, .. }
                | Block::File { part, .. }
                | Block::Call { part, .. } => part,
            };
            if log.part(part).is_ok_and(|part| part.pins().next().is_some()) {
                continue;
            }
            if let Block::Call { id, .. } = block {
                by_call.insert(id, hideables.len());
            }
            let message = log[place].info.id.clone();
            let kind = match block {
                Block::Call { .. } => HideableKind::Call,
                Block::Reasoning { metadata: Some(_), .. } if calls => HideableKind::SignedThought,
                _ => HideableKind::Other,
            };
            hideables.push((place, Hideable { part: part.clone(), message, tokens, kind }));
        }
    }
    hideables
}

/// Returns the parts to unpin, the newest first, until `excess` is freed.
pub(super) fn unpin(log: &Log, excess: Tokens, counter: &dyn Counter) -> Vec<PartId> {
    let mut pinned: Vec<(PartId, Tokens)> = Vec::new();
    for (_, part, text) in pins(log) {
        pinned.push((part.id.clone(), counter.count_text(text)));
    }
    let mut freed = Tokens::ZERO;
    let mut parts: Vec<PartId> = Vec::new();
    for (part, tokens) in pinned.into_iter().rev() {
        if freed >= excess {
            break;
        }
        freed += tokens;
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    parts
}
