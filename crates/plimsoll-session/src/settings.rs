//! Settings of a session.

use std::sync::Arc;
use std::time::Duration;

use plimsoll::compact::{HookText, Summariser};
use plimsoll::{CacheTerms, Counter, Limits, Policy, Usage, UsageTrust};
use plimsoll_store::{Clock, TakeOver};
use plimsoll_tokens::{ModelPrice, ModelTable};
use serde_json::Number;

use crate::overhead::Overhead;

/// Settings of one session. [`SessionBuilder`](crate::SessionBuilder) documents each.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) policy: Arc<Policy>,
    pub(crate) model: SessionModel,
    pub(crate) summariser: Option<Summariser>,
    pub(crate) hook: HookText,
    pub(crate) overhead: Overhead,
    pub(crate) counting: Counting,
    pub(crate) figures: Figures,
    pub(crate) believed: UsageTrust,
    pub(crate) holder: String,
    pub(crate) take_over: TakeOver,
    pub(crate) lease: Duration,
    pub(crate) cache: Option<CacheTerms>,
    pub(crate) reserved_breakpoints: u64,
    pub(crate) clock: Clock,
}

/// The model that a session's requests are sent to.
///
/// ```
/// use plimsoll_session::{Limits, SessionModel};
///
/// let model = SessionModel::new("claude-sonnet-4-6").provider("anthropic").limits(Limits::new(200_000, 64_000));
/// assert_eq!(model.name, "claude-sonnet-4-6");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SessionModel {
    /// Name of the model, recorded with its usage.
    pub name: String,
    /// Name of the provider, recorded with each answer so that the session can be resumed with the same model.
    pub provider: Option<String>,
    /// Limits of the model, if they are known. The policy's entry for the model takes precedence, its defaults fill in.
    pub limits: Option<Limits>,
    /// Price of the model. Without it no costs are recorded.
    pub price: Option<ModelPrice>,
}

impl SessionModel {
    /// Creates a model of which only the name is known.
    pub fn new(name: impl Into<String>) -> SessionModel {
        SessionModel { name: name.into(), ..SessionModel::default() }
    }

    /// Creates a model with the limits and the price from [`ModelTable`].
    pub fn known(name: impl Into<String>) -> SessionModel {
        let name = name.into();
        let facts = ModelTable::default().find(&name).unwrap_or_default();
        SessionModel { name, provider: None, limits: facts.limits, price: facts.price }
    }

    /// Sets the provider.
    #[must_use]
    pub fn provider(mut self, provider: impl Into<String>) -> SessionModel {
        self.provider = Some(provider.into());
        self
    }

    /// Sets the limits; `None` if they are unknown.
    #[must_use]
    pub fn limits(mut self, limits: impl Into<Option<Limits>>) -> SessionModel {
        self.limits = limits.into();
        self
    }

    /// Sets the price; `None` if it is unknown.
    #[must_use]
    pub fn price(mut self, price: impl Into<Option<ModelPrice>>) -> SessionModel {
        self.price = price.into();
        self
    }

    /// Cost of a response in dollars.
    pub(crate) fn cost(&self, usage: &Usage) -> Option<Number> {
        self.price.and_then(|price| Number::from_f64(price.cost(usage)))
    }
}

impl From<&str> for SessionModel {
    fn from(name: &str) -> SessionModel {
        SessionModel::new(name)
    }
}

impl From<String> for SessionModel {
    fn from(name: String) -> SessionModel {
        SessionModel::new(name)
    }
}

/// How tokens are counted.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Counting {
    /// With OpenAI's o200k vocabulary, corrected by the usage of this session's responses.
    #[default]
    Calibrated,
    /// With this counter, whatever the usage shows: for replays and tests, whose figures must not move.
    Fixed(Arc<dyn Counter>),
}

/// Basis of the figures in receipts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Figures {
    /// The session's own counter, on the scale of the newest usage: for hosts that make requests, and know their system
    /// prompt and tools.
    #[default]
    Driven,
    /// All usage that the session records, otherwise the policy's counter, as in every command that shows a stored
    /// session. Usage separates the system prompt and tools of an absent host from the factor by which the model
    /// counts. For hosts that change a session without making requests; the whole session is read for it.
    Recorded,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            policy: Arc::new(Policy::default()),
            model: SessionModel::default(),
            summariser: None,
            hook: HookText::default(),
            overhead: Overhead::default(),
            counting: Counting::Calibrated,
            figures: Figures::Driven,
            believed: UsageTrust::Any,
            holder: format!("process {}", std::process::id()),
            take_over: TakeOver::Never,
            lease: Duration::from_secs(60),
            cache: None,
            // One for the system prompt, one for the tools.
            reserved_breakpoints: 2,
            clock: Clock::default(),
        }
    }
}

impl Settings {
    /// Prices and lifetime of the provider's cache: as the host sets them, otherwise by the model's price, otherwise as
    /// the policy assumes.
    pub(crate) fn cache_terms(&self) -> CacheTerms {
        let usual = CacheTerms::assumed(&self.policy.cache);
        self.cache.unwrap_or_else(|| {
            let price = ModelTable::default().find(&self.model.name).and_then(|facts| facts.price);
            price.map_or(usual, |price| CacheTerms {
                read: price.cache_read,
                write: price.cache_write,
                output: price.output,
                ..usual
            })
        })
    }

    /// Returns the limits that apply to the model.
    pub(crate) fn limits(&self) -> Limits {
        self.policy.limits(&self.model.name, self.model.limits)
    }
}
