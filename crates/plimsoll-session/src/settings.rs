//! What a host decides once for a session it drives.

use std::sync::Arc;
use std::time::Duration;

use plimsoll::compact::request::{HookText, Summariser};
use plimsoll::purse::CacheTerms;
use plimsoll::{BelievedUsage, Counter, Limits, Policy};
use plimsoll_store::{Clock, TakeOver};
use plimsoll_tokens::ModelTable;

/// What a host decides once for a session it drives.
#[derive(Clone)]
pub struct Settings {
    /// The numbers and choices.
    pub policy: Arc<Policy>,
    /// The model's name, as usage is recorded under it.
    pub model: String,
    /// The provider's name, recorded with each answer so that the session can be taken up with the same model.
    pub provider: Option<String>,
    /// What is known of the model's limits; the policy's own entry for the model wins, its defaults fill in.
    pub limits: Option<Limits>,
    /// Who summarises; none where no model can be asked.
    pub summariser: Option<Summariser>,
    /// What hooks add to summary requests.
    pub hook: HookText,
    /// How tokens are counted.
    pub counting: Counting,
    /// What receipts are told by.
    pub figures: Figures,
    /// Whose usage says what the next request weighs. A host that makes requests of its own, in a session that another tool
    /// may have begun, believes its own answers.
    pub believed: BelievedUsage,
    /// Who runs the session, in words for a person who finds it taken.
    pub holder: String,
    /// Whether the session is taken although another process runs it; [`Driver::taken_from`](crate::Driver::taken_from)
    /// says whom that hits.
    pub take_over: TakeOver,
    /// For how long the right to run the session is taken and renewed.
    pub lease: Duration,
    /// What the provider's cache costs and how long it lives; see [`cache_terms`](Settings::cache_terms).
    pub cache: Option<CacheTerms>,
    /// How many of a provider's cache breakpoints the host sets outside the conversation.
    pub reserved_breakpoints: u64,
    /// The time.
    pub clock: Clock,
}

/// How tokens are counted.
#[derive(Clone)]
pub enum Counting {
    /// By OpenAI's o200k vocabulary, times what the usage of this session's responses has shown of the model so far.
    Calibrated,
    /// By this counter, whatever usage shows: for replays and tests, whose figures must not move.
    Fixed(Arc<dyn Counter>),
}

/// What the figures of a session's receipts are told by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Figures {
    /// By the counter of the driver, on the scale of the newest usage: for hosts that make requests, and know what they
    /// carry besides the conversation.
    #[default]
    Driven,
    /// By all usage that the session records, else by the policy's counter, as whatever shows a stored session does. Usage tells the system prompt and tools
    /// of a host that is not there from the factor by which the model counts. For hosts that change a session and make no
    /// requests; all of the session is read for it.
    Recorded,
}

impl Settings {
    /// The ordinary case: the default policy, calibrated counting, no summariser, a lease of a minute.
    pub fn new(model: impl Into<String>) -> Settings {
        Settings {
            policy: Arc::new(Policy::default()),
            model: model.into(),
            provider: None,
            limits: None,
            summariser: None,
            hook: HookText::default(),
            counting: Counting::Calibrated,
            figures: Figures::Driven,
            believed: BelievedUsage::Any,
            holder: format!("process {}", std::process::id()),
            take_over: TakeOver::Never,
            lease: Duration::from_secs(60),
            cache: None,
            // The system prompt and the tools.
            reserved_breakpoints: 2,
            clock: Clock::default(),
        }
    }

    /// What the provider's cache costs and how long it lives: as the host says, else at the model's prices, else as the
    /// policy takes for granted.
    pub fn cache_terms(&self) -> CacheTerms {
        let usual = CacheTerms::assumed(&self.policy.cache);
        self.cache.unwrap_or_else(|| {
            let price = ModelTable::default().find(&self.model).and_then(|facts| facts.price);
            price.map_or(usual, |price| CacheTerms {
                read: price.cache_read,
                write: price.cache_write,
                output: price.output,
                ..usual
            })
        })
    }

    /// The limits that hold for the model.
    pub fn limits(&self) -> Limits {
        self.policy.limits(&self.model, self.limits)
    }
}
