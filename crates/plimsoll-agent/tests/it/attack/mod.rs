//! Attacks that are too long or too broad for every run of the tests: `just attack`.

mod sandbox;
