//! Requests as lists of numbered pieces, so that two requests can be compared without reading their texts.

use std::collections::{BTreeSet, HashMap};

use plimsoll::{Block, CharCounter, Counter, Text, WindowMessage, WindowRole};

use plimsoll_tokens::Measured;

use super::Recording;

/// The number of a piece.
pub(crate) type Piece = u32;

/// Kind of a piece: the same text as a tool result and as a user message is two pieces.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Role,
    Text,
    Reasoning,
    Tool,
    Input,
    Result,
    File,
    /// Output tokens of an answer that the recording does not show.
    Hidden,
    /// Input of a recall.
    RecallInput,
    /// The text that a recall brought back.
    RecallResult,
}

/// A reference that a piece shows.
#[derive(Clone, Copy)]
pub(crate) struct ShownReference {
    pub(crate) reference: u32,
    /// Whether its surroundings in the recording are shown with it.
    pub(crate) is_surrounded: bool,
}

/// Distinct pieces.
#[derive(Default)]
pub(crate) struct Table {
    /// Pieces by the address of their text. The table holds the text, so no other text can get this address.
    by_place: HashMap<(Kind, usize), Piece>,
    by_content: HashMap<(Kind, blake3::Hash), Piece>,
    texts: Vec<(Kind, Text)>,
    /// Tokens of each piece as rules count them (characters), and as a provider charges them.
    tokens: Vec<u64>,
    charged: Vec<u64>,
    held: Vec<Box<[ShownReference]>>,
}

/// All pieces of a replay: those of the recording, which all rules share, and those that the rules created.
pub(crate) struct Pieces<'a> {
    recording: &'a Recording,
    counter: CharCounter,
    shared: Option<&'a Table>,
    own: Table,
    /// Pieces of roles and tool names, which every message contains.
    roles: [Option<Piece>; 4],
    tools: HashMap<String, Piece>,
}

/// Minimum length of texts that are indexed by address. Shorter texts are quick to hash, and every formatted number
/// would need an entry. Texts of the recording are always indexed.
const SHORT: usize = 64;

impl Table {
    fn len(&self) -> usize {
        self.texts.len()
    }

    /// Returns the texts that a model can copy from.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &Text> {
        self.texts.iter().filter(|(kind, _)| kind.is_read()).map(|(_, text)| text)
    }
}

impl Kind {
    /// Whether a model can copy a name from this kind.
    fn is_read(self) -> bool {
        !matches!(self, Kind::Role | Kind::File | Kind::Hidden)
    }
}

impl<'a> Pieces<'a> {
    /// Creates the pieces of a replay of a recording.
    pub(crate) fn new(recording: &'a Recording) -> Pieces<'a> {
        Pieces { shared: Some(&recording.layout().table), ..Pieces::of_originals(recording) }
    }

    /// Creates the pieces of a recording.
    pub(crate) fn of_originals(recording: &'a Recording) -> Pieces<'a> {
        let (counter, own, roles, tools) = Default::default();
        Pieces { recording, counter, shared: None, own, roles, tools }
    }

    /// Returns the recording's pieces, for sharing between replays.
    pub(crate) fn into_table(self) -> Table {
        self.own
    }

    /// Adds the pieces of a window's message, in order.
    pub(crate) fn message(&mut self, message: &WindowMessage, into: &mut Vec<Piece>) {
        into.push(self.role(message.role));
        for block in &message.blocks {
            self.block(block, into);
        }
    }

    /// Returns the piece that begins a message.
    pub(crate) fn role(&mut self, role: WindowRole) -> Piece {
        let (place, name) = match role {
            WindowRole::System => (0, "system"),
            WindowRole::User => (1, "user"),
            WindowRole::Assistant => (2, "assistant"),
            WindowRole::Tool => (3, "tool"),
        };
        if let Some(piece) = self.roles[place] {
            return piece;
        }
        let overhead = self.counter.message_overhead().0;
        let piece = self.weighed(Kind::Role, &Text::from(name), overhead, |pieces| {
            let measured = pieces.recording.measured();
            measured.map_or(overhead, |measured| measured.counter().message_overhead().0)
        });
        self.roles[place] = Some(piece);
        piece
    }

    /// Returns the piece of a tool's name.
    fn tool(&mut self, name: &str) -> Piece {
        if let Some(piece) = self.tools.get(name) {
            return *piece;
        }
        let piece = self.counted(Kind::Tool, &Text::from(name));
        self.tools.insert(name.to_owned(), piece);
        piece
    }

    /// Adds the pieces of a block.
    pub(crate) fn block(&mut self, block: &Block, into: &mut Vec<Piece>) {
        match block {
            Block::Text { text, .. } => into.push(self.counted(Kind::Text, text)),
            Block::Reasoning { text, .. } => {
                let tokens = self.counter.of_chars(text.chars()).0;
                into.push(self.weighed(Kind::Reasoning, text, tokens, |pieces| {
                    // If usage shows that reasoning is not sent again, it is in the file but in no later request.
                    let is_sent = pieces.recording.measured().is_none_or(Measured::resends_reasoning);
                    if is_sent { pieces.charge(text) } else { 0 }
                }));
            }
            Block::Call { tool, input, part, .. } => {
                into.push(self.tool(tool));
                let kind = if is_recall(part.as_str()) { Kind::RecallInput } else { Kind::Input };
                into.push(self.counted(kind, input.json()));
            }
            Block::Result { text, files, part, .. } => {
                let kind = if is_recall(part.as_str()) { Kind::RecallResult } else { Kind::Result };
                into.push(self.counted(kind, text));
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

    /// Returns the piece of a tool result.
    pub(crate) fn result(&mut self, text: &Text) -> Piece {
        self.counted(Kind::Result, text)
    }

    /// Returns the pieces of a recall: its input and what it brought back.
    pub(crate) fn recall(&mut self, input: &Text, text: &Text) -> [Piece; 2] {
        [self.counted(Kind::RecallInput, input), self.counted(Kind::RecallResult, text)]
    }

    /// Returns the piece of output tokens that are sent again although the recording does not show them.
    pub(crate) fn hidden(&mut self, tokens: u64) -> Piece {
        self.weighed(Kind::Hidden, &Text::from(tokens.to_string()), 0, |_| tokens)
    }

    fn file(&mut self, name: &Text) -> Piece {
        let tokens = CharCounter::default().file_tokens().0;
        self.weighed(Kind::File, name, tokens, |_| tokens)
    }

    fn counted(&mut self, kind: Kind, text: &Text) -> Piece {
        let tokens = self.counter.of_chars(text.chars()).0;
        self.weighed(kind, text, tokens, |pieces| pieces.charge(text))
    }

    /// Registers a summary that replaces a model's, before it is shown: only these references count for it. It is
    /// extracted from the log, and would otherwise list paths from text that the summariser was not sent.
    pub(crate) fn note_summary(&mut self, text: &Text, counts_for: &BTreeSet<u32>) {
        let known = self.len();
        let piece = self.counted(Kind::Text, text);
        if piece as usize == known
            && let Some(held) = self.own.held.last_mut()
        {
            *held = held.iter().filter(|held| counts_for.contains(&held.reference)).copied().collect();
        }
    }

    /// Returns the tokens that a provider charges for a text.
    pub(crate) fn charge(&self, text: &Text) -> u64 {
        let measured = self.recording.measured();
        measured
            .map_or_else(|| self.counter.count_text(text).0, |measured| measured.counter().count_text(text).0)
    }

    fn len(&self) -> usize {
        self.shared.map_or(0, Table::len) + self.own.len()
    }

    /// Returns the piece of a text. `charged` is called once per piece, because it may read the whole text.
    fn weighed(
        &mut self,
        kind: Kind,
        text: &Text,
        tokens: u64,
        charged: impl FnOnce(&Pieces<'_>) -> u64,
    ) -> Piece {
        let tables = || self.shared.into_iter().chain([&self.own]);
        let place = (kind, text.as_str().as_ptr() as usize);
        let is_kept = text.len() > SHORT || self.shared.is_none();
        if let Some(piece) = tables().find_map(|table| table.by_place.get(&place)) {
            return *piece;
        }
        let content = (kind, blake3::hash(text.as_bytes()));
        if let Some(piece) = tables().find_map(|table| table.by_content.get(&content)) {
            return *piece;
        }
        let piece = self.len() as Piece;
        let charged = charged(self);
        let held = if kind.is_read() {
            self.recording.shown_by(text, self.shared.is_none())
        } else {
            Box::default()
        };
        self.own.by_content.insert(content, piece);
        if is_kept {
            self.own.by_place.insert(place, piece);
        }
        self.own.texts.push((kind, text.clone()));
        self.own.tokens.push(tokens);
        self.own.charged.push(charged);
        self.own.held.push(held);
        piece
    }

    /// Returns the table that contains a piece, and the index there.
    fn find(&self, piece: Piece) -> (&Table, usize) {
        let place = piece as usize;
        match self.shared {
            Some(shared) if place < shared.len() => (shared, place),
            Some(shared) => (&self.own, place - shared.len()),
            None => (&self.own, place),
        }
    }

    /// Returns the tokens of a piece as a provider charges them.
    pub(crate) fn charged(&self, piece: Piece) -> u64 {
        let (table, place) = self.find(piece);
        table.charged[place]
    }

    /// Returns the tokens of a piece as rules count them.
    pub(crate) fn tokens(&self, piece: Piece) -> u64 {
        let (table, place) = self.find(piece);
        table.tokens[place]
    }

    /// Returns the references that a piece shows.
    pub(crate) fn held(&self, piece: Piece) -> &[ShownReference] {
        let (table, place) = self.find(piece);
        &table.held[place]
    }

    /// Returns the text of a piece.
    pub(crate) fn text(&self, piece: Piece) -> &Text {
        let (table, place) = self.find(piece);
        &table.texts[place].1
    }

    fn kind(&self, piece: Piece) -> Kind {
        let (table, place) = self.find(piece);
        table.texts[place].0
    }

    /// Whether a piece comes from a recall.
    pub(crate) fn is_recalled(&self, piece: Piece) -> bool {
        matches!(self.kind(piece), Kind::RecallInput | Kind::RecallResult)
    }

    /// Returns the tokens that a provider charges for these pieces.
    pub(crate) fn charged_for(&self, pieces: &[Piece]) -> u64 {
        pieces.iter().fold(0, |sum, piece| sum.saturating_add(self.charged(*piece)))
    }

    /// Returns the references that any of these pieces shows.
    pub(crate) fn references_in(&self, pieces: &[Piece]) -> BTreeSet<u32> {
        pieces.iter().flat_map(|piece| self.held(*piece)).map(|held| held.reference).collect()
    }

    /// Returns the tokens of the common prefix of two pieces, as a provider charges them.
    pub(crate) fn common(&self, before: Piece, now: Piece) -> u64 {
        // The same text in another kind is sent differently.
        if self.kind(before) != self.kind(now) || !self.kind(now).is_read() {
            return 0;
        }
        let (before, now) = (self.text(before), self.text(now));
        let bytes = before.bytes().zip(now.bytes()).take_while(|(a, b)| a == b).count();
        let head = &now[..now.floor_char_boundary(bytes)];
        // Only whole tokens can be read.
        if head.is_empty() { 0 } else { self.charge(&Text::from(head)).saturating_sub(1) }
    }
}

/// Prefix of the ids of recalled parts, which a replay adds to the session.
pub(crate) const RECALL_PART: &str = "prt_recall_";

fn is_recall(part: &str) -> bool {
    part.starts_with(RECALL_PART)
}
