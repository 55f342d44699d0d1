//! Splits a directory into the entries that commands may read or write, if something in it stays closed.
//!
//! Landlock opens a directory with everything in it and cannot exclude a part. So a directory that contains a closed
//! path is not opened itself; its entries are, down to the closed path. Entries that are created later in such a
//! directory are not open: opening them in advance would need a right to everything below it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Returns whether a directory contains a closed path or lies in one.
pub(super) fn is_carved(directory: &Path, closed: &[PathBuf]) -> bool {
    closed.iter().any(|place| place.starts_with(directory) || directory.starts_with(place))
}

/// Returns what is open of a directory: all of it, or those of its entries that are not closed. An entry with one of
/// the `skipped` paths is left out if the directory is taken apart.
pub(super) fn open_parts(directory: &Path, closed: &[PathBuf], skipped: &[&str]) -> Vec<PathBuf> {
    let mut parts = Vec::new();
    add_parts(directory, closed, skipped, &mut parts);
    parts
}

fn add_parts(path: &Path, closed: &[PathBuf], skipped: &[&str], parts: &mut Vec<PathBuf>) {
    if !is_carved(path, closed) {
        return parts.push(path.to_owned());
    }
    if closed.iter().any(|place| path.starts_with(place)) {
        return;
    }
    for entry in entries(path, closed) {
        // A link would open its target, which may be anywhere.
        if !entry.is_symlink() && !skipped.iter().any(|own| entry == Path::new(own)) {
            add_parts(&entry, closed, skipped, parts);
        }
    }
}

/// Returns the entries of a directory. For a directory that can be entered but not listed, as `/home` often is, these
/// are the ones that lead to closed paths.
fn entries(directory: &Path, closed: &[PathBuf]) -> BTreeSet<PathBuf> {
    if let Ok(entries) = std::fs::read_dir(directory) {
        return entries.flatten().map(|entry| entry.path()).collect();
    }
    let below = closed.iter().filter_map(|place| place.strip_prefix(directory).ok()?.components().next());
    below.map(|next| directory.join(next)).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::open_parts;

    #[test]
    fn a_directory_that_cannot_be_listed_is_opened_as_far_as_it_is_known() {
        let directory = tempfile::tempdir().unwrap();
        // A file cannot be listed, not even by root.
        let home = directory.path().join("file");
        std::fs::write(&home, "").unwrap();
        let closed = [home.join("me/store"), home.join("you/store")];
        let found = super::entries(&home, &closed);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [home.join("me"), home.join("you")]);
    }

    #[test]
    fn a_directory_is_opened_without_what_is_closed_in_it() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().canonicalize().unwrap();
        for name in ["work/a", ".config/plimsoll", ".config/other", ".ssh"] {
            std::fs::create_dir_all(home.join(name)).unwrap();
        }
        std::fs::write(home.join("note"), "").unwrap();
        std::os::unix::fs::symlink("/", home.join("root")).unwrap();
        // The last one does not exist, and must not be created.
        let closed = [".config/plimsoll", ".ssh", ".local/share/plimsoll"].map(|name| home.join(name));
        let parts = |directory: PathBuf| {
            let mut parts = open_parts(&directory, &closed, &[]);
            parts.sort();
            parts
        };
        assert_eq!(parts(home.clone()), [".config/other", "note", "work"].map(|name| home.join(name)));
        assert_eq!(parts(home.join("work")), [home.join("work")]);
        assert_eq!(parts(home.join(".ssh")), Vec::<PathBuf>::new());
        assert_eq!(parts(home.join(".config/plimsoll/skills")), Vec::<PathBuf>::new());
    }
}
