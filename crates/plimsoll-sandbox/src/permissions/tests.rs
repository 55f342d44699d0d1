//! Calls that rules allow, and ways to evade them.

use std::path::{Path, PathBuf};

use super::suggest::rule_for;
use super::{
    Access, Action, EffectiveRules, PermissionRequest, PermissionRule, Permissions, Subject, parse_allow,
};

fn decide(
    permissions: &Permissions,
    tool: &str,
    access: Access,
    subject: &Subject,
    project: &Path,
) -> Action {
    EffectiveRules::new(permissions).decide(PermissionRequest::new(tool, access, subject, project))
}

fn allowed(rules: &[&str], tool: &str, access: Access, subject: &Subject) -> bool {
    let permissions =
        Permissions { rules: rules.iter().map(|rule| parse_allow(rule, None).unwrap()).collect() };
    decide(&permissions, tool, access, subject, Path::new("/project")) == Action::Allow
}

/// Rule that an answer about such a call adds.
fn remembered_rule(tool: &str, subject: &Subject, project: &Path) -> PermissionRule {
    PermissionRule::remembered_for(PermissionRequest::new(tool, Access::Act, subject, project))
}

fn path(path: &str) -> Subject {
    Subject::Path { named: PathBuf::from(path), real: PathBuf::from(path) }
}

fn command(command: &str) -> Subject {
    Subject::Command(command.into())
}

#[test]
fn only_reading_in_the_project_is_allowed_by_default() {
    assert!(allowed(&[], "read", Access::Read, &path("/project/src/a.rs")));
    assert!(!allowed(&[], "read", Access::Read, &path("/etc/passwd")));
    assert!(!allowed(&[], "read", Access::Read, &path("/project-two/a.rs")));
    assert!(!allowed(&[], "bash", Access::Act, &command("ls")));
    assert!(allowed(&[], "recall", Access::Session, &Subject::None));
}

#[test]
fn a_bare_tool_does_not_open_the_disk_for_reading() {
    assert!(!allowed(&["read"], "read", Access::Read, &path("/etc/passwd")));
    assert!(allowed(&["read:/etc/*"], "read", Access::Read, &path("/etc/passwd")));
    assert!(allowed(&["read:/etc/*"], "read", Access::Read, &path("/etc")));
    assert!(allowed(&["external_directory:/etc/*"], "read", Access::Read, &path("/etc/passwd")));
    assert!(allowed(&["all"], "read", Access::Read, &path("/etc/passwd")));
    assert!(!allowed(&["read:/etc/*.conf"], "read", Access::Read, &path("/etc/passwd")));
    assert!(allowed(&["read:/etc/*"], "list", Access::Read, &path("/project")));
}

#[test]
fn a_pattern_for_a_command_allows_one_command_only() {
    let git = |line| allowed(&["bash:git *"], "bash", Access::Act, &command(line));
    assert!(git("git status") && git("git log --oneline -5"));
    assert!(!git("git status; rm -r .") && !git("git log | sh") && !git("git $(rm -r .)") && !git("gitk"));
    assert!(allowed(&["bash"], "bash", Access::Act, &command("git status; ls | wc")));
}

#[test]
fn the_last_rule_that_matches_decides() {
    let mut deny = parse_allow("bash:rm *", None).unwrap();
    deny.action = Action::Deny;
    let permissions = Permissions { rules: vec![parse_allow("all", None).unwrap(), deny] };
    let decide = |line| decide(&permissions, "bash", Access::Act, &command(line), Path::new("/project"));
    assert_eq!(decide("ls"), Action::Allow);
    for line in ["rm a", "ls; rm a", "rm\t-r a", "\"rm\" a", "r\\m a", "true && rm a; true", "rm  a; true"] {
        assert_eq!(decide(line), Action::Deny, "{line}");
    }
}

#[test]
fn a_denied_name_stays_denied_if_it_is_a_link() {
    let mut deny = parse_allow("read:secrets/*", None).unwrap();
    deny.action = Action::Deny;
    let permissions = Permissions { rules: vec![deny] };
    let linked = Subject::Path { named: "/project/secrets/key".into(), real: "/project/vault/key".into() };
    let found = decide(&permissions, "read", Access::Read, &linked, Path::new("/project"));
    assert_eq!(found, Action::Deny);
}

/// `git` takes any directory with a `HEAD`, `objects` and `refs` for a repository, and runs programs that its `config`
/// names.
#[test]
fn a_rule_for_all_files_does_not_open_repositories_of_any_name() {
    let project = tempfile::tempdir().unwrap();
    let project = project.path();
    let permissions = Permissions { rules: vec![parse_allow("write", None).unwrap()] };
    let decide = |name: &str| {
        let at = project.join(name);
        decide(&permissions, "write", Access::Act, &path(at.to_str().unwrap()), project)
    };
    assert_eq!(decide("docs/config"), Action::Allow);
    assert_eq!(decide("docs/HEAD"), Action::Ask, "makes the directory a repository");
    for (directory, others) in [("bare", ["objects", "refs"]), ("linked", ["commondir", "hooks"])] {
        std::fs::create_dir(project.join(directory)).unwrap();
        std::fs::write(project.join(directory).join("HEAD"), "ref: refs/heads/main").unwrap();
        for other in others {
            std::fs::create_dir(project.join(directory).join(other)).unwrap();
        }
        assert_eq!(decide(&format!("{directory}/config")), Action::Ask);
        assert_eq!(decide(&format!("{directory}/hooks/pre-commit")), Action::Ask);
    }
    assert_eq!(decide("src/main.rs"), Action::Allow);
}

#[test]
fn an_invalid_rule_is_rejected() {
    for bad in ["", ":git", "bash:", "ba sh", "b/a"] {
        assert!(parse_allow(bad, None).is_err(), "{bad}");
    }
    assert_eq!(parse_allow("all", None).unwrap().tool, "*");
    assert_eq!(parse_allow("read:/etc/", None).unwrap().pattern, "/etc/*");
    let home = Some(Path::new("/home/me"));
    assert_eq!(parse_allow("read:~/x/*", home).unwrap().pattern, "/home/me/x/*");
}

/// Decision of rules in this order; `!` marks a denial, `?` a question.
fn judged(rules: &[&str], tool: &str, access: Access, subject: &Subject) -> Action {
    let parse = |text: &&str| {
        let (action, text) = match text.split_at(1) {
            ("!", rest) => (Action::Deny, rest),
            ("?", rest) => (Action::Ask, rest),
            _ => (Action::Allow, *text),
        };
        PermissionRule { action, ..parse_allow(text, None).unwrap() }
    };
    let permissions = Permissions { rules: rules.iter().map(parse).collect() };
    decide(&permissions, tool, access, subject, Path::new("/project"))
}

#[test]
fn no_notation_of_a_line_evades_an_allowed_pattern() {
    let run = |rule, line| judged(&[rule], "bash", Access::Act, &command(line));
    for line in [
        "git status; rm a",
        "git status && rm a",
        "git status || rm a",
        "git status | sh",
        "git status & rm a",
        "git $(rm a)",
        "git `rm a`",
        "git status\nrm a",
        "git status\r\nrm a",
        "git status > ~/.bashrc",
        "git < /etc/passwd",
        "git ${X:-$(rm a)}",
        "git $X",
        "git {status,log}",
        "(git status; rm a)",
        "git <(rm a)",
        "X=1 git status",
        "PATH=. git status",
        "GIT_SSH_COMMAND=evil git fetch",
        "env git status",
        "bash -c 'git status'",
        "eval git status",
        "command git status",
        "./git status",
        "/tmp/git status",
        "gitevil status",
        "\"git\" status",
        "g\\it status",
        "sudo git status",
        "exec git status",
        "! git status",
        ". git status",
        "if git status",
        "git\tstatus",
    ] {
        assert_eq!(run("bash:git *", line), Action::Ask, "{line}");
    }
    // A star in the middle matches arguments of one command, not another command.
    assert_eq!(run("bash:cargo * --offline", "cargo test --offline"), Action::Allow);
    for line in [
        "cargo x; rm a --offline",
        "cargo x\nrm a --offline",
        "cargo $(rm a) --offline",
        "cargo | sh --offline",
    ] {
        assert_eq!(run("bash:cargo * --offline", line), Action::Ask, "{line}");
    }
    // A line that is allowed literally is not allowed in any other form.
    assert_eq!(run("bash:a; b *", "a; b *"), Action::Allow);
    assert_eq!(run("bash:a; b *", "a; b c"), Action::Ask);
}

#[test]
fn a_denied_command_is_known_in_many_clothes() {
    let run = |rule, line| judged(&["bash", rule], "bash", Access::Act, &command(line));
    for line in [
        "rm a",
        "  rm a",
        "ls; rm a",
        "ls && rm a",
        "ls | rm a",
        "ls & rm a",
        "ls\nrm a",
        "$(rm a)",
        "`rm a`",
        "(rm a)",
        "{ rm a; }",
        "{rm,a}",
        "X=1 rm a",
        "/bin/rm a",
        "../bin/rm a",
        "sudo rm a",
        "env rm a",
        "env X=1 rm a",
        "bash -c 'rm a'",
        "bash -c \"rm a\"",
        "sh -c rm\\ a",
        "eval 'rm a'",
        "eval rm a",
        "\\rm a",
        "'rm' a",
        "r''m a",
        "r\"\"m a",
        "r\\m a",
        "r\\\nm a",
        "rm\\\n a",
        "rm${IFS}a",
        "rm$IFS-r a",
        "rm\ta",
        "rm",
        "xargs rm",
        "if rm a; then",
        "find . -exec rm {} +",
        "nohup rm a &",
        "command rm a",
        "exec rm a",
        "time rm a",
        "! rm a",
        "a=$(rm b)",
        "x=`rm b`",
    ] {
        assert_eq!(run("!bash:rm *", line), Action::Deny, "{line}");
        assert_eq!(run("?bash:rm *", line), Action::Ask, "{line}");
    }
    for line in ["echo confirm it", "cargo perform x", "ls rm.txt", "my-rm x", "cat farm yard"] {
        assert_eq!(run("!bash:rm *", line), Action::Allow, "{line}");
    }
    assert_eq!(run("!bash:curl * | sh", "curl x.sh  |  sh"), Action::Deny, "across commands too");
    assert_eq!(run("!bash:git push *", "cd x && git  push -f"), Action::Deny);
}

#[test]
fn a_lasting_permission_covers_no_more_than_the_question() {
    let always = |line: &str| remembered_rule("bash", &command(line), Path::new("/project")).pattern;
    assert_eq!(always("ls src"), "ls *");
    assert_eq!(always("cargo test -q"), "cargo test *");
    assert_eq!(always("git status"), "git status *");
    // Programs that run their arguments are never allowed by their name.
    for line in [
        "X=1 rm a",
        "bash -c ls",
        "/bin/bash -c ls",
        "\"bash\" -c ls",
        "env ls",
        "sudo ls",
        "python3 x.py",
        "xargs ls",
        "timeout 5 ls",
        "find . -name x",
        "eval ls",
        ". ./env",
        "source ./env",
        "nohup ls",
        "a; b",
        "ls > x",
        "$(ls)",
        "git -c alias.x=!rm x",
        "git",
        "make test",
        "npm run build",
        "python3.12 x.py",
        "sed -n 1p a.txt",
        "awk 1 a.txt",
        "flock lock ls",
        "taskset 1 ls",
        "rsync a b",
        "vim a.txt",
        "less a.txt",
        "man ls",
        "ssh host",
        "socat - x",
        "sort a.txt",
        "rg x",
        "git fetch origin",
        "git grep x",
        "git rebase main",
        "git push",
        "git log --output=x",
        "cargo run -q",
        "cargo install x",
        "go build",
        "kubectl get pods",
        "gh pr list",
        // Nor are programs that remove or overwrite files named by arguments.
        "rm a.txt",
        "mv a b",
        "cp a b",
        "tee a",
        "git checkout a.txt",
        "git branch -d x",
        // Nor is anything but a plain name, because it may be another program.
        "./ls",
        "/bin/ls",
        "a-program-that-is-not-known x",
    ] {
        assert_eq!(always(line), line);
        let rule = PermissionRule {
            action: Action::Allow,
            ..remembered_rule("bash", &command(line), Path::new("/project"))
        };
        let permissions = Permissions { rules: vec![rule] };
        let may =
            |line: &str| decide(&permissions, "bash", Access::Act, &command(line), Path::new("/project"));
        assert_eq!(may(line), Action::Allow, "{line}");
        assert_eq!(may(&format!("{line} && rm x")), Action::Ask, "{line}");
        assert_eq!(may(&format!("{line}x")), Action::Ask, "{line}");
    }
    // Agreeing to one use of a harmless program does not cover options that write files or run programs.
    let rule = remembered_rule("bash", &command("git log -1"), Path::new("/project"));
    assert_eq!(rule.pattern, "git log *");
    let permissions = Permissions { rules: vec![rule] };
    let may = |line: &str| decide(&permissions, "bash", Access::Act, &command(line), Path::new("/project"));
    assert_eq!((may("git log --oneline -5"), may("git log --text src")), (Action::Allow, Action::Allow));
    for line in [
        "git log --output=x",
        "git log --outp x",
        "git log '--out'put=x",
        "git log --ext-diff",
        "git log --textconv",
        "git log -1 *",
    ] {
        assert_eq!(may(line), Action::Ask, "{line}");
    }
    // A star in a file name is literal.
    assert_eq!(always("git add *.rs"), "git add ?.rs");
    assert_eq!(always("bash -c 'rm *'"), "bash -c 'rm ?'");
    assert_eq!(
        rule_for(PermissionRequest::new("write", Access::Act, &path("/project/*"), Path::new("/project")))
            .pattern,
        "?"
    );
}

#[test]
fn an_opened_place_outside_is_open_only_for_permitted_tools() {
    let (inside, outside) = (path("/project/a"), path("/etc/a"));
    let read = |rules: &[&str], place: &Subject| judged(rules, "read", Access::Read, place);
    let write = |rules: &[&str], place: &Subject| judged(rules, "write", Access::Act, place);
    let open = "external_directory";
    assert_eq!((read(&[open], &outside), write(&[open], &outside)), (Action::Allow, Action::Ask));
    assert_eq!((read(&[open], &inside), write(&[open], &inside)), (Action::Allow, Action::Ask));
    assert_eq!(write(&["write"], &outside), Action::Ask, "a rule for a tool does not open the whole disk");
    assert_eq!(write(&["write", open], &outside), Action::Allow, "both together");
    assert_eq!(write(&["?write", open], &outside), Action::Ask);
    assert_eq!(write(&["!write", open], &outside), Action::Deny);
    assert_eq!(read(&["!read", open], &outside), Action::Deny);
    assert_eq!(read(&["read", "!external_directory"], &outside), Action::Deny);
    assert_eq!(read(&["!external_directory", "read"], &outside), Action::Deny);
    assert_eq!(read(&["!external_directory", "read:/etc/*"], &outside), Action::Allow, "named, and last");
    assert_eq!(read(&["read:/etc/*", "!external_directory:/etc/*"], &outside), Action::Deny);
    assert_eq!(read(&[open, "!read:*.key"], &path("/etc/x.key")), Action::Deny);
    assert_eq!(write(&["all"], &outside), Action::Allow, "a rule for everything does");
    assert_eq!(write(&["all", "?write"], &outside), Action::Ask);
}

#[test]
fn patterns_match_an_address_from_its_beginning() {
    let fetch =
        |rule, address: &str| judged(&[rule], "webfetch", Access::Act, &Subject::Address(address.into()));
    let rule = "webfetch:https://docs.rs/*";
    assert_eq!(fetch(rule, "https://docs.rs/x"), Action::Allow);
    for address in [
        "http://docs.rs/x",
        "https://docs.rs.evil.example/",
        "https://docs.rs@evil.example/",
        "https://evil.example/https://docs.rs/",
        "https://docs.rs:444/x",
    ] {
        assert_eq!(fetch(rule, address), Action::Ask, "{address}");
    }
}

#[test]
fn files_that_decide_what_runs_later_are_opened_only_by_name() {
    let write = |rules: &[&str], place: &str| judged(rules, "write", Access::Act, &path(place));
    for place in [
        "/project/.git/hooks/pre-commit",
        "/project/module/.git/config",
        "/project/.plimsoll/skills/a/SKILL.md",
        "/project/plimsoll.toml",
        "/project/sub/opencode.json",
        "/project/AGENTS.md",
        "/elsewhere/.git/config",
    ] {
        for rules in [&["write"][..], &["all"], &["write:*", "external_directory"], &["write:/*"]] {
            assert_eq!(write(rules, place), Action::Ask, "{place} under {rules:?}");
        }
        let named = format!("write:{}", place.trim_start_matches("/project/"));
        assert_eq!(write(&[&named], place), Action::Allow, "{place}");
        // A following rule for everything removes no permission.
        assert_eq!(write(&[&named, "write"], place), Action::Allow, "{place}");
        assert_eq!(write(&[&named, "!write"], place), Action::Deny, "{place}");
        assert_eq!(
            judged(&[], "read", Access::Read, &path(&place.replace("/elsewhere", "/project"))),
            Action::Allow
        );
    }
    assert_eq!(write(&["write:.git/*"], "/project/.git/config"), Action::Allow);
    assert_eq!(write(&["write:.*"], "/project/.git/config"), Action::Ask);
    assert_eq!(write(&["write"], "/project/src/a.rs"), Action::Allow);
    // By either of its names.
    for (named, real) in [("/project/x", "/project/.git/config"), ("/project/.git/x", "/project/x")] {
        let linked = Subject::Path { named: named.into(), real: real.into() };
        assert_eq!(judged(&["write"], "write", Access::Act, &linked), Action::Ask, "{named}");
    }
    // A project inside such a directory is still a project.
    let inner = Path::new("/home/.claude/worktrees/x");
    let rules = Permissions { rules: vec![parse_allow("write", None).unwrap()] };
    let file = path("/home/.claude/worktrees/x/src/a.rs");
    assert_eq!(decide(&rules, "write", Access::Act, &file, inner), Action::Allow);
    // A lasting permission covers only that file.
    let always = remembered_rule("write", &path("/project/.git/config"), Path::new("/project"));
    assert_eq!(always.pattern, ".git/config");
}
