//! Sessions of single tools: each sample in `samples.rs`, read as a whole.

use plimsoll::{Millis, Tokens};
use plimsoll_formats::{Format, Transcript};

use crate::samples;
use crate::support::{read_ok, shape};

/// Reads a sample that must be understood completely.
fn read_all(format: Format, sample: &str) -> Transcript {
    let read = read_ok(sample);
    assert_eq!(read.format, format);
    assert!(read.skipped.is_empty(), "{:?}", read.skipped);
    assert!(read.notes.is_empty(), "{:?}", read.notes);
    read
}

fn unused(read: &Transcript) -> Vec<String> {
    read.unused.iter().map(|(kind, count)| format!("{kind}: {count}")).collect()
}

/// Returns input, output, reasoning, cache reads and cache writes of each response.
fn usages(read: &Transcript) -> Vec<[u64; 5]> {
    let usage = read.messages.iter().filter_map(|message| message.info.tokens.as_ref());
    usage
        .map(|usage| {
            [usage.input, usage.output, usage.reasoning, usage.cache_read, usage.cache_write].map(|n| n.0)
        })
        .collect()
}

#[test]
fn gemini_messages_have_their_last_version() {
    let read = read_all(Format::GeminiCli, samples::GEMINI);
    insta::assert_debug_snapshot!(shape(&read.messages), @r#"
    [
        "user text:é\n\"hi\" file:data:image/png;base64,AAAA",
        "assistant [tool-calls] thought:Plan\nList first text:Looking ls{\"a\":1}=x rm{}!denied",
        "user text:better",
    ]
    "#);
    assert_eq!(usages(&read), [[50, 7, 3, 40, 0]]);
    // Rewound messages were billed.
    let inputs: Vec<u64> = read.recorded.responses().map(|response| response.input.0).collect();
    assert_eq!(inputs, [5, 50]);
    assert_eq!(
        unused(&read),
        ["earlier record of a message: 1", "info for the user: 1", "rewound message: 2"]
    );
    assert_eq!((read.info.id.as_deref(), read.info.title.as_deref()), (Some("g1"), Some("Files")));
    assert_eq!(read.info.model.as_deref(), Some("gemini-x"));
    assert_eq!(read.info.updated, Some(Millis(1_767_225_608_000)));
}

#[test]
fn gemini_documents_of_older_versions_are_read() {
    let read = read_all(Format::GeminiCli, samples::GEMINI_DOCUMENT);
    assert_eq!(shape(&read.messages), ["user text:é\n\"hi\"", "assistant [tool-calls] ls{\"a\":1}=x"]);
    assert_eq!(read.info.id.as_deref(), Some("g2"));
}

#[test]
fn gemini_checkpoints_replace_earlier_messages() {
    let checkpoint = r#"{"$set":{"messages":[{"id":"s","timestamp":"2026-01-01T00:00:09Z","type":"user","content":"summary"}]}}"#;
    let read = read_all(Format::GeminiCli, &format!("{}{checkpoint}\n", samples::GEMINI));
    assert_eq!(shape(&read.messages), ["user text:summary"]);
    assert_eq!(read.unused["message before a checkpoint"], 4);
    assert_eq!(read.recorded.len(), 2);
}

#[test]
fn goose_sessions_are_read_with_their_compaction() {
    let read = read_all(Format::Goose, samples::GOOSE);
    insta::assert_debug_snapshot!(shape(&read.messages), @r#"
    [
        "user text:é\n\"hi\"",
        "assistant [tool-calls] thought:hm ls{\"a\":1}=x",
        "user marker",
        "assistant (summary) [stop] text:sum",
        "user text:go on file:data:image/png;base64,AAAA",
        "assistant [tool-calls] unknownnull!no such tool",
    ]
    "#);
    assert_eq!(unused(&read), ["systemNotification: 1"]);
    assert_eq!((read.info.id.as_deref(), read.info.directory.as_deref()), (Some("20260101_1"), Some("/w")));
    assert_eq!(read.info.title.as_deref(), Some("Files"));
    let window = plimsoll::Window::of(&read.messages, &plimsoll::Policy::default());
    assert!(!format!("{window:?}").contains("\\\"hi\\\""), "the summarised messages are not in the window");
}

#[test]
fn goose_exports_are_read() {
    let read = read_all(Format::Goose, samples::GOOSE_EXPORT);
    assert_eq!(shape(&read.messages), ["user text:é\n\"hi\"", "assistant text:x"]);
    assert_eq!((read.info.model.as_deref(), read.info.context), (Some("gpt-x"), Some(Tokens(128_000))));
}

#[test]
fn cline_files_are_shown_as_text() {
    let read = read_all(Format::Cline, samples::CLINE);
    insta::assert_debug_snapshot!(shape(&read.messages), @r#"
    [
        "system text:Be brief",
        "user text:é\n\"hi\" host:<file_content path=\"/w/a.rs\">\nfn a() {}\n</file_content>",
        "assistant [tool-calls] thought:hm ls{\"a\":1}=x\n<file_content path=\"/w/b.rs\">\nfn b() {}\n</file_content>",
    ]
    "#);
    // Cline includes cached tokens in the input.
    assert_eq!(usages(&read), [[30, 7, 0, 60, 10]]);
    let cost: Vec<Option<f64>> = read.recorded.responses().map(|response| response.cost).collect();
    assert_eq!(cost, [Some(0.5)]);
    assert_eq!((read.info.id.as_deref(), read.info.model.as_deref()), (Some("s1"), Some("claude-x")));
}

#[test]
fn roo_summaries_are_pivots() {
    let read = read_all(Format::Cline, samples::ROO);
    insta::assert_debug_snapshot!(shape(&read.messages), @r#"
    [
        "user text:é\n\"hi\"",
        "assistant [tool-calls] ls{\"a\":1}=x",
        "user marker",
        "assistant (summary) [stop] text:sum",
        "assistant text:On it",
    ]
    "#);
    assert_eq!(usages(&read), [[30, 5, 0, 20, 0]]);
}

#[test]
fn openhands_actions_are_calls_and_observations_their_results() {
    let read = read_all(Format::Openhands, samples::OPENHANDS);
    insta::assert_debug_snapshot!(shape(&read.messages), @r#"
    [
        "system text:Be brief",
        "user text:é\n\"hi\" file:data:image/png;base64,AAAA",
        "user host:Use tabs\n\nCommit often",
        "assistant [tool-calls] text:First look execute_bash{\"command\":\"ls\"}=x\n[exit code 0] editor{\"path\":\"a.rs\"}!no such file",
        "user marker tail msg_000004",
        "assistant (summary) [stop] text:sum",
        "assistant text:Done",
    ]
    "#);
    assert_eq!(usages(&read), [[30, 5, 0, 20, 0]]);
    assert_eq!(unused(&read), ["agent_state_changed: 1"]);
    assert_eq!((read.info.version.as_deref(), read.info.model.as_deref()), (Some("0.50"), Some("m")));
}

#[test]
fn openhands_evaluations_have_a_run_per_line() {
    let read = read_all(Format::Openhands, samples::OPENHANDS_RUNS);
    assert_eq!(
        shape(&read.messages),
        ["user text:é\n\"hi\"", "assistant [tool-calls] text:t run{\"command\":\"ls\"}=x"]
    );
    assert_eq!((read.info.id.as_deref(), read.info.model.as_deref()), (Some("two"), Some("m")));
    assert_eq!(read.other_sessions[0].id.as_deref(), Some("one"));
    assert_eq!(unused(&read), ["event of another session: 2"]);
}

#[test]
fn openhands_events_of_version_1_are_read() {
    let read = read_all(Format::Openhands, samples::OPENHANDS_KINDS);
    insta::assert_debug_snapshot!(shape(&read.messages), @r#"
    [
        "system text:Be brief",
        "user text:é\n\"hi\" file:data:image/png;base64,AAAA host:Use tabs",
        "assistant [tool-calls] thought:hm text:First look terminal{\"command\":\"ls\"}=x editor{}!bad call",
        "user marker tail msg_000003",
        "assistant (summary) [stop] text:sum",
        "assistant text:Done",
    ]
    "#);
    assert_eq!(unused(&read), ["PauseEvent: 1"]);
}

#[test]
fn kimi_arguments_come_in_pieces() {
    let read = read_all(Format::Kimi, samples::KIMI);
    insta::assert_debug_snapshot!(shape(&read.messages), @r#"
    [
        "user text:é\n\"hi\"",
        "assistant [tool-calls] thought:hm ls{\"a\":1}=<system>1 file</system>\nx cat{\"b\":\"two\"}!no such file",
        "user marker",
        "assistant (summary) [stop] text:[The summary of this compaction is not in the file]",
        "system text:Be brief",
        "user text:again",
        "assistant [tool-calls] text:On it ls{\"a\":2}=y",
        "user marker",
        "assistant (summary) [stop] text:sum",
        "system text:Be kind",
        "user text:third",
        "assistant [tool-calls] thought:hm text:Yes ls{}=z",
    ]
    "#);
    assert_eq!(usages(&read), [[10, 5, 0, 20, 3], [4, 2, 0, 1, 0]]);
    assert_eq!((read.info.context, read.info.model.as_deref()), (Some(Tokens(262_144)), Some("kimi-x")));
    assert_eq!(unused(&read), ["_checkpoint: 1", "_usage: 1"]);
    assert_eq!(shape(&read.side_chains[0].messages), ["user text:side"]);
    assert_eq!(read.side_chains[0].info.id.as_deref(), Some("A"));
}

#[test]
fn kimi_turns_that_were_undone_are_left_out() {
    let said = |text: &str| {
        format!(
            r#"{{"type":"context.append_message","message":{{"role":"user","content":[{{"type":"text","text":"{text}"}}],"origin":{{"kind":"user"}}}}}}"#
        )
    };
    let undo = r#"{"type":"context.undo","count":1}"#;
    let read = read_all(
        Format::Kimi,
        &[&said("one"), &said("two"), undo, &said("three")].map(|line| format!("{line}\n")).concat(),
    );
    assert_eq!(shape(&read.messages), ["user text:one", "user text:three"]);
    assert_eq!(unused(&read), ["context.undo: 1", "undone: 1"]);
}

#[test]
fn managed_agents_report_usage_at_the_end_of_a_request() {
    let read = read_all(Format::ManagedAgents, samples::MANAGED_AGENTS);
    insta::assert_debug_snapshot!(shape(&read.messages), @r#"
    [
        "user text:é\n\"hi\"",
        "assistant [tool-calls] text:Looking ls{\"a\":1}=x",
        "user text:Make it green host:Tests pass",
    ]
    "#);
    assert_eq!(usages(&read), [[2, 5, 0, 20, 3]]);
    assert_eq!(
        unused(&read),
        [
            "agent.thinking: 1",
            "session.status_running: 1",
            "span.model_request_start: 1",
            "user.interrupt: 1"
        ]
    );
}

#[test]
fn trae_results_of_the_last_request_come_from_the_steps() {
    let read = read_all(Format::Trae, samples::TRAE);
    insta::assert_debug_snapshot!(shape(&read.messages), @r#"
    [
        "system text:Be brief",
        "user text:é\n\"hi\"",
        "assistant [tool-calls] text:Looking bash{\"a\":1}=x",
        "assistant [tool-calls] task_done{}!not yet",
    ]
    "#);
    assert_eq!(usages(&read), [[10, 3, 2, 20, 3]]);
    assert_eq!(read.info.title.as_deref(), Some("List the files"));
}

#[test]
fn trae_steps_that_start_over_are_another_session() {
    let read = read_all(Format::Trae, samples::TRAE_STEPS);
    assert_eq!(
        shape(&read.messages),
        ["system text:Be brief", "user text:é\n\"hi\"", "assistant [tool-calls] ls{\"a\":1}=x"]
    );
    assert_eq!((read.info.id.as_deref(), read.other_sessions[0].id.as_deref()), (Some("three"), Some("one")));
    assert_eq!(unused(&read), ["step of another session: 2"]);
}

#[test]
fn aider_reads_the_newest_chat_with_content() {
    let read = read_all(Format::Aider, samples::AIDER);
    insta::assert_debug_snapshot!(shape(&read.messages), @r#"
    [
        "user text:/add a.rs",
        "user text:é\n\"hi\"",
        "assistant [stop] text:Here is the change:\n\na.rs\n\n```rust\n<<<<<<< SEARCH\n> quoted\n=======\nfn a() {}\n>>>>>>> REPLACE\n```",
        "user host:The LLM did not conform to the edit format.\nOnly 1 reflections allowed, stopping.",
        "assistant text:Sorry, again.",
    ]
    "#);
    assert_eq!(usages(&read), [[8_032, 439, 0, 300, 2_000], [10_400, 40, 0, 0, 0]]);
    let costs: Vec<Option<f64>> = read.recorded.responses().map(|response| response.cost).collect();
    assert_eq!(costs, [Some(0.04), None]);
    assert_eq!(read.info.id.as_deref(), Some("2026-01-02-113005"));
    assert_eq!(
        (read.info.model.as_deref(), read.info.version.as_deref()),
        (Some("claude-x"), Some("0.86.1"))
    );
    let others: Vec<Option<&str>> = read.other_sessions.iter().map(|info| info.id.as_deref()).collect();
    assert_eq!(others, [Some("2026-01-01-100000")], "a chat without content is not a session");
}

/// The model does not see commands for aider itself.
#[test]
fn aider_commands_are_kept_out_of_the_window() {
    let read = read_ok(samples::AIDER);
    let shown = plimsoll::Window::of(&read.messages, &plimsoll::Policy::default());
    let shown = format!("{shown:?}");
    assert!(!shown.contains("/add a.rs") && shown.contains("Sorry, again"), "{shown}");
}
