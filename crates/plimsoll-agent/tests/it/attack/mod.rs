//! Attacks on the tools by hostile checkouts. The tests of `plimsoll-sandbox` have the probe of the sandbox.

mod checkouts;
