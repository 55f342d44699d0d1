//! `plimsoll truncate`: a tool's output, cut as layer 1 would.

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use plimsoll::chars::thousands;
use plimsoll::truncate::{Address, OutputEnds, Spill, TruncatePlan};
use serde_json::json;
use tempfile::NamedTempFile;

use crate::args::TruncateArgs;
use crate::config::Config;
use crate::error::{CliError, reason};
use crate::files::{self, Existing};
use crate::output::{Output, note};
use crate::progress::Progress;
use crate::surroundings::Surroundings;

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
    let ends = OutputEnds::new(&args.tool, &policy);
    let mut held = Held::read(progress.reading(io::stdin().lock()), ends, spill_dir)?;
    drop(progress);
    let plan = held.ends.plan(&args.tool, &policy);
    let spill = match spill_dir {
        Some(folder) if plan.wants_spill() => held.spill(folder),
        _ => Spill::Off,
    };
    let shown = plan.render(&spill);
    if let Some(told) = dropped(&plan, &spill, args.spill_dir.is_some()) {
        note(&told);
    }
    if output.json {
        output.json(&json!({ "output": shown, "plan": plan, "spill": spill }))?;
    } else if plan.loses() {
        output.text(&shown)?;
    } else if output.is_terminal() {
        let (head, tail) = held.ends.held();
        output.text(&String::from_utf8_lossy(&[head, tail].concat()))?;
    } else {
        let (head, tail) = held.ends.held();
        output.bytes(head)?;
        output.bytes(tail)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What of an output is nowhere any more, and how to keep it the next time.
fn dropped(plan: &TruncatePlan, spill: &Spill, asked: bool) -> Option<String> {
    if !plan.loses() {
        return None;
    }
    let hint = match spill {
        Spill::Saved(_) => return None,
        Spill::Failed(why) => format!("the whole could not be kept: {why}"),
        Spill::Off if asked => "the policy keeps no outputs; `truncate.spill = true` does".to_owned(),
        Spill::Off => "`--spill-dir DIR` keeps the whole output".to_owned(),
    };
    let lines = plan.original_lines.saturating_sub(plan.kept_lines);
    let bytes = plan.original_bytes.saturating_sub(plan.kept_bytes);
    let mut lost = Vec::new();
    if lines > 0 || bytes > 0 {
        let of = |part, all| format!("{} of {}", thousands(part), thousands(all));
        lost.push(format!(
            "{} lines, {} bytes",
            of(lines, plan.original_lines),
            of(bytes, plan.original_bytes)
        ));
    }
    match plan.lines_shortened {
        0 => {}
        1 => lost.push("the end of 1 long line".to_owned()),
        several => lost.push(format!("the ends of {} long lines", thousands(several))),
    }
    if plan.lossy {
        lost.push("bytes that are not UTF-8".to_owned());
    }
    Some(format!("dropped: {}\nhint: {hint}", lost.join("; ")))
}

/// An output as far as it is held, and the whole of one that is too long for that.
struct Held {
    ends: OutputEnds,
    hash: blake3::Hasher,
    whole: Option<io::Result<NamedTempFile>>,
}

impl Held {
    /// Read everything; what is too long to be held goes into a file as it comes.
    fn read(mut input: impl Read, ends: OutputEnds, spill_dir: Option<&Path>) -> io::Result<Held> {
        let mut held = Held { ends, hash: blake3::Hasher::new(), whole: None };
        let mut piece = vec![0; PIECE];
        loop {
            let count = match input.read(&mut piece) {
                Ok(0) => return Ok(held),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            held.add(&piece[..count], spill_dir);
        }
    }

    fn add(&mut self, piece: &[u8], spill_dir: Option<&Path>) {
        self.hash.update(piece);
        // The next piece may be the one by which it is no longer whole.
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
        let (head, tail) = self.ends.held();
        file.write_all(head)?;
        file.write_all(tail)?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::Held;
    use plimsoll::Policy;
    use plimsoll::truncate::{Address, OutputEnds, Spill, plan};

    #[test]
    fn holding_both_ends_cuts_as_holding_everything() {
        let output: Vec<u8> = (0..60_000).flat_map(|n| format!("line {n}\n").into_bytes()).collect();
        let folder = tempfile::tempdir().unwrap();
        for preset in plimsoll::Preset::ALL {
            let policy: Policy = preset.policy();
            let ends = OutputEnds::holding(100_000);
            let mut held = Held::read(&output[..], ends, Some(folder.path())).unwrap();
            assert!(!held.ends.is_whole() && held.ends.held().1.len() < 200_000, "something is not held");
            assert_eq!(held.ends.plan("bash", &policy), plan(&output, "bash", &policy), "{preset}");
            let Spill::Saved(Address::Path(path)) = held.spill(folder.path()) else { panic!("not saved") };
            assert!(std::fs::read(path).unwrap() == output);
        }
    }
}
