//! Loads a session file for a replay, like `plimsoll replay`: in its own window, at the prices of its models.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use plimsoll::{Millis, Tokens, Usage};
use plimsoll_formats::{Format, Transcript};
use plimsoll_replay::{Price, Prices, Recording, ReplayParams, guess_window, rebuilt_at_most};
use plimsoll_tokens::ModelTable;

/// A session and its replay parameters.
pub(crate) struct Loaded {
    #[allow(dead_code, reason = "each example uses a part of this module")]
    pub(crate) format: Format,
    pub(crate) recording: Recording,
    pub(crate) own: ReplayParams,
}

impl Loaded {
    /// Reads a session file.
    pub(crate) fn read(file: &Path) -> Result<Loaded, Box<dyn Error>> {
        let transcript = plimsoll_formats::read(BufReader::new(File::open(file)?))?;
        let (format, started) = (transcript.format, transcript.info.started);
        let model = most_used_model(&transcript).unwrap_or_default();
        let usual = ReplayParams::default();
        let known = known_window(&transcript);
        let taken =
            transcript.recorded.responses().map(|response| response.request() + response.output).max();
        let mut costs = transcript.recorded.responses().map(|response| response.cost).peekable();
        let is_free = costs.peek().is_some() && costs.all(|cost| cost == Some(0.0));
        let mut recording = Recording::of(transcript.messages);
        let context = match known {
            Some(context) => context,
            // The window had room for every recorded call.
            None => {
                let taken = taken.unwrap_or_default().max(recording.room(&usual)?);
                if rebuilt_at_most(taken) <= usual.context { usual.context } else { guess_window(taken) }
            }
        };
        let cache_lifetime = recording.cache_lifetime().unwrap_or(usual.cache_lifetime);
        let prices = Prices::default();
        let price = |model: &str, at| match is_free && !prices.knows(model) {
            true => Price::of_input(0.0),
            false => prices.row_at(model, cache_lifetime.0 >= 3_600_000, at).1,
        };
        recording.price_calls(|model, at| (!model.is_empty()).then(|| price(model, at)));
        let own = ReplayParams { context, price: price(&model, started), cache_lifetime, ..usual };
        Ok(Loaded { format, recording, own })
    }
}

/// The recorded cost of a call.
#[allow(dead_code, reason = "each example uses a part of this module")]
pub(crate) fn cost(model: &str, at: Option<Millis>, usage: &Usage) -> Option<f64> {
    ModelTable::default().price_at(model, at).map(|price| price.cost(usage))
}

fn most_used_model(transcript: &Transcript) -> Option<String> {
    let mut models: BTreeMap<String, usize> = BTreeMap::new();
    for model in transcript.recorded.responses().filter_map(|response| response.model) {
        *models.entry(model.to_string()).or_default() += 1;
    }
    let most = models.into_iter().max_by_key(|(_, count)| *count).map(|(model, _)| model);
    most.or_else(|| transcript.info.model.clone())
}

/// Returns the window of a session by the rules of `plimsoll replay`: the recorded one, else the model's; `None` if
/// neither is known.
fn known_window(transcript: &Transcript) -> Option<Tokens> {
    if let Some(context) = transcript.info.context {
        return Some(context);
    }
    let taken = transcript.recorded.responses().map(|response| response.request() + response.output);
    let largest = taken.max().unwrap_or_default();
    let model = transcript.info.model.as_deref().unwrap_or_default();
    let known = ModelTable::default().find(model).and_then(|facts| facts.limits);
    let known = known.map(|limits| limits.context).filter(|context| *context >= largest)?;
    // Claude Code's default window, which it does not record.
    let claude_code = Tokens(200_000);
    let is_bounded = transcript.format == Format::ClaudeCode && largest <= claude_code;
    Some(if is_bounded { known.min(claude_code) } else { known })
}
