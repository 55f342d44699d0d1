//! Splits a folder into the entries that commands may read or write, if something in it stays closed.
//!
//! Landlock opens a folder with all that is in it and cannot take a part out again. So a folder in which something is closed is
//! not opened itself, but each of what lies in it, down to what is closed. What appears later in the folders that are taken apart
//! like this is not open: that would be a right to everything below them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Whether something that is closed lies in a folder, or the folder in it.
pub(super) fn is_carved(folder: &Path, closed: &[PathBuf]) -> bool {
    closed.iter().any(|place| place.starts_with(folder) || folder.starts_with(place))
}

/// Returns what is open of a folder: all of it, or those of its entries that are not closed. An entry with one of the
/// `skipped` paths is left out if the folder is taken apart.
pub(super) fn open_parts(folder: &Path, closed: &[PathBuf], skipped: &[&str]) -> Vec<PathBuf> {
    let mut parts = Vec::new();
    add_parts(folder, closed, skipped, &mut parts);
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
        // A link would open what it leads to, which may be anywhere.
        if !entry.is_symlink() && !skipped.iter().any(|own| entry == Path::new(own)) {
            add_parts(&entry, closed, skipped, parts);
        }
    }
}

/// The entries of a folder. A folder that can be entered and not listed, as `/home` often is, has at least those that lead to
/// what is closed, with everything beside it.
fn entries(folder: &Path, closed: &[PathBuf]) -> BTreeSet<PathBuf> {
    if let Ok(entries) = std::fs::read_dir(folder) {
        return entries.flatten().map(|entry| entry.path()).collect();
    }
    let below = closed.iter().filter_map(|place| place.strip_prefix(folder).ok()?.components().next());
    below.map(|next| folder.join(next)).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::open_parts;

    #[test]
    fn a_folder_that_cannot_be_listed_is_opened_as_far_as_it_is_known() {
        let folder = tempfile::tempdir().unwrap();
        // A file cannot be listed, not even by root.
        let home = folder.path().join("file");
        std::fs::write(&home, "").unwrap();
        let closed = [home.join("me/store"), home.join("you/store")];
        let found = super::entries(&home, &closed);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [home.join("me"), home.join("you")]);
    }

    #[test]
    fn a_folder_is_opened_without_what_is_closed_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap();
        for name in ["work/a", ".config/plimsoll", ".config/other", ".ssh"] {
            std::fs::create_dir_all(home.join(name)).unwrap();
        }
        std::fs::write(home.join("note"), "").unwrap();
        std::os::unix::fs::symlink("/", home.join("root")).unwrap();
        // The last one is not there, and must not come to be.
        let closed = [".config/plimsoll", ".ssh", ".local/share/plimsoll"].map(|name| home.join(name));
        let parts = |folder: PathBuf| {
            let mut parts = open_parts(&folder, &closed, &[]);
            parts.sort();
            parts
        };
        assert_eq!(parts(home.clone()), [".config/other", "note", "work"].map(|name| home.join(name)));
        assert_eq!(parts(home.join("work")), [home.join("work")]);
        assert_eq!(parts(home.join(".ssh")), Vec::<PathBuf>::new());
        assert_eq!(parts(home.join(".config/plimsoll/skills")), Vec::<PathBuf>::new());
    }
}
