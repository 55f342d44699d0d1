//! What a session's file records of usage, as figures with a cost; and how large its model's window was.

use std::collections::BTreeMap;

use plimsoll::{Limits, Policy, Tokens};
use plimsoll_formats::{Format, Recorded, Transcript};
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
    /// All input of the newest request.
    pub(crate) last_request: Option<Tokens>,
    /// All input of the largest request.
    pub(crate) largest_request: Option<Tokens>,
    /// The model that gave the most of the responses.
    pub(crate) model: Option<String>,
}

impl RecordedFigures {
    /// Add everything up.
    pub(crate) fn of(recorded: &Recorded) -> RecordedFigures {
        let table = ModelTable::default();
        let mut models: BTreeMap<std::sync::Arc<str>, usize> = BTreeMap::new();
        let mut figures = RecordedFigures::default();
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
            if let Some(model) = &response.model {
                *models.entry(model.clone()).or_default() += 1;
            }
            let price = response.model.as_ref().and_then(|model| {
                // Neighbours mostly have the same model.
                if known.as_ref().is_none_or(|(name, _)| name != model) {
                    known = Some((model.clone(), table.find(model).and_then(|facts| facts.price)));
                }
                known.as_ref().and_then(|(_, price)| *price)
            });
            // What a tool says of its own cost counts where the model is not in the table.
            match price.map(|price| price.cost(&response.usage())).or(response.cost) {
                Some(cost) => figures.cost = Some(figures.cost.unwrap_or(0.0) + cost),
                None => figures.unpriced += 1,
            }
        }
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
    /// It is configured, or the default.
    Configured,
    /// Nothing is known, and a request was larger than what is configured.
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
            WindowSource::LargestRequest => "at least: its largest request",
        }
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
        Ok(SessionWindow::of(&transcript, &figures, &config.policy, asked, config.context))
    }

    /// The window of a session: what was asked for, else what the policy says of its model, else what the file
    /// records, else what is known of the model, else what is configured.
    pub(crate) fn of(
        transcript: &Transcript,
        figures: &RecordedFigures,
        policy: &Policy,
        asked: Option<u64>,
        configured: u64,
    ) -> SessionWindow {
        let found = |limits, source| SessionWindow { limits, source };
        if let Some(asked) = asked {
            return found(Limits::new(asked, 0), WindowSource::Asked);
        }
        let info = &transcript.info;
        let model = info.model.as_deref().unwrap_or_default();
        if let Some(limits) = policy.overflow.models.get(model) {
            return found(*limits, WindowSource::Policy);
        }
        if let Some(context) = info.context {
            return found(Limits::new(context.0, 0), WindowSource::Recorded);
        }
        // Whatever is known of a model, it took what it took.
        let largest = figures.largest_request.unwrap_or_default();
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
            None if largest.0 > configured => found(Limits::new(largest.0, 0), WindowSource::LargestRequest),
            None => found(Limits::new(configured, 0), WindowSource::Configured),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::dollars;

    #[test]
    fn money_has_two_decimals_and_thousands() {
        assert_eq!(dollars(1_234.565), "$1,234.57");
        assert_eq!(dollars(0.004), "$0.00");
    }
}
