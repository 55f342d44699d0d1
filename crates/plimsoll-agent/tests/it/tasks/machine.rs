//! The state machine of a task, under any changes in any order.

use plimsoll::{Millis, SessionId};
use plimsoll_agent::tasks::{Task, TaskChange, TaskData, TaskError, TaskProgress, TaskStatus};
use proptest::prelude::*;

fn any_change() -> impl Strategy<Value = TaskChange> {
    let run = 0u32..6;
    let status = prop::sample::select(TaskStatus::ALL.to_vec());
    prop_oneof![
        1 => run.clone().prop_map(|run| TaskChange::Start { run }),
        1 => (run.clone(), 0u64..9).prop_map(|(run, steps)| {
            let mut progress = TaskProgress::default();
            progress.steps = steps;
            TaskChange::Progress { run, progress }
        }),
        3 => (run, status, any::<bool>(), any::<bool>()).prop_map(|(run, status, fails, says)| TaskChange::End {
            run,
            status,
            error: fails.then(|| "It broke.".to_owned()),
            result: says.then(|| "Nine.".to_owned()),
            progress: None,
        }),
        1 => Just(TaskChange::Cancel { why: None }),
        2 => "[a-z]{3}".prop_map(|prompt| TaskChange::Resume { prompt, by: "one".into() }),
        2 => "[a-z]{3}".prop_map(|prompt| TaskChange::QueueResume { prompt }),
        1 => Just(TaskChange::FirePending { by: "two".into() }),
        1 => Just(TaskChange::Steer),
        1 => Just(TaskChange::Clear),
    ]
}

fn new() -> Task {
    Task::new(SessionId::new("ses_1"), "ses_0".into(), TaskData::default(), "zero", Millis(1))
}

proptest! {
    #[test]
    fn properties_no_order_of_changes_breaks_a_task(changes in prop::collection::vec(any_change(), 1..60)) {
        let mut task = new();
        for (at, change) in changes.into_iter().enumerate() {
            let now = Millis(2 + at as u64);
            let before = task.clone();
            match task.apply(change.clone(), now) {
                Ok(next) => task = next,
                Err(error) => {
                    let known = matches!(
                        error,
                        TaskError::Moved { .. }
                            | TaskError::NotRunning { .. }
                            | TaskError::NotSteerable { .. }
                            | TaskError::ResumePending
                    );
                    prop_assert!(known, "{error}");
                    continue;
                }
            }
            let moved = before.status == task.status || before.status.may_become(task.status);
            prop_assert!(moved, "{:?} made {} of {}", change, task.status, before.status);
            // A run is active until it has ended, and only the newest can be.
            let runs = &task.data.runs;
            prop_assert_eq!(runs.last().unwrap().end.is_none(), task.status.is_active());
            prop_assert!(runs[..runs.len() - 1].iter().all(|run| run.end.is_some()));
            // An ended run does not change; its result moves into it when another run begins.
            for (was, is) in before.data.runs.iter().zip(runs) {
                if was.end.is_some() {
                    prop_assert_eq!((was.ended, was.end, &was.error, &was.unread), (is.ended, is.end, &is.error, &is.unread));
                    prop_assert!(was.result.is_none() || was.result == is.result);
                }
            }
            // Another run means a resume, and a resume means another run.
            let begins = matches!(change, TaskChange::Resume { .. } | TaskChange::FirePending { .. });
            prop_assert_eq!(runs.len(), before.data.runs.len() + usize::from(begins));
            if begins {
                prop_assert!(!before.status.is_active() && task.status == TaskStatus::Resumed);
            }
            if begins {
                prop_assert_eq!(&runs[runs.len() - 2].result, &before.data.result, "a result was lost");
                prop_assert!(task.data.result.is_none(), "a run begins with another's result");
            }
            if let TaskChange::End { run, .. } = change {
                prop_assert_eq!(run, before.run(), "only the newest run can end");
            }
            // Cancelled and cleared tasks do not return by themselves.
            if matches!(change, TaskChange::Cancel { .. } | TaskChange::Clear) {
                prop_assert!(task.data.pending.is_none() && !task.status.is_active());
            }
            if let (Some(was), None) = (&before.data.pending, &task.data.pending) {
                let fired = runs.last().unwrap().prompt.as_ref() == Some(was);
                let is_unwanted = matches!(change, TaskChange::Cancel { .. } | TaskChange::Clear);
                prop_assert!(fired || is_unwanted, "a resume was lost by {:?}", change);
            }
        }
    }
}

#[test]
fn every_status_has_the_transitions_of_the_table() {
    for from in TaskStatus::ALL {
        let next: Vec<TaskStatus> = TaskStatus::ALL.into_iter().filter(|to| from.may_become(*to)).collect();
        assert!(!next.is_empty(), "{from} is a dead end");
        assert_eq!(from.is_active(), !next.contains(&TaskStatus::Resumed), "{from}");
        assert_eq!(from.name().parse(), Ok(from));
    }
}
