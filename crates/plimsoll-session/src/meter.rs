//! Counting for one session: an exact vocabulary, calibrated by the usage that the model's provider reports.

use std::sync::Arc;

use plimsoll::{Counter, Memo, Tokens, Usage, Window, floor};
use plimsoll_tokens::{Bpe, Calibration, Measure, Observed};

use crate::settings::Counting;

/// Token counter of one session, recalibrated after each response.
pub(crate) enum Meter {
    Calibrated { base: Arc<Memo<Bpe>>, calibration: Box<Calibration> },
    Fixed(Arc<dyn Counter>),
}

impl Meter {
    /// Creates a meter for a model. `learned` is the calibration of an earlier session; one for another model is
    /// ignored.
    pub(crate) fn new(counting: &Counting, model: &str, learned: Option<Calibration>) -> Meter {
        match counting {
            Counting::Fixed(counter) => Meter::Fixed(Arc::clone(counter)),
            Counting::Calibrated => {
                let known = learned.filter(|learned| learned.model() == model);
                let mut calibration = known.unwrap_or_else(|| Calibration::new(model));
                // How the model counts carries over from an earlier session; its last request does not.
                calibration.begin_session();
                Meter::Calibrated {
                    base: Arc::new(Memo::new(Bpe::O200k)),
                    calibration: Box::new(calibration),
                }
            }
        }
    }

    /// Returns the counter, calibrated by the responses so far.
    pub(crate) fn counter(&self) -> Arc<dyn Counter> {
        match self {
            Meter::Calibrated { base, calibration } => Arc::new(calibration.counter(Arc::clone(base))),
            Meter::Fixed(counter) => Arc::clone(counter),
        }
    }

    /// Measures a window before it is sent.
    pub(crate) fn measure(&self, window: &Window) -> Measure {
        match self {
            Meter::Calibrated { base, .. } => Measure::of_window(window, &**base),
            // A fixed counter learns nothing, so counting the window would be wasted.
            Meter::Fixed(_) => Measure::default(),
        }
    }

    /// Calibrates the counter with the usage that the provider reported for a request. Implausible usage is ignored.
    pub(crate) fn observe(&mut self, sent: Measure, usage: &Usage) -> Option<Observed> {
        let Meter::Calibrated { calibration, .. } = self else { return None };
        let charged = usage.input + usage.cache_read + usage.cache_write;
        // One impossible figure would skew every later estimate, so it is dropped and not averaged in.
        let is_taken = charged > Tokens::ZERO && floor::is_credible(usage, calibration.least(sent.least));
        is_taken.then(|| calibration.observe(sent, charged))
    }
}
