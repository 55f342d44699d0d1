//! Checks that dependencies point one way: between the crates of the workspace, and between the top-level modules of each crate.
//!
//! `cargo run -p structure` checks this workspace, `structure DIRECTORY` another one. The map is `structure.toml`. Violations are
//! printed with file and line, and the exit code is 1.

mod crates;
mod graph;
mod modules;
mod rules;
mod source;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rules::Rules;

fn main() -> ExitCode {
    let root = std::env::args_os().nth(1).map(PathBuf::from);
    let root = root.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    let (report, code) = match check(&root) {
        Ok(report) => report,
        Err(error) => (format!("error: {error}\n"), 2),
    };
    // The exit code is the result even if nothing reads the report.
    let _ = io::stdout().write_all(report.as_bytes());
    ExitCode::from(code)
}

/// Returns what to print, and the exit code.
fn check(root: &Path) -> Result<(String, u8), String> {
    let rules = Rules::read(root)?;
    let crates = crates::read_crates(root)?;
    let mut violations = crates::check(&crates, &rules);
    let mut report = String::new();
    for member in &crates {
        let checked = modules::check(root, member)?;
        report += &format!("{}: {} modules, {} in cycles\n", member.name, checked.modules, checked.cyclic);
        violations.extend(checked.violations);
    }
    for violation in &violations {
        report += &format!("\n{violation}\n");
    }
    Ok((report, u8::from(!violations.is_empty())))
}
