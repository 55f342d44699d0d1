//! Attacks on the tools by hostile checkouts. The probe of the sandbox is in the tests of `plimsoll-sandbox`.

mod checkouts;
