//! Suggestions for misspelt names.

/// Returns the names that are most similar to `name`, best first.
pub fn nearest_few<'a>(name: &str, known: &'a [String], most: usize) -> Vec<&'a str> {
    let wanted = name.to_lowercase();
    // Every name begins with the empty string.
    if wanted.is_empty() {
        return Vec::new();
    }
    let likeness = |known: &str| {
        // A prefix of a name, and a name followed by a date, are perfect matches.
        let is_begun = known.starts_with(&wanted) || (!known.is_empty() && wanted.starts_with(known));
        if is_begun { 1.0 } else { strsim::normalized_damerau_levenshtein(&wanted, known) }
    };
    let mut scored: Vec<(f64, &str)> = known.iter().map(|name| (likeness(name), name.as_str())).collect();
    scored.retain(|(likeness, _)| *likeness > 0.6);
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored.into_iter().take(most).map(|(_, name)| name).collect()
}

/// Returns the most similar name, if any is similar at all.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // The common prefix of all variables would make any of them look similar.
    let bare = |name: &str| name.trim_start_matches("PLIMSOLL_").to_lowercase();
    let wanted = bare(name);
    let scored = known.map(|known| (strsim::normalized_damerau_levenshtein(&wanted, &bare(known)), known));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0));
    best.filter(|(likeness, _)| *likeness > 0.6).map(|(_, known)| known)
}
