//! Inspection of a session: its window, its source, and recorded usage.

use std::collections::BTreeMap;

use plimsoll::log::Note;
use plimsoll::{Limits, Tokens};
use plimsoll_formats::Transcript;
use plimsoll_import::Scope;
use plimsoll_session::{Weigher, WindowReport, WindowScale};
use serde::Serialize;

use crate::config::HostConfig;
use crate::error::HostError;
use crate::host::Host;
use crate::input::InputSpec;
use crate::recorded::{RecordedFigures, SessionWindow, WindowSource};

/// Result of an inspection. It serialises to the output of `plimsoll inspect --json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InspectedSession {
    /// Format of the transcript.
    pub format: String,
    /// Id of the session.
    pub session: Option<String>,
    /// Title.
    pub title: Option<String>,
    /// The last model.
    pub model: Option<String>,
    /// The directory its agent worked in.
    pub directory: Option<String>,
    /// Number of sub-agents in the same file.
    pub side_chains: usize,
    /// Number of other sessions in the same file.
    pub other_sessions: usize,
    /// Whether the last line is cut off.
    pub torn: bool,
    /// Number of records of unknown kinds, by kind.
    pub skipped: BTreeMap<String, u64>,
    /// Number of known records that contain nothing for a model, by kind.
    pub unused: BTreeMap<String, u64>,
    /// The first invalid values.
    pub notes: Vec<Note>,
    /// Number of invalid values.
    pub wrong_values: u64,
    /// Recorded usage.
    pub recorded: RecordedFigures,
    /// The model's window.
    pub context: Tokens,
    /// Source of the size of the model's window.
    pub context_source: WindowSource,
    /// Content of the window.
    #[serde(flatten)]
    pub report: WindowReport,
}

impl Host {
    /// Inspects a session and its log. Messages are weighed one by one, so the session may be larger than memory.
    pub fn inspect(&self, spec: InputSpec, config: &HostConfig) -> Result<InspectedSession, HostError> {
        let asked = spec.flags.context;
        let mut weigher = Weigher::with_log(&config.policy);
        let transcript = self.input(spec, Scope::All)?.visit(&mut |message| weigher.add(message))?;
        let recorded = RecordedFigures::at(&transcript.recorded, transcript.info.started);
        let window = SessionWindow::of(&transcript, &recorded, config, asked);
        let Transcript { format, info, side_chains, other_sessions, skipped, unused, notes, torn, .. } =
            transcript;
        Ok(InspectedSession {
            report: weigher.finish(window.limits, info.directory.as_deref()),
            format: format.to_string(),
            session: info.id,
            title: info.title,
            model: info.model,
            directory: info.directory,
            side_chains: side_chains.len(),
            other_sessions: other_sessions.len(),
            torn,
            skipped,
            unused,
            notes: notes.first().to_vec(),
            wrong_values: notes.count(),
            recorded,
            context: window.limits.context,
            context_source: window.source,
        })
    }
}

/// Weighs the window of a transcript. Returns the report, the scale of its pieces, and the limits of the window.
pub fn weigh_window(
    transcript: Transcript,
    config: &HostConfig,
    asked: Option<u64>,
) -> (WindowReport, WindowScale, Limits) {
    let recorded = RecordedFigures::of(&transcript.recorded);
    let limits = SessionWindow::of(&transcript, &recorded, config, asked).limits;
    let mut weigher = Weigher::new(&config.policy);
    transcript.messages.into_iter().for_each(|message| weigher.add(message));
    let (report, scale) = weigher.finish_with_scale(limits, transcript.info.directory.as_deref());
    (report, scale, limits)
}
