//! Blocks of README.md that are marked `<!-- checked -->` show what their command prints.
//!
//! `just readme` updates them. A block marked `<!-- checked: 20 lines -->` shows only the beginning of the output, and ends with
//! a line `…`.

use crate::support::{Home, sample};

const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
const MARK: &str = "<!-- checked";
const PROMPT: &str = " -->\n```console\n$ plimsoll ";

/// Returns README.md with the current output in each marked block, and the number of blocks.
fn with_current_output(readme: &str) -> (String, usize) {
    let home = Home::new().with("project/examples/session.json", &sample());
    let mut blocks = readme.split(MARK);
    let mut current = blocks.next().unwrap().to_owned();
    let mut count = 0;
    for block in blocks {
        let (length, rest) = block.split_once(PROMPT).unwrap();
        let (command, rest) = rest.split_once('\n').unwrap();
        let after = rest.find("```").unwrap();
        let args: Vec<&str> = command.split(' ').collect();
        let output = home.command(&args, &[("COLUMNS", "100")]).output().unwrap();
        assert!(
            output.status.success(),
            "`plimsoll {command}` failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let printed = String::from_utf8(output.stdout).unwrap();
        let mut lines: Vec<&str> = printed.trim_end().lines().map(str::trim_end).collect();
        let shown = length.strip_prefix(": ").and_then(|length| length.strip_suffix(" lines"));
        if let Some(shown) = shown.map(|shown| shown.parse().unwrap())
            && lines.len() > shown
        {
            lines.truncate(shown);
            lines.push("…");
        }
        current += &format!("{MARK}{length}{PROMPT}{command}\n{}\n{}", lines.join("\n"), &rest[after..]);
        count += 1;
    }
    (current, count)
}

#[test]
fn the_readme_shows_what_its_commands_print() {
    let readme = std::fs::read_to_string(README).unwrap();
    let (current, count) = with_current_output(&readme);
    assert_eq!(count, 3, "inspect, watch and replay");
    if std::env::var("PLIMSOLL_BLESS").is_ok() {
        return std::fs::write(README, current).unwrap();
    }
    assert!(readme == current, "README.md is out of date: run `just readme`\n{current}");
}

#[test]
fn a_readme_with_another_output_is_out_of_date() {
    let readme = format!("{MARK}{PROMPT}watch --once examples/session.json\nan older line\n```\nmore");
    let (current, _) = with_current_output(&readme);
    assert!(current != readme && current.ends_with("```\nmore"), "{current}");
}
