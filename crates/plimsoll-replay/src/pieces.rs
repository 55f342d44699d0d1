//! Requests as lists of numbered pieces, so that two of them are compared without looking at their texts.

use std::collections::{BTreeSet, HashMap};

use plimsoll::{Block, CharCounter, Counter, Text, WindowMessage, WindowRole};

use crate::recording::Recording;

/// The number of a piece.
pub(crate) type Piece = u32;

/// What kind of thing a piece is: the same words said by a tool are another piece than said by the user.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Role,
    Text,
    Reasoning,
    Tool,
    Input,
    Result,
    File,
}

/// All pieces that were met so far, each once.
pub(crate) struct Pieces<'a> {
    recording: &'a Recording,
    counter: CharCounter,
    /// By where a text lies in memory. The text is held, so the place stays its own.
    by_place: HashMap<(Kind, usize), Piece>,
    by_content: HashMap<(Kind, blake3::Hash), Piece>,
    texts: Vec<(Kind, Text)>,
    /// What each piece weighs to rules, which count characters, and what a provider would count.
    tokens: Vec<u64>,
    charged: Vec<u64>,
    /// The pieces that contain each reference.
    holders: Vec<Vec<Piece>>,
    /// In which request each piece was last seen.
    seen_in: Vec<u64>,
    request: u64,
}

/// Shorter texts are looked up by content alone: there are many of them, made anew for every window.
const SHORT: usize = 256;

impl<'a> Pieces<'a> {
    pub(crate) fn new(recording: &'a Recording) -> Pieces<'a> {
        Pieces {
            recording,
            counter: CharCounter::default(),
            by_place: HashMap::new(),
            by_content: HashMap::new(),
            texts: Vec::new(),
            tokens: Vec::new(),
            charged: Vec::new(),
            holders: vec![Vec::new(); recording.references()],
            seen_in: Vec::new(),
            request: 0,
        }
    }

    /// The pieces of one message of a window, in order.
    pub(crate) fn message(&mut self, message: &WindowMessage, into: &mut Vec<Piece>) {
        into.push(self.role(message.role));
        for block in &message.blocks {
            self.block(block, into);
        }
    }

    /// The piece that begins a message.
    pub(crate) fn role(&mut self, role: WindowRole) -> Piece {
        let name = match role {
            WindowRole::System => "system",
            WindowRole::User => "user",
            WindowRole::Assistant => "assistant",
            WindowRole::Tool => "tool",
        };
        let overhead = self.counter.message_overhead().0;
        self.weighed(Kind::Role, &Text::from(name), overhead, |pieces| {
            let measured = pieces.recording.measured();
            measured.map_or(overhead, |measured| measured.counter().message_overhead().0)
        })
    }

    /// The pieces of one block.
    pub(crate) fn block(&mut self, block: &Block, into: &mut Vec<Piece>) {
        match block {
            Block::Text { text, .. } => into.push(self.counted(Kind::Text, text)),
            Block::Reasoning { text, .. } => into.push(self.counted(Kind::Reasoning, text)),
            Block::Call { tool, input, .. } => {
                into.push(self.counted(Kind::Tool, &Text::from(tool.as_str())));
                into.push(self.counted(Kind::Input, input.json()));
            }
            Block::Result { text, files, part, .. } => {
                into.push(self.result(text));
                for at in 0..files.len() {
                    let name = Text::from(format!("{part}/{at}"));
                    into.push(self.file(&name));
                }
            }
            Block::Provider { value, .. } => into.push(self.counted(Kind::Text, value.json())),
            Block::File { part, .. } => {
                into.push(self.file(&Text::from(part.as_str())));
            }
        }
    }

    /// The piece of a tool's answer.
    pub(crate) fn result(&mut self, text: &Text) -> Piece {
        self.counted(Kind::Result, text)
    }

    fn file(&mut self, name: &Text) -> Piece {
        let tokens = CharCounter::default().file_tokens().0;
        self.weighed(Kind::File, name, tokens, |_| tokens)
    }

    fn counted(&mut self, kind: Kind, text: &Text) -> Piece {
        let tokens = self.counter.of_chars(text.chars()).0;
        self.weighed(kind, text, tokens, |pieces| pieces.charge(text))
    }

    /// Take note of a summary that stands in for a model's, before it is shown: it counts for these references and no
    /// others. It is made from the log, and would list paths from text that no summariser was sent.
    pub(crate) fn note_summary(&mut self, text: &Text, counts_for: &BTreeSet<u32>) {
        let known = self.texts.len();
        let piece = self.counted(Kind::Text, text);
        if piece as usize == known {
            for (reference, holders) in self.holders.iter_mut().enumerate() {
                if holders.last() == Some(&piece) && !counts_for.contains(&(reference as u32)) {
                    holders.pop();
                }
            }
        }
    }

    /// The references that any of those pieces contains.
    pub(crate) fn references_in(&self, pieces: &[Piece]) -> BTreeSet<u32> {
        let pieces: BTreeSet<Piece> = pieces.iter().copied().collect();
        let held = |holders: &Vec<Piece>| holders.iter().any(|piece| pieces.contains(piece));
        (0..)
            .zip(&self.holders)
            .filter(|(_, holders)| held(holders))
            .map(|(reference, _)| reference)
            .collect()
    }

    /// What a provider would count for a text.
    pub(crate) fn charge(&self, text: &Text) -> u64 {
        let measured = self.recording.measured();
        measured
            .map_or_else(|| self.counter.count_text(text).0, |measured| measured.counter().count_text(text).0)
    }

    /// The piece of a text. What is `charged` for it is asked for once, because that may mean reading the text.
    fn weighed(
        &mut self,
        kind: Kind,
        text: &Text,
        tokens: u64,
        charged: impl FnOnce(&Pieces<'_>) -> u64,
    ) -> Piece {
        let place = (kind, text.as_str().as_ptr() as usize);
        let long = text.len() > SHORT;
        if long && let Some(piece) = self.by_place.get(&place) {
            return *piece;
        }
        let content = (kind, blake3::hash(text.as_bytes()));
        if let Some(piece) = self.by_content.get(&content) {
            return *piece;
        }
        let piece = self.texts.len() as Piece;
        let charged = charged(self);
        self.by_content.insert(content, piece);
        if long {
            self.by_place.insert(place, piece);
        }
        self.texts.push((kind, text.clone()));
        self.tokens.push(tokens);
        self.charged.push(charged);
        self.seen_in.push(0);
        if !matches!(kind, Kind::Role | Kind::File) {
            for reference in self.recording.found_in(text) {
                self.holders[reference as usize].push(piece);
            }
        }
        piece
    }

    /// What a provider would count for those pieces.
    pub(crate) fn charged(&self, pieces: &[Piece]) -> u64 {
        pieces.iter().map(|piece| self.charged[*piece as usize]).sum()
    }

    /// What those pieces weigh to rules.
    pub(crate) fn tokens(&self, pieces: &[Piece]) -> u64 {
        pieces.iter().map(|piece| self.tokens[*piece as usize]).sum()
    }

    /// How many tokens two requests have in common from their beginning on, as a provider counts them.
    pub(crate) fn common(&self, before: &[Piece], now: &[Piece]) -> u64 {
        let same = before.iter().zip(now).take_while(|(before, now)| before == now).count();
        let partly = match (before.get(same), now.get(same)) {
            (Some(before), Some(now)) => {
                let ((before_kind, before), (kind, now)) =
                    (&self.texts[*before as usize], &self.texts[*now as usize]);
                let bytes = before.bytes().zip(now.bytes()).take_while(|(a, b)| a == b).count();
                let head = &now[..now.floor_char_boundary(bytes)];
                // Only whole tokens can be read, and the same words of another kind are another request.
                let head = if head.is_empty() { 0 } else { self.charge(&Text::from(head)) };
                if before_kind == kind { head.saturating_sub(1) } else { 0 }
            }
            _ => 0,
        };
        self.charged(&now[..same]) + partly
    }

    /// Take note of what a request shows.
    pub(crate) fn show(&mut self, pieces: &[Piece]) {
        self.request += 1;
        for piece in pieces {
            self.seen_in[*piece as usize] = self.request;
        }
    }

    /// Whether the request shown last contains a reference.
    pub(crate) fn shows(&self, reference: u32) -> bool {
        self.holders[reference as usize].iter().any(|piece| self.seen_in[*piece as usize] == self.request)
    }
}
