//! The full text of a truncated output as a plain file, as the token management guide specifies.

use std::path::PathBuf;

use plimsoll::{Millis, Policy, Preset, SessionId};
use plimsoll_store::{Archive, Durability, NewSession, PurgeTarget, Retention, Scope, Selection};
use tempfile::TempDir;

use crate::{NOW, unleased};

struct Place {
    archive: Archive,
    session: SessionId,
    directory: TempDir,
}

fn place() -> Place {
    let directory = TempDir::new().unwrap();
    let policy = Preset::Openfork.policy();
    let archive = Archive::open(directory.path().join("plimsoll.db"), &policy, Durability::Process).unwrap();
    let session = archive.store().create(NewSession::new("ses_1".into()), NOW).unwrap().id;
    Place { archive, session, directory }
}

impl Place {
    fn take(&self, output: &str, policy: &Policy, now: Millis) -> plimsoll_store::CapturedOutput {
        let (claim, mut output) = (unleased(&self.session), output.as_bytes());
        self.archive.take_output(&claim, &"prt_1".into(), "bash", &mut output, policy, now).unwrap()
    }

    /// The file that a notice names.
    fn file(&self, shown: &str) -> PathBuf {
        let notice = shown.lines().find_map(|line| line.strip_prefix("[Full output saved to: ")).unwrap();
        PathBuf::from(notice.strip_suffix(']').unwrap())
    }
}

#[test]
fn r135_r136_openfork_names_a_file_that_equals_the_output_with_the_hint_to_read_it() {
    let place = place();
    let output = "line of a build 🚢\n".repeat(5_000);
    let taken = place.take(&output, &Preset::Openfork.policy(), NOW);
    let path = place.file(&taken.shown);
    let end = format!(
        "[Full output saved to: {}]\n[Use 'read' tool with the path above to see full content]\n",
        path.display()
    );
    assert!(taken.shown.ends_with(&end), "{}", &taken.shown[taken.shown.len() - 400..]);
    assert!(path.starts_with(place.directory.path().join("spill")), "{}", path.display());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), output);
    // The receipt has the handle, so that recall works as for any other output.
    let handle = taken.receipt.unwrap().handles[0].to_string();
    let all = Selection { max_bytes: usize::MAX, ..Selection::default() };
    let whole = place.archive.recall(Scope::Session(&place.session), &handle, &all).unwrap().found;
    assert_eq!(whole.text() + "\n", output);
    // The same output again names the same file.
    assert_eq!(place.file(&place.take(&output, &Preset::Openfork.policy(), NOW).shown), path);
    assert!(path.exists());
    let handle_only = place.take(&"other\n".repeat(20_000), &Policy::default(), NOW);
    assert!(!handle_only.shown.contains("saved to"), "the default names a handle");
}

#[test]
fn r141_the_file_is_removed_with_its_output() {
    let mut place = place();
    let policy = Preset::Openfork.policy();
    place.archive.retention = Retention::GUIDE;
    let day = |day: u64| Millis(NOW.0 + day * 24 * 3_600_000);
    let old = place.file(&place.take(&"old\n".repeat(20_000), &policy, day(0)).shown);
    let new = place.file(&place.take(&"new\n".repeat(20_000), &policy, day(6)).shown);
    place.archive.sweep(day(8)).unwrap();
    assert_eq!((old.exists(), new.exists()), (false, true));
    place.archive.remove(&unleased(&place.session), day(8)).unwrap();
    place.archive.sweep(day(8)).unwrap();
    assert!(!new.exists(), "its session is gone");
}

#[test]
fn purged_content_is_not_left_in_a_file() {
    let place = place();
    let output = format!("{}the secret is hunter2-abc\n", "noise\n".repeat(20_000));
    let file = place.file(&place.take(&output, &Preset::Openfork.policy(), NOW).shown);
    let target = PurgeTarget::Match("hunter2-[a-z]+".into());
    place.archive.purge(&unleased(&place.session), &target, NOW).unwrap();
    assert!(!file.exists());
}

#[test]
fn a_session_sees_files_of_its_own_outputs_only() {
    let place = place();
    let file = place.file(&place.take(&"mine\n".repeat(20_000), &Preset::Openfork.policy(), NOW).shown);
    let file = file.canonicalize().unwrap();
    let other = place.archive.store().create(NewSession::new("ses_2".into()), NOW).unwrap().id;
    assert!(place.archive.is_spilled_file(&place.session, &file));
    assert!(!place.archive.is_spilled_file(&other, &file));
    for path in [file.with_file_name("spill_0123.txt"), file.with_extension("zst"), "/etc/passwd".into()] {
        assert!(!place.archive.is_spilled_file(&place.session, &path), "{}", path.display());
    }
}
