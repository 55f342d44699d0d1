//! The lists of `words.txt`, read at first use.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

static WORDS: LazyLock<BTreeMap<&str, BTreeSet<&str>>> = LazyLock::new(|| {
    let mut lists: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut list = "";
    for word in include_str!("words.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(str::split_whitespace)
    {
        match word.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            Some(name) => list = name,
            None => _ = lists.entry(list).or_default().insert(word),
        }
    }
    lists
});

/// The words of a list of `words.txt`.
pub(crate) fn words(list: &str) -> impl Iterator<Item = &'static str> {
    WORDS.get(list).into_iter().flatten().copied()
}

/// Whether `word` is in a list of `words.txt`.
pub(crate) fn is_listed(list: &str, word: &str) -> bool {
    WORDS.get(list).is_some_and(|words| words.contains(word))
}
