//! The guard against a model that makes the same call with the same result for ever.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hasher};

use serde_json::Value;

/// Counts calls that gave the same result, within one run.
///
/// A call that gives something new is progress and resets all counts, so that the same failing test between edits is no
/// loop, while a circle of several calls is one.
#[derive(Debug)]
pub(crate) struct Guard {
    most: u32,
    seen: HashMap<u64, Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    times: u32,
    /// The step in which the model was told.
    told_in: Option<u64>,
}

/// What is to be done about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing.
    Fine,
    /// Tell the model that it has made this call so often.
    Tell(u32),
    /// It was told, and made the call again: stop.
    Stop(u32),
}

impl Guard {
    /// A guard that speaks up when a call has given the same result `most` times; 0 for one that never does.
    pub(crate) fn new(most: u32) -> Guard {
        Guard { most, seen: HashMap::new() }
    }

    /// A call of that step has given a result, whose hash is `result`. A model that makes the same call several times in
    /// one step has not seen the warning yet, so it is stopped in a later one at the earliest.
    pub(crate) fn observe(&mut self, step: u64, tool: &str, input: &Value, result: u64) -> Verdict {
        let key = hash_of([tool.as_bytes(), input.to_string().as_bytes(), &result.to_le_bytes()]);
        if !self.seen.contains_key(&key) {
            // The circle that is being walked begins anew; what was seen stays known, with its count set back.
            self.seen.values_mut().for_each(|seen| *seen = Seen::default());
        }
        let seen = self.seen.entry(key).or_default();
        seen.times += 1;
        match seen.told_in {
            _ if self.most == 0 || seen.times < self.most => Verdict::Fine,
            None => {
                seen.told_in = Some(step);
                Verdict::Tell(seen.times)
            }
            Some(told_in) if told_in < step => Verdict::Stop(seen.times),
            Some(_) => Verdict::Fine,
        }
    }
}

/// What the model is told, in the result of the call that it repeats.
pub(crate) fn repeat_warning(times: u32) -> String {
    format!(
        "\n\n[This same call has now given this same result {times} times. Making it again will not change it, and ends \
         the run: do something else, or say what is missing.]"
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

    use super::{Guard, Verdict};

    #[test]
    fn the_same_call_with_the_same_result_is_told_once_and_then_stopped() {
        let mut guard = Guard::new(3);
        let mut call = |step, result| guard.observe(step, "bash", &json!({"command": "make"}), result);
        assert_eq!([call(1, 1), call(2, 1)], [Verdict::Fine; 2]);
        assert_eq!(call(3, 1), Verdict::Tell(3));
        assert_eq!(call(4, 1), Verdict::Stop(4));
        assert_eq!(call(5, 2), Verdict::Fine, "another result is progress");
        assert_eq!([call(6, 1), call(7, 1)], [Verdict::Fine; 2]);
    }

    #[test]
    fn nothing_is_stopped_before_the_model_has_seen_the_warning() {
        let mut guard = Guard::new(3);
        let mut call = |step| guard.observe(step, "list", &json!({}), 1);
        let first: Vec<Verdict> = (0..5).map(|_| call(1)).collect();
        assert_eq!(first, [Verdict::Fine, Verdict::Fine, Verdict::Tell(3), Verdict::Fine, Verdict::Fine]);
        assert_eq!(call(2), Verdict::Stop(6));
    }

    #[test]
    fn a_circle_of_calls_is_a_loop_and_progress_between_them_is_none() {
        let mut guard = Guard::new(3);
        let mut step = 0;
        let mut call = |name: &str| {
            step += 1;
            guard.observe(step, name, &json!({}), 1)
        };
        assert_eq!([call("a"), call("b"), call("a"), call("b")], [Verdict::Fine; 4]);
        assert_eq!(call("a"), Verdict::Fine, "its first time was before `b` was new");
        assert_eq!(call("b"), Verdict::Tell(3));
        let mut guard = Guard::new(3);
        let verdicts: Vec<Verdict> = (0..9)
            .map(|n| match n % 2 {
                0 => guard.observe(n, "edit", &json!({ "n": n }), 1),
                _ => guard.observe(n, "test", &json!({}), 1),
            })
            .collect();
        assert_eq!(verdicts, [Verdict::Fine; 9], "a test that fails the same way between edits is work");
        let mut off = Guard::new(0);
        assert!((0..9).all(|n| off.observe(n, "a", &json!({}), 1) == Verdict::Fine));
    }
}
