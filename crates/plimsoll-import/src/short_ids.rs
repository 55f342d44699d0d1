//! Unambiguous short ids.

use crate::find::Search;

/// Shortens ids to unambiguous prefixes. Created once for a list, so that each id is only compared with its neighbours in
/// sorted order.
pub struct ShortIds<'a> {
    /// The sorted ids. Files that were not opened contribute the suffixes of their names that begin with a word, because tools
    /// write the id into the name.
    ids: Vec<&'a str>,
}

impl Search {
    /// Collects the ids of all sessions that were found.
    pub fn short_ids(&self) -> ShortIds<'_> {
        let mut ids: Vec<&str> = self.names().flat_map(words).collect();
        ids.sort_unstable();
        ids.dedup();
        ShortIds { ids }
    }
}

/// Returns the suffixes of a name that begin with a word.
fn words(name: &str) -> impl Iterator<Item = &str> {
    let starts = name.char_indices().filter(|(_, c)| !c.is_alphanumeric()).map(|(at, c)| at + c.len_utf8());
    std::iter::once(0).chain(starts).filter_map(|start| name.get(start..)).filter(|rest| !rest.is_empty())
}

impl ShortIds<'_> {
    /// Returns the shortest unambiguous prefix of a session's id, with at least `least` bytes after `ses_` or the like.
    pub fn of<'a>(&self, id: &'a str, least: usize) -> &'a str {
        let from = id.find('_').map_or(0, |end| end + 1) + least;
        // A session that exists both as a file and in the store is not ambiguous: both names start with the id.
        let place = self.ids.partition_point(|other| is_before(other, id));
        let before = self.ids.get(..place).and_then(<[&str]>::last);
        let after = self.ids.iter().skip(place).find(|other| !other.starts_with(id));
        let shared = [before, after].into_iter().flatten().map(|other| shared(other, id)).max().unwrap_or(0);
        let mut ends = id.char_indices().map(|(at, _)| at).filter(|end| *end >= from && *end > shared);
        ends.next().map_or(id, |end| &id[..end])
    }
}

/// Compares two ids. Tests count the calls.
fn is_before(other: &str, id: &str) -> bool {
    #[cfg(test)]
    tests::COMPARED.with(|compared| compared.set(compared.get() + 1));
    other < id
}

/// Returns the length of the common prefix of two ids.
fn shared(a: &str, b: &str) -> usize {
    a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::ShortIds;

    thread_local! {
        pub(super) static COMPARED: Cell<usize> = const { Cell::new(0) };
    }

    /// Ids that differ at different lengths.
    fn names(count: usize) -> Vec<String> {
        let mut names: Vec<String> =
            (0..count).map(|n| format!("ses_{:016x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    #[test]
    fn short_ids_are_unambiguous_and_as_short_as_possible() {
        let names = names(500);
        let ids = ShortIds { ids: names.iter().map(String::as_str).collect() };
        for name in &names {
            let short = ids.of(name, 4);
            let meant = |start: &str| names.iter().filter(|other| other.starts_with(start)).count();
            assert!(meant(short) == 1, "{short} of {name}");
            assert!(short.len() == 8 || meant(&short[..short.len() - 1]) > 1, "{short} of {name}");
        }
    }

    /// A list of 20,000 sessions took 13 s, because each id was compared with all others.
    #[test]
    fn an_id_of_a_long_list_is_compared_with_a_few_others() {
        let compared = |count: usize| {
            let names = names(count);
            let ids = ShortIds { ids: names.iter().map(String::as_str).collect() };
            COMPARED.set(0);
            names.iter().for_each(|name| assert!(!ids.of(name, 4).is_empty()));
            COMPARED.get() / names.len()
        };
        let (short, long) = (compared(1_000), compared(16_000));
        assert!(
            short <= 11 && long <= short + 5,
            "{short} comparisons for each of 1,000 ids, {long} of 16,000"
        );
    }
}
