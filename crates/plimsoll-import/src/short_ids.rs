//! Unambiguous short ids.

use crate::find::Search;

/// Shortens ids so that each still names one session. Created once for a list: an id is compared with its neighbours in
/// sorted order, not with every other id.
pub struct ShortIds<'a> {
    /// The sorted ids. A file that was not opened contributes its name, from the start and from each word on: tools
    /// write the id into it.
    ids: Vec<&'a str>,
}

impl Search {
    /// Collects the ids of everything that was found.
    pub fn short_ids(&self) -> ShortIds<'_> {
        let mut ids: Vec<&str> = self.names().flat_map(words).collect();
        ids.sort_unstable();
        ids.dedup();
        ShortIds { ids }
    }
}

/// A name from the start and from each word on.
fn words(name: &str) -> impl Iterator<Item = &str> {
    let starts = name.char_indices().filter(|(_, c)| !c.is_alphanumeric()).map(|(at, c)| at + c.len_utf8());
    std::iter::once(0).chain(starts).filter_map(|start| name.get(start..)).filter(|rest| !rest.is_empty())
}

impl ShortIds<'_> {
    /// The shortest unambiguous start of a session's id, but at least `least` bytes after its prefix.
    pub fn of<'a>(&self, id: &'a str, least: usize) -> &'a str {
        let from = id.find('_').map_or(0, |end| end + 1) + least;
        // The same session may exist twice: as a file and stored. Both names start with the id.
        let place = self.ids.partition_point(|other| *other < id);
        let before = self.ids.get(..place).and_then(<[&str]>::last);
        let after = self.ids.iter().skip(place).find(|other| !other.starts_with(id));
        let shared = [before, after].into_iter().flatten().map(|other| shared(other, id)).max().unwrap_or(0);
        let mut ends = id.char_indices().map(|(at, _)| at).filter(|end| *end >= from && *end > shared);
        ends.next().map_or(id, |end| &id[..end])
    }
}

/// Number of leading bytes that two ids have in common.
fn shared(a: &str, b: &str) -> usize {
    a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count()
}
