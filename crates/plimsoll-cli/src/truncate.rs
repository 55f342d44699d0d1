//! `plimsoll truncate`: a tool's output, cut as layer 1 would.

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use plimsoll::Policy;
use plimsoll::truncate::{Address, Spill, TruncatePlan};
use serde_json::json;
use tempfile::NamedTempFile;

use crate::args::TruncateArgs;
use crate::config::Config;
use crate::error::{CliError, reason};
use crate::files::{self, Existing};
use crate::output::Output;
use crate::progress::Progress;
use crate::surroundings::Surroundings;

/// So much of the beginning and of the end is held at most. It is far more than any sensible limit lets through, so
/// what lies between need only be counted and spilled.
const HELD: usize = 8 << 20;
const PIECE: usize = 1 << 16;

/// Cut what comes on standard input.
pub(crate) fn run(
    args: &TruncateArgs,
    around: &Surroundings,
    output: &mut Output,
) -> Result<ExitCode, CliError> {
    let policy = Config::load(&args.policy, around)?.policy;
    let spill_dir = args.spill_dir.as_deref().filter(|_| policy.truncate.spill);
    let progress = Progress::bytes("reading standard input", None);
    let mut held = Held::read(progress.reading(io::stdin().lock()), most_held(&policy), spill_dir)?;
    drop(progress);
    let plan = held.plan(&args.tool, &policy);
    let spill = match spill_dir {
        Some(folder) if plan.wants_spill() => held.spill(folder),
        _ => Spill::Off,
    };
    let shown = plan.render(&spill);
    if output.json {
        output.json(&json!({ "output": shown, "plan": plan, "spill": spill }))?;
    } else if plan.loses() {
        output.bytes(shown.as_bytes())?;
        if !shown.ends_with('\n') {
            output.bytes(b"\n")?;
        }
    } else {
        output.bytes(&held.head)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// How much of each end to hold. A policy that lets more through than [`HELD`] has everything held.
fn most_held(policy: &Policy) -> usize {
    let truncate = &policy.truncate;
    let tools = truncate.tool_limits.values().chain([&truncate.default_limit]).map(|chars| chars.0).max();
    // A char is at most three bytes of UTF-8.
    let by_tool = tools.unwrap_or_default().saturating_mul(3);
    let by_bytes = truncate.max_bytes;
    let most = if truncate.tool_limit_overrides_bytes { by_bytes.max(by_tool) } else { by_bytes };
    if most < HELD as u64 { HELD } else { usize::MAX }
}

/// An output as far as it is held, and what is known of the rest.
struct Held {
    head: Vec<u8>,
    tail: Vec<u8>,
    /// Bytes and newlines between head and tail.
    between: (u64, u64),
    hash: blake3::Hasher,
    /// The whole, once it is too long to be held.
    whole: Option<io::Result<NamedTempFile>>,
}

impl Held {
    /// Read everything, and hold at most twice `most` of it.
    fn read(mut input: impl Read, most: usize, spill_dir: Option<&Path>) -> io::Result<Held> {
        let mut held = Held {
            head: Vec::new(),
            tail: Vec::new(),
            between: (0, 0),
            hash: blake3::Hasher::new(),
            whole: None,
        };
        let mut piece = vec![0; PIECE];
        loop {
            let count = match input.read(&mut piece) {
                Ok(0) => return Ok(held),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            held.add(&piece[..count], most, spill_dir);
        }
    }

    fn add(&mut self, piece: &[u8], most: usize, spill_dir: Option<&Path>) {
        self.hash.update(piece);
        let (first, rest) = piece.split_at(piece.len().min(most.saturating_sub(self.head.len())));
        self.head.extend_from_slice(first);
        self.tail.extend_from_slice(rest);
        if let Some(Ok(file)) = &mut self.whole
            && let Err(error) = file.write_all(piece)
        {
            self.whole = Some(Err(error));
        }
        // Twice as much as needed, so that moving the rest to the front costs little.
        if self.tail.len() >= most.saturating_mul(2) {
            if let (None, Some(folder)) = (&self.whole, spill_dir) {
                self.whole = Some(self.written(folder));
            }
            let gone = self.tail.len() - most;
            self.between.0 += gone as u64;
            self.between.1 += self.tail.drain(..gone).filter(|byte| *byte == b'\n').count() as u64;
        }
    }

    /// What stays of it. What is between the ends changes nothing but the counts.
    fn plan(&self, tool: &str, policy: &Policy) -> TruncatePlan {
        if self.tail.is_empty() {
            return plimsoll::truncate::plan(&self.head, tool, policy);
        }
        let ends = [self.head.as_slice(), &self.tail].concat();
        let mut plan = plimsoll::truncate::plan(&ends, tool, policy);
        plan.original_bytes += self.between.0;
        plan.original_lines += self.between.1;
        plan
    }

    /// Keep the whole. Where that fails, the output is still cut and says that the rest is lost.
    fn spill(&mut self, folder: &Path) -> Spill {
        // Named by content, so that running twice keeps one file.
        let path = folder.join(format!("{}.txt", self.hash.finalize().to_hex()));
        let whole = self.whole.take().unwrap_or_else(|| self.written(folder));
        match whole.and_then(|file| files::keep(file, &path, Existing::Replace)) {
            Ok(()) => Spill::Saved(Address::Path(path.display().to_string())),
            Err(error) => Spill::Failed(reason(&error)),
        }
    }

    /// Head and tail in a file.
    fn written(&self, folder: &Path) -> io::Result<NamedTempFile> {
        let mut file = files::private(folder)?;
        file.write_all(&self.head)?;
        file.write_all(&self.tail)?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::Held;
    use plimsoll::Policy;
    use plimsoll::truncate::{Address, Spill, plan};

    #[test]
    fn holding_both_ends_cuts_as_holding_everything() {
        let output: Vec<u8> = (0..60_000).flat_map(|n| format!("line {n}\n").into_bytes()).collect();
        let folder = tempfile::tempdir().unwrap();
        for preset in plimsoll::Preset::ALL {
            let policy: Policy = preset.policy();
            let mut held = Held::read(&output[..], 100_000, Some(folder.path())).unwrap();
            assert!(held.between.0 > 100_000 && held.tail.len() < 200_000, "something is not held");
            assert_eq!(held.plan("bash", &policy), plan(&output, "bash", &policy), "{preset}");
            let Spill::Saved(Address::Path(path)) = held.spill(folder.path()) else { panic!("not saved") };
            assert!(std::fs::read(path).unwrap() == output);
        }
    }
}
