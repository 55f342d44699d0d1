//! Signatures of thoughts.
//!
//! Signatures are derived from the thought and the server's name, and can be verified without state, because a test may stop
//! a server and start another one with the same name in the middle of a session.

use plimsoll::Fnv;
use plimsoll_providers::Wire;

#[derive(Clone, Debug)]
pub(crate) struct Signer {
    name: String,
}

impl Signer {
    pub(crate) fn new(name: &str) -> Signer {
        Signer { name: name.to_owned() }
    }

    /// The signature of a thought, such as `testkit.anthropic.0123456789abcdef.fedcba9876543210`.
    pub(crate) fn sign(&self, wire: Wire, thought: &str) -> String {
        let digest = hash(&[thought]);
        let head = format!("{}.{}.{digest:016x}", self.name, wire_name(wire));
        format!("{head}.{:016x}", hash(&[&head]))
    }

    /// Whether this server signed this thought.
    pub(crate) fn is_signed(&self, wire: Wire, thought: &str, signature: &str) -> bool {
        self.sign(wire, thought) == signature
    }

    /// Whether this server made the signature, for any thought.
    pub(crate) fn is_own(&self, wire: Wire, signature: &str) -> bool {
        let Some((head, check)) = signature.rsplit_once('.') else { return false };
        head.starts_with(&format!("{}.{}.", self.name, wire_name(wire)))
            && format!("{:016x}", hash(&[head])) == check
    }
}

pub(crate) fn wire_name(wire: Wire) -> &'static str {
    match wire {
        Wire::Anthropic => "anthropic",
        Wire::Chat => "chat",
        Wire::Responses => "responses",
    }
}

/// Pieces hash differently from their concatenation.
pub(crate) fn hash(pieces: &[&str]) -> u64 {
    pieces.iter().fold(Fnv::new(), |hash, piece| hash.bytes(piece.as_bytes()).bytes(&[0xff])).finish()
}
