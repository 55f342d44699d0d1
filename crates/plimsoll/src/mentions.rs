//! Which names the window mentions, and lists of the names that it would lose.

use std::collections::BTreeSet;

use crate::chars::{Chars, Text};
use crate::fnv::Fnv;
use crate::names::{NameKind, each_name};

/// The names that some texts mention, as hashes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mentioned {
    sorted: Vec<u64>,
    added: BTreeSet<u64>,
}

impl Mentioned {
    /// The names of all texts. Each text computes its own once.
    pub(crate) fn in_texts<'t>(texts: impl IntoIterator<Item = &'t Text>) -> Mentioned {
        let mut sorted: Vec<u64> =
            texts.into_iter().flat_map(|text| text.name_hashes().iter().copied()).collect();
        sorted.sort_unstable();
        sorted.dedup();
        Mentioned { sorted, added: BTreeSet::new() }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.has_hash(Fnv::of(name.as_bytes()))
    }

    pub(crate) fn has_hash(&self, hash: u64) -> bool {
        self.sorted.binary_search(&hash).is_ok() || self.added.contains(&hash)
    }

    pub(crate) fn add(&mut self, name: &str) {
        self.added.insert(Fnv::of(name.as_bytes()));
    }
}

/// Separates the names of a list.
const SEPARATOR: &str = ", ";
/// Share of a list's room that numbers and hashes may take.
const NUMBERS_SHARE: f64 = 0.25;
/// Ends a list that is not complete.
const MORE: &str = ", …";

/// The names of `text` that are not `mentioned`, as a list of at most `room` chars; `None` if there are none. Names that
/// are listed count as mentioned afterwards.
///
/// If there are more names than room, paths are listed before identifiers and these before numbers, and within a
/// kind the names that the text repeats most. Numbers get a part of the room only: logs are full of them, and few are
/// needed again. The list keeps the order of the text.
pub(crate) fn list(text: &str, mentioned: &mut Mentioned, room: Chars) -> Option<String> {
    let mut found: Vec<Found<'_>> = Vec::new();
    let mut places: std::collections::BTreeMap<&str, usize> = std::collections::BTreeMap::new();
    each_name(text, |name, kind| {
        if let Some(place) = places.get(name) {
            found[*place].times += 1;
        } else if !mentioned.has(name) {
            places.insert(name, found.len());
            found.push(Found { name, kind, times: 1, order: found.len() });
        }
    });
    found.sort_by_key(|found| (found.kind, std::cmp::Reverse(found.times), found.order));
    let all = found.len();
    let separator = Chars::of(SEPARATOR);
    let mut left = room - Chars::of(MORE);
    let mut listed: Vec<Found<'_>> = Vec::new();
    let mut left_for_numbers = room.share(NUMBERS_SHARE);
    for found in found {
        let chars = Chars::of(found.name) + separator;
        let is_number = found.kind == NameKind::Number;
        // Does not end the list: a shorter name may still fit.
        if chars > left || (is_number && chars > left_for_numbers) {
            continue;
        }
        left = left - chars;
        left_for_numbers = left_for_numbers - if is_number { chars } else { Chars::ZERO };
        listed.push(found);
    }
    if listed.is_empty() {
        return None;
    }
    listed.sort_by_key(|found| found.order);
    listed.iter().for_each(|found| mentioned.add(found.name));
    let names: Vec<&str> = listed.iter().map(|found| found.name).collect();
    let more = if names.len() < all { MORE } else { "" };
    Some(format!("{}{more}", names.join(SEPARATOR)))
}

struct Found<'t> {
    name: &'t str,
    kind: NameKind,
    times: usize,
    order: usize,
}

#[cfg(test)]
mod tests {
    use super::{Mentioned, list};
    use crate::chars::{Chars, Text};
    use crate::names::NameKind;

    #[test]
    fn a_list_leaves_out_what_is_mentioned_elsewhere() {
        let elsewhere = Text::from("we looked at /repo/src/view.rs and parse_window");
        let mut mentioned = Mentioned::in_texts([&elsewhere]);
        let text = "src/view.rs: parse_window, build_window\nsrc/log.rs: build_window";
        let listed = list(text, &mut mentioned, Chars(100));
        assert_eq!(listed.as_deref(), Some("build_window, src/log.rs"));
        assert_eq!(list(text, &mut mentioned, Chars(100)), None, "what was listed is mentioned");
    }

    #[test]
    fn a_list_without_room_for_all_takes_paths_first_and_says_so() {
        let text = "alpha_one beta_two beta_two gamma_three src/lib.rs 48213";
        let listed = list(text, &mut Mentioned::default(), Chars(26));
        assert_eq!(listed.as_deref(), Some("beta_two, src/lib.rs, …"));
        assert_eq!(list(text, &mut Mentioned::default(), Chars(2)), None);
    }

    #[test]
    fn kinds_are_ordered_by_use() {
        assert!(NameKind::Path < NameKind::Identifier && NameKind::Identifier < NameKind::Number);
    }
}
