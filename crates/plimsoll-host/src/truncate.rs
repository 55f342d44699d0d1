//! Truncation of a tool's output by the rules of layer 1, in bounded memory.

use std::io::{self, Read, Write};
use std::path::Path;

use plimsoll::truncate::{Address, OutputEnds, Spill};
use tempfile::NamedTempFile;

use crate::error::reason;
use crate::files::{self, Existing};

/// Number of bytes per read.
const PIECE: usize = 1 << 16;

/// Beginning and end of an output, and a file with the full output if it is too long for memory.
#[non_exhaustive]
pub struct HeldOutput {
    /// Beginning and end of the output.
    pub ends: OutputEnds,
    hash: blake3::Hasher,
    whole: Option<io::Result<NamedTempFile>>,
}

impl HeldOutput {
    /// Reads an output. If it is too long for memory, it is written to a file in `spill_dir` during the read.
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
        // Before the piece is added: after that, the middle of the output may no longer be in memory.
        let long = self.ends.held().1.len() > PIECE;
        if let (None, Some(directory), true) = (&self.whole, spill_dir, long) {
            self.whole = Some(self.written(directory));
        }
        if let Some(Ok(file)) = &mut self.whole
            && let Err(error) = file.write_all(piece)
        {
            self.whole = Some(Err(error));
        }
        self.ends.push(piece);
    }

    /// Stores the full output. If that fails, the output is still truncated, and the error is in the result.
    pub fn spill(&mut self, directory: &Path) -> Spill {
        // Named by its content, so that the same output is stored only once.
        let path = directory.join(format!("{}.txt", self.hash.finalize().to_hex()));
        let whole = self.whole.take().unwrap_or_else(|| self.written(directory));
        match whole.and_then(|file| files::keep(file, &path, Existing::Replace)) {
            Ok(()) => Spill::Saved(Address::Path(path.display().to_string())),
            Err(error) => Spill::Failed(reason(&error)),
        }
    }

    /// Writes the parts that are in memory to a new file.
    fn written(&self, directory: &Path) -> io::Result<NamedTempFile> {
        let mut file = files::private(directory)?;
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
        let directory = tempfile::tempdir().unwrap();
        for preset in plimsoll::Preset::ALL {
            let policy: Policy = preset.policy();
            let ends = OutputEnds::holding(100_000);
            let mut held = HeldOutput::read(&output[..], ends, Some(directory.path()), &|_| {}).unwrap();
            assert!(!held.ends.is_whole() && held.ends.held().1.len() < 200_000, "something is not held");
            assert_eq!(held.ends.plan("bash", &policy), plan(&output, "bash", &policy), "{preset}");
            let Spill::Saved(Address::Path(path)) = held.spill(directory.path()) else { panic!("not saved") };
            assert!(std::fs::read(path).unwrap() == output);
        }
    }
}
