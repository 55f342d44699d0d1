//! Summaries from which an agent can continue. Each test reproduces a summary from which it could not.

use plimsoll::compact::{
    CONTRACT_HEADING, CompactionContext, ContractKind, ContractTerms, Ladder, Outcome, Step, Trigger,
    complete_summary, extract, extract_before,
};
use plimsoll::{
    CharCounter, Counter, Limits, Log, Message, Millis, Plan, Policy, Text, Tokens, ToolState, Window,
};
use plimsoll_testkit::{History, ids};
use rstest::rstest;
use serde_json::json;

const NOW: Millis = Millis(1_794_775_451_033);

fn summarise(history: History, most: u64) -> Text {
    with_prior(history, None, most)
}

fn with_prior(history: History, prior: Option<&str>, most: u64) -> Text {
    let messages = history.messages();
    let messages: Vec<&Message> = messages.iter().collect();
    let prior = prior.map(Text::from);
    extract(&messages, prior.as_ref(), Tokens(most), &Policy::default().summary, &CharCounter::default())
}

/// The lines of a section.
fn section(summary: &str, heading: &str) -> String {
    let from = summary.split(&format!("## {heading}\n")).nth(1).unwrap_or_default();
    from.split("\n\n## ").next().unwrap_or_default().to_owned()
}

fn headings(summary: &str) -> Vec<&str> {
    summary.lines().filter_map(|line| line.strip_prefix("## ")).collect()
}

fn run(command: &str, output: &str, exit: i64) -> ToolState {
    let mut state = ToolState::completed(json!({ "command": command }), output);
    state.extra.insert("metadata".into(), json!({ "exit": exit }));
    state
}

/// A session with something for every section.
fn work() -> History {
    History::new()
        .user("Port the importer to the new storage API. Never touch the fixtures.")
        .tool_with("edit", json!({ "filePath": "/srv/app/src/import.rs", "oldString": "a" }), "ok")
        .tool_state("bash", run("cd /srv/app && RUST_LOG=debug cargo test --test import", "test result: ok. 14 passed; 0 failed", 0))
        .say("The cause is `split_terminator` in `src/import.rs`: it drops the last empty field. Streaming through `csv::Reader` did not work because the importer reads from stdin.")
        .user("Then do the exporter as well, with CRLF.")
        .tool_with("todowrite", json!({ "todos": [
            { "content": "write CRLF in the exporter", "status": "in_progress" },
            { "content": "update the guide", "status": "pending" } ] }), "ok")
        .tool_with("edit", json!({ "filePath": "/srv/app/src/export.rs", "oldString": "a" }), "ok")
        .tool_state("bash", run("cargo test --test export", "test result: FAILED. 2 passed; 1 failed", 101))
        .say("The exporter writes CRLF, but `export_empty_table` fails. Next I will give an empty table no header.")
}

#[test]
fn goal_and_next_step_come_first() {
    let summary = summarise(work(), 900);
    assert_eq!(&headings(&summary)[..2], ["Goal", "Next step"], "{summary}");
    let goal = section(&summary, "Goal");
    assert!(goal.contains("Port the importer to the new storage API."), "{goal}");
    assert!(goal.contains("Then do the exporter as well, with CRLF."), "{goal}");
    let next = section(&summary, "Next step");
    assert!(next.contains("write CRLF in the exporter"), "{next}");
    assert!(next.contains("Next I will give an empty table no header."), "{next}");
    assert_eq!(summary.matches("Port the importer to the new storage API").count(), 1, "{summary}");
}

#[test]
fn an_unanswered_request_is_the_next_step() {
    let next = section(&summarise(work().user("Stop. Write the guide first."), 900), "Next step");
    assert!(next.starts_with("- Work on the newest request"), "{next}");
    assert!(!next.contains("empty table"), "{next}");
}

/// A step announced in the summarised part may have been done in the messages that stay in view.
#[test]
fn the_next_step_comes_from_the_messages_in_view() {
    let messages = work()
        .tool_with(
            "todowrite",
            json!({ "todos": [{ "content": "update the guide", "status": "in_progress" }] }),
            "ok",
        )
        .tool_state("bash", run("cargo test --test export", "test result: ok. 3 passed; 0 failed", 0))
        .say("An empty table has no header now. Remaining: the guide.")
        .messages();
    let all: Vec<&Message> = messages.iter().collect();
    let (head, tail) = all.split_at(all.len() - 3);
    let policy = Policy::default();
    let summary = extract_before(head, tail, None, Tokens(900), &policy.summary, &policy.count);
    let next = section(&summary, "Next step");
    assert!(next.contains("update the guide") && next.contains("Remaining: the guide."), "{next}");
    assert!(!next.contains("Next I will give an empty table"), "{next}");
    assert!(!summary.contains("Not fixed yet"), "{summary}");
}

#[test]
fn failed_approaches_and_the_environment_have_sections() {
    let summary = summarise(work(), 900);
    let failed = section(&summary, "Tried and failed");
    assert!(failed.contains("`csv::Reader` did not work because the importer reads from stdin"), "{summary}");
    assert!(!section(&summary, "Found and decided").contains("csv::Reader"), "{summary}");
    let environment = section(&summary, "Environment");
    assert!(environment.contains("/srv/app") && environment.contains("RUST_LOG=debug"), "{summary}");
}

#[test]
fn an_approach_that_the_user_rejected_is_a_failed_one() {
    let history = History::new()
        .user("make the settings page faster")
        .say("I added a cache to `web/settings.tsx` because the page waited for `loadSettings`.")
        .user("No, don't cache in the browser.")
        .say(
            "The query in `server/settings.sql` joined `audit_log` because of an old report; it is removed.",
        );
    let failed = section(&summarise(history, 600), "Tried and failed");
    assert!(failed.contains("(the user objected) I added a cache"), "{failed}");
}

/// A counter for which lines cost much more than letters, so that tokens are not proportional to length.
#[derive(Debug)]
struct ByLine;

impl Counter for ByLine {
    fn name(&self) -> &'static str {
        "by line"
    }

    fn count(&self, text: &str) -> Tokens {
        Tokens(30 * text.lines().count() as u64 + text.len() as u64 / 40)
    }
}

/// After six renderings over the budget, only one char per token was kept, and whole sections were lost.
#[rstest]
#[case(1_500)]
#[case(1_200)]
#[case(900)]
fn every_section_fits_whatever_the_counter(#[case] most: u64) {
    let messages = (0..12).fold(work(), |history, turn| {
        let file = format!("/srv/app/src/module_{turn}.rs");
        history
            .user(format!("Look at module {turn}, and find out why `open_{turn}` is slow."))
            .tool_with("edit", json!({ "filePath": file, "oldString": "a" }), "ok")
            .say(format!("The cause is `lock_{turn}` in `module_{turn}.rs`: it waits for the disk."))
    });
    let messages = messages.messages();
    let history: Vec<&Message> = messages.iter().collect();
    let summary = extract(&history, None, Tokens(most), &Policy::default().summary, &ByLine);
    assert!(ByLine.count(&summary) <= Tokens(most), "{} of {most}", ByLine.count(&summary));
    for heading in ["Goal", "Next step", "What the user said", "Found and decided", "Files changed"] {
        assert!(headings(&summary).contains(&heading), "no {heading} in {most}:\n{summary}");
    }
}

#[rstest]
#[case::yes("yes")]
#[case::a_choice("the second one")]
#[case::a_number("2")]
fn a_short_answer_is_kept_with_its_question(#[case] answer: &str) {
    let history = History::new()
        .user("Clean up the audit log.")
        .say("The table has 40 million rows.\n\nShould I drop `audit_log_2019` as well?")
        .user(answer)
        .say("Done.")
        .user("And the index?")
        .say("It is rebuilt.");
    let said = section(&summarise(history, 600), "What the user said");
    let line = said.lines().find(|line| line.contains("audit_log_2019")).unwrap_or_else(|| panic!("{said}"));
    assert!(line.contains("asked: Should I drop") && line.ends_with(answer), "{line}");
}

#[test]
fn an_acknowledgement_without_a_question_is_left_out() {
    let history = History::new()
        .user("Clean up.")
        .say("Done.")
        .user("thanks")
        .say("Fine.")
        .user("Now the docs.")
        .say("Ok.");
    assert!(!summarise(history, 600).contains("thanks"));
}

/// The form of summaries that Claude Code writes.
const OTHER: &str = "This session is being continued from a previous conversation that ran out of context. The conversation is summarized below:\n\
<analysis>\nLet me go through the conversation chronologically: first the user asked about sharks.\n</analysis>\n\n<summary>\n\
1. Primary Request and Intent:\n   Build the reef monitor; every alert must reach the harbour office.\n\n\
2. Key Technical Concepts:\n   - ring buffers\n   - tide tables\n\n\
3. Files and Code Sections:\n   - `reef/monitor.rs`\n      - the sampling loop\n      ```rust\nfn sample() {}\n      ```\n\n\
4. Errors and fixes:\n   - `sample` panicked on an empty buffer: fixed by `peek`.\n\n\
6. All user messages:\n   - \"use the tide table of Brest\"\n   - \"never page at night\"\n\n\
7. Pending Tasks:\n   - write the pager\n\n8. Current Work:\n   I was editing the pager.\n\n9. Optional Next Step:\n   Finish the pager.\n</summary>\n\
Please continue the conversation from where we left it off without asking the user any further questions. Continue with the last task that you were asked to work on.";

#[test]
fn a_summary_of_another_tool_is_parsed_by_its_sections() {
    let history =
        || History::new().user("the pager is done, now the docs").say("The docs name `reef/monitor.rs` now.");
    let summary = with_prior(history(), Some(OTHER), 1_500);
    for dropped in [
        "sharks",
        "analysis",
        "without asking the user",
        "being continued from",
        "I was editing the pager",
        "Finish the pager",
    ] {
        assert!(!summary.contains(dropped), "{dropped}: {summary}");
    }
    let said = format!("{}\n{}", section(&summary, "Goal"), section(&summary, "What the user said"));
    assert!(
        said.contains("use the tide table of Brest") && said.contains("never page at night"),
        "{summary}"
    );
    assert!(section(&summary, "Goal").contains("Build the reef monitor"), "{summary}");
    for kept in ["ring buffers", "`sample` panicked on an empty buffer", "reef/monitor.rs"] {
        assert!(summary.contains(kept), "{kept}: {summary}");
    }
}

/// Its middle was cut, with all sections there.
#[test]
fn a_long_summary_of_another_tool_keeps_something_of_every_section() {
    let long = |name: &str| {
        format!(
            "## {name}\n{}\n\n",
            (0..60).map(|n| format!("- {name} item {n} says something\n")).collect::<String>()
        )
    };
    let names = ["Intent", "Concepts", "Decisions", "Problems", "Limits"];
    let prior: String = names.iter().map(|name| long(name)).collect();
    let summary = with_prior(History::new().user("continue with the reef").say("ok"), Some(&prior), 700);
    for name in names {
        assert!(summary.contains(&format!("{name} item 0")), "{name}: {summary}");
    }
    assert!(!summary.contains("chars]..."), "{summary}");
}

#[test]
fn a_second_summary_keeps_goal_failures_and_environment_of_the_first() {
    let first = summarise(work(), 900);
    let history = History::new()
        .user("Now the command line, with a `--strict` flag.")
        .say("`--strict` is in `src/cli.rs`.");
    let second = with_prior(history, Some(&first), 900);
    assert!(section(&second, "Goal").contains("Port the importer to the new storage API."), "{second}");
    assert!(section(&second, "Goal").contains("Now the command line"), "{second}");
    assert!(
        section(&second, "What the user said").contains("Then do the exporter as well, with CRLF."),
        "{second}"
    );
    assert!(section(&second, "Tried and failed").contains("`csv::Reader` did not work"), "{second}");
    assert!(section(&second, "Environment").contains("RUST_LOG=debug"), "{second}");
    assert!(!section(&second, "Next step").contains("empty table"), "{second}");
}

fn rules(history: History) -> Vec<String> {
    let messages = history.messages();
    let replaced: Vec<&Message> = messages.iter().collect();
    let terms = ContractTerms {
        messages: &messages,
        replaced: &replaced,
        in_view: &[],
        carried: &[],
        budget: Tokens(1_000),
    };
    let (_, items) = complete_summary(&Text::from("x"), &terms, &Policy::default(), &CharCounter::default());
    items.into_iter().filter(|item| item.kind == ContractKind::Instruction).map(|item| item.text).collect()
}

#[rstest]
#[case::a_later_order(History::new().user("Fix it. Do not commit yet.").say("Fixed.").user("ok, commit and push").say("Done."))]
#[case::permission(History::new().user("Don't push to main.").say("ok").user("you can push to main now").say("Done."))]
#[case::an_act(History::new().user("Plan it first, don't edit anything until I say so.").say("Here is the plan.").user("looks good")
    .tool_with("edit", json!({ "filePath": "a.rs", "oldString": "a" }), "ok").say("Done."))]
#[case::a_commit(History::new().user("do not commit for now").say("ok").user("fine").tool_state("bash", run("git commit -m x", "[main 1234567] x", 0)).say("Done."))]
fn a_superseded_order_is_not_a_rule(#[case] history: History) {
    assert_eq!(rules(history), Vec::<String>::new());
}

#[rstest]
#[case::another_verb("Do not commit yet.", "run the tests and push the button in the page")]
#[case::a_standing_rule("Never commit to main.", "fix the build")]
#[case::a_question("Don't push yet.", "did you push?")]
#[case::said_again("Don't commit yet.", "still, do not commit")]
fn an_order_that_still_applies_stays(#[case] order: &str, #[case] later: &str) {
    let found = rules(History::new().user(format!("Fix it. {order}")).say("ok").user(later).say("ok"));
    assert!(found.iter().any(|rule| rule.contains("ommit") || rule.contains("push")), "{found:?}");
}

#[test]
fn a_carried_rule_ends_when_it_is_superseded() {
    let carried: Vec<plimsoll::compact::ContractItem> = serde_json::from_value(json!([
        { "kind": "instruction", "text": "Do not commit yet.", "source": "m0", "fate": "found" },
        { "kind": "instruction", "text": "Never touch the fixtures.", "source": "m0", "fate": "found" }
    ]))
    .unwrap();
    let messages = History::new().user("now commit it").say("Done.").messages();
    let replaced: Vec<&Message> = messages.iter().collect();
    let terms = ContractTerms {
        messages: &messages,
        replaced: &replaced,
        in_view: &[],
        carried: &carried,
        budget: Tokens(1_000),
    };
    let (text, _) = complete_summary(&Text::from("x"), &terms, &Policy::default(), &CharCounter::default());
    assert!(text.contains("Never touch the fixtures.") && !text.contains("commit yet"), "{text}");
}

#[test]
fn files_that_the_summary_groups_are_not_listed_again() {
    let edit = |history: History, path: &str| {
        history.tool_with("edit", json!({ "filePath": path, "oldString": "a" }), "ok")
    };
    let history = (0..6).fold(History::new().user("port them"), |history, n| {
        edit(history, &format!("/srv/app/service/src/handlers/h{n}.rs"))
    });
    let history = edit(history, "/srv/app/service/src/lib.rs");
    let messages = history.say("Done.").messages();
    let replaced: Vec<&Message> = messages.iter().collect();
    let policy = Policy::default();
    let summary = extract(&replaced, None, Tokens(900), &policy.summary, &policy.count);
    assert!(summary.contains("{h0,h1,h2,h3,h4,h5}.rs"), "{summary}");
    let terms = ContractTerms {
        messages: &messages,
        replaced: &replaced,
        in_view: &[],
        carried: &[],
        budget: Tokens(1_000),
    };
    let (completed, _) = complete_summary(&summary, &terms, &policy, &policy.count);
    assert!(!completed.contains(CONTRACT_HEADING), "{completed}");
    // A model groups files too.
    let written = Text::from("## Files\n- `service/src/handlers/{h0,h1,h2,h3,h4,h5}.rs`, service/src/lib.rs");
    let (completed, _) = complete_summary(&written, &terms, &policy, &policy.count);
    assert!(!completed.contains(CONTRACT_HEADING), "{completed}");
}

#[test]
fn a_path_is_listed_under_the_root_it_is_in() {
    let paths = ["/srv/app/src/a.rs", "/srv/app/tests/b.rs", "docs/guide.md", "/home/ada/.config/tool.toml"];
    let history = paths.iter().fold(History::new().user("edit them"), |history, path| {
        history.tool_with("edit", json!({ "filePath": path, "oldString": "a" }), "ok")
    });
    let first = summarise(history.say("Done."), 700);
    let files = section(&first, "Files changed");
    let (before, under) = files.split_once("Under `/srv/app`:\n").unwrap_or_else(|| panic!("{files}"));
    assert!(under.contains("src/: a.rs") && under.contains("tests/: b.rs"), "{files}");
    assert!(!under.contains("guide.md") && !under.contains("tool.toml"), "{files}");
    assert!(
        before.contains("docs/: guide.md") && before.contains("/home/ada/.config/: tool.toml"),
        "{files}"
    );
    // A second summary reads the same paths from the first.
    let second = with_prior(History::new().user("go on").say("ok"), Some(&first), 700);
    assert_eq!(section(&second, "Files changed"), files);
}

fn climb(log: &mut Log, context: CompactionContext) -> Outcome {
    let mut names = ids();
    let mut ladder = Ladder::new(log.clone(), context);
    match ladder.climb(&mut names).unwrap() {
        Step::Done(outcome) => {
            outcome.reduction.commit(log).unwrap();
            outcome
        }
        Step::Ask(_) => panic!("no summariser"),
    }
}

fn tokens(count: usize) -> String {
    "abcd".repeat(count)
}

/// At 64,000 a summary of 3,383 chars was cut to 773 while long outputs stayed in the tail.
#[test]
fn the_summary_is_shortened_last() {
    let mut history = work();
    for turn in 0..30 {
        history = history
            .user(format!("question {turn}: {}", "why is it so? ".repeat(20)))
            .tool("read", tokens(1_500));
        history =
            history.say(format!("The cause is `lock_{turn}` in `src/m{turn}.rs`: it waits for the disk."));
    }
    // The newest prompt and the files written for it do not fit.
    let call = |n: usize| {
        json!({ "type": "tool", "id": format!("w{n}"), "callID": format!("c{n}"), "tool": "write",
            "state": { "status": "completed", "input": { "filePath": format!("f{n}.rs"), "content": tokens(1_500) }, "output": "ok" } })
    };
    let step = json!({ "info": { "id": "step", "role": "assistant", "finish": "tool-calls" }, "parts": (0..8).map(call).collect::<Vec<_>>() });
    let mut log = history.user(format!("write these files: {}", tokens(3_000))).raw(step).log();
    let limits = Limits::new(12_000, 4_000);
    let outcome = climb(&mut log, CompactionContext::new(Policy::default(), limits, NOW));
    let shed = outcome.reduction.receipts.iter().any(|receipt| matches!(receipt.plan, Plan::Shed(_)));
    assert!(shed, "something had to be shed");
    let summary = log.iter().rev().find(|message| message.info.summary).unwrap();
    let window = Window::of(&log, &Policy::default());
    let shown = serde_json::to_string(&window).unwrap();
    assert!(summary.parts.iter().all(|part| part.cut().is_none()), "the summary is cut");
    assert!(shown.contains("## Goal") && shown.contains("## Found and decided"), "{shown}");
}

/// Only a turn of 131 tokens stayed of a tail of 4,000, because the turn before it was longer than the tail.
#[test]
fn a_short_newest_turn_does_not_leave_the_tail_empty() {
    let mut history = History::new();
    for turn in 0..20 {
        history = history.user(format!("question {turn}"));
        for step in 0..8 {
            history = history.tool("read", format!("{turn}.{step} {}", tokens(700)));
        }
        history = history.say("done");
    }
    let mut log = history.user("thanks").say("You are welcome.").log();
    let before = log.len();
    let policy = Policy::default();
    let limits = Limits::new(120_000, 8_000);
    let outcome = climb(
        &mut log,
        CompactionContext { trigger: Trigger::Manual, ..CompactionContext::new(policy.clone(), limits, NOW) },
    );
    let plan = outcome.reduction.receipts.iter().find_map(|receipt| match &receipt.plan {
        Plan::Compact(plan) => Some(plan.clone()),
        _ => None,
    });
    let plan = plan.unwrap_or_else(|| panic!("{before} messages were not compacted"));
    let budget = Tokens(112_000).share(policy.compact.tail_share);
    assert!(plan.tail_tokens >= budget.share(0.5), "{} of {budget}", plan.tail_tokens);
}
