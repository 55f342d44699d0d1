//! What is mounted where, for rules that close a place to reading.
//!
//! A rule that opens a place for writing names all there is. Closing one is different: the same file can have further paths, by a
//! bind mount or a second mount of its file system, and each of them has to be closed.

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
    /// Where it is mounted.
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
    pub(super) fn terminals(&self) -> impl Iterator<Item = PathBuf> {
        let found = self.0.iter().filter(|mount| WITH_TERMINALS.contains(&mount.kind.as_str()));
        found.map(|mount| mount.point.clone())
    }

    /// Returns every path of a place, which need not exist.
    pub(super) fn paths_of(&self, place: &Path) -> Vec<PathBuf> {
        let mut paths = vec![place.to_owned()];
        // A later mount hides an earlier one at the same point.
        let holder = self.0.iter().filter(|mount| place.starts_with(&mount.point));
        let Some(holder) = holder.max_by_key(|mount| mount.point.components().count()) else { return paths };
        let Ok(below) = place.strip_prefix(&holder.point) else { return paths };
        let inner = holder.root.join(below);
        let same = self.0.iter().filter(|mount| mount.device == holder.device);
        paths.extend(same.filter_map(|mount| Some(mount.point.join(inner.strip_prefix(&mount.root).ok()?))));
        paths
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
        let found: Vec<PathBuf> = Mounts::parse(MOUNTS).terminals().collect();
        assert_eq!(found, ["/dev", "/dev/pts", "/srv/a b/console"].map(PathBuf::from));
    }

    #[test]
    fn a_place_is_known_by_its_paths_through_other_mounts() {
        let mounts = Mounts::parse(MOUNTS);
        let paths = |place: &str| {
            let mut paths = mounts.paths_of(Path::new(place));
            paths.sort();
            paths.dedup();
            paths
        };
        assert_eq!(paths("/home/me/store"), ["/home/me/store", "/mnt/home/me/store"].map(PathBuf::from));
        assert_eq!(paths("/mnt/home/me/store"), ["/home/me/store", "/mnt/home/me/store"].map(PathBuf::from));
        assert_eq!(paths("/etc/x"), [PathBuf::from("/etc/x")]);
        assert_eq!(paths("/data/store"), [PathBuf::from("/data/store")]);
        assert_eq!(Mounts::parse("").paths_of(Path::new("/a")), [PathBuf::from("/a")]);
    }
}
