//! Marks: the effects of reductions on a part.
//!
//! A mark belongs to the receipt of the reduction that set it. What the window shows of a part follows from its
//! active marks, so reductions can be undone in any order: an undo lifts the marks of one receipt and no
//! others. A lifted mark stays in the list, because usage figures from the time it was in force no longer hold.
//!
//! A mark records the newest message of the log when it was set. Whether a response came before or
//! after a mark follows from that order and not from clocks: a clock that jumps back must not make a stale figure
//! valid again.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::Message;
use super::fields::{At, Reader, ShapeError, put};
use super::ids::{MessageId, Millis, ReceiptId};
use super::part::{Part, PartBody};
use crate::chars::{Chars, Text};

/// A position in the order of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPosition {
    /// The time, for display.
    pub at: Millis,
    /// The newest message at that time; `None` if the log was empty or another tool set the mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<MessageId>,
}

/// The effect of one reduction on one part.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// The receipt that the mark belongs to; `None` if another tool or an older version set it.
    pub receipt: Option<ReceiptId>,
    /// The effect on the part.
    pub effect: Effect,
    /// When it was set.
    pub set: LogPosition,
    /// When it was lifted, and the receipt that lifted it.
    pub lifted: Option<(LogPosition, ReceiptId)>,
}

/// The effect of a mark on what the window shows of a part.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Shows a placeholder instead of the tool result, followed by these names from it, if any.
    Clear(Text),
    /// Shows a placeholder instead of each long text in the tool's input, followed by these names from it.
    ClearInput(Text),
    /// Shows at most this many chars of each long text in the part, and no images or reasoning.
    Cut(Chars),
    /// Hides the part; a tool call is hidden together with its result.
    Hide,
    /// Keeps the text in the window verbatim, whatever else happens to the part.
    Pin(Text),
    /// Removes earlier pins.
    Unpin,
    /// Shows this text instead of the part, or hides the part if the text is empty.
    Replace(Text),
    /// Like [`Replace`](Effect::Replace), on request of the user, who sees the text too.
    Edit(Text),
}

impl Effect {
    /// Clears a tool result and keeps no names.
    pub fn clear() -> Effect {
        Effect::Clear(Text::default())
    }

    fn is_clear(&self) -> bool {
        matches!(self, Effect::Clear(_))
    }

    /// Returns the name in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Effect::Clear(_) => "clear",
            Effect::ClearInput(_) => "clear-input",
            Effect::Cut(_) => "cut",
            Effect::Hide => "hide",
            Effect::Pin(_) => "pin",
            Effect::Unpin => "unpin",
            Effect::Replace(_) => "replace",
            Effect::Edit(_) => "edit",
        }
    }
}

/// The strictest active cut of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Maximum number of chars shown of each long text in the part.
    pub keep: Chars,
}

impl Cut {
    /// Minimum length of a cut text. Less leaves no room for the marker that reports the cut.
    pub const LEAST: Chars = Chars(100);

    /// Returns the length that is shown; a mark of another source may ask for less than the minimum.
    pub(crate) fn keep(self) -> Chars {
        self.keep.max(Cut::LEAST)
    }
}

impl Mark {
    /// Returns whether the mark was not lifted.
    pub fn is_active(&self) -> bool {
        self.lifted.is_none()
    }

    fn write(&self) -> Value {
        let mut map = Map::new();
        map.insert("effect".into(), self.effect.name().into());
        match &self.effect {
            Effect::Cut(keep) => put(&mut map, "keep", Some(keep.0.into())),
            Effect::Pin(text) | Effect::Replace(text) | Effect::Edit(text) => {
                put(&mut map, "text", Some(text.as_str().into()));
            }
            Effect::Clear(names) | Effect::ClearInput(names) => {
                put(
                    &mut map,
                    "names",
                    Some(names.as_str()).filter(|names| !names.is_empty()).map(Value::from),
                );
            }
            Effect::Hide | Effect::Unpin => {}
        }
        put(&mut map, "receipt", self.receipt.as_ref().map(|id| id.as_str().into()));
        put(&mut map, "at", Some(self.set.at.0.into()));
        put(&mut map, "after", self.set.after.as_ref().map(|id| id.as_str().into()));
        if let Some((moment, receipt)) = &self.lifted {
            let mut lifted = Map::new();
            put(&mut lifted, "receipt", Some(receipt.as_str().into()));
            put(&mut lifted, "at", Some(moment.at.0.into()));
            put(&mut lifted, "after", moment.after.as_ref().map(|id| id.as_str().into()));
            map.insert("lifted".into(), Value::Object(lifted));
        }
        Value::Object(map)
    }

    /// Reads what [`write`](Mark::write) wrote; `None` for anything else.
    fn read(value: &Value) -> Option<Mark> {
        let string = |value: &Value, key: &str| value.get(key)?.as_str().map(str::to_owned);
        let moment = |value: &Value| {
            let after = string(value, "after").map(MessageId::new);
            Some(LogPosition { at: Millis(value.get("at")?.as_u64()?), after })
        };
        let names =
            || value.get("names").map_or(Some(Text::default()), |names| names.as_str().map(Text::from));
        let effect = match value.get("effect")?.as_str()? {
            "clear" => Effect::Clear(names()?),
            "clear-input" => Effect::ClearInput(names()?),
            "cut" => Effect::Cut(Chars(value.get("keep")?.as_u64()?)),
            "hide" => Effect::Hide,
            "unpin" => Effect::Unpin,
            "replace" => Effect::Replace(Text::from(value.get("text")?.as_str()?)),
            "edit" => Effect::Edit(Text::from(value.get("text")?.as_str()?)),
            "pin" => Effect::Pin(Text::from(value.get("text")?.as_str()?)),
            _ => return None,
        };
        let lifted = match value.get("lifted") {
            Some(lifted) => Some((moment(lifted)?, ReceiptId::new(string(lifted, "receipt")?))),
            None => None,
        };
        let receipt = string(value, "receipt").map(ReceiptId::new);
        Some(Mark { receipt, effect, set: moment(value)?, lifted })
    }
}

impl Serialize for Mark {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.write().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Mark {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Mark, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Mark::read(&value).ok_or_else(|| serde::de::Error::custom("invalid mark"))
    }
}

impl Part {
    /// Returns the active marks.
    pub(crate) fn active_marks(&self) -> impl Iterator<Item = &Mark> {
        self.marks.iter().filter(|mark| mark.is_active())
    }

    /// Returns the strictest active cut.
    pub fn cut(&self) -> Option<Cut> {
        let keeps = self.active_marks().filter_map(|mark| match mark.effect {
            Effect::Cut(keep) => Some(keep),
            _ => None,
        });
        keeps.min().map(|keep| Cut { keep })
    }

    /// Returns whether the part is hidden.
    pub fn is_hidden(&self) -> bool {
        let is_left_out = |mark: &Mark| mark.effect == Effect::Hide;
        self.active_marks().any(is_left_out) || self.replaced().is_some_and(|text| text.is_empty())
    }

    /// Returns the text that the window shows instead of this part, the newest if there are several.
    pub fn replaced(&self) -> Option<&Text> {
        self.newest_active(|effect| match effect {
            Effect::Replace(text) | Effect::Edit(text) => Some(text),
            _ => None,
        })
    }

    /// Returns the text that the user put in place of that of this part; empty if the user removed the part.
    pub fn edited(&self) -> Option<&Text> {
        self.newest_active(|effect| match effect {
            Effect::Edit(text) => Some(text),
            _ => None,
        })
    }

    /// Returns whether the user removed this part.
    pub fn is_removed(&self) -> bool {
        self.edited().is_some_and(|text| text.is_empty())
    }

    /// Returns whether the window shows the user's text instead of this part, and not a summary.
    pub fn is_edited(&self) -> bool {
        self.newest_active(|effect| match effect {
            Effect::Replace(_) => Some(false),
            Effect::Edit(_) => Some(true),
            _ => None,
        }) == Some(true)
    }

    /// Returns the pinned texts of this part, oldest pin first.
    pub fn pins(&self) -> impl Iterator<Item = &Text> {
        let unpinned = self.marks.iter().rposition(|mark| mark.is_active() && mark.effect == Effect::Unpin);
        let since = unpinned.map_or(0, |place| place + 1);
        self.marks[since..].iter().filter(|mark| mark.is_active()).filter_map(|mark| match &mark.effect {
            Effect::Pin(text) => Some(text),
            _ => None,
        })
    }

    /// Returns when the result of this part was cleared.
    pub fn cleared(&self) -> Option<Millis> {
        match &self.body {
            PartBody::Tool(tool) => tool.state.time.compacted,
            PartBody::ToolResult(result) => result.compacted,
            _ => None,
        }
    }

    /// Returns the names that the window shows of a cleared tool result; empty if none were kept.
    pub fn names_of_result(&self) -> Text {
        let names = self.newest_active(|effect| match effect {
            Effect::Clear(names) => Some(names),
            _ => None,
        });
        names.cloned().unwrap_or_default()
    }

    /// Returns the names that the window shows of a cleared tool input; `None` if the input is shown whole.
    pub fn names_of_input(&self) -> Option<&Text> {
        self.newest_active(|effect| match effect {
            Effect::ClearInput(names) => Some(names),
            _ => None,
        })
    }

    fn newest_active<'m, T>(&'m self, pick: impl Fn(&'m Effect) -> Option<T>) -> Option<T> {
        self.marks.iter().rev().filter(|mark| mark.is_active()).find_map(|mark| pick(&mark.effect))
    }

    /// Returns whether the effect applies to this part: only a tool result can be cleared, and only a call has an input.
    pub(super) fn accepts(&self, effect: &Effect) -> bool {
        match effect {
            Effect::Clear(_) => matches!(self.body, PartBody::Tool(_) | PartBody::ToolResult(_)),
            Effect::ClearInput(_) => matches!(self.body, PartBody::Tool(_) | PartBody::ToolCall(_)),
            _ => true,
        }
    }

    /// Sets a mark.
    pub(super) fn set_mark(&mut self, mark: Mark) {
        if mark.effect.is_clear() {
            self.name_foreign_clear();
        }
        self.marks.push(mark);
        self.show_marks();
    }

    /// Removes the marks of a receipt that was never returned to a caller.
    pub(super) fn forget_marks(&mut self, receipt: &ReceiptId) {
        let cleared = self.marks.iter().any(|mark| mark.effect.is_clear());
        self.marks.retain(|mark| mark.receipt.as_ref() != Some(receipt));
        if cleared && !self.marks.iter().any(|mark| mark.effect.is_clear()) {
            // No mark remains that would reset the time.
            self.set_cleared(None);
        }
        self.show_marks();
        self.drop_lone_foreign_clear();
    }

    /// Converts a clear by another tool into a separate mark, so that undoing ours does not undo it.
    fn name_foreign_clear(&mut self) {
        let ours = self.active_marks().any(|mark| mark.effect.is_clear());
        if let Some(at) = self.cleared().filter(|_| !ours) {
            let set = LogPosition { at, after: None };
            self.marks.insert(0, Mark { receipt: None, effect: Effect::clear(), set, lifted: None });
        }
    }

    /// Drops the mark of a clear by another tool if it is the only one: `time.compacted` already says so.
    fn drop_lone_foreign_clear(&mut self) {
        let clears = || self.marks.iter().filter(|mark| mark.effect.is_clear());
        let is_foreign = |mark: &Mark| mark.receipt.is_none() && mark.is_active();
        if clears().count() == 1 && clears().all(is_foreign) {
            self.marks.retain(|mark| !mark.effect.is_clear());
        }
    }

    /// Lifts the marks of a receipt. Returns their number.
    pub(super) fn lift_marks(
        &mut self,
        belongs: impl Fn(&Mark) -> bool,
        moment: &LogPosition,
        by: &ReceiptId,
    ) -> usize {
        self.name_foreign_clear();
        let mut lifted = 0;
        for mark in self.marks.iter_mut().filter(|mark| mark.is_active() && belongs(mark)) {
            mark.lifted = Some((moment.clone(), by.clone()));
            lifted += 1;
        }
        self.show_marks();
        self.drop_lone_foreign_clear();
        lifted
    }

    /// Sets `time.compacted`, which other tools read, from the marks.
    fn show_marks(&mut self) {
        let clears = || self.marks.iter().filter(|mark| mark.effect.is_clear());
        if clears().next().is_none() {
            return;
        }
        let since = clears().filter(|mark| mark.is_active()).map(|mark| mark.set.at).min();
        self.set_cleared(since);
    }

    /// Returns the part without any reduction.
    pub fn without_marks(mut self) -> Part {
        self.marks.clear();
        self.set_cleared(None);
        if let PartBody::Compaction(marker) = &mut self.body {
            marker.set_aside = None;
        }
        self
    }

    fn set_cleared(&mut self, at: Option<Millis>) {
        match &mut self.body {
            PartBody::Tool(tool) => tool.state.time.compacted = at,
            PartBody::ToolResult(result) => result.compacted = at,
            _ => {}
        }
    }

    /// Replaces the marks by a list that a store kept.
    pub fn with_marks(mut self, marks: Vec<Mark>) -> Part {
        self.marks = marks;
        self.show_marks();
        self.drop_lone_foreign_clear();
        self
    }

    /// Returns all marks, including one that another tool set.
    pub fn all_marks(&self) -> Vec<Mark> {
        let mut named = self.clone();
        named.name_foreign_clear();
        named.marks
    }

    /// Returns whether the part is cleared, cut, hidden or replaced.
    pub fn is_reduced(&self) -> bool {
        self.names_of_input().is_some() || self.is_text_reduced()
    }

    /// Like [`is_reduced`](Part::is_reduced), without clears of the input.
    pub fn is_text_reduced(&self) -> bool {
        self.cleared().is_some() || self.cut().is_some() || self.is_hidden() || self.replaced().is_some()
    }

    /// Returns the marks as JSON; `None` if there are none.
    pub(super) fn write_marks(&self) -> Option<Value> {
        let marks: Vec<Value> = self.marks.iter().map(Mark::write).collect();
        (!marks.is_empty()).then(|| serde_json::json!({ "marks": marks }))
    }
}

impl Reader<'_> {
    /// Reads our marks. A field of that name with other content belongs to another tool and stays.
    pub(super) fn marks(&mut self) -> Vec<Mark> {
        let Some(Value::Object(ours)) = self.map.get_mut("plimsoll") else { return Vec::new() };
        let at = &At::Key(self.at, "plimsoll");
        let read = match ours.get("marks") {
            Some(Value::Array(list)) => listed(list, &At::Key(at, "marks")),
            Some(other) => Err(At::Key(at, "marks").expected("an array", other)),
            None => older(ours, at),
        };
        let marks = read.unwrap_or_else(|wrong| {
            self.notes.wrong(wrong);
            Vec::new()
        });
        if !marks.is_empty() {
            ours.retain(|key, _| !["marks", "cut", "lifted"].contains(&key.as_str()));
            if ours.is_empty() {
                self.map.shift_remove("plimsoll");
            }
        }
        marks
    }
}

/// Reads a list of marks. If one cannot be read, all of them stay in `extra`.
fn listed(list: &[Value], at: &At) -> Result<Vec<Mark>, ShapeError> {
    let read = |(index, mark)| Mark::read(mark).ok_or_else(|| At::Index(at, index).expected("a mark", mark));
    list.iter().enumerate().map(read).collect()
}

/// Reads marks of versions before 0.2: one cut, and when something was last lifted.
fn older(ours: &Map<String, Value>, at: &At) -> Result<Vec<Mark>, ShapeError> {
    let mut marks = Vec::new();
    let mark = |effect, at, lifted| {
        let set = LogPosition { at, after: None };
        Mark { receipt: None, effect, set, lifted }
    };
    if let Some(cut) = ours.get("cut") {
        let at = &At::Key(at, "cut");
        let number = |key: &str| At::Key(at, key).whole(cut.get(key).unwrap_or(&Value::Null));
        marks.push(mark(Effect::Cut(Chars(number("keep")?)), Millis(number("at")?), None));
    }
    if let Some(lifted) = ours.get("lifted") {
        let at = Millis(At::Key(at, "lifted").whole(lifted)?);
        let lift = (LogPosition { at, after: None }, ReceiptId::default());
        // The effect is not recorded. Any one will do: a lifted mark has none, and only shows that older usage is
        // stale.
        marks.push(mark(Effect::Hide, at, Some(lift)));
    }
    Ok(marks)
}

/// Returns the active pins in log order.
pub fn pins(messages: &[Message]) -> impl Iterator<Item = (&Message, &Part, &Text)> {
    let parts = messages.iter().flat_map(|message| message.parts.iter().map(move |part| (message, part)));
    parts.flat_map(|(message, part)| part.pins().map(move |text| (message, part, text)))
}
