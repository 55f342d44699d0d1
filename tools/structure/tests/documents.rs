//! Checks that `docs/INVARIANTS.md`, `docs/REQUIREMENTS.md` and other documents agree with the tests in the tree.
//!
//! A guard is written as a link, with the name of the test as its text and the file as its target. If a test is renamed, that
//! link is the only place to change.
#![allow(clippy::panic, clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const REQUIREMENTS: u32 = 160;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A test function, and whether a plain `cargo test` runs it.
#[derive(Debug, PartialEq)]
struct TestFunction {
    name: String,
    is_ignored: bool,
}

/// Finds test functions by their attributes.
///
/// This works on lines instead of a syntax tree, because the bodies of `proptest!` are not parsed.
fn test_functions(source: &str) -> Vec<TestFunction> {
    let (mut functions, mut attributes) = (Vec::new(), String::new());
    for line in source.lines().map(str::trim) {
        let signature = line.trim_start_matches("pub ").trim_start_matches("async ");
        if let Some(rest) = signature.strip_prefix("fn ") {
            let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
            let is_test = ["#[test]", "#[tokio::test", "#[rstest", "#[case"];
            if is_test.iter().any(|attribute| attributes.contains(attribute)) {
                let is_ignored = attributes.contains("#[ignore");
                functions.push(TestFunction { name: name.to_owned(), is_ignored });
            }
            attributes.clear();
        } else if line.is_empty() || line.ends_with('}') || line.ends_with(';') {
            attributes.clear();
        } else if !line.starts_with("//") {
            attributes.push_str(line);
        }
    }
    functions
}

/// Returns links from the name of a test to a Rust file, as pairs of name and path. Paths are relative to `docs`.
fn guards(text: &str) -> Vec<(&str, &str)> {
    let links = text.split("[`").skip(1);
    let parts = links.filter_map(|link| {
        let (name, rest) = link.split_once("`](")?;
        Some((name, rest.split_once(')')?.0))
    });
    // A link to a file has the path as its text.
    parts.filter(|(name, path)| path.ends_with(".rs") && !name.contains(['/', '.'])).collect()
}

/// Returns the rows of all tables, without headers.
fn rows(document: &str) -> Vec<&str> {
    let lines: Vec<&str> = document.lines().collect();
    let is_header = |at: usize| lines.get(at + 1).is_some_and(|next| next.starts_with("|---"));
    let rows = lines
        .iter()
        .enumerate()
        .filter(|(at, line)| line.starts_with('|') && !line.starts_with("|---") && !is_header(*at));
    rows.map(|(_, line)| *line).collect()
}

/// Returns the guards that do not exist or do not run.
fn check_guards(text: &str) -> Vec<String> {
    let problems = guards(text).into_iter().filter_map(|(name, path)| {
        let Ok(source) = fs::read_to_string(root().join("docs").join(path)) else {
            return Some(format!("`{name}`: file not found: {path}"));
        };
        match test_functions(&source).into_iter().find(|function| function.name == name) {
            None => Some(format!("no test `{name}` in {path}")),
            Some(function) if function.is_ignored => Some(format!("test `{name}` in {path} is ignored")),
            Some(_) => None,
        }
    });
    problems.collect()
}

/// Returns the rows of a document's tables that have no guard.
fn unguarded(document: &str) -> Vec<&str> {
    rows(document).into_iter().filter(|row| guards(row).is_empty()).collect()
}

/// Returns the requirements that the name of a test refers to: 12 and 13 for `r12_r13_golden`.
fn requirements_of(name: &str) -> impl Iterator<Item = u32> {
    name.split('_').filter_map(|word| {
        let digits = word.strip_prefix('r')?;
        digits.starts_with(|c: char| c.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
    })
}

/// Returns the problems of the list of requirements, given the names of all tests.
fn check_requirements(document: &str, tests: &[String]) -> Vec<String> {
    let listed: Vec<u32> = document
        .lines()
        .filter_map(|line| line.strip_prefix("- **R")?.split_once("**")?.0.parse().ok())
        .collect();
    let tested: BTreeSet<u32> = tests.iter().flat_map(|name| requirements_of(name)).collect();
    let mut problems = Vec::new();
    if listed != (1..=REQUIREMENTS).collect::<Vec<_>>() {
        problems.push(format!("requirements are not R1 to R{REQUIREMENTS} in order: {listed:?}"));
    }
    problems.extend(
        listed
            .iter()
            .filter(|number| !tested.contains(number))
            .map(|number| format!("R{number} has no test")),
    );
    let unknown = tests.iter().filter(|name| requirements_of(name).any(|number| !listed.contains(&number)));
    problems.extend(unknown.map(|name| format!("test `{name}` names an unknown requirement")));
    problems
}

fn rust_files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn all_tests() -> Vec<String> {
    let mut files = Vec::new();
    rust_files(&root().join("crates"), &mut files);
    let functions = files.iter().flat_map(|path| test_functions(&fs::read_to_string(path).unwrap()));
    functions.filter(|function| !function.is_ignored).map(|function| function.name).collect()
}

#[test]
fn every_invariant_has_a_guard() {
    let document = read("docs/INVARIANTS.md");
    assert_eq!(unguarded(&document), [""; 0]);
    assert!(rows(&document).len() >= 30, "the table was not recognised");
}

#[test]
fn every_guard_in_a_document_exists() {
    let mut checked = 0;
    for entry in fs::read_dir(root().join("docs")).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            let text = fs::read_to_string(&path).unwrap();
            let problems = check_guards(&text);
            assert!(problems.is_empty(), "{}:\n{}", path.display(), problems.join("\n"));
            checked += guards(&text).len();
        }
    }
    assert!(checked >= 60, "the links were not recognised");
}

#[test]
fn a_guard_that_does_not_exist_is_reported() {
    let this = "../tools/structure/tests/documents.rs";
    let document = format!(
        "| never | guard |\n|---|---|\n\
         | good | [`a_guard_that_does_not_exist_is_reported`]({this}) |\n\
         | renamed | [`made_up`]({this}) |\n\
         | not a test | [`all_tests`]({this}) |\n\
         | moved | [`made_up`](../made_up.rs) |\n\
         | unguarded | review |\n"
    );
    let expected = [
        format!("no test `made_up` in {this}"),
        format!("no test `all_tests` in {this}"),
        "`made_up`: file not found: ../made_up.rs".to_owned(),
    ];
    assert_eq!(check_guards(&document), expected);
    assert_eq!(unguarded(&document), ["| unguarded | review |"]);
}

#[test]
fn every_requirement_has_a_test_named_after_it() {
    let problems = check_requirements(&read("docs/REQUIREMENTS.md"), &all_tests());
    assert!(problems.is_empty(), "docs/REQUIREMENTS.md:\n{}", problems.join("\n"));
}

#[test]
fn a_requirement_without_a_test_is_reported() {
    let document: String = (1..=REQUIREMENTS).map(|number| format!("- **R{number}** Text.\n")).collect();
    let tests: Vec<String> =
        (1..=REQUIREMENTS).filter(|number| *number != 104).map(|number| format!("r{number}_name")).collect();
    assert_eq!(check_requirements(&document, &tests), ["R104 has no test"]);
    let with = |name: &str| check_requirements(&document, &[&tests[..], &[name.to_owned()]].concat());
    assert_eq!(with("rung_2_r103_r104_name"), [""; 0]);
    assert_eq!(with("r104_and_r161"), ["test `r104_and_r161` names an unknown requirement"]);
    let problems = check_requirements(&document.replace("- **R7** Text.\n", ""), &tests);
    assert!(
        problems.iter().any(|problem| problem.starts_with("requirements are not R1 to R160")),
        "{problems:?}"
    );
}

#[test]
fn test_functions_are_found_by_their_attributes() {
    let source = "
fn helper() {}

#[test]
fn plain() {}

#[tokio::test(flavor = \"multi_thread\")]
/// A comment.
async fn asynchronous() {}

#[rstest]
#[case::long(
    1,
)]
fn cases(#[case] value: u32) {}

proptest! {
    #[test]
    fn property(value in 0..9) {}
}

#[test]
#[ignore = \"slow\"]
fn ignored() {}
";
    let names: Vec<(String, bool)> =
        test_functions(source).into_iter().map(|function| (function.name, function.is_ignored)).collect();
    let expected =
        [("plain", false), ("asynchronous", false), ("cases", false), ("property", false), ("ignored", true)];
    assert_eq!(names, expected.map(|(name, is_ignored)| (name.to_owned(), is_ignored)));
}
