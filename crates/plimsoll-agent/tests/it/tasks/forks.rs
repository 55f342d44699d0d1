//! Forks.
