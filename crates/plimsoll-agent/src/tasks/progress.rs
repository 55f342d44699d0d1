//! Progress of a task, collected from the events of its run.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use plimsoll::SessionId;

use crate::event::{Event, EventSink};
use crate::task::{TaskPhase, TaskProgress};

/// Number of recent tools in the progress.
const LAST_TOOLS: usize = 3;
/// Minimum interval between reports of streamed text.
const QUIET: Duration = Duration::from_millis(500);

/// Progress of a run, shared with its readers.
#[derive(Clone, Default)]
pub(super) struct ProgressMeter(Arc<Mutex<TaskProgress>>);

impl ProgressMeter {
    pub(super) fn new(begin: TaskProgress) -> ProgressMeter {
        ProgressMeter(Arc::new(Mutex::new(begin)))
    }

    pub(super) fn read(&self) -> TaskProgress {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Applies an event to the progress. Returns whether to report it at once, or `None` if nothing changed.
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

    /// Returns a sink for the events of a task's run. Progress, events of its own tasks and denied calls are passed to
    /// the parent's sink; denials because only the user can allow such calls. Text is not, because it would look like
    /// the parent's.
    pub(super) fn sink(&self, task: &SessionId, parent: &SessionId, parent_events: EventSink) -> EventSink {
        let (meter, task, parent) = (self.clone(), task.clone(), parent.clone());
        let last_report: Mutex<Option<Instant>> = Mutex::default();
        Arc::new(move |event| {
            if matches!(
                event,
                Event::TaskLaunched { .. }
                    | Event::TaskProgress { .. }
                    | Event::TaskEnded { .. }
                    | Event::Denied { .. }
            ) {
                return parent_events(event);
            }
            let Some(at_once) = meter.take(event) else { return };
            let mut last = last_report.lock().unwrap_or_else(PoisonError::into_inner);
            if at_once || last.is_none_or(|last| last.elapsed() >= QUIET) {
                *last = Some(Instant::now());
                let (task, parent) = (task.clone(), parent.clone());
                parent_events(&Event::TaskProgress { task, parent, progress: Box::new(meter.read()) });
            }
        })
    }
}
