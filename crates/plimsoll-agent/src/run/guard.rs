//! Detects a model that repeats the same call with the same result.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hasher};

use serde_json::Value;

/// Counts calls with equal results within one run.
///
/// A new result is progress and resets all counts, so a test that fails the same way between edits is not a loop, but a
/// cycle of several calls is.
#[derive(Debug)]
pub(crate) struct Guard {
    /// Number of equal results at which it acts; 0 disables it.
    limit: u32,
    /// By the hash of tool, input and result.
    repeats: HashMap<u64, Repeats>,
}

#[derive(Debug, Default)]
struct Repeats {
    times: u32,
    /// Step in which the model was warned.
    warned_in: Option<u64>,
}

/// Decision about the next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallDecision {
    /// Continue the run.
    Continue,
    /// Warn the model that it has made this call this many times.
    Warn(u32),
    /// Stop: the model was warned and repeated the call.
    Stop(u32),
}

impl Guard {
    /// Creates a guard that acts when a call returned the same result `limit` times; 0 disables it.
    pub(crate) fn new(limit: u32) -> Guard {
        Guard { limit, repeats: HashMap::new() }
    }

    /// Records a call of a step and the hash of its result. A model that repeats a call within one step has not seen
    /// the warning yet, so it is stopped in a later step at the earliest.
    pub(crate) fn observe(&mut self, step: u64, tool: &str, input: &Value, result: u64) -> CallDecision {
        let key = hash_of([tool.as_bytes(), input.to_string().as_bytes(), &result.to_le_bytes()]);
        if !self.repeats.contains_key(&key) {
            // Counts restart, but the keys stay: a result that returns later is not new, so a cycle of calls is not
            // mistaken for progress.
            self.repeats.values_mut().for_each(|repeats| *repeats = Repeats::default());
        }
        let repeats = self.repeats.entry(key).or_default();
        repeats.times += 1;
        match repeats.warned_in {
            _ if self.limit == 0 || repeats.times < self.limit => CallDecision::Continue,
            None => {
                repeats.warned_in = Some(step);
                CallDecision::Warn(repeats.times)
            }
            Some(warned_in) if warned_in < step => CallDecision::Stop(repeats.times),
            // Repeated within the step of the warning, which the model has not read yet.
            Some(_) => CallDecision::Continue,
        }
    }
}

/// Returns the warning for the model, which is added to the result.
pub(crate) fn repeat_warning(times: u32) -> String {
    format!(
        "\n\n[This call has returned the same result {times} times. Repeating it will not change that, and ends \
         the run: do something else, or report what is missing.]"
    )
}

fn hash_of<const N: usize>(pieces: [&[u8]; N]) -> u64 {
    let mut hasher: DefaultHasher = BuildHasherDefault::<DefaultHasher>::default().build_hasher();
    for piece in pieces {
        hasher.write_usize(piece.len());
        hasher.write(piece);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{CallDecision, Guard};

    #[test]
    fn a_repeated_call_with_the_same_result_is_warned_about_and_then_stopped() {
        let mut guard = Guard::new(3);
        let mut call = |step, result| guard.observe(step, "bash", &json!({"command": "make"}), result);
        assert_eq!([call(1, 1), call(2, 1)], [CallDecision::Continue; 2]);
        assert_eq!(call(3, 1), CallDecision::Warn(3));
        assert_eq!(call(4, 1), CallDecision::Stop(4));
        assert_eq!(call(5, 2), CallDecision::Continue, "another result is progress");
        assert_eq!([call(6, 1), call(7, 1)], [CallDecision::Continue; 2]);
    }

    #[test]
    fn a_run_is_not_stopped_before_the_model_has_seen_the_warning() {
        let mut guard = Guard::new(3);
        let mut call = |step| guard.observe(step, "list", &json!({}), 1);
        let first: Vec<CallDecision> = (0..5).map(|_| call(1)).collect();
        assert_eq!(
            first,
            [
                CallDecision::Continue,
                CallDecision::Continue,
                CallDecision::Warn(3),
                CallDecision::Continue,
                CallDecision::Continue
            ]
        );
        assert_eq!(call(2), CallDecision::Stop(6));
    }

    #[test]
    fn repeated_cycles_of_calls_are_loops_unless_they_make_progress() {
        let mut guard = Guard::new(3);
        let mut step = 0;
        let mut call = |name: &str| {
            step += 1;
            guard.observe(step, name, &json!({}), 1)
        };
        assert_eq!([call("a"), call("b"), call("a"), call("b")], [CallDecision::Continue; 4]);
        assert_eq!(call("a"), CallDecision::Continue, "its first time was before `b` was new");
        assert_eq!(call("b"), CallDecision::Warn(3));
        let mut guard = Guard::new(3);
        let verdicts: Vec<CallDecision> = (0..9)
            .map(|n| match n % 2 {
                0 => guard.observe(n, "edit", &json!({ "n": n }), 1),
                _ => guard.observe(n, "test", &json!({}), 1),
            })
            .collect();
        assert_eq!(
            verdicts,
            [CallDecision::Continue; 9],
            "a test that fails the same way between edits is work"
        );
        let mut off = Guard::new(0);
        assert!((0..9).all(|n| off.observe(n, "a", &json!({}), 1) == CallDecision::Continue));
    }
}
