//! Directories whose files a checkout chose: endless devices, pipes without a writer, links.

use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;

use crate::support::TestServer;

/// Replacements of a file that a checkout can supply.
const KINDS: [&str; 6] = ["/dev/zero", "/dev/tty", "/proc/kmsg", "pipe", "directory", "large"];

fn place(path: &Path, kind: &str) {
    match kind {
        "pipe" => {
            let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
            assert!(made.success());
        }
        "directory" => std::fs::create_dir(path).unwrap(),
        // Sparse.
        "large" => std::fs::File::create(path).unwrap().set_len(6 << 30).unwrap(),
        device => symlink(device, path).unwrap(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_git_head_that_is_not_a_regular_file_shows_no_branch() {
    for kind in KINDS {
        let server = TestServer::start().await;
        std::fs::create_dir(server.root.join(".git")).unwrap();
        place(&server.root.join(".git/HEAD"), kind);
        assert_eq!(server.get("/vcs").await.ok(), json!({}), "{kind}");
    }
    let server = TestServer::start().await;
    std::fs::create_dir(server.root.join(".git")).unwrap();
    std::fs::write(server.root.join(".git/HEAD"), "ref: refs/heads/keel\n").unwrap();
    assert_eq!(server.get("/vcs").await.ok(), json!({ "branch": "keel" }));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attached_file_that_is_not_text_is_rejected() {
    for kind in KINDS {
        let server = TestServer::start().await;
        let id = server.session().await;
        let path = server.root.join("notes.txt");
        place(&path, kind);
        let url = format!("file://{}", path.display());
        let parts =
            json!([{ "type": "text", "text": "look" }, { "type": "file", "mime": "text/plain", "url": url }]);
        let answer = server.post(&format!("/session/{id}/message"), json!({ "parts": parts })).await;
        assert_eq!(answer.status, 400, "{kind}: {answer:?}");
        assert!(server.model.requests().is_empty(), "{kind}");
    }
}

/// The size of a `SKILL.md` must not decide how much memory its list takes.
#[tokio::test(flavor = "multi_thread")]
async fn the_text_of_a_large_skill_is_cut() {
    let server = TestServer::start().await;
    let head = "---\nname: tide\ndescription: Reads tables.\n---\n";
    let skill = |name: &str| {
        let folder = server.root.join(".plimsoll/skills").join(name);
        std::fs::create_dir_all(&folder).unwrap();
        folder.join("SKILL.md")
    };
    std::fs::write(skill("tide"), format!("{head}Look them up.\n")).unwrap();
    let large = skill("large");
    std::fs::write(&large, head.replace("tide", "large")).unwrap();
    std::fs::File::options().write(true).open(&large).unwrap().set_len(64 << 20).unwrap();
    for path in ["/skill", "/api/skill"] {
        let answer = server.get(path).await.ok();
        let skills = answer.as_array().or_else(|| answer["data"].as_array()).unwrap();
        let content = |name: &str| {
            let skill = skills.iter().find(|skill| skill["name"] == name).unwrap();
            skill["content"].as_str().unwrap().to_owned()
        };
        assert!(content("large").len() <= 200_000, "{path}: {}", content("large").len());
        assert_eq!(content("tide"), "Look them up.", "{path}");
    }
}

/// Every kind of file that is not text, in place of a `SKILL.md`.
#[tokio::test(flavor = "multi_thread")]
async fn a_skill_that_is_no_file_is_left_out() {
    let server = TestServer::start().await;
    for (number, kind) in KINDS.iter().enumerate() {
        let folder = server.root.join(format!(".claude/skills/{number}"));
        std::fs::create_dir_all(&folder).unwrap();
        place(&folder.join("SKILL.md"), kind);
    }
    assert_eq!(server.get("/skill").await.ok(), json!([]));
}
