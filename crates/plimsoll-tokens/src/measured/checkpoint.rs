//! The stored state of a meter, to resume when the session has grown.

use serde::{Deserialize, Serialize};

use super::{Request, Track, WindowMeter};
use crate::calibrate::Calibration;
use crate::measure::Measure;

/// A [`WindowMeter`] as it can be stored, to resume when the session has grown.
///
/// A checkpoint no longer knows single messages. So it can only be resumed as long as nothing refers back: no summary with a
/// tail, and no reduction of an earlier message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeterCheckpoint {
    tracks: [TrackCheckpoint; 2],
    is_own: Option<bool>,
    count: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct TrackCheckpoint {
    first: u64,
    sent: Measure,
    unreduced: Measure,
    requests: Vec<Request>,
    calibration: Option<Calibration>,
    is_undone: bool,
    is_compacted: bool,
}

impl From<&Track> for TrackCheckpoint {
    fn from(track: &Track) -> TrackCheckpoint {
        let Track { first, sent, unreduced, requests, calibration, is_undone, is_compacted, .. } =
            track.clone();
        TrackCheckpoint { first, sent, unreduced, requests, calibration, is_undone, is_compacted }
    }
}

impl From<TrackCheckpoint> for Track {
    fn from(stored: TrackCheckpoint) -> Track {
        let TrackCheckpoint { first, sent, unreduced, requests, calibration, is_undone, is_compacted } =
            stored;
        let (newest, system) = Default::default();
        Track { newest, first, system, sent, unreduced, requests, calibration, is_undone, is_compacted }
    }
}

impl From<MeterCheckpoint> for WindowMeter {
    fn from(MeterCheckpoint { tracks, is_own, count }: MeterCheckpoint) -> WindowMeter {
        WindowMeter { tracks: tracks.map(Track::from), is_own, count, ..WindowMeter::default() }
    }
}

impl WindowMeter {
    /// The state to resume from; `None` if a compaction or a reduction is still to take effect.
    pub fn checkpoint(&self) -> Option<MeterCheckpoint> {
        let is_settled = self.marker.is_none()
            && self.undo.is_none()
            && self.later.is_empty()
            && self.timed.is_empty()
            && self.due.is_empty();
        let tracks = || [&self.tracks[0], &self.tracks[1]].map(TrackCheckpoint::from);
        is_settled.then(|| MeterCheckpoint { tracks: tracks(), is_own: self.is_own, count: self.count })
    }
}
