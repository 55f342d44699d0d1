//! Resolves paths of the configuration without following links that a command may have made.
//!
//! A granted path is opened again for each program. If a part of it lies in a directory that commands write to, a
//! command can put a link to any directory in its place, and the next program would be granted the link's target. So no
//! link is followed below such a directory, even one that the user made. Links elsewhere are the user's own.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Maximum number of links in a path, as in Linux.
const MAX_LINKS: usize = 40;

/// A path without links, as far as it exists.
#[derive(Debug)]
pub(super) struct Resolved {
    pub(super) path: PathBuf,
    /// Links that were followed.
    pub(super) links: Vec<PathBuf>,
}

/// Resolves an absolute path. Fails if a link in one of the `writable` directories would be followed.
pub(super) fn resolve(path: &Path, writable: &[PathBuf]) -> io::Result<Resolved> {
    let mut at = PathBuf::from("/");
    let mut rest: VecDeque<Part> = parts(path).collect();
    let mut links = Vec::new();
    while let Some(part) = rest.pop_front() {
        let name = match part {
            Part::Root => {
                at = PathBuf::from("/");
                continue;
            }
            Part::Up => {
                at.pop();
                continue;
            }
            Part::Name(name) => name,
        };
        let next = at.join(name);
        // What cannot be read as a link is a file, a directory, or missing.
        let Ok(target) = std::fs::read_link(&next) else {
            at = next;
            continue;
        };
        if writable.iter().any(|directory| at.starts_with(directory)) {
            return Err(io::Error::other(format!(
                "cannot grant writing to `{}`: `{}` is a symbolic link in a directory that commands can write to; \
                 grant its target by the target's own path",
                path.display(),
                next.display()
            )));
        }
        links.push(next);
        if links.len() > MAX_LINKS {
            return Err(io::Error::other(format!("too many symbolic links in `{}`", path.display())));
        }
        for part in parts(&target).collect::<Vec<_>>().into_iter().rev() {
            rest.push_front(part);
        }
    }
    Ok(Resolved { path: at, links })
}

enum Part {
    Root,
    Up,
    Name(OsString),
}

fn parts(path: &Path) -> impl Iterator<Item = Part> {
    path.components().filter_map(|component| match component {
        Component::RootDir => Some(Part::Root),
        Component::ParentDir => Some(Part::Up),
        Component::Normal(name) => Some(Part::Name(name.to_owned())),
        Component::CurDir | Component::Prefix(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::resolve;

    #[test]
    fn links_are_followed_except_in_writable_directories() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().canonicalize().unwrap();
        std::fs::create_dir_all(home.join("project/inner")).unwrap();
        symlink("project", home.join("first")).unwrap();
        symlink(home.join("first/inner"), home.join("second")).unwrap();
        symlink("inner", home.join("project/link")).unwrap();
        symlink("missing", home.join("project/dangling")).unwrap();
        let project = [home.join("project")];
        let path = |name: &str| resolve(&home.join(name), &project).unwrap().path;
        assert_eq!(path("second"), home.join("project/inner"));
        assert_eq!(path("first/inner/../new"), home.join("project/new"));
        assert_eq!(
            resolve(&home.join("second"), &[]).unwrap().links,
            [home.join("second"), home.join("first")]
        );
        for name in ["project/link", "first/link/new", "second/../link", "project/dangling"] {
            assert!(resolve(&home.join(name), &project).is_err(), "{name}");
            assert!(resolve(&home.join(name), &[]).is_ok(), "{name}");
        }
        assert_eq!(resolve(&home.join("project/dangling"), &[]).unwrap().path, home.join("project/missing"));
        symlink("loop", home.join("loop")).unwrap();
        assert!(resolve(&home.join("loop"), &[]).is_err());
    }
}
