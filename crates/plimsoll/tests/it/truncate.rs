//! Layer 1.

use plimsoll::truncate::{self, Address, Spill, TruncatePlan, format_bytes};
use plimsoll::{Chars, Policy, Preset};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

fn plan(output: &str, tool: &str) -> TruncatePlan {
    truncate::plan(output.as_bytes(), tool, &Preset::Openfork.policy())
}

fn ours(output: &[u8], tool: &str) -> TruncatePlan {
    truncate::plan(output, tool, &Policy::default())
}

fn saved(path: &str) -> Spill {
    Spill::Saved(Address::Path(path.into()))
}

fn lines(count: usize) -> String {
    vec!["line"; count].join("\n")
}

#[test]
fn r131_three_thousand_lines_become_two_thousand() {
    for preset in Preset::ALL {
        let plan = truncate::plan(lines(3_000).as_bytes(), "read", &preset.policy());
        assert!(plan.truncated, "{preset}");
        assert_eq!((plan.original_lines, plan.kept_lines), (3_000, 2_000), "{preset}");
    }
}

#[test]
fn r131_limits_themselves_are_allowed() {
    assert!(!plan(&lines(2_000), "bash").truncated);
    assert!(plan(&lines(2_001), "bash").truncated);
    let bytes = |count: usize| "x".repeat(1_023).add_newlines(count);
    assert!(!plan(&bytes(48), "bash").truncated);
    assert!(plan(&bytes(51), "bash").truncated);
}

trait AddNewlines {
    fn add_newlines(&self, count: usize) -> String;
}

impl AddNewlines for String {
    fn add_newlines(&self, count: usize) -> String {
        vec![self.as_str(); count].join("\n")
    }
}

#[rstest]
#[case("read", 100_000)]
#[case("bash", 50_000)]
#[case("grep", 30_000)]
#[case("glob", 20_000)]
#[case("webfetch", 50_000)]
#[case("websearch", 20_000)]
#[case("list", 10_000)]
#[case("something_else", 50_000)]
fn r132_r155_each_tool_has_its_limit(#[case] tool: &str, #[case] limit: u64) {
    let policy = Preset::Openfork.policy();
    let known = policy.truncate.tool_limits.get(tool).copied().unwrap_or(policy.truncate.default_limit);
    assert_eq!(known, Chars(limit));
}

#[test]
fn r132_a_glob_output_of_25000_chars_is_cut_to_20000() {
    let output = "x".repeat(99).add_newlines(250) + "y";
    assert_eq!(output.len(), 25_000);
    let plan = plan(&output, "glob");
    assert_eq!(Chars::of(&plan.kept.head), Chars(20_000));
    assert!(plan.truncated);
    assert_eq!(plan.kept_lines, 200, "counted after the cut, not before");
}

#[test]
fn r133_long_lines_are_shortened_with_and_without_other_cuts() {
    let long = "x".repeat(2_500);
    let alone = plan(&long, "read");
    assert!(!alone.truncated);
    assert_eq!(alone.lines_shortened, 1);
    assert!(alone.wants_spill(), "what was shortened must stay reachable");
    let shown = alone.render(&Spill::Off);
    assert_eq!(shown.as_str(), format!("{}... (line truncated)", "x".repeat(2_000)));

    let among = plan(&format!("{long}\n{}", lines(3_000)), "read");
    assert!(among.truncated);
    assert!(among.kept.head.starts_with(shown.as_str()));
    assert!(!plan(&"x".repeat(2_000), "read").wants_spill());
}

#[test]
fn r134_each_line_costs_its_newline() {
    // 512 lines of 99 bytes and a newline are exactly 51,200.
    let line = "x".repeat(99);
    let exact = plan(&line.add_newlines(513), "read");
    assert_eq!((exact.kept_lines, exact.kept_bytes), (512, 51_200));
    let shorter = plan(&"x".repeat(100).add_newlines(513), "read");
    assert_eq!((shorter.kept_lines, shorter.kept_bytes), (506, 506 * 101));
}

#[test]
fn r135_r142_only_cut_outputs_are_spilled() {
    assert!(plan(&"x\n".repeat(40_000), "read").wants_spill());
    assert!(!plan("short", "read").wants_spill());
}

#[test]
fn r136_golden_notice_with_and_without_a_file() {
    let plan = plan(&lines(3_000), "read");
    let kept = lines(2_000);
    let without = format!("{kept}\n\n---\n[Output truncated: 3000 → 2000 lines, 14.6KB → 9.8KB]\n");
    assert_eq!(plan.render(&Spill::Off).as_str(), without);
    let with = format!(
        "{without}[Full output saved to: data/spill/ab.txt]\n[Use 'read' tool with the path above to see full content]\n"
    );
    assert_eq!(plan.render(&saved("data/spill/ab.txt")).as_str(), with);
}

/// A handle is not a path: a model that tries to read it as a file finds nothing.
#[test]
fn the_notice_of_a_recall_handle_does_not_mention_paths() {
    let spill = Spill::Saved(Address::Handle("spill_9c2f".into()));
    let cut = plan(&lines(3_000), "read").render(&spill);
    let notice = "\n\n---\n[Output truncated: 3000 → 2000 lines, 14.6KB → 9.8KB]\n[Full output kept: recall spill_9c2f]\n";
    assert!(cut.ends_with(notice), "{cut}");
    let shortened = ours(b"ok \xff", "bash").render(&spill);
    assert!(shortened.ends_with("bytes replaced]\n[Full output kept: recall spill_9c2f]\n"), "{shortened}");
    let policy = Preset::Opencode118.policy();
    let theirs = truncate::plan(lines(3_000).as_bytes(), "x", &policy).render(&spill);
    assert!(
        theirs.ends_with("...1000 lines truncated...\n\nFull output kept: recall spill_9c2f"),
        "{theirs}"
    );
    for shown in [cut, shortened, theirs] {
        assert!(
            !shown.contains("'read'") && !shown.contains("saved to") && !shown.contains("path"),
            "{shown}"
        );
    }
}

#[test]
fn a_failed_spill_is_reported() {
    let shown = plan(&lines(3_000), "read").render(&Spill::Failed("no space left on device".into()));
    assert!(shown.contains("[The rest could not be saved and is lost: no space left on device]"));
}

#[rstest]
#[case(512, "512B")]
#[case(1_536, "1.5KB")]
#[case(2_097_152, "2.0MB")]
#[case(1_023, "1023B")]
#[case(1_024, "1.0KB")]
fn r137_sizes_are_human_readable(#[case] bytes: u64, #[case] text: &str) {
    assert_eq!(format_bytes(bytes), text);
}

#[test]
fn r138_the_plan_reports_original_and_kept_sizes() {
    let plan = plan(&lines(3_000), "read");
    let json = serde_json::to_value(&plan).unwrap();
    assert_eq!(json["originalLines"], 3_000);
    assert_eq!(json["keptLines"], 2_000);
    assert_eq!(json["originalBytes"], 14_999);
    assert_eq!(json["keptBytes"], 10_000);
    assert!(plan.message(&saved("p")).contains("saved to: p"));
}

#[test]
fn r140_spilling_can_be_switched_off() {
    let policy = Policy::from_value(json!({ "truncate": { "spill": false } })).unwrap();
    assert!(!truncate::plan(lines(3_000).as_bytes(), "read", &policy).wants_spill());
}

#[test]
fn terminal_outputs_keep_their_end_because_the_error_is_there() {
    let output = format!("first line\n{}\nerror: the build failed", lines(30_000));
    for tool in ["bash", "mcp_exec", "Shell", "terminal"] {
        let plan = ours(output.as_bytes(), tool);
        let shown = plan.render(&saved("spill/1"));
        assert!(shown.starts_with("first line\n"), "{tool}");
        assert!(shown.contains("\nerror: the build failed\n\n---\n"), "{tool}");
        let gap = shown.lines().find(|line| line.starts_with("...[")).unwrap();
        assert_eq!(gap, "...[28,002 lines, 136.7KB not shown here]...", "{tool}");
        assert_eq!(plan.kept_lines, 2_000);
    }
    assert!(!ours(output.as_bytes(), "read").render(&Spill::Off).contains("the build failed"));
}

/// Roo-Code#5775, opencode#42277: one line of megabytes slipped past line limits, or left nothing at all.
#[test]
fn a_single_line_of_100_megabytes_is_handled() {
    let mut output = vec![b'x'; 100 << 20];
    output.extend_from_slice(b"THE END");
    let guide = truncate::plan(&output, "read", &Preset::Openfork.policy());
    assert_eq!((guide.original_lines, guide.lines_shortened), (1, 1));
    assert_eq!(guide.render(&Spill::Off).find("... (line truncated)"), Some(2_000));
    // The limit on the whole output applies instead of the one on lines.
    let read = ours(&output, "read");
    assert_eq!((read.original_lines, read.kept_bytes), (1, 51_200));
    let bash = ours(&output, "bash").render(&Spill::Off);
    assert!(bash.contains("THE END") && bash.len() > 45_000 && bash.len() < 52_000, "{}", bash.len());
}

#[test]
fn bytes_that_are_not_utf8_are_shown_and_spilled() {
    let plan = ours(b"ok \xff\xfe end", "bash");
    assert!(plan.lossy && plan.wants_spill() && !plan.truncated);
    let shown = plan.render(&saved("spill/7"));
    assert!(shown.starts_with("ok \u{fffd}\u{fffd} end\n\n---\n"), "{shown}");
    assert!(shown.contains("[Full output saved to: spill/7]"), "the notice names the original");
    assert!(!ours("né 🚢".as_bytes(), "bash").lossy);
    // A cut in the middle of a character is not mistaken for bad bytes.
    let ships = "🚢".repeat(40_000);
    let cut = ours(ships.as_bytes(), "bash");
    assert!(!cut.lossy && !cut.kept.head.contains('\u{fffd}'));
}

/// A terminal ends its output with a newline, even after one very long line.
#[test]
fn the_end_of_one_long_line_shows_despite_a_final_newline() {
    let output = format!("{}ERROR at the end\n", "x".repeat(1 << 20));
    assert!(ours(output.as_bytes(), "bash").render(&Spill::Off).contains("ERROR at the end"));
}

/// opencode#42277: a line larger than the byte limit left nothing.
#[test]
fn a_byte_limit_below_one_line_still_shows_a_part_of_it() {
    let policy = Policy::from_value(json!({ "truncate": { "maxBytes": 1_000 } })).unwrap();
    for tool in ["read", "bash"] {
        let plan = truncate::plan("é".repeat(5_000).as_bytes(), tool, &policy);
        assert!(plan.kept_bytes > 300 && plan.kept.head.len() <= 1_000, "{tool}: {}", plan.kept_bytes);
        assert!(!plan.kept.head.contains('\u{fffd}'));
    }
}

#[test]
fn an_output_is_not_cut_if_the_notice_would_be_longer() {
    // One line of five characters would be replaced by a notice of about a hundred.
    let barely_over = lines(2_001);
    let plan = ours(barely_over.as_bytes(), "read");
    assert_eq!((plan.truncated, plan.wants_spill(), plan.kept_lines), (false, false, 2_001));
    assert_eq!(plan.render(&Spill::Off).as_str(), barely_over);
    // A line a little over the limit of a line stays whole, too.
    let line = "x".repeat(2_010);
    assert_eq!(ours(line.as_bytes(), "read").render(&Spill::Off).as_str(), line);
    // Presets that follow a document cut exactly as it says.
    for preset in [Preset::Opencode, Preset::Opencode118, Preset::Openfork] {
        let plan = truncate::plan(barely_over.as_bytes(), "read", &preset.policy());
        assert!(plan.truncated, "{preset}");
    }
}

#[test]
fn every_cut_makes_the_output_shorter() {
    let handle = Spill::Saved(Address::Handle(format!("spill_{:032x}", 0)));
    for length in (49_000..52_000).step_by(14) {
        let output = "word and word\n".repeat(length / 14);
        for tool in ["read", "bash", "glob"] {
            let plan = ours(output.as_bytes(), tool);
            let shown = plan.render(&handle).chars();
            assert!(!plan.loses_content() || shown < Chars::of(&output), "{tool}: {length} became {shown}");
        }
    }
}

#[test]
fn empty_output_has_no_lines() {
    let plan = ours(b"", "bash");
    assert_eq!((plan.original_lines, plan.kept_lines, plan.truncated), (0, 0, false));
    assert_eq!(plan.render(&Spill::Off).as_str(), "");
}

#[test]
fn c28_the_strictest_limit_wins_unless_the_tool_overrides() {
    let output = "x".repeat(999).add_newlines(90);
    assert_eq!(plan(&output, "read").kept_lines, 51);
    let policy = Policy::from_value(json!({ "truncate": { "toolLimitOverridesBytes": true } })).unwrap();
    assert!(!truncate::plan(output.as_bytes(), "read", &policy).truncated);
}

#[test]
fn opencode_1_18_keeps_the_end_of_a_shell_and_counts_for_others() {
    let policy = Preset::Opencode118.policy();
    let output: String = (1..=3_000).map(|n| format!("{n}\n")).collect();
    let bash = truncate::plan(output.as_bytes(), "bash", &policy).render(&saved("/d/tool_1"));
    assert!(bash.starts_with("...output truncated...\n\nFull output saved to: /d/tool_1\n\n1002\n"));
    assert!(bash.ends_with("3000\n"));
    let read = truncate::plan(output.as_bytes(), "x", &policy).render(&saved("/d/tool_1"));
    assert!(read.ends_with("\n2000\n\n...1001 lines truncated...\n\nFull output saved to: /d/tool_1"));
}

proptest! {
    #[test]
    fn properties_whatever_a_tool_prints_stays_within_its_limits(
        output in prop::collection::vec(any::<u8>(), 0..4_000),
        repeat in 1usize..40,
        bash in any::<bool>(),
    ) {
        let output = output.repeat(repeat);
        let policy = Policy::from_value(json!({ "truncate": {
            "maxLines": 50, "maxBytes": 5_000, "maxLineChars": 200, "defaultLimit": 3_000, "toolLimits": { "bash": 3_000 }
        } })).unwrap();
        let plan = truncate::plan(&output, if bash { "bash" } else { "read2" }, &policy);
        let tail = plan.kept.tail.clone().unwrap_or_default();
        if plan.truncated {
            prop_assert!(plan.kept_lines <= 50);
            // The end of an over-long last line may exceed the budget, but not the limit of a line.
            prop_assert!(Chars::of(&plan.kept.head) + Chars::of(&tail) <= Chars(3_000 + 240));
        } else {
            prop_assert_eq!(plan.original_lines, plan.kept_lines);
            if !plan.loses_content() {
                let shown = plan.render(&Spill::Off);
                prop_assert_eq!(shown.as_bytes(), output.as_slice());
            }
        }
    }
}
