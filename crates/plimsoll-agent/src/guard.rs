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
    seen: HashMap<u64, u32>,
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

    /// A call has given a result, whose hash is `result`.
    pub(crate) fn observe(&mut self, tool: &str, input: &Value, result: u64) -> Verdict {
        let key = hash_of([tool.as_bytes(), input.to_string().as_bytes(), &result.to_le_bytes()]);
        if !self.seen.contains_key(&key) {
            // The circle that is being walked begins anew; what was seen stays known, with its count set back.
            self.seen.values_mut().for_each(|times| *times = 0);
        }
        let times = self.seen.entry(key).or_insert(0);
        *times += 1;
        match *times {
            _ if self.most == 0 => Verdict::Fine,
            times if times == self.most => Verdict::Tell(times),
            times if times > self.most => Verdict::Stop(times),
            _ => Verdict::Fine,
        }
    }
}

/// What the model is told, in the result of the call that it repeats.
pub(crate) fn told(times: u32) -> String {
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
        let mut call = |result| guard.observe("bash", &json!({"command": "make"}), result);
        assert_eq!([call(1), call(1)], [Verdict::Fine; 2]);
        assert_eq!(call(1), Verdict::Tell(3));
        assert_eq!(call(1), Verdict::Stop(4));
        assert_eq!(call(2), Verdict::Fine, "another result is progress");
        assert_eq!([call(1), call(1)], [Verdict::Fine; 2]);
    }

    #[test]
    fn a_circle_of_calls_is_a_loop_and_progress_between_them_is_none() {
        let mut guard = Guard::new(3);
        let mut call = |name: &str| guard.observe(name, &json!({}), 1);
        assert_eq!([call("a"), call("b"), call("a"), call("b")], [Verdict::Fine; 4]);
        assert_eq!(call("a"), Verdict::Fine, "its first time was before `b` was new");
        assert_eq!(call("b"), Verdict::Tell(3));
        let mut guard = Guard::new(3);
        let verdicts: Vec<Verdict> = (0..9)
            .map(|n| match n % 2 {
                0 => guard.observe("edit", &json!({ "n": n }), 1),
                _ => guard.observe("test", &json!({}), 1),
            })
            .collect();
        assert_eq!(verdicts, [Verdict::Fine; 9], "a test that fails the same way between edits is work");
        let mut off = Guard::new(0);
        assert!((0..9).all(|_| off.observe("a", &json!({}), 1) == Verdict::Fine));
    }
}
