//! Mounts of this process, for rules that deny access to a place.
//!
//! A rule that opens a path for writing is complete. Closing one is different: the same file can have further paths, by
//! a bind mount or a second mount of its file system, and each of them has to be closed. Nor may a directory be opened
//! by one of its paths if something in it is closed by another.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// File systems that hold terminals or devices of every kind.
const WITH_TERMINALS: [&str; 2] = ["devpts", "devtmpfs"];

/// The mounts that this process sees.
pub(super) struct Mounts(Vec<Mount>);

struct Mount {
    /// Number of the file system.
    device: String,
    /// The directory of the file system that is mounted.
    root: PathBuf,
    /// Mount point.
    point: PathBuf,
    /// Type of the file system.
    kind: String,
}

impl Mounts {
    /// Reads the mounts of this process. Without `/proc` there are none.
    pub(super) fn read() -> Mounts {
        Mounts::parse(&std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default())
    }

    fn parse(text: &str) -> Mounts {
        Mounts(text.lines().filter_map(Mount::parse).collect())
    }

    /// Returns the mount points of file systems that hold terminals.
    pub(super) fn terminals(&self) -> impl Iterator<Item = &Path> {
        let found = self.0.iter().filter(|mount| WITH_TERMINALS.contains(&mount.kind.as_str()));
        found.map(|mount| mount.point.as_path())
    }

    /// Returns every path of a place, which need not exist, and of the mount points that lead to it: a rule is for a
    /// directory and not for its path, so one that opens a directory by another path of it opens the place as well.
    pub(super) fn paths_of(&self, place: &Path) -> BTreeSet<PathBuf> {
        let mut paths = BTreeSet::from([place.to_owned()]);
        let mut queue = vec![place.to_owned()];
        while let Some(mut path) = queue.pop() {
            let mut holder = self.holder(&path, |_| true);
            while let Some(mount) = holder {
                let others: Vec<PathBuf> = self.others(mount, &path).collect();
                queue.extend(others.into_iter().filter(|other| paths.insert(other.clone())));
                path.clone_from(&mount.point);
                holder = self.holder(&path, |outer| outer.point != path);
            }
        }
        paths
    }

    /// Returns the mount that a path lies in. A later mount hides an earlier one at the same point.
    fn holder(&self, path: &Path, is_meant: impl Fn(&Mount) -> bool) -> Option<&Mount> {
        let holders = self.0.iter().filter(|mount| path.starts_with(&mount.point) && is_meant(mount));
        holders.max_by_key(|mount| mount.point.components().count())
    }

    /// Returns the paths by which a file of a mount can be reached through mounts of the same file system.
    fn others(&self, mount: &Mount, path: &Path) -> impl Iterator<Item = PathBuf> {
        let inner = path.strip_prefix(&mount.point).map(|below| mount.root.join(below)).unwrap_or_default();
        let same = self.0.iter().filter(|other| other.device == mount.device);
        same.filter_map(move |other| {
            let path = other.point.join(inner.strip_prefix(&other.root).ok()?);
            // What another mount hides cannot be reached by this path.
            let is_seen = self.holder(&path, |_| true).is_some_and(|holder| std::ptr::eq(holder, other));
            is_seen.then_some(path)
        })
    }
}

impl Mount {
    /// Parses a line as `36 35 98:0 /root /point rw,noatime shared:1 - ext4 /dev/root rw`.
    fn parse(line: &str) -> Option<Mount> {
        let (mount, source) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(2);
        Some(Mount {
            device: fields.next()?.to_owned(),
            root: unescape(fields.next()?),
            point: unescape(fields.next()?),
            kind: source.split(' ').next()?.to_owned(),
        })
    }
}

/// Replaces the octal escapes of spaces, tabs, line breaks and backslashes.
fn unescape(field: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = rest.get(1..4).filter(|_| *first == b'\\');
        let code = code.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &rest[4..] } else { after };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::Mounts;

    const MOUNTS: &str = "\
22 1 254:0 / / rw - ext4 /dev/vda rw
23 22 0:6 / /dev rw - devtmpfs none rw
24 23 0:24 / /dev/pts rw shared:2 - devpts devpts rw
30 22 0:24 /3 /srv/a\\040b/console rw - devpts devpts rw
31 22 254:0 /home /mnt/home rw - ext4 /dev/vda rw
32 22 254:9 / /data rw - ext4 /dev/vdb rw
";

    #[test]
    fn every_mount_of_terminals_is_found() {
        let mounts = Mounts::parse(MOUNTS);
        let found: Vec<&Path> = mounts.terminals().collect();
        assert_eq!(found, ["/dev", "/dev/pts", "/srv/a b/console"].map(Path::new));
    }

    #[test]
    fn a_place_is_known_by_its_paths_through_other_mounts() {
        let mounts = Mounts::parse(MOUNTS);
        let paths = |place: &str| mounts.paths_of(Path::new(place)).into_iter().collect::<Vec<_>>();
        assert_eq!(paths("/home/me/store"), ["/home/me/store", "/mnt/home/me/store"].map(PathBuf::from));
        assert_eq!(paths("/mnt/home/me/store"), ["/home/me/store", "/mnt/home/me/store"].map(PathBuf::from));
        assert_eq!(paths("/etc/x"), [PathBuf::from("/etc/x")]);
        assert_eq!(paths("/data/store"), [PathBuf::from("/data/store")]);
        assert_eq!(
            Mounts::parse("").paths_of(Path::new("/a")).into_iter().collect::<Vec<_>>(),
            [PathBuf::from("/a")]
        );
    }

    /// Terminals below a directory that has a second path: opening the directory by that path would open them.
    #[test]
    fn mount_points_that_lead_to_a_place_are_known_by_their_other_paths_too() {
        let mounts = Mounts::parse(
            "22 1 254:0 / / rw - ext4 /dev/vda rw\n\
             30 22 0:24 / /tmp/x/pts rw - devpts devpts rw\n\
             31 22 254:0 /tmp /tmp/x/again rw - ext4 /dev/vda rw\n",
        );
        let paths: Vec<PathBuf> = mounts.paths_of(Path::new("/tmp/x/pts")).into_iter().collect();
        assert_eq!(paths, ["/tmp/x/again/x/again", "/tmp/x/again/x/pts", "/tmp/x/pts"].map(PathBuf::from));
        let paths: Vec<PathBuf> = mounts.paths_of(Path::new("/tmp/store")).into_iter().collect();
        assert_eq!(paths, ["/tmp/store", "/tmp/x/again/store", "/tmp/x/again/x/again"].map(PathBuf::from));
    }
}
