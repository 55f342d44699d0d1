//! A tool's output, held in bounded memory while it is truncated as layer 1 would.

use std::io::{self, Read, Write};
use std::path::Path;

use plimsoll::truncate::{Address, OutputEnds, Spill};
use tempfile::NamedTempFile;

use crate::error::reason;
use crate::files::{self, Existing};

/// Number of bytes that are read at a time.
const PIECE: usize = 1 << 16;

/// The ends of an output, and a file with all of it if it is too long to be held.
#[non_exhaustive]
pub struct HeldOutput {
    /// Beginning and end of the output.
    pub ends: OutputEnds,
    hash: blake3::Hasher,
    whole: Option<io::Result<NamedTempFile>>,
}

impl HeldOutput {
    /// Reads an output. One that is too long to be held is written to a file in `spill_dir` while it is read.
    pub fn read(
        mut input: impl Read,
        ends: OutputEnds,
        spill_dir: Option<&Path>,
        on_read: &dyn Fn(u64),
    ) -> io::Result<HeldOutput> {
        let mut held = HeldOutput { ends, hash: blake3::Hasher::new(), whole: None };
        let (mut piece, mut bytes) = (vec![0; PIECE], 0);
        loop {
            let count = match input.read(&mut piece) {
                Ok(0) => return Ok(held),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            held.add(&piece[..count], spill_dir);
            bytes += count as u64;
            on_read(bytes);
        }
    }

    fn add(&mut self, piece: &[u8], spill_dir: Option<&Path>) {
        self.hash.update(piece);
        // The next piece may be the one that no longer fits in memory.
        let long = self.ends.held().1.len() > PIECE;
        if let (None, Some(folder), true) = (&self.whole, spill_dir, long) {
            self.whole = Some(self.written(folder));
        }
        if let Some(Ok(file)) = &mut self.whole
            && let Err(error) = file.write_all(piece)
        {
            self.whole = Some(Err(error));
        }
        self.ends.push(piece);
    }

    /// Stores the full output. If that fails, the output is still truncated, and the error is in the result.
    pub fn spill(&mut self, folder: &Path) -> Spill {
        // Named by content, so that running twice creates one file.
        let path = folder.join(format!("{}.txt", self.hash.finalize().to_hex()));
        let whole = self.whole.take().unwrap_or_else(|| self.written(folder));
        match whole.and_then(|file| files::keep(file, &path, Existing::Replace)) {
            Ok(()) => Spill::Saved(Address::Path(path.display().to_string())),
            Err(error) => Spill::Failed(reason(&error)),
        }
    }

    /// Writes head and tail into a file.
    fn written(&self, folder: &Path) -> io::Result<NamedTempFile> {
        let mut file = files::private(folder)?;
        let (head, tail) = self.ends.held();
        file.write_all(head)?;
        file.write_all(tail)?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::HeldOutput;
    use plimsoll::Policy;
    use plimsoll::truncate::{Address, OutputEnds, Spill, plan};

    #[test]
    fn holding_both_ends_cuts_as_holding_everything() {
        let output: Vec<u8> = (0..60_000).flat_map(|n| format!("line {n}\n").into_bytes()).collect();
        let folder = tempfile::tempdir().unwrap();
        for preset in plimsoll::Preset::ALL {
            let policy: Policy = preset.policy();
            let ends = OutputEnds::holding(100_000);
            let mut held = HeldOutput::read(&output[..], ends, Some(folder.path()), &|_| {}).unwrap();
            assert!(!held.ends.is_whole() && held.ends.held().1.len() < 200_000, "something is not held");
            assert_eq!(held.ends.plan("bash", &policy), plan(&output, "bash", &policy), "{preset}");
            let Spill::Saved(Address::Path(path)) = held.spill(folder.path()) else { panic!("not saved") };
            assert!(std::fs::read(path).unwrap() == output);
        }
    }
}
