//! The last rungs: clear tool outputs wherever they are, then cut the largest parts.

use std::collections::BTreeSet;

use crate::chars::{Chars, level};
use crate::count::{Counter, FILE_TOKENS, Fixed, Tokens, block_tokens, request_tokens};
use crate::log::{Log, Message, PartBody, PartId};
use crate::pivot::Visible;
use crate::policy::{ClearedView, Policy};
use crate::prune::{self, PruneItem};
use crate::receipt::{CutItem, ShedPlan};
use crate::window::{Block, PLACEHOLDER, Window};

/// How often cutting is tried anew: markers and estimates make the first level a little too high.
pub(super) const ROUNDS: u32 = 6;

/// Clear tool outputs, oldest first, until `excess` is freed.
pub(super) fn clear(log: &Log, policy: &Policy, excess: Tokens) -> ShedPlan {
    let mut plan = ShedPlan::default();
    let mut freed = Tokens::ZERO;
    let is_protected = |tool: &str| policy.prune.protected_tools.iter().any(|p| p.eq_ignore_ascii_case(tool));
    for place in Visible::of(log).places {
        let message = &log[place];
        for part in &message.parts {
            if freed >= excess {
                return plan;
            }
            let Some((tool, chars)) = result_chars(part, message) else { continue };
            let gain = match policy.prune.view {
                ClearedView::Clear => prune::freed(chars - Chars::of(PLACEHOLDER), policy),
                ClearedView::Retain => prune::freed(chars, policy),
            };
            if gain == Tokens::ZERO || part.cleared().is_some() || is_protected(&tool) {
                continue;
            }
            freed += gain;
            let (part, message) = (part.id.clone(), message.info.id.clone());
            plan.cleared.push(PruneItem { part, message, tool, tokens: gain });
        }
    }
    plan
}

fn result_chars(part: &crate::log::Part, message: &Message) -> Option<(String, Chars)> {
    match &part.body {
        PartBody::Tool(tool) => {
            let files = Chars(tool.state.attachments.len() as u64 * FILE_TOKENS.0 * 4);
            Some((tool.tool.clone(), tool.state.result()?.chars() + files))
        }
        PartBody::ToolResult(result) if !message.info.summary => {
            Some((result.tool.clone().unwrap_or_default(), result.text.chars()))
        }
        _ => None,
    }
}

/// One thing in the window that can be made shorter.
struct Piece {
    part: PartId,
    chars: Chars,
    tokens: Tokens,
    /// Images and thoughts are left out whole.
    whole: bool,
}

/// What is to be cut, and to what.
pub(super) struct Goal {
    /// What the whole request may weigh.
    pub(super) room: Tokens,
    /// Only parts of the message at this place are cut; all parts if none is named.
    pub(super) only: Option<usize>,
    /// How often it may be tried again.
    pub(super) rounds_left: u32,
}

/// Lower all parts to one level, the highest at which the request fits.
pub(super) fn cut(log: &Log, policy: &Policy, fixed: Fixed, goal: &Goal, counter: &dyn Counter) -> ShedPlan {
    let Goal { room, only, rounds_left } = *goal;
    let window = Window::of(log, policy);
    let load = request_tokens(&window, fixed, counter);
    let pieces = pieces(&window, only, counter);
    let texts = || pieces.iter().filter(|piece| !piece.whole);
    let longest: Tokens = texts().map(|piece| piece.tokens).sum();
    let least = policy.shed.min_part_chars;
    let spare =
        |piece: &Piece| piece.tokens.share((piece.chars - least).0 as f64 / piece.chars.0.max(1) as f64);
    let spare: Tokens = texts().map(spare).sum();
    // Images and thoughts go whole, the oldest first, and only as many as must go; then the rest is lowered.
    let mut goes = load - room;
    let mut plan = ShedPlan::default();
    let mut known = BTreeSet::new();
    for piece in pieces.iter().filter(|piece| piece.whole) {
        if goes <= spare.share(0.5) || !known.insert(&piece.part) {
            break;
        }
        goes = goes - piece.tokens;
        plan.cut.push(CutItem {
            part: piece.part.clone(),
            chars: piece.chars,
            keep: Chars::ZERO,
            before: None,
        });
    }
    let chars: Chars = texts().map(|piece| piece.chars).sum();
    // What cannot be cut stays; the rest shares what is left, less with each round.
    let caution = f64::from(rounds_left + 2) / f64::from(ROUNDS + 3);
    let tokens = (longest - goes).share(caution);
    let per_token = chars.0 as f64 / longest.0.max(1) as f64;
    let goal = Chars((tokens.0 as f64 * per_token) as u64);
    let level = level(texts().map(|piece| piece.chars), goal).max(least);
    for piece in texts().filter(|piece| piece.chars > level && goes > Tokens::ZERO) {
        let before = log.part(&piece.part).ok().and_then(|part| part.cut).map(|cut| cut.keep);
        if before.is_none_or(|before| level < before) && known.insert(&piece.part) {
            let (part, chars) = (piece.part.clone(), piece.chars);
            plan.cut.push(CutItem { part, chars, keep: level, before });
        }
    }
    plan
}

fn pieces(window: &Window, only: Option<usize>, counter: &dyn Counter) -> Vec<Piece> {
    let messages = window.messages.iter().filter(|message| only.is_none() || message.place == only);
    let blocks = messages.flat_map(|message| &message.blocks);
    blocks
        .filter_map(|block| {
            let (part, chars, whole) = match block {
                Block::Text { text, part: Some(part) } => (part, text.chars(), false),
                Block::Result { text, part, .. } => (part, text.chars(), false),
                Block::Call { input, part, .. } => (part, input.json().chars(), false),
                Block::Reasoning { text, part, .. } => (part, text.chars(), true),
                Block::File { part, .. } => (part, Chars::ZERO, true),
                Block::Text { part: None, .. } => return None,
            };
            Some(Piece { part: part.clone(), chars, tokens: block_tokens(block, counter), whole })
        })
        .collect()
}
