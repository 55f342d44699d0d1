//! An output of any length, of which only both ends are held.

use super::{TruncatePlan, plan};
use crate::policy::Policy;

/// Minimum size of each end that is held: far more than any sensible limit, so that lines that are
/// shortened leave room for the lines after them. Each running command may hold three times as much.
const LEAST: usize = 1 << 20;

/// Beginning and end of a streamed output. What lies between is only counted, so an output of gigabytes
/// needs a few megabytes.
///
/// ```
/// use plimsoll::truncate::{OutputEnds, plan};
/// use plimsoll::Policy;
/// let policy = Policy::default();
/// let mut ends = OutputEnds::new("bash", &policy);
/// for number in 0..5_000 {
///     ends.push(format!("line {number}\n").as_bytes());
/// }
/// assert!(ends.plan("bash", &policy).truncated);
/// ```
#[derive(Clone, Debug, Default)]
pub struct OutputEnds {
    /// Size of each end that is held.
    most: usize,
    /// The beginning, and directly after it the end, so that a plan needs no copy of both.
    held: Vec<u8>,
    bytes_between: u64,
    newlines_between: u64,
}

impl OutputEnds {
    /// Holds as much of each end as the policy may keep of that tool's output.
    pub fn new(tool: &str, policy: &Policy) -> OutputEnds {
        let rules = &policy.truncate;
        let chars = rules.tool_limits.get(tool).unwrap_or(&rules.default_limit).0;
        // A char is at most three bytes of UTF-8.
        let by_tool = if rules.tool_limit_overrides_bytes { chars.saturating_mul(3) } else { 0 };
        let most = usize::try_from(rules.max_bytes.max(by_tool)).unwrap_or(usize::MAX);
        OutputEnds::holding(most.max(LEAST))
    }

    /// Holds this much of each end.
    pub fn holding(most: usize) -> OutputEnds {
        OutputEnds { most, ..OutputEnds::default() }
    }

    /// Adds the next piece.
    pub fn push(&mut self, piece: &[u8]) {
        self.held.extend_from_slice(piece);
        // Twice as much of the end as needed, so that moving the rest to the front costs little.
        if self.held.len() >= self.most.saturating_mul(3) {
            let gone = self.most..self.held.len() - self.most;
            self.bytes_between += gone.len() as u64;
            self.newlines_between += memchr::memchr_iter(b'\n', &self.held[gone.clone()]).count() as u64;
            self.held.drain(gone);
        }
    }

    /// Returns whether everything is still held.
    pub fn is_whole(&self) -> bool {
        self.bytes_between == 0
    }

    /// Returns the beginning and the end; of a whole output one after the other.
    pub fn held(&self) -> (&[u8], &[u8]) {
        self.held.split_at(self.held.len().min(self.most))
    }

    /// Plans what stays of the output. What is between the ends is longer than anything that could stay, so it changes nothing
    /// but the counts.
    pub fn plan(&self, tool: &str, policy: &Policy) -> TruncatePlan {
        let mut plan = plan(&self.held, tool, policy);
        plan.original_bytes += self.bytes_between;
        plan.original_lines += self.newlines_between;
        plan
    }
}
