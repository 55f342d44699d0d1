//! Tests of redaction, in one binary. A test that proves a requirement starts with its number.

// Clippy recognises tests by their attribute; helper functions may panic as well.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod redact;
