//! Identifiers of sessions, messages and parts.
//!
//! Ids have OpenCode's form: a prefix, twelve hex digits of time, fourteen random base-62 characters.
//! Message and part ids ascend with time, so sorting by id is sorting by age; session ids descend, so that the
//! newest comes first. Time and randomness are passed in. Clones share their text, because every window
//! has the id of every message and part in it.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Millis(pub u64);

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Creates an identifier from any text; empty means not set.
            pub fn new(id: impl Into<String>) -> $name {
                $name(Arc::from(id.into()))
            }

            /// Returns the identifier as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Returns whether the identifier is not set.
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }
        }

        impl From<&str> for $name {
            fn from(id: &str) -> $name {
                $name(Arc::from(id))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

id! {
    /// Session id: `ses_…`.
    SessionId
}
id! {
    /// Message id: `msg_…`.
    MessageId
}
id! {
    /// Part id: `prt_…`.
    PartId
}
id! {
    /// Receipt id: `rcp_…`.
    ReceiptId
}

/// Generator of identifiers from a time and a source of random numbers, both passed in by the caller.
///
/// Within one generator message, part and receipt ids ascend strictly, even if the clock stands still or jumps
/// back.
///
/// ```
/// use plimsoll::{Ids, Millis};
/// let mut seed = 7u64;
/// let mut ids = Ids::new(move || { seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1); seed });
/// let first = ids.message(Millis(1_794_775_451_033));
/// let second = ids.message(Millis(1_794_775_451_000)); // the clock jumped back
/// assert!(first < second);
/// assert!(first.as_str().starts_with("msg_1e0f40599001"));
/// ```
pub struct Ids {
    random: Box<dyn FnMut() -> u64 + Send>,
    last: u64,
}

impl Ids {
    /// Creates a generator with random digits from `random`.
    pub fn new(random: impl FnMut() -> u64 + Send + 'static) -> Ids {
        Ids { random: Box::new(random), last: 0 }
    }

    /// Creates another generator for concurrent work. Its random digits are seeded by one draw of
    /// this one's, so a deterministic generator creates deterministic ones.
    pub fn split(&mut self) -> Ids {
        let mut state = (self.random)();
        let random = move || {
            // SplitMix64: small, and good enough for ids that only must not collide.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        };
        Ids { random: Box::new(random), last: self.last }
    }

    /// Creates a session id; newer ones sort first.
    pub fn session(&mut self, now: Millis) -> SessionId {
        let stamp = !self.stamp(now);
        SessionId::new(self.render("ses", stamp))
    }

    /// Creates a message id; newer ones sort last.
    pub fn message(&mut self, now: Millis) -> MessageId {
        let stamp = self.stamp(now);
        MessageId::new(self.render("msg", stamp))
    }

    /// Creates a part id; newer ones sort last.
    pub fn part(&mut self, now: Millis) -> PartId {
        let stamp = self.stamp(now);
        PartId::new(self.render("prt", stamp))
    }

    /// Creates a receipt id; newer ones sort last.
    pub fn receipt(&mut self, now: Millis) -> ReceiptId {
        let stamp = self.stamp(now);
        ReceiptId::new(self.render("rcp", stamp))
    }

    /// Milliseconds with room for 4,095 ids in each; never below or equal to the one before.
    fn stamp(&mut self, now: Millis) -> u64 {
        self.last = now.0.saturating_mul(4096).saturating_add(1).max(self.last.saturating_add(1));
        self.last
    }

    fn render(&mut self, prefix: &str, stamp: u64) -> String {
        const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        // OpenCode keeps the low 48 bits too, which leaves 36 bits for milliseconds: the order of ids wraps around
        // every 26 months.
        let mut id = format!("{prefix}_{:012x}", stamp & 0xffff_ffff_ffff);
        for _ in 0..2 {
            // Seven digits use less than 42 of the 64 random bits, so the remainders are close enough to uniform.
            let mut number = (self.random)();
            for _ in 0..7 {
                id.push(char::from(DIGITS[(number % 62) as usize]));
                number /= 62;
            }
        }
        id
    }
}

impl fmt::Debug for Ids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ids").field("last", &self.last).finish_non_exhaustive()
    }
}
