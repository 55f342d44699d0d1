//! Each database has its own place for spills; nothing is lost when it is moved, copied, or upgraded.

use std::fs;

use plimsoll::{Millis, Policy, SessionId};
use plimsoll_store::{Archive, Claim, Durability, Scope, Sessions, SqliteStore};
use rusqlite::Connection;
use tempfile::TempDir;

use super::super::{NOW, blobs, session};
use super::{noise, open, take, take_all, whole};

const A_YEAR_LATER: Millis = Millis(NOW.0 + 365 * 86_400_000);

#[test]
fn a_sweep_of_one_database_does_not_touch_the_others_of_the_directory() {
    let directory = TempDir::new().unwrap();
    let (one, other) = (open(&directory.path().join("one.db")), open(&directory.path().join("other.db")));
    let id = session(one.store(), "ses_1");
    session(other.store(), "ses_1");
    let output = noise(3_000, 1);
    let kept = take(&one, &id, "prt_1", &output);
    take(&other, &id, "prt_1", &output);
    assert_eq!(blobs(directory.path()).len(), 2, "each has its own, also of the same content");
    other.remove(&Claim::unleased(&id), NOW).unwrap();
    other.sweep(A_YEAR_LATER).unwrap();
    assert_eq!(blobs(directory.path()).len(), 1);
    assert!(whole(&one, Scope::Session(&id), &kept).unwrap() == output.as_bytes());
    assert_eq!(one.check().unwrap().problems, Vec::<String>::new());
}

#[test]
fn a_database_that_is_moved_or_renamed_with_its_spills_finds_them() {
    let directory = TempDir::new().unwrap();
    let before = directory.path().join("before");
    fs::create_dir(&before).unwrap();
    let archive = open(&before.join("one.db"));
    let id = session(archive.store(), "ses_1");
    let output = noise(3_000, 1);
    let handle = take(&archive, &id, "prt_1", &output);
    drop(archive);
    fs::rename(before.join("one.db"), before.join("renamed.db")).unwrap();
    let archive = open(&before.join("renamed.db"));
    assert!(whole(&archive, Scope::Session(&id), &handle).unwrap() == output.as_bytes());
    drop(archive);
    let after = directory.path().join("after");
    fs::rename(&before, &after).unwrap();
    let archive = open(&after.join("renamed.db"));
    archive.sweep(A_YEAR_LATER).unwrap();
    assert!(whole(&archive, Scope::Session(&id), &handle).unwrap() == output.as_bytes());
    assert_eq!(blobs(directory.path()).len(), 1);
}

#[test]
fn a_copy_of_a_database_gets_its_own_place() {
    let directory = TempDir::new().unwrap();
    let (path, copied) = (directory.path().join("one.db"), directory.path().join("copy.db"));
    let archive = open(&path);
    let id = session(archive.store(), "ses_1");
    let output = noise(3_000, 1);
    let handle = take(&archive, &id, "prt_1", &output);
    drop(archive);
    fs::copy(&path, &copied).unwrap();
    let (archive, copy) = (open(&path), open(&copied));
    assert!(whole(&copy, Scope::Session(&id), &handle).unwrap() == output.as_bytes());
    archive.remove(&Claim::unleased(&id), NOW).unwrap();
    archive.sweep(A_YEAR_LATER).unwrap();
    assert!(whole(&copy, Scope::Session(&id), &handle).unwrap() == output.as_bytes());
    let again = open(&copied);
    assert!(whole(&again, Scope::Session(&id), &handle).unwrap() == output.as_bytes(), "and it stays so");
}

/// A link to a directory or to a database leads to the same database, whichever process uses which path.
#[cfg(unix)]
#[test]
fn a_database_that_is_reached_through_a_link_is_the_same_database() {
    use std::os::unix::fs::symlink;
    let directory = TempDir::new().unwrap();
    let real = directory.path().join("real");
    fs::create_dir(&real).unwrap();
    symlink(&real, directory.path().join("linked")).unwrap();
    let (path, in_linked) = (real.join("one.db"), directory.path().join("linked/one.db"));
    let elsewhere = directory.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let linked_file = elsewhere.join("two.db");
    symlink(&path, &linked_file).unwrap();
    // It is first opened through a link, before the file exists.
    let by_file = open(&linked_file);
    let id = session(by_file.store(), "ses_1");
    let (archive, by_directory) = (open(&path), open(&in_linked));
    let mut handles = Vec::new();
    for (number, writer) in [&archive, &by_directory, &by_file].into_iter().enumerate() {
        let output = noise(3_000, number as u64);
        let handle = take(writer, &id, &format!("prt_{number}"), &output);
        for reader in [&archive, &by_directory, &by_file] {
            assert!(whole(reader, Scope::Session(&id), &handle).unwrap() == output.as_bytes());
        }
        handles.push(handle);
    }
    assert!(
        open_read_only(&linked_file).session(&id).is_ok(),
        "its changes are still in the write-ahead log"
    );
    by_file.sweep(A_YEAR_LATER).unwrap();
    by_directory.sweep(A_YEAR_LATER).unwrap();
    assert!(handles.iter().all(|handle| whole(&archive, Scope::Session(&id), handle).is_ok()));
    assert_eq!(blobs(directory.path()).len(), 6, "three, and the same three through the linked directory");
    let names = |directory: &std::path::Path| {
        let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
        entries.map(|name| name.to_string_lossy().into_owned()).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(
        names(&elsewhere).into_iter().collect::<Vec<_>>(),
        ["two.db"],
        "nothing is created next to a link"
    );
    assert!(names(&real).contains("one.db-newest"));
}

/// A lost write-ahead log is detected through a link as well.
#[cfg(unix)]
#[test]
fn a_lost_write_ahead_log_is_noticed_through_a_link() {
    let directory = TempDir::new().unwrap();
    let (path, linked) = (directory.path().join("one.db"), directory.path().join("linked.db"));
    let old = directory.path().join("old.db");
    drop(open(&path));
    fs::copy(&path, &old).unwrap();
    let archive = open(&path);
    session(archive.store(), "ses_1");
    drop(archive);
    fs::copy(&old, &path).unwrap();
    std::os::unix::fs::symlink(&path, &linked).unwrap();
    assert!(open(&linked).loss.is_some());
}

fn open_read_only(path: &std::path::Path) -> SqliteStore {
    SqliteStore::open_read_only(path).unwrap()
}

/// Turns a database and its spills into those of an older version: all files in one directory, named by content only.
fn age(database: &std::path::Path, shared: &std::path::Path) {
    for blob in blobs(shared) {
        let name = blob.file_name().unwrap().to_str().unwrap().split(['-', '.']).next().unwrap().to_owned();
        fs::rename(&blob, shared.join(format!("{name}.zst"))).unwrap();
    }
    for entry in fs::read_dir(shared).unwrap().map(|entry| entry.unwrap().path()) {
        match entry.is_dir() {
            true => fs::remove_dir_all(entry).unwrap(),
            false if entry.extension().is_some_and(|ending| ending == "txt") => {
                fs::remove_file(entry).unwrap();
            }
            false => {}
        }
    }
    let connection = Connection::open(database).unwrap();
    connection
        .execute_batch(
            "UPDATE spill SET blob = hash, sum = NULL;
             UPDATE spill_place SET database = NULL, root = NULL, taken = NULL, sum = NULL",
        )
        .unwrap();
}

#[test]
fn the_shared_place_of_older_versions_is_taken_over_by_each_database() {
    let directory = TempDir::new().unwrap();
    let paths = [directory.path().join("one.db"), directory.path().join("other.db")];
    let output = noise(3_000, 1);
    let mut handle = String::new();
    let id = SessionId::new("ses_1");
    for path in &paths {
        let archive = open(path);
        session(archive.store(), "ses_1");
        handle = take(&archive, &id, "prt_1", &output);
    }
    let shared = directory.path().join("spill");
    paths.iter().for_each(|path| age(path, &shared));
    assert_eq!(blobs(&shared).len(), 1, "one file for both, as before");
    let one = open(&paths[0]);
    assert!(whole(&one, Scope::Session(&id), &handle).unwrap() == output.as_bytes());
    one.remove(&Claim::unleased(&id), NOW).unwrap();
    one.sweep(A_YEAR_LATER).unwrap();
    let other = open(&paths[1]);
    assert!(whole(&other, Scope::Session(&id), &handle).unwrap() == output.as_bytes());
    // A database that was opened no longer needs the shared place.
    fs::remove_file(blobs(&shared).into_iter().find(|path| path.parent() == Some(&shared)).unwrap()).unwrap();
    assert!(whole(&other, Scope::Session(&id), &handle).unwrap() == output.as_bytes());
    assert_eq!(other.check().unwrap().problems, Vec::<String>::new());
}

#[cfg(unix)]
#[test]
fn a_directory_of_another_program_is_refused_and_not_changed() {
    use std::os::unix::fs::PermissionsExt;
    let directory = TempDir::new().unwrap();
    let spill = directory.path().join("spill");
    fs::create_dir(&spill).unwrap();
    fs::write(spill.join("holiday.jpg"), "a photo").unwrap();
    fs::set_permissions(&spill, fs::Permissions::from_mode(0o755)).unwrap();
    let archive = open(&directory.path().join("plimsoll.db"));
    let id = session(archive.store(), "ses_1");
    let taken = take_all(&archive, &id, "prt_1", &noise(3_000, 1));
    let reason = taken.receipt.unwrap().reason;
    assert!(reason.contains("the rest is lost") && reason.contains("are not Plimsoll's"), "{reason}");
    archive.sweep(A_YEAR_LATER).unwrap();
    let names: Vec<_> = fs::read_dir(&spill).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["holiday.jpg"]);
    assert_eq!(fs::metadata(&spill).unwrap().permissions().mode() & 0o777, 0o755);
}

#[cfg(unix)]
#[test]
fn an_empty_directory_keeps_its_permissions_and_spills_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let directory = TempDir::new().unwrap();
    let spill = directory.path().join("spill");
    fs::create_dir(&spill).unwrap();
    fs::set_permissions(&spill, fs::Permissions::from_mode(0o755)).unwrap();
    let archive = open(&directory.path().join("plimsoll.db"));
    let id = session(archive.store(), "ses_1");
    take(&archive, &id, "prt_1", &noise(3_000, 1));
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let blob = blobs(&spill).remove(0);
    assert_eq!(mode(&spill), 0o755);
    assert_eq!(mode(blob.parent().unwrap().parent().unwrap()), 0o700);
}

#[test]
fn staged_content_stays_while_its_process_lives_however_old() {
    let directory = TempDir::new().unwrap();
    let archive = open(&directory.path().join("plimsoll.db"));
    let id = session(archive.store(), "ses_1");
    take(&archive, &id, "prt_1", &noise(3_000, 1));
    let own = blobs(directory.path())[0].parent().unwrap().parent().unwrap().to_path_buf();
    let staged = || {
        let names =
            fs::read_dir(&own).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with(".new-")).count()
    };
    fs::write(own.join(".new-dead"), "left behind").unwrap();
    let (send, mut receive) = std::io::pipe().map(|(receive, send)| (send, receive)).unwrap();
    std::thread::scope(|scope| {
        let (archive, id) = (&archive, &id);
        let taker = scope.spawn(move || {
            let (claim, policy) = (Claim::unleased(id), Policy::default());
            archive.take_output(&claim, &"prt_2".into(), "bash", &mut receive, &policy, NOW).unwrap()
        });
        let mut send = send;
        std::io::Write::write_all(&mut send, noise(100_000, 2).as_bytes()).unwrap();
        while staged() < 2 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        // A year later; the tool has printed nothing since.
        assert_eq!(archive.sweep(A_YEAR_LATER).unwrap().removed, 1, "only that of the dead");
        assert_eq!(staged(), 1);
        std::io::Write::write_all(&mut send, b"the end\n").unwrap();
        drop(send);
        let taken = taker.join().unwrap();
        let handle = super::handle(taken);
        let expected = noise(100_000, 2) + "the end\n";
        assert!(whole(archive, Scope::Session(id), &handle).unwrap() == expected.as_bytes());
    });
    assert_eq!(staged(), 0);
}

#[test]
fn a_blob_whose_process_died_before_its_row_is_swept_and_one_that_is_being_deleted_is_finished() {
    let directory = TempDir::new().unwrap();
    let archive = open(&directory.path().join("plimsoll.db"));
    let id = session(archive.store(), "ses_1");
    let handle = take(&archive, &id, "prt_1", &noise(3_000, 1));
    let file = blobs(directory.path()).remove(0);
    let stem = file.file_stem().unwrap().to_str().unwrap();
    let left = file.with_file_name(format!("{}-0123456789abcdef.zst", &stem[..64]));
    fs::copy(&file, &left).unwrap();
    assert_eq!(blobs(directory.path()).len(), 2);
    assert_eq!(archive.sweep(NOW).unwrap().removed, 1);
    assert_eq!(blobs(directory.path()), [file]);
    // The row was marked for deletion, and then the process died.
    let spill = super::super::spill(archive.store(), &handle);
    archive.store().expire_spills(None, Some(0), NOW, 1).unwrap();
    assert_eq!(archive.store().deleting(9).unwrap(), [spill.blob]);
    assert_eq!(archive.sweep(NOW).unwrap().removed, 1);
    assert_eq!(archive.store().deleting(9).unwrap(), Vec::<String>::new());
    assert!(blobs(directory.path()).is_empty());
}

/// The same content is stored repeatedly while it is removed and swept; a row never names a missing blob.
#[test]
fn content_that_is_added_during_its_removal_is_kept() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("plimsoll.db");
    let archive = open(&path);
    let ids: Vec<SessionId> = (0..3).map(|n| session(archive.store(), &format!("ses_{n}"))).collect();
    let output = noise(1_500, 1);
    std::thread::scope(|scope| {
        let archive = &archive;
        for id in &ids {
            let output = &output;
            scope.spawn(move || {
                for n in 0..15 {
                    let handle = take(archive, id, &format!("prt_{n}"), output);
                    match whole(archive, Scope::Session(id), &handle) {
                        Ok(found) => assert!(found == output.as_bytes()),
                        Err(plimsoll_store::StoreError::Expired { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        let other = Archive::open(&path, &Policy::default(), Durability::Process).unwrap();
        scope.spawn(move || {
            for _ in 0..60 {
                other.store().expire_spills(None, Some(0), NOW, 9).unwrap();
                other.sweep(NOW).unwrap();
            }
        });
    });
    assert_eq!(archive.check().unwrap().problems, Vec::<String>::new());
}

#[test]
fn spills_stay_with_their_session_and_the_oldest_expire_when_space_runs_out() {
    let directory = TempDir::new().unwrap();
    let mut archive = open(&directory.path().join("plimsoll.db"));
    let id = session(archive.store(), "ses_1");
    let (claim, policy) = (Claim::unleased(&id), Policy::default());
    let mut handles = Vec::new();
    for n in 0..4 {
        let (part, now) = (format!("prt_{n}").as_str().into(), Millis(NOW.0 + n));
        let taken = archive.take_output(&claim, &part, "bash", &mut noise(3_000, n).as_bytes(), &policy, now);
        handles.push(super::handle(taken.unwrap()));
    }
    assert_eq!(archive.sweep(A_YEAR_LATER).unwrap().expired, [], "by default they stay");
    let each = super::super::spill(archive.store(), &handles[0]).stored;
    archive.retention.max_bytes = Some(each * 5 / 2);
    let expired = archive.sweep(A_YEAR_LATER).unwrap().expired;
    let named: Vec<_> = expired.iter().map(|spill| (&spill.session, &spill.handle, spill.created)).collect();
    assert_eq!(named, [(&id, &handles[0], NOW), (&id, &handles[1], Millis(NOW.0 + 1))]);
    whole(&archive, Scope::Session(&id), &handles[2]).unwrap();
    archive.remove(&claim, NOW).unwrap();
    assert!(blobs(directory.path()).is_empty(), "they go with their session");
}

#[test]
fn a_list_of_blobs_comes_in_pages() {
    use plimsoll_store::{Blobs, Directory};
    let temporary = TempDir::new().unwrap();
    let directory = Directory::new(temporary.path().join("spill"), "1234");
    let mut names: Vec<String> = (0..30)
        .map(|n: u32| {
            let mut staged = directory.stage(&mut &n.to_le_bytes()[..]).unwrap();
            staged.put().unwrap();
            staged.blob().name.clone()
        })
        .collect();
    names.sort();
    let (mut found, mut after): (Vec<String>, Option<String>) = (Vec::new(), None);
    loop {
        let page = directory.list(after.as_deref(), 7).unwrap();
        assert!(page.len() <= 7);
        let Some(last) = page.last() else { break };
        after = Some(last.clone());
        found.extend(page);
    }
    assert_eq!(found, names);
}

/// The first outputs of several databases of a directory may arrive at the same moment: all of them are stored.
#[test]
fn a_place_is_claimed_by_many_processes_at_once() {
    use plimsoll_store::{Blobs, Directory};
    for _ in 0..150 {
        let temporary = TempDir::new().unwrap();
        let place = temporary.path().join("spill");
        let gate = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for n in 0..4 {
                let (place, gate) = (&place, &gate);
                scope.spawn(move || {
                    let directory = Directory::new(place, &format!("{n:04}"));
                    gate.wait();
                    directory.stage(&mut noise(10, n).as_bytes()).unwrap();
                });
            }
        });
    }
}
