//! Damaged databases and lost outputs: named, refused as exports, and salvaged.

use plimsoll::SessionId;
use plimsoll_store::{Claim, NewSession};
use rusqlite::Connection;
use serde_json::Value;

use crate::support::{Home, chat, now};

fn database(home: &Home) -> Connection {
    Connection::open(home.path.join(".local/share/plimsoll/plimsoll.db")).unwrap()
}

/// A stored session of a few messages.
fn stored(home: &Home) -> String {
    let path = home.write("chat.json", &chat(2));
    let printed = home.run(&["sessions", "import", path.to_str().unwrap()]);
    printed.lines().find(|line| line.starts_with("ses_")).unwrap().to_owned()
}

#[test]
fn an_export_of_a_damaged_part_is_refused_by_its_name_and_can_be_salvaged() {
    let home = Home::new();
    let id = stored(&home);
    let sound = home.json(&["sessions", "export", &id, "--to", "opencode-messages"]);
    let part: String = database(&home)
        .query_row("SELECT id FROM part WHERE text LIKE 'Next 1%'", [], |row| row.get(0))
        .unwrap();
    for damage in ["CAST(x'4e657874ff31' AS TEXT)", "'Next 2'"] {
        database(&home).execute(&format!("UPDATE part SET text = {damage} WHERE id = ?1"), [&part]).unwrap();
        for export in [&["sessions", "export", &id][..], &["convert", &id, "--to", "openai-chat"]] {
            let printed = home.run(export);
            assert!(printed.starts_with("exit: 3\n----- stdout -----\n----- stderr"), "{printed}");
            assert!(
                printed.contains(&format!("part `{part}` of message")) && printed.contains("is damaged"),
                "{printed}"
            );
            assert!(printed.contains("--salvage`"), "{printed}");
        }
        let check = home.run(&["sessions", "check"]);
        assert!(check.starts_with("exit: 1") && check.contains(&part), "{check}");
    }
    let out = home.path.join("rest.json");
    let salvage = ["sessions", "export", &id, "--salvage", "--to", "opencode-messages", "--json", "--out"];
    let output = home.command(&[&salvage[..], &[out.to_str().unwrap()]].concat(), &[]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(listed["damage"][0]["part"], part, "{listed}");
    assert!(String::from_utf8(output.stderr).unwrap().contains("1 problem in the exported session"));
    let salvaged: Value = serde_json::from_slice(&std::fs::read(out).unwrap()).unwrap();
    let mended = salvaged.to_string().replacen("\"text\":\"Next 2\"", "\"text\":\"Next 1\"", 1);
    assert_eq!(mended, sound.to_string());
}

#[test]
fn a_search_names_the_outputs_that_could_not_be_searched() {
    let home = Home::new();
    stored(&home);
    let archive = home.archive();
    let session = SessionId::new("ses_1");
    archive.store().create(NewSession::new(session.clone()), now()).unwrap();
    let mut handles = Vec::new();
    for n in 0..2 {
        let lines: String = (0..20_000).map(|line| format!("{n} needle {line}\n")).collect();
        let part = format!("prt_{n}");
        let taken = archive
            .take_output(
                &Claim::unleased(&session),
                &part.as_str().into(),
                "bash",
                &mut lines.as_bytes(),
                &plimsoll::Policy::default(),
                now(),
            )
            .unwrap();
        handles.push(taken.receipt.unwrap().handles[0].to_string());
    }
    drop(archive);
    let grep = ["recall", "--session", "ses_1", "--grep", "needle 19999$"];
    let none = ["recall", "--session", "ses_1", "--grep", "no such words"];
    assert!(home.run(&grep).starts_with("exit: 0") && home.run(&none).starts_with("exit: 1"));
    let is_blob = |path: &&std::path::PathBuf| path.extension().is_some_and(|ending| ending == "zst");
    let files = home.files();
    let blobs: Vec<_> = files.iter().filter(is_blob).collect();
    std::fs::remove_file(blobs[0]).unwrap();
    let mut bytes = std::fs::read(blobs[1]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 16;
    std::fs::write(blobs[1], bytes).unwrap();
    for command in [grep, none] {
        let printed = home.run(&command);
        assert!(
            printed.starts_with("exit: 3") && printed.contains("no searchable content matches"),
            "{printed}"
        );
        for handle in &handles {
            assert!(
                printed.contains(&format!("[not searched: {handle}: output of bash: its file")),
                "{printed}"
            );
        }
        let output = home.command(&[&command[..], &["--json"]].concat(), &[]).output().unwrap();
        let hits: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(3), "{hits}");
        let whys: Vec<&str> =
            hits.as_array().unwrap().iter().map(|hit| hit["unsearched"].as_str().unwrap()).collect();
        assert!(whys.iter().any(|why| why.contains("was removed")) && whys.len() == 2, "{whys:?}");
    }
}

#[test]
fn every_command_warns_of_a_lost_write_ahead_log_until_it_is_accepted() {
    let home = Home::new();
    let id = stored(&home);
    let directory = home.path.join(".local/share/plimsoll");
    let before = std::fs::read(directory.join("plimsoll.db")).unwrap();
    let pruned = home.run(&["prune", "--apply", "--session", &id, "--keep", "0", "--tool", "read"]);
    assert!(pruned.starts_with("exit: 0"), "{pruned}");
    // As if the process had been killed before the log was folded into the database, and the log had been deleted.
    std::fs::write(directory.join("plimsoll.db"), before).unwrap();
    for beside in ["plimsoll.db-wal", "plimsoll.db-shm"] {
        let _ = std::fs::remove_file(directory.join(beside));
    }
    for command in
        [&["sessions"][..], &["sessions"], &["sessions", "show", &id], &["inspect", "--session", &id]]
    {
        let printed = home.run(command);
        assert!(printed.contains("older than what had been acknowledged"), "{command:?}: {printed}");
        assert!(printed.contains("Some messages may be missing"), "{printed}");
        assert!(printed.contains("hint: run `plimsoll sessions check` for details"), "{printed}");
    }
    let check = home.run(&["sessions", "check"]);
    assert!(check.starts_with("exit: 1") && check.contains("are missing"), "{check}");
    assert!(check.contains("`plimsoll sessions check --accept-loss` to stop the warning"), "{check}");
    let accepted = home.run(&["sessions", "check", "--accept-loss"]);
    assert!(accepted.starts_with("exit: 0") && accepted.contains("1 loss accepted"), "{accepted}");
    assert!(!home.run(&["sessions"]).contains("acknowledged"));
    let check = home.run(&["sessions", "check"]);
    assert!(check.starts_with("exit: 0") && check.contains("no problems"), "{check}");
}
