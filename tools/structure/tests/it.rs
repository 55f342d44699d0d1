//! Runs the check on made-up workspaces.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use assert_cmd::Command;

const RULES: &str = "hosts = ['app', 'server']\nfor-tests = ['kit']\nonly-for = { shared = ['app'] }\n[only]\nengine = ['redact']\n";

/// Runs the check on a workspace with these files. Crates and rules that are not given get defaults.
fn report(files: &[(&str, &str)]) -> (bool, String) {
    let directory = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = directory.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("tools/structure/structure.toml", RULES);
    for name in ["app", "engine", "kit", "redact", "server", "shared"] {
        write(&format!("crates/{name}/Cargo.toml"), &manifest(name, ""));
        write(&format!("crates/{name}/src/lib.rs"), "");
    }
    for (path, text) in files {
        write(path, text);
    }
    let run = Command::new(env!("CARGO_BIN_EXE_structure")).arg(directory.path()).output().unwrap();
    assert!(run.status.code().is_some_and(|code| code < 2), "{}", String::from_utf8_lossy(&run.stdout));
    (run.status.success(), String::from_utf8(run.stdout).unwrap())
}

fn manifest(name: &str, dependencies: &str) -> String {
    format!("[package]\nname = '{name}'\n\n{dependencies}")
}

/// Runs the check on a crate `engine` with these source files.
fn report_on_source(files: &[(&str, &str)]) -> (bool, String) {
    let files: Vec<(String, &str)> =
        files.iter().map(|(path, text)| (format!("crates/engine/src/{path}"), *text)).collect();
    report(&files.iter().map(|(path, text)| (path.as_str(), *text)).collect::<Vec<_>>())
}

#[track_caller]
fn assert_rejected((passed, report): (bool, String), lines: &[&str]) {
    assert!(!passed, "{report}");
    for line in lines {
        assert!(report.lines().any(|found| found.trim() == *line), "{line} is missing in:\n{report}");
    }
}

#[test]
fn allowed_dependencies_pass() {
    let (passed, report) = report(&[
        ("crates/app/Cargo.toml", &manifest("app", "[dependencies]\nshared.workspace = true\n")),
        ("crates/shared/Cargo.toml", &manifest("shared", "[dependencies]\nengine = '1'\nserde = '1'\n")),
        (
            "crates/engine/Cargo.toml",
            &manifest("engine", "[dependencies]\nredact = '1'\n[dev-dependencies]\nkit = '1'\n"),
        ),
        ("crates/kit/Cargo.toml", &manifest("kit", "[dependencies]\nengine = '1'\n")),
        ("crates/engine/src/lib.rs", "mod a;\nmod b;\npub use b::B;\npub fn f() { a::f(); }\n"),
        ("crates/engine/src/a.rs", "use crate::B;\npub fn f() -> B { B }\n"),
        ("crates/engine/src/b/mod.rs", "mod c;\npub struct B;\n"),
        ("crates/engine/src/b/c.rs", "use super::B;\nimpl B { fn new() -> crate::b::B { B } }\n"),
    ]);
    assert!(passed, "{report}");
    assert!(report.contains("engine: 2 modules, 0 in cycles\n"), "{report}");
}

#[test]
fn a_cycle_of_crates_is_reported() {
    let on = |name| format!("[target.'cfg(unix)'.dependencies]\n{name} = {{ path = '..' }}\n");
    let renamed = "[build-dependencies]\nother = { package = 'engine', version = '1' }\n";
    let report = report(&[
        ("crates/engine/Cargo.toml", &manifest("engine", &on("redact"))),
        ("crates/redact/Cargo.toml", &manifest("redact", renamed)),
    ]);
    let lines = [
        "cycle of crates: engine -> redact -> engine",
        "crates/engine/Cargo.toml:5: `engine` uses `redact`",
        "crates/redact/Cargo.toml:5: `redact` uses `engine`",
    ];
    assert_rejected(report, &lines);
}

#[test]
fn a_host_may_only_be_used_by_the_crates_that_are_listed_for_it() {
    let rules = "hosts = ['app', 'server']\nonly-for = { server = ['app'] }\n";
    let on_server = |name, kind| manifest(name, &format!("[{kind}]\nserver = '1'\n"));
    let app = on_server("app", "dependencies");
    let (passed, text) =
        report(&[("tools/structure/structure.toml", rules), ("crates/app/Cargo.toml", &app)]);
    assert!(passed, "{text}");
    let engine = on_server("engine", "dev-dependencies");
    let report = report(&[("tools/structure/structure.toml", rules), ("crates/engine/Cargo.toml", &engine)]);
    let line = "crates/engine/Cargo.toml:5: `engine` depends on `server`: it is a host, which no other crate imports";
    assert_rejected(report, &[line]);
}

#[test]
fn forbidden_dependencies_are_reported() {
    let report = report(&[
        (
            "crates/redact/Cargo.toml",
            &manifest("redact", "[dependencies]\nshared = '1'\nkit = '1'\n[dev-dependencies]\napp = '1'\n"),
        ),
        ("crates/engine/Cargo.toml", &manifest("engine", "[dependencies]\nserver = '1'\n")),
        ("crates/shared/Cargo.toml", &manifest("shared", "[dependencies]\nredact = '1'\n")),
        ("tools/structure/structure.toml", &format!("{RULES}shared = ['engine']\nnone = []\n")),
    ]);
    let lines = [
        "crates/redact/Cargo.toml:5: `redact` depends on `shared`: it is for app only",
        "crates/redact/Cargo.toml:6: `redact` depends on `kit`: it is for tests, and belongs under `dev-dependencies`",
        "crates/redact/Cargo.toml:8: `redact` depends on `app`: it is a host, which no other crate imports",
        "crates/engine/Cargo.toml:5: `engine` depends on `server`: it is a host, which no other crate imports",
        "crates/shared/Cargo.toml:5: `shared` depends on `redact`: `only.shared` does not list it",
        "tools/structure/structure.toml: unknown crate `none`",
    ];
    assert_rejected(report, &lines);
}

/// Each of these is a way to use module `a` from `b`, on its second line.
#[test]
fn every_way_to_use_a_module_is_detected() {
    for user in [
        "\nuse crate::{a::X, c};",
        "\nuse super::a;",
        "\nfn f() { use crate::a::X; }",
        "\nfn f() { crate::a::f(); }",
        "\nfn f(x: &super::a::X) {}",
        "\nfn f() { g!(y: crate::a::X, 1) }",
        "\nfn f() { vec![[self::super::a::f()]]; }",
        "\n#[serde(with = \"crate::a\")] struct S;",
        "\nmod inner { fn f() { super::super::a::f() } }",
        "\nimpl crate::a::T for X {}",
        // Through re-exports of the root, or items that it defines with `a`.
        "\nuse crate::X;",
        "\nuse super::Renamed;",
        "\nfn f() { crate::Chained::new() }",
    ] {
        let report = report_on_source(&[
            (
                "lib.rs",
                "mod a;\nmod b;\nmod c;\npub use a::X;\npub use self::a::Y as Renamed;\npub use crate::Renamed as Chained;\n",
            ),
            ("a.rs", "use crate::b::Z;\npub struct X;\n"),
            ("b.rs", user),
            ("c.rs", ""),
        ]);
        let lines = [
            "cycle of modules in engine: a -> b -> a",
            "crates/engine/src/a.rs:1: `a` uses `b`",
            "crates/engine/src/b.rs:2: `b` uses `a`",
        ];
        assert_rejected(report, &lines);
    }
}

#[test]
fn a_cycle_through_items_of_the_root_is_reported() {
    let report = report_on_source(&[
        ("lib.rs", "mod a;\nuse a::X;\nuse std::fmt;\npub struct Root {\n    x: X,\n}\n"),
        ("a.rs", "pub struct X;\nfn f(root: &crate::Root) -> crate::fmt::Result {}\n"),
    ]);
    let lines = [
        "cycle of modules in engine: a -> lib.rs -> a",
        "crates/engine/src/a.rs:2: `a` uses `lib.rs`",
        "crates/engine/src/lib.rs:5: `lib.rs` uses `a`",
    ];
    assert_rejected(report, &lines);
}

#[test]
fn nested_modules_count_as_their_top_level_module() {
    let report = report_on_source(&[
        ("lib.rs", "mod a;\nmod b;\n"),
        ("a.rs", "mod deep;\n"),
        ("a/deep/mod.rs", "mod deeper;\n"),
        ("a/deep/deeper.rs", "\n\nfn f() { crate::b::f() }\n"),
        ("b/mod.rs", "mod inline { mod file; }\n"),
        ("b/inline/file.rs", "use crate::a;\n"),
    ]);
    let lines = [
        "crates/engine/src/a/deep/deeper.rs:3: `a` uses `b`",
        "crates/engine/src/b/inline/file.rs:1: `b` uses `a`",
    ];
    assert_rejected(report, &lines);
}

#[test]
fn tests_may_use_everything() {
    let (passed, report) = report_on_source(&[
        ("lib.rs", "mod a;\nmod b;\n#[cfg(test)]\nmod tests;\n"),
        ("a.rs", "use crate::b;\n#[cfg(test)]\nmod tests { use crate::c; }\n"),
        (
            "b.rs",
            "#[cfg(test)]\nuse crate::a;\nimpl X { #[cfg(test)] fn f() { crate::a::f() } }\n#[cfg(all(test, unix))]\nmod missing;\n",
        ),
    ]);
    assert!(passed, "{report}");
}

#[test]
fn paths_that_hide_a_dependency_are_rejected() {
    let report = report_on_source(&[("lib.rs", "mod a;\n"), ("a.rs", "use crate::*;\nuse crate::None;\n")]);
    let lines = [
        "crates/engine/src/a.rs:1: `crate::*` cannot be followed, because lib.rs does not name it",
        "crates/engine/src/a.rs:2: `crate::None` cannot be followed, because lib.rs does not name it",
    ];
    assert_rejected(report, &lines);
}
