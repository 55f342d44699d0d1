//! Texts for models and users, verbatim.

use std::time::Duration;

use plimsoll::fork::ForkStats;
use plimsoll::{Message, Millis, Part, SessionId, ToolState};
use plimsoll_agent::tasks::{
    EndedRun, ForkReceipt, ForkWay, Task, TaskChange, TaskData, TaskError, TaskPhase, TaskStatus, TaskView,
    TranscriptFilter, cleared_text, duration_text, ended_text, find_task, fork_text, list_text, short_id,
    toast_text, transcript_text,
};
use serde_json::json;

const BEGIN: Millis = Millis(1_000_000);
const NOW: Millis = Millis(1_065_000);

fn task(id: &str, description: &str) -> Task {
    let mut data = TaskData::default();
    data.description = description.into();
    data.prompt = "Find out how deep the harbour is.".into();
    data.agent = "explore".into();
    data.model = "anthropic/scripted".into();
    let queued = Task::new(SessionId::new(id), "ses_parent".into(), data, "the test", BEGIN);
    queued.apply(TaskChange::Start { run: 1 }, BEGIN).unwrap()
}

fn end(task: &Task, status: TaskStatus, error: Option<&str>, result: Option<&str>) -> Task {
    let change = TaskChange::End {
        run: task.run(),
        status,
        error: error.map(str::to_owned),
        result: result.map(str::to_owned),
        progress: None,
    };
    task.apply(change, NOW).unwrap()
}

fn worked(mut task: Task) -> Task {
    let progress = &mut task.data.progress;
    (progress.steps, progress.tool_calls, progress.phase) = (3, 5, TaskPhase::Tool);
    progress.tools = [("grep".to_owned(), 1), ("read".to_owned(), 4)].into();
    progress.last_tools = vec!["grep".into(), "read".into(), "read".into()];
    task
}

fn fork_receipt(set: impl FnOnce(&mut ForkReceipt)) -> ForkReceipt {
    let mut receipt = ForkReceipt::default();
    set(&mut receipt);
    receipt
}

fn forked(mut task: Task) -> Task {
    task.data.fork = Some(fork_receipt(|receipt| receipt.way = ForkWay::Digest));
    task
}

fn resumed(task: &Task) -> Task {
    let resume = TaskChange::Resume { prompt: "And the channel?".into(), by: "the test".into() };
    let resumed = task.apply(resume, NOW).unwrap();
    resumed.apply(TaskChange::Start { run: resumed.run() }, NOW).unwrap()
}

fn view<'a>(task: &'a Task, siblings: &'a [Task]) -> TaskView<'a> {
    TaskView { task, siblings, now: NOW }
}

#[test]
fn the_texts_of_a_launch() {
    let launched = task("ses_41e08091abcdef", "Sound the harbour");
    insta::assert_snapshot!(view(&launched, &[]).launched());
    let mut warned = forked(launched);
    warned.data.fork.as_mut().unwrap().warning = Some("The parent's context could not be read.".into());
    insta::assert_snapshot!(view(&warned, &[]).launched());
}

#[test]
fn the_texts_of_a_resume() {
    let done =
        end(&task("ses_41e08091abcdef", "Sound the harbour"), TaskStatus::Completed, None, Some("Nine."));
    let first = resumed(&done);
    insta::assert_snapshot!(view(&first, &[]).resumed());
    let second = resumed(&end(&first, TaskStatus::Completed, None, None));
    insta::assert_snapshot!(view(&second, &[]).resumed());
    insta::assert_snapshot!(view(&second, &[]).resume_queued());
}

#[test]
fn the_texts_of_a_cancel_a_clear_and_a_steer() {
    let gone = end(&task("ses_41e08091abcdef", "Sound the harbour"), TaskStatus::Cancelled, None, None);
    insta::assert_snapshot!(view(&gone, &[]).cancelled());
    insta::assert_snapshot!(view(&gone, &[]).steered());
    insta::assert_snapshot!(cleared_text(2, 5));
}

#[test]
fn the_output_of_a_completed_task() {
    let done = end(
        &task("ses_41e08091abcdef", "Sound | the\nharbour"),
        TaskStatus::Completed,
        None,
        Some("Nine metres.\n\nAt low tide."),
    );
    insta::assert_snapshot!(view(&done, &[]).output());
    let silent = worked(end(&task("ses_41e08091abcdef", "Sound it"), TaskStatus::Completed, None, None));
    insta::assert_snapshot!("only_calls", view(&silent, &[]).output());
    let nothing = end(&task("ses_41e08091abcdef", "Sound it"), TaskStatus::Completed, None, None);
    insta::assert_snapshot!("no_answer", view(&nothing, &[]).output());
}

#[test]
fn error_messages_about_tasks() {
    let errors = [
        TaskError::NotFound("41e".into()),
        TaskError::Ambiguous {
            given: "41e".into(),
            candidates: vec!["`41e0` (One)".into(), "`41e1` (Two)".into()],
        },
        TaskError::NotRunning { status: TaskStatus::Completed },
        TaskError::NotSteerable { status: TaskStatus::Cancelled },
        TaskError::ResumePending,
        TaskError::SessionGone,
        TaskError::TooDeep { depth: 3, most: 2 },
        TaskError::NoPrice { model: "anthropic/scripted".into(), most: 2.5 },
        TaskError::NoSession("session `ses_gone` not found".into()),
    ];
    let reply: Vec<String> = errors.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(reply.join("\n\n"));
}

#[test]
fn the_output_of_any_other_task_is_its_status() {
    let mut running = worked(task("ses_41e08091abcdef", "Sound the harbour"));
    insta::assert_snapshot!("running", view(&running, &[]).output());
    running.data.prompt = "deep ".repeat(120);
    assert!(view(&running, &[]).output().ends_with("deep ...\n```"), "cut at 500");
    let failed = end(&running, TaskStatus::Error, Some("Step limit of 2 reached."), None);
    let mut failed = failed;
    failed.data.prompt = "Use ``` fences".into();
    insta::assert_snapshot!("error", view(&failed, &[]).output());
    let gone = end(&task("ses_41e08091abcdef", "Sound it"), TaskStatus::Cancelled, None, None);
    insta::assert_snapshot!("cancelled", view(&gone, &[]).output());
    let lost = end(&forked(task("ses_41e08091abcdef", "Sound it")), TaskStatus::Interrupted, None, None);
    insta::assert_snapshot!("interrupted", view(&lost, &[]).output());
    insta::assert_snapshot!("resumed", view(&resumed(&lost), &[]).output());
}

#[test]
fn r68_r69_the_list() {
    assert_eq!(list_text(&[], None, NOW), "No background tasks found.");
    assert_eq!(list_text(&[], Some("Running"), NOW), "No background tasks found with status \"Running\".");
    let plain = task("ses_11111111aaaa", "A description that is longer than thirty chars");
    let fork = worked(forked(task("ses_22222222aaaa", "Sound the harbour")));
    let both =
        resumed(&end(&forked(task("ses_22222222bbbb", "Ask again")), TaskStatus::Completed, None, None));
    let again = resumed(&end(&task("ses_33333333aaaa", "Only resumed"), TaskStatus::Completed, None, None));
    let done = end(&worked(task("ses_44444444aaaa", "Done")), TaskStatus::Completed, None, Some("Nine."));
    let failed = end(&task("ses_55555555aaaa", "Failed"), TaskStatus::Error, Some("x"), None);
    let gone = end(&task("ses_66666666aaaa", "Gone"), TaskStatus::Cancelled, None, None);
    let lost = end(&task("ses_77777777aaaa", "Lost"), TaskStatus::Interrupted, None, None);
    let hidden = end(&task("ses_88888888aaaa", "Hidden"), TaskStatus::Completed, None, None);
    let hidden = hidden.apply(TaskChange::Clear, NOW).unwrap();
    let all = [plain, fork, both, again, done, failed, gone, lost, hidden];
    let text = list_text(&all, None, NOW);
    assert!(text.contains("`22222222a (forked)`") && text.contains("`22222222b (forked) (resumed)`"));
    assert!(text.contains("`33333333 (resumed)`") && text.contains("`11111111`"));
    insta::assert_snapshot!(text);
    let running = list_text(&all, Some(" RUNNING "), NOW);
    assert!(running.contains("**Total: 4** | ⏳ 4 running |"), "those that were resumed run too: {running}");
}

#[test]
fn the_reports_to_a_parent() {
    let one = end(&task("ses_11111111aaaa", "Sound"), TaskStatus::Completed, None, Some("Nine."));
    let two = task("ses_22222222aaaa", "Ask");
    let bad = end(&task("ses_33333333aaaa", "Weigh"), TaskStatus::Error, Some("It broke."), None);
    let lost = end(&task("ses_44444444aaaa", "Moor"), TaskStatus::Interrupted, None, None);
    let reply = |ended: &[&Task], all: &[Task]| {
        let runs: Vec<EndedRun<'_>> = ended.iter().map(|task| EndedRun { task, run: task.run() }).collect();
        let (shown, hidden) = ended_text(&runs, all, NOW);
        format!("{shown}\n----\n{hidden}")
    };
    insta::assert_snapshot!("others_run", reply(&[&one], &[one.clone(), two]));
    insta::assert_snapshot!("last", reply(&[&one], std::slice::from_ref(&one)));
    let all = [one.clone(), bad.clone(), lost.clone()];
    insta::assert_snapshot!("together", reply(&[&one, &bad, &lost], &all));
    let again = end(&resumed(&one), TaskStatus::Completed, None, Some("Ten."));
    insta::assert_snapshot!("after_a_resume", reply(&[&again], std::slice::from_ref(&again)));
}

/// A run of a task that continues, or will, is not reported as the final one.
#[test]
fn a_note_about_an_end_names_the_next_run() {
    let hidden = |ended: &[(&Task, u32)], all: &[Task]| {
        let runs: Vec<EndedRun<'_>> = ended.iter().map(|(task, run)| EndedRun { task, run: *run }).collect();
        ended_text(&runs, all, NOW).1
    };
    let one = |task: &Task, run: u32| hidden(&[(task, run)], std::slice::from_ref(task));
    let ended = end(&task("ses_11111111aaaa", "Sound it"), TaskStatus::Completed, None, Some("Nine."));
    let in_line = || {
        let queue = TaskChange::QueueResume { prompt: "Again".into() };
        task("ses_11111111aaaa", "Sound it").apply(queue, NOW).unwrap()
    };
    let waits = end(&in_line(), TaskStatus::Completed, None, Some("Nine."));
    assert_eq!(
        one(&waits, 1),
        "Task `11111111` completed this run. A resume is queued and starts automatically. The result of the run:\nNine.\n\
         All 1 tasks finished."
    );
    assert_eq!(
        one(&resumed(&ended), 1),
        "Task `11111111` completed this run. It has been resumed since. The result of the run:\nNine."
    );
    let lost = end(&in_line(), TaskStatus::Interrupted, None, None);
    assert!(one(&lost, 1).starts_with(
        "Task interrupted: the process that ran it is gone. A resume is queued and starts automatically.\n"
    ));
    assert_eq!(
        one(&resumed(&lost), 1),
        "Task interrupted: the process that ran it is gone. It has been resumed since."
    );
    let other = end(&task("ses_22222222aaaa", "Moor"), TaskStatus::Interrupted, None, None);
    let gone = end(&task("ses_33333333aaaa", "Weigh"), TaskStatus::Interrupted, None, None);
    let both = hidden(&[(&other, 1), (&gone, 1)], &[other.clone(), gone.clone(), ended]);
    assert!(both.ends_with("\nNo task is running any more; 2 of 3 were interrupted."), "{both}");
    // Another process has cleared it meanwhile.
    let cancelled = end(&task("ses_44444444aaaa", "Moor"), TaskStatus::Cancelled, None, None);
    let cleared = cancelled.apply(TaskChange::Clear, NOW).unwrap();
    let runs = [EndedRun { task: &cleared, run: 1 }];
    let (shown, hint) = ended_text(&runs, std::slice::from_ref(&cleared), NOW);
    assert_eq!((shown.lines().count(), hint.as_str()), (1, ""), "{shown}");
}

#[test]
fn the_text_of_a_task_is_shown_after_a_failure_or_resume() {
    let works = task("ses_41e08091abcdef", "Sound it");
    let failed = end(&works, TaskStatus::Error, Some("Step limit of 2 reached."), Some("Nine so far."));
    let text = view(&failed, &[]).output();
    assert!(text.ends_with("\n\n## Output so far\n\nNine so far."), "{text}");
    let again = resumed(&end(&works, TaskStatus::Completed, None, Some("Nine.")));
    let text = view(&again, &[]).output();
    assert!(
        text.contains("**resumed**") && text.ends_with("\n\n## Result of the previous run\n\nNine."),
        "{text}"
    );
}

#[test]
fn a_task_that_was_resumed_is_listed_as_one_that_runs() {
    let listed = TaskStatus::ALL.into_iter().filter(|status| status.is_listed_as("running"));
    assert_eq!(listed.collect::<Vec<_>>(), [TaskStatus::Running, TaskStatus::Resumed]);
    assert!(TaskStatus::Resumed.is_listed_as("resumed") && !TaskStatus::Running.is_listed_as("resumed"));
}

#[test]
fn results_that_were_shortened_to_fit_count_as_cut() {
    let mut stats: ForkStats = serde_json::from_value(json!({
        "originalCount": 9, "finalCount": 9, "totalChars": 900, "removedMessages": 0, "compactionDetected": false,
        "compactionSliceIndex": -1, "truncatedResults": 7, "headTailApplied": 0,
        "tierDistribution": { "tier1": 5, "tier2": 3, "tier3": 4 },
    }))
    .unwrap();
    let was_cut = |stats: &ForkStats| fork_receipt(|receipt| receipt.stats = Some(stats.clone())).was_cut();
    (stats.truncated_by.tier2, stats.truncated_by.tier3) = (3, 4);
    assert!(!was_cut(&stats), "by their age, as always");
    stats.truncated_by.tier1 = 1;
    assert!(was_cut(&stats), "the newest are complete if there is room");
}

#[test]
fn the_messages_of_a_task() {
    let log = [
        Message::user("msg_1".into(), "prt_1".into(), "How deep?"),
        Message::assistant(
            "msg_2".into(),
            vec![
                Part::text("prt_2".into(), "Let me see."),
                Part::tool(
                    "prt_3".into(),
                    "call_1",
                    "read",
                    ToolState::completed(json!({ "path": "a" }), "nine"),
                ),
            ],
        ),
        Message::assistant("msg_3".into(), vec![Part::text("prt_4".into(), "Nine.")]),
    ];
    let all = TranscriptFilter { results: true, thinking: true, ..TranscriptFilter::default() };
    insta::assert_snapshot!(transcript_text(&log, &all));
    let since = |id: &str| TranscriptFilter { since: Some(id.into()), ..TranscriptFilter::default() };
    assert_eq!(transcript_text(&log, &since("msg_2")), "[msg_3] assistant: Nine.");
    assert!(
        transcript_text(&log, &since("msg_9")).starts_with("[msg_1] user: How deep?"),
        "unknown: everything"
    );
    let last = TranscriptFilter { most: Some(1), ..TranscriptFilter::default() };
    assert_eq!(transcript_text(&log, &last), "[msg_3] assistant: Nine.");
    assert_eq!(transcript_text(&[], &last), "No messages available for this task.");
}

#[test]
fn the_toast_names_task_and_result() {
    let one = end(&task("ses_11111111aaaa", "Sound"), TaskStatus::Completed, None, Some("Nine."));
    let two = worked(task("ses_22222222aaaa", "Ask"));
    let (title, lines) = toast_text(&[one.clone(), two], NOW);
    insta::assert_snapshot!(format!("{title}\n{lines}"));
    let (title, _) = toast_text(&[one], NOW);
    assert_eq!(title, "✓ Tasks complete");
}

#[test]
fn lengths_of_time() {
    let text = |seconds| duration_text(Duration::from_secs(seconds));
    assert_eq!([text(0), text(59), text(60), text(3_605)], ["0s", "59s", "1m 0s", "1h 0m 5s"]);
}

#[test]
fn ids_are_shown_shortened_and_accepted_in_any_length() {
    let ids = ["ses_41e08091aaaa", "ses_41e08091abbb", "ses_99"].map(SessionId::new);
    let short = |at: usize| short_id(&ids[at], &ids);
    assert_eq!([short(0), short(1), short(2)], ["41e08091aa", "41e08091ab", "99"]);
    let tasks: Vec<Task> = ids.iter().map(|id| task(id.as_str(), "Sound")).collect();
    for given in ["41e08091aa", "ses_41e08091aaaa", " 41e08091aaaa ", "ses_41e08091aa"] {
        assert_eq!(find_task(&tasks, given).unwrap().id, ids[0], "{given}");
    }
    assert_eq!(find_task(&tasks, "9").unwrap().id, ids[2]);
    insta::assert_snapshot!(find_task(&tasks, "41e").unwrap_err().to_string(), @"Task ID `41e` is ambiguous. It could be: `41e08091aa` (Sound), `41e08091ab` (Sound)");
    assert_eq!(find_task(&tasks, "xyz").unwrap_err().to_string(), "Task not found: xyz");
    assert_eq!(find_task(&tasks, "ses_").unwrap_err().to_string(), "Task not found: ses_");
}

#[test]
fn a_receipt_describes_the_context_of_a_fork() {
    let receipt = fork_receipt(|receipt| {
        (receipt.way, receipt.shared, receipt.tokens) = (ForkWay::History, Some(12), Some(3_400));
    });
    assert_eq!(fork_text(&receipt), "history, 12 messages shared, about 3400 tokens");
}
