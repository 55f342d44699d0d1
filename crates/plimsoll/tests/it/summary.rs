//! Selection of the summary without a model if it cannot show everything.

use plimsoll::compact::extract;
use plimsoll::{CharCounter, Message, Policy, Text, Tokens, ToolState};
use plimsoll_testkit::History;
use rstest::rstest;
use serde_json::json;

fn summarise(history: History, most: u64) -> Text {
    let messages = history.messages();
    let messages: Vec<&Message> = messages.iter().collect();
    extract(&messages, None, Tokens(most), &Policy::default().summary, &CharCounter::default())
}

/// The lines of a section.
fn section(summary: &Text, heading: &str) -> String {
    let from = summary.split(&format!("## {heading}\n")).nth(1).unwrap_or_default();
    from.split("\n\n## ").next().unwrap_or_default().to_owned()
}

/// The user's words: the requests under the goal, and the others.
fn said(summary: &Text) -> String {
    format!("{}\n{}", section(summary, "Goal"), section(summary, "What the user said"))
}

/// Messages that fill the room, so that others have to be cut.
fn filled(history: History, count: usize) -> History {
    (0..count).fold(history, |history, turn| {
        let text = format!("Look at module number {turn} and tell me what it is for and who wrote it. ");
        history.user(text.repeat(4)).say(format!("Module {turn} is fine."))
    })
}

#[test]
fn a_long_message_is_shown_with_its_decisive_end() {
    let story = "when the nightly job ran the report was empty and the log said nothing of it ".repeat(12);
    let asked = format!("so yesterday {story} so please move the job to 04:30 and never retry it");
    let said = said(&summarise(filled(History::new().user("Help me."), 8).user(asked), 500));
    assert!(said.contains("move the job to 04:30"), "{said}");
    assert!(said.contains("never retry it"), "{said}");
}

#[test]
fn a_rule_in_the_first_message_comes_before_old_errands() {
    let rules = "Build the importer.\n\n- folder per source at the root\n- a README in each folder\n- write the parser by hand, don't use a \
                 library for it\n- commit after each source and wait for my review\n";
    let padding = "The sources were collected over many years by many people. ".repeat(20);
    let said = said(&summarise(filled(History::new().user(format!("{rules}\n{padding}")), 8), 600));
    assert!(said.contains("don't use a library for it"), "{said}");
    assert!(said.contains("wait for my review"), "{said}");
}

/// A list without the line above it can say the opposite.
#[test]
fn a_list_keeps_its_introducing_line() {
    let padding = "Everybody here has been working on this for a long time. ".repeat(30);
    let asked = format!(
        "Review the code.\n\n{padding}\n\nYou may:\n- read every file\n\nYou may not:\n- edit src/main.rs\n- run git commit\n"
    );
    let said = said(&summarise(filled(History::new().user(asked), 6), 500));
    let (allowed, forbidden) = said.split_once("You may not:").unwrap_or_else(|| panic!("{said}"));
    assert!(!allowed.contains("git commit") && forbidden.contains("git commit"), "{said}");
}

#[test]
fn paths_of_dropped_files_are_cut_to_their_names() {
    let path = "/var/folders/49/l4171l3n219_xwq30fmyzr8w0000gn/T/TemporaryItems/screens/shot.png";
    let said = said(&summarise(History::new().user(format!("'{path}' the left pane is too dark")), 500));
    assert!(
        said.contains("screens/shot.png' the left pane is too dark") && !said.contains("l4171l3n219"),
        "{said}"
    );
}

#[test]
fn the_later_of_two_values_wins() {
    let report = |from: &str, to: &str, other: &str| {
        format!("Changed `dimGray` from `{from}` to `{to}` because the footer was unreadable. {other}")
    };
    let noise =
        "The `Footer` now uses `theme.fg` because `chalk` was removed from `src/footer.ts` in this step. ";
    let history = History::new()
        .user("make the footer readable")
        .say(report("#444444", "#585858", noise))
        .user("brighter")
        .say(report(
            "#585858",
            "#666666",
            "The `Header` uses `theme.bold` instead of `chalk.bold` in `src/header.ts`.",
        ))
        .user("and the light theme?")
        .say("Done.");
    let found = section(&summarise(history, 190), "Found and decided");
    assert!(found.contains("`#666666`") && !found.contains("from `#444444`"), "{found}");
}

#[rstest]
#[case::no("No, don't cache in the browser.")]
#[case::wrong("that's wrong, settings must be fresh")]
#[case::german("Nein, das soll so bleiben.")]
fn statements_that_the_user_contradicts_are_marked(#[case] correction: &str) {
    let history = History::new()
        .user("make the settings page faster")
        .say("I added a cache to `web/settings.tsx` because the page waited for `loadSettings`.")
        .user(correction)
        .say("The query in `server/settings.sql` joined `audit_log` because of an old report; it is removed.")
        .user("and the profile page?")
        .say("Done.");
    let summary = summarise(history, 600);
    let failed = section(&summary, "Tried and failed");
    assert!(failed.contains("- (the user objected) I added a cache"), "{failed}");
    let found = section(&summary, "Found and decided");
    assert!(found.contains("- The query in `server/settings.sql`"), "{found}");
}

/// An agent that is not interrupted reports and continues. Its report is more than a note.
#[test]
fn a_long_text_in_the_middle_of_a_turn_is_a_report() {
    let report = "All three fixes are in one commit.\n\n- The router is version 4 now in `README.md`.\n- `token X` is named `DOMI`.\n".to_owned()
        + &"- The table in `docs/prices.md` explains why the figures differ from the page.\n".repeat(4)
        + "\nNext is the block log.";
    let history = History::new().user("three corrections, then go on").say(report).tool("bash", "ok");
    let standing = section(&summarise(history, 500), "Where it stands");
    assert!(
        standing.contains("Last report: All three fixes") && standing.contains("Next is the block log."),
        "{standing}"
    );
}

#[test]
fn findings_do_not_repeat_the_last_report() {
    let report = "The cause is `split` in `src/csv.rs`: it drops the last empty field.";
    let history = History::new().user("why?").say(report).user("then fix it").tool("read", "fn split() {}");
    let summary = summarise(history, 600);
    assert_eq!(summary.matches("it drops the last empty field").count(), 1, "{summary}");
}

/// Variables that are needed to run something are often set only for one command.
#[test]
fn variables_of_a_command_are_kept_and_redacted() {
    let run = |command: &str| {
        let mut state = ToolState::completed(json!({ "command": command }), "ok");
        state.extra.insert("metadata".into(), json!({ "exit": 0 }));
        state
    };
    let history = History::new()
        .user("build it")
        .tool_state("bash", run("cd web && COREPACK_ENABLE_PROJECT_SPEC=0 pnpm build 2>&1 | tail -5"))
        .tool_state("bash", run("API_TOKEN=abcd1234efgh5678 npm test"))
        .say("Built.");
    let summary = summarise(history, 800);
    assert!(summary.contains("COREPACK_ENABLE_PROJECT_SPEC=0 pnpm build"), "{summary}");
    assert!(!summary.contains("abcd1234efgh5678"), "{summary}");
}

/// Statements about what is served and how it is run are worth more than sentences that only name things.
#[test]
fn statements_about_the_environment_are_kept() {
    let lists: String = (0..8)
        .map(|n| format!("`alpha_{n}`, `beta_{n}`, `gamma_{n}` and `delta_{n}` are in `mod_{n}`. "))
        .collect();
    let history = History::new()
        .user("start it")
        .say(format!("{lists}The service runs at http://localhost:4400 with `npx tsx src/cli-new.ts serve`."))
        .user("and the tests?")
        .say("Done.");
    let found = section(&summarise(history, 160), "Found and decided");
    assert!(found.contains("localhost:4400") && found.matches("gamma").count() < 8, "{found}");
}

/// A name was sliced inside its first character, so that a compaction without a model panicked.
#[rstest]
#[case::chinese(&["docs/说明.md", "docs/设计.md"], "{说明,设计}.md")]
#[case::emoji(&["notes/🚢.txt", "notes/🌊.txt"], "{🚢,🌊}.txt")]
#[case::combining_mark(&["a/\u{301}e.rs"], "\u{301}e.rs")]
#[case::joined_emoji(&["a/👩‍👩‍👧.md"], "👩‍👩‍👧.md")]
#[case::one_character(&["a/é", "a/x.y"], "é")]
#[case::hidden(&["a/.env", "a/.é.b"], ".env")]
fn a_changed_file_with_a_name_in_any_script_is_listed(#[case] paths: &[&str], #[case] listed: &str) {
    let history = paths.iter().fold(History::new().user("write them"), |history, path| {
        history.tool_with("edit", json!({ "filePath": path, "oldString": "x" }), "ok")
    });
    let files = section(&summarise(history.say("Done."), 600), "Files changed");
    assert!(files.contains(listed), "{files}");
}
