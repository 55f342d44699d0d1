//! What a session's file records of usage, as figures with a cost; and how large its model's window was.

use std::collections::BTreeMap;

use plimsoll::{Limits, Millis, Tokens};
use plimsoll_formats::{Format, Recorded, Transcript};
use plimsoll_replay::{guess_window, rebuilt_at_most};
use plimsoll_store::{Session, Store, StoreError};
use plimsoll_tokens::ModelTable;
use serde::Serialize;

use crate::config::Config;

/// Claude Code works in a window of this size unless it is told to use all that its model has, and does not record
/// which.
const CLAUDE_CODE: Tokens = Tokens(200_000);

/// Sums of what was recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RecordedFigures {
    /// Responses that something was counted for.
    pub(crate) responses: usize,
    /// Input that had nothing to do with the cache.
    pub(crate) input: Tokens,
    /// Input read from the cache.
    pub(crate) cache_read: Tokens,
    /// Input written to the cache.
    pub(crate) cache_write: Tokens,
    /// What of it was written for an hour.
    pub(crate) cache_write_hour: Tokens,
    /// Output, reasoning included.
    pub(crate) output: Tokens,
    /// Dollars, by the prices of the models; none if no response has one.
    pub(crate) cost: Option<f64>,
    /// Responses of models whose price is not known.
    pub(crate) unpriced: usize,
    /// Every response was recorded with a cost, and none of them cost anything.
    #[serde(skip)]
    pub(crate) is_free: bool,
    /// All input of the newest request.
    pub(crate) last_request: Option<Tokens>,
    /// All input of the largest request.
    pub(crate) largest_request: Option<Tokens>,
    /// The most that a request and its answer took together.
    #[serde(skip)]
    pub(crate) largest_exchange: Option<Tokens>,
    /// The model that gave the most of the responses.
    pub(crate) model: Option<String>,
    /// How many models there are.
    #[serde(skip)]
    pub(crate) models: usize,
}

impl RecordedFigures {
    /// Add everything up, at today's prices.
    pub(crate) fn of(recorded: &Recorded) -> RecordedFigures {
        RecordedFigures::at(recorded, None)
    }

    /// Add everything up, at the prices that models had at that time.
    pub(crate) fn at(recorded: &Recorded, at: Option<Millis>) -> RecordedFigures {
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
                // Neighbours mostly have the same model.
                if known.as_ref().is_none_or(|(name, _)| name != model) {
                    known = Some((model.clone(), table.price_at(model, at)));
                }
                known.as_ref().and_then(|(_, price)| *price)
            });
            figures.is_free &= response.cost == Some(0.0);
            // What a tool has paid counts more than a list price: gateways add a fee, and some usage lacks what was written
            // to the cache. A subscription is recorded as zero.
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

/// A sum of money for people.
pub(crate) fn dollars(cost: f64) -> String {
    let cents = (cost * 100.0).round().clamp(0.0, 1e17) as u64;
    format!("${}.{:02}", plimsoll::Tokens(cents / 100), cents % 100)
}

/// How large the window of a session's model is, and how that is known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionWindow {
    /// The limits of the model.
    pub(crate) limits: Limits,
    /// How they are known.
    pub(crate) source: WindowSource,
}

/// How the size of a window is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum WindowSource {
    /// It was asked for on the command line.
    Asked,
    /// The policy names the model.
    Policy,
    /// The session's file records it.
    Recorded,
    /// It is the model's.
    Model,
    /// It is configured.
    Configured,
    /// Nothing is known or configured.
    Default,
    /// Nothing is known, and a request was larger than what is configured or the default: a guess that has room for it.
    LargestRequest,
}

impl WindowSource {
    /// The words behind the size.
    pub(crate) fn words(self) -> &'static str {
        match self {
            WindowSource::Asked => "as asked for",
            WindowSource::Policy => "the policy's",
            WindowSource::Recorded => "as recorded",
            WindowSource::Model => "the model's",
            WindowSource::Configured => "configured",
            WindowSource::Default => "the default",
            WindowSource::LargestRequest => "guessed: at least its largest request",
        }
    }

    /// Whether neither the session, the user nor the model tells the size.
    pub(crate) fn is_unknown(self) -> bool {
        matches!(self, WindowSource::Default | WindowSource::LargestRequest)
    }
}

impl SessionWindow {
    /// The window of a stored session, by the same rules.
    pub(crate) fn of_stored(
        store: &dyn Store,
        session: &Session,
        config: &Config,
        asked: Option<u64>,
    ) -> Result<SessionWindow, StoreError> {
        let transcript = plimsoll_import::visit(store, session, &mut |_| {})?;
        let figures = RecordedFigures::of(&transcript.recorded);
        Ok(SessionWindow::of(&transcript, &figures, config, asked))
    }

    /// The window of a session: what was asked for, else what the policy says of its model, else what the file
    /// records, else what is known of the model, else what is configured or the default. What is not the session's own
    /// gives way to a guess where more was sent and answered than it has room for.
    pub(crate) fn of(
        transcript: &Transcript,
        figures: &RecordedFigures,
        config: &Config,
        asked: Option<u64>,
    ) -> SessionWindow {
        let found = |limits, source| SessionWindow { limits, source };
        if let Some(asked) = asked {
            return found(Limits::new(asked, 0), WindowSource::Asked);
        }
        let info = &transcript.info;
        let model = info.model.as_deref().unwrap_or_default();
        if let Some(limits) = config.policy.overflow.models.get(model) {
            return found(*limits, WindowSource::Policy);
        }
        if let Some(context) = info.context {
            return found(Limits::new(context.0, 0), WindowSource::Recorded);
        }
        // Whatever is known of a model, it took what it took.
        let largest = figures.largest_exchange.unwrap_or_default();
        let known = ModelTable::default().find(model).and_then(|facts| facts.limits);
        let mut known = known.filter(|limits| limits.context >= largest && limits.context > Tokens::ZERO);
        if let Some(limits) = known.as_mut().filter(|limits| limits.context > CLAUDE_CODE)
            && info.tool.unwrap_or(transcript.format) == Format::ClaudeCode
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

    /// The same window, or a guess if it has no room for what a session took: a size that models have, above that. A size
    /// that is not known also has to have room for the error by which rebuilt requests are too large.
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

    use super::{SessionWindow, WindowSource, dollars};

    #[test]
    fn money_has_two_decimals_and_thousands() {
        assert_eq!(dollars(1_234.565), "$1,234.57");
        assert_eq!(dollars(0.004), "$0.00");
    }

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
