//! How far a task has come, gathered from the events of its run.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use plimsoll::SessionId;

use crate::event::{Event, EventSink};
use crate::task::{TaskPhase, TaskProgress};

/// So many of the newest tools are named.
const LAST_TOOLS: usize = 3;
/// Words alone are told no more often than this.
const QUIET: Duration = Duration::from_millis(500);

/// The progress of a run, shared by those who look at it.
#[derive(Clone, Default)]
pub(super) struct ProgressMeter(Arc<Mutex<TaskProgress>>);

impl ProgressMeter {
    pub(super) fn new(begin: TaskProgress) -> ProgressMeter {
        ProgressMeter(Arc::new(Mutex::new(begin)))
    }

    pub(super) fn read(&self) -> TaskProgress {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Take what an event says of the progress. Says whether it is worth telling at once.
    fn take(&self, event: &Event) -> Option<bool> {
        let mut progress = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Text { delta } => {
                progress.phase = TaskPhase::Streaming;
                progress.chars += delta.encode_utf16().count() as u64;
                Some(false)
            }
            Event::CallStarted { tool, .. } => {
                progress.phase = TaskPhase::Tool;
                progress.tool_calls += 1;
                *progress.tools.entry(tool.clone()).or_default() += 1;
                progress.last_tools.push(tool.clone());
                let extra = progress.last_tools.len().saturating_sub(LAST_TOOLS);
                progress.last_tools.drain(..extra);
                Some(true)
            }
            Event::CallEnded { .. } => {
                progress.phase = TaskPhase::Streaming;
                Some(true)
            }
            Event::Answered { usage, cost, .. } => {
                progress.steps += 1;
                if let Some(usage) = usage {
                    progress.usage.add_figures(usage);
                }
                progress.cost += cost.unwrap_or_default();
                Some(true)
            }
            Event::Summarised { usage, cost, .. } => {
                if let Some(usage) = usage {
                    progress.usage.add_figures(usage);
                }
                progress.cost += cost.unwrap_or_default();
                Some(false)
            }
            _ => None,
        }
    }

    /// A sink for the events of a task's run: its progress is told to the parent's sink, and so is what its own tasks tell
    /// and what it was denied, because only a person can allow that. Its words are not: a person who follows the parent
    /// would take them for the parent's.
    pub(super) fn sink(&self, task: &SessionId, parent: &SessionId, told: EventSink) -> EventSink {
        let (meter, task, parent) = (self.clone(), task.clone(), parent.clone());
        let last_told: Mutex<Option<Instant>> = Mutex::default();
        Arc::new(move |event| {
            if matches!(
                event,
                Event::TaskLaunched { .. }
                    | Event::TaskProgress { .. }
                    | Event::TaskEnded { .. }
                    | Event::Denied { .. }
            ) {
                return told(event);
            }
            let Some(at_once) = meter.take(event) else { return };
            let mut last = last_told.lock().unwrap_or_else(PoisonError::into_inner);
            if at_once || last.is_none_or(|last| last.elapsed() >= QUIET) {
                *last = Some(Instant::now());
                let (task, parent) = (task.clone(), parent.clone());
                told(&Event::TaskProgress { task, parent, progress: Box::new(meter.read()) });
            }
        })
    }
}
