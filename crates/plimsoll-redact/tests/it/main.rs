//! Tests of redaction, in one binary. A test that proves a requirement starts with its number.

// Clippy knows tests by their attribute; the helpers beside them may fail as loudly.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod redact;
