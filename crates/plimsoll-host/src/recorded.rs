//! Recorded usage of a session with its cost, and the size of its model's window.

use std::collections::BTreeMap;

use plimsoll::{Limits, Millis, Tokens};
use plimsoll_formats::{Format, Recorded, Transcript};
use plimsoll_replay::{guess_window, rebuilt_at_most};
use plimsoll_store::{Session, Store, StoreError};
use plimsoll_tokens::ModelTable;
use serde::Serialize;

use crate::config::HostConfig;

/// Default window of Claude Code. It can be configured to use all of its model's window, but its sessions do not record that.
const CLAUDE_CODE: Tokens = Tokens(200_000);

/// Sums of recorded usage.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RecordedFigures {
    /// Number of responses with usage.
    pub responses: usize,
    /// Input tokens that were not read from or written to the cache.
    pub input: Tokens,
    /// Input tokens read from the cache.
    pub cache_read: Tokens,
    /// Input tokens written to the cache.
    pub cache_write: Tokens,
    /// Input tokens written to the cache for an hour, part of `cache_write`.
    pub cache_write_hour: Tokens,
    /// Output tokens, reasoning included.
    pub output: Tokens,
    /// Cost in dollars, by the prices of the models; `None` if no response has one.
    pub cost: Option<f64>,
    /// Number of responses of models without a known price.
    pub unpriced: usize,
    /// Whether every response was recorded with a cost of zero.
    #[serde(skip)]
    pub(crate) is_free: bool,
    /// Input tokens of the newest request.
    pub last_request: Option<Tokens>,
    /// Input tokens of the largest request.
    pub largest_request: Option<Tokens>,
    /// Maximum tokens of a request and its answer together.
    #[serde(skip)]
    pub largest_exchange: Option<Tokens>,
    /// The model with the most responses.
    pub model: Option<String>,
    /// Number of models.
    #[serde(skip)]
    pub models: usize,
}

impl RecordedFigures {
    /// Adds up recorded usage at today's prices.
    pub fn of(recorded: &Recorded) -> RecordedFigures {
        RecordedFigures::at(recorded, None)
    }

    /// Adds up recorded usage at the prices of a given time.
    pub fn at(recorded: &Recorded, at: Option<Millis>) -> RecordedFigures {
        let table = ModelTable::default();
        let mut models: BTreeMap<std::sync::Arc<str>, usize> = BTreeMap::new();
        let mut figures = RecordedFigures { is_free: !recorded.is_empty(), ..RecordedFigures::default() };
        let mut known: Option<(std::sync::Arc<str>, Option<plimsoll_tokens::ModelPrice>)> = None;
        for response in recorded.responses() {
            let request = response.request();
            figures.responses += 1;
            figures.input += response.input;
            figures.cache_read += response.cache_read;
            figures.cache_write += response.cache_write;
            figures.cache_write_hour += response.cache_write_hour;
            figures.output += response.output;
            figures.last_request =
                Some(request).filter(|request| *request > Tokens::ZERO).or(figures.last_request);
            figures.largest_request = figures.largest_request.max(figures.last_request);
            if request > Tokens::ZERO {
                figures.largest_exchange = figures.largest_exchange.max(Some(request + response.output));
            }
            if let Some(model) = &response.model {
                *models.entry(model.clone()).or_default() += 1;
            }
            let price = response.model.as_ref().and_then(|model| {
                // Consecutive responses mostly have the same model, so its price is looked up only when the model changes.
                if known.as_ref().is_none_or(|(name, _)| name != model) {
                    known = Some((model.clone(), table.price_at(model, at)));
                }
                known.as_ref().and_then(|(_, price)| *price)
            });
            figures.is_free &= response.cost == Some(0.0);
            // A recorded cost has priority over the list price: gateways add a fee, and some usage lacks cache writes. But tools
            // record subscriptions as zero.
            let paid = response.cost.filter(|cost| *cost > 0.0);
            match paid.or_else(|| price.map(|price| price.cost(&response.usage()))).or(response.cost) {
                Some(cost) => figures.cost = Some(figures.cost.unwrap_or(0.0) + cost),
                None => figures.unpriced += 1,
            }
        }
        figures.models = models.len();
        let most = models.into_iter().max_by_key(|(_, count)| *count);
        figures.model = most.map(|(model, _)| model.to_string());
        figures
    }
}

/// The window of a session's model, and the source of its size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SessionWindow {
    /// The limits of the model.
    pub limits: Limits,
    /// Source of the limits.
    pub source: WindowSource,
}

/// Source of a window's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum WindowSource {
    /// Set by the user.
    Asked,
    /// The policy's entry for the model.
    Policy,
    /// Recorded by the session.
    Recorded,
    /// The model table.
    Model,
    /// The configuration.
    Configured,
    /// The default, because nothing is known or configured.
    Default,
    /// A guess, because a request was larger than the configured or default size.
    LargestRequest,
}

impl WindowSource {
    /// Returns a short text to show after the size.
    pub fn words(self) -> &'static str {
        match self {
            WindowSource::Asked => "as requested",
            WindowSource::Policy => "the policy's",
            WindowSource::Recorded => "as recorded",
            WindowSource::Model => "the model's",
            WindowSource::Configured => "configured",
            WindowSource::Default => "the default",
            WindowSource::LargestRequest => "guessed: at least its largest request",
        }
    }

    /// Whether neither the session, the user nor the model determines the size.
    pub(crate) fn is_unknown(self) -> bool {
        matches!(self, WindowSource::Default | WindowSource::LargestRequest)
    }
}

impl SessionWindow {
    /// Returns the window of a stored session, by the same rules.
    pub fn of_stored(
        store: &dyn Store,
        session: &Session,
        config: &HostConfig,
        asked: Option<u64>,
    ) -> Result<SessionWindow, StoreError> {
        let transcript = plimsoll_import::visit(store, session, &mut |_| {})?;
        let figures = RecordedFigures::of(&transcript.recorded);
        Ok(SessionWindow::of(&transcript, &figures, config, asked))
    }

    /// Returns the window of a session from the first available source: the user, the policy's entry for its model, the file,
    /// the model table, the configuration, the default. A size from one of the last three is replaced by a guess if it is too
    /// small for a recorded exchange.
    pub fn of(
        transcript: &Transcript,
        figures: &RecordedFigures,
        config: &HostConfig,
        asked: Option<u64>,
    ) -> SessionWindow {
        let info = &transcript.info;
        let is_claude_code = info.tool.unwrap_or(transcript.format) == Format::ClaudeCode;
        SessionWindow::of_model(info.model.as_deref(), info.context, is_claude_code, figures, config, asked)
    }

    /// Returns the window for these recorded figures, by the same rules.
    pub(crate) fn of_model(
        model: Option<&str>,
        recorded: Option<Tokens>,
        is_claude_code: bool,
        figures: &RecordedFigures,
        config: &HostConfig,
        asked: Option<u64>,
    ) -> SessionWindow {
        let found = |limits, source| SessionWindow { limits, source };
        if let Some(asked) = asked {
            return found(Limits::new(asked, 0), WindowSource::Asked);
        }
        let model = model.unwrap_or_default();
        if let Some(limits) = config.policy.overflow.models.get(model) {
            return found(*limits, WindowSource::Policy);
        }
        if let Some(context) = recorded {
            return found(Limits::new(context.0, 0), WindowSource::Recorded);
        }
        // A recorded exchange proves that the window is at least as large.
        let largest = figures.largest_exchange.unwrap_or_default();
        let known = ModelTable::default().find(model).and_then(|facts| facts.limits);
        let mut known = known.filter(|limits| limits.context >= largest && limits.context > Tokens::ZERO);
        if let Some(limits) = known.as_mut().filter(|limits| limits.context > CLAUDE_CODE)
            && is_claude_code
            && largest <= CLAUDE_CODE
        {
            limits.context = CLAUDE_CODE;
        }
        match known {
            Some(limits) => found(limits, WindowSource::Model),
            None => {
                let source =
                    if config.is_context_named { WindowSource::Configured } else { WindowSource::Default };
                found(Limits::new(config.context, 0), source).with_room_for(largest)
            }
        }
    }

    /// Returns this window if a session's largest exchange fits, otherwise a guess: the next larger size that models have. If
    /// the size is unknown, leaves room for the error of rebuilt requests, which can be too large.
    pub(crate) fn with_room_for(self, taken: Tokens) -> SessionWindow {
        let needed = if self.source.is_unknown() { rebuilt_at_most(taken) } else { taken };
        if needed <= self.limits.context {
            return self;
        }
        SessionWindow { limits: Limits::new(guess_window(taken).0, 0), source: WindowSource::LargestRequest }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll::{Limits, Tokens};

    use super::{SessionWindow, WindowSource};

    #[test]
    fn a_guess_has_a_usual_size_with_room_for_what_was_taken() {
        let guess = |source, context, taken| {
            let window = SessionWindow { limits: Limits::new(context, 0), source };
            let found = window.with_room_for(Tokens(taken));
            (found.limits.context.0, found.source)
        };
        use WindowSource::{Configured, Default, LargestRequest};
        assert_eq!(guess(Default, 200_000, 150_000), (200_000, Default));
        assert_eq!(
            guess(Default, 200_000, 199_000),
            (256_000, LargestRequest),
            "it is rebuilt a little larger"
        );
        assert_eq!(
            guess(Configured, 200_000, 199_000),
            (200_000, Configured),
            "what is configured has room without a margin"
        );
        assert_eq!(guess(Configured, 16_000, 20_000), (32_000, LargestRequest));
        assert_eq!(guess(LargestRequest, 400_000, 450_000), (1_000_000, LargestRequest));
        assert_eq!(guess(Default, 200_000, 2_500_000), (3_000_000, LargestRequest));
        assert!(guess(Default, 200_000, u64::MAX).0 > 1 << 63);
    }
}
