//! What of a folder commands may write to, where something in it stays closed.
//!
//! Landlock opens a folder with all that is in it and cannot take a part out again. So a folder in which something is closed is
//! not opened itself, but each of what lies in it, down to what is closed. Nothing new can then be made in the folders that are
//! taken apart like this: that would be a right to everything below them.

use std::path::{Path, PathBuf};

/// File systems of the kernel's own, which are not opened one by one.
const OF_KERNEL: [&str; 3] = ["/dev", "/proc", "/sys"];

/// Whether something that is closed lies in a folder, or the folder in it.
pub(super) fn is_carved(folder: &Path, closed: &[PathBuf]) -> bool {
    closed.iter().any(|place| place.starts_with(folder) || folder.starts_with(place))
}

/// What of a folder may be written to: all of it, or those of its entries that are open.
pub(super) fn open_parts(folder: &Path, closed: &[PathBuf]) -> Vec<PathBuf> {
    let mut parts = Vec::new();
    add_parts(folder, closed, &mut parts);
    parts
}

fn add_parts(path: &Path, closed: &[PathBuf], parts: &mut Vec<PathBuf>) {
    if !is_carved(path, closed) {
        return parts.push(path.to_owned());
    }
    if closed.iter().any(|place| path.starts_with(place)) {
        return;
    }
    let Ok(entries) = std::fs::read_dir(path) else { return };
    for entry in entries.flatten() {
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        let entry = entry.path();
        // A link would open what it leads to, which may be anywhere.
        if !is_link && !OF_KERNEL.iter().any(|own| entry == Path::new(own)) {
            add_parts(&entry, closed, parts);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::open_parts;

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
            let mut parts = open_parts(&folder, &closed);
            parts.sort();
            parts
        };
        assert_eq!(parts(home.clone()), [".config/other", "note", "work"].map(|name| home.join(name)));
        assert_eq!(parts(home.join("work")), [home.join("work")]);
        assert_eq!(parts(home.join(".ssh")), Vec::<PathBuf>::new());
        assert_eq!(parts(home.join(".config/plimsoll/skills")), Vec::<PathBuf>::new());
    }
}
