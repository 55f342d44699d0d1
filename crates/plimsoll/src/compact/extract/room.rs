//! Divides room among portions by their shares.

use crate::chars::Chars;

/// Something that takes room: a section of a summary, or a line of a section.
pub(super) struct Portion<'a> {
    /// Share of the room.
    pub(super) share: f64,
    /// Length of text around the portion, such as a heading, if the portion is not empty.
    pub(super) frame: Chars,
    /// Writes the portion in at most the given number of chars.
    pub(super) write: &'a dyn Fn(Chars) -> Written,
}

/// A written portion.
#[derive(Clone, Default)]
pub(super) struct Written {
    /// The text. Empty if the portion has no content or no room.
    pub(super) text: String,
    /// Whether the content is complete, so that more room would change nothing.
    pub(super) complete: bool,
}

impl Written {
    /// A portion without content.
    pub(super) fn nothing() -> Written {
        Written { text: String::new(), complete: true }
    }

    /// A portion with content but no room for it.
    pub(super) fn no_room() -> Written {
        Written::default()
    }
}

/// Minimum room that is worth dividing again.
const SLACK: Chars = Chars(40);

/// Writes all portions into `room`. Each first gets its share. Unused room is divided among incomplete portions until
/// none is left or all are complete.
pub(super) fn divide(portions: &[Portion], room: Chars) -> Vec<Written> {
    let write = |portion: &Portion, room: Chars| (portion.write)(room.saturating_sub(portion.frame));
    let used = |place: usize, written: &[Written]| match written[place].text.is_empty() {
        true => Chars::ZERO,
        false => Chars::of(&written[place].text) + portions[place].frame,
    };
    let spare = |written: &[Written]| {
        room.saturating_sub((0..portions.len()).map(|place| used(place, written)).sum())
    };
    let shares: f64 = portions.iter().map(|portion| portion.share).sum();
    let share = |place: usize, of: f64| if of > 0.0 { portions[place].share / of } else { 0.0 };
    let mut written: Vec<Written> = Vec::new();
    for (place, portion) in portions.iter().enumerate() {
        // Shares that sum to more than 1 are scaled down.
        let share = if shares > 1.0 { share(place, shares) } else { portion.share };
        written.push(write(portion, room.share(share)));
    }
    for _ in 0..=portions.len() {
        let hungry: Vec<usize> = (0..portions.len())
            .filter(|place| !written[*place].complete && portions[*place].share > 0.0)
            .collect();
        let left = spare(&written);
        if left < SLACK || hungry.is_empty() {
            break;
        }
        let wanted: f64 = hungry.iter().map(|place| portions[*place].share).sum();
        let before = left;
        for place in hungry {
            let more = used(place, &written) + before.share(share(place, wanted));
            let text = write(&portions[place], more);
            if Chars::of(&text.text) >= Chars::of(&written[place].text) {
                written[place] = text;
            }
        }
        if spare(&written) == before {
            break;
        }
    }
    // The rest is too little for all, but one portion may still be able to use it.
    for place in 0..portions.len() {
        let left = spare(&written);
        if !written[place].complete && left >= SLACK && portions[place].share > 0.0 {
            let text = write(&portions[place], used(place, &written) + left);
            if Chars::of(&text.text) >= Chars::of(&written[place].text) {
                written[place] = text;
            }
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filler(length: u64) -> impl Fn(Chars) -> Written {
        move |room| {
            let shown = length.min(room.0);
            Written { text: "x".repeat(usize::try_from(shown).unwrap()), complete: shown == length }
        }
    }

    fn lengths(wanted: &[u64], shares: &[f64], room: u64) -> Vec<usize> {
        let fillers: Vec<_> = wanted.iter().map(|length| filler(*length)).collect();
        let portions: Vec<Portion> = fillers
            .iter()
            .zip(shares)
            .map(|(write, share)| Portion { share: *share, frame: Chars(2), write })
            .collect();
        divide(&portions, Chars(room)).iter().map(|written| written.text.len()).collect()
    }

    #[test]
    fn each_portion_gets_its_share() {
        assert_eq!(lengths(&[9_000, 9_000], &[0.75, 0.25], 1_000), [748, 248]);
    }

    #[test]
    fn unused_space_is_shared_by_the_others() {
        assert_eq!(lengths(&[9_000, 10, 9_000], &[0.5, 0.25, 0.25], 1_000), [656, 10, 327]);
        assert_eq!(lengths(&[100, 10], &[0.5, 0.5], 1_000), [100, 10]);
        assert_eq!(lengths(&[0, 9_000], &[0.9, 0.1], 1_000), [0, 998]);
    }

    #[test]
    fn portions_never_exceed_the_room() {
        for room in [0, 1, 3, 10, 50, 500] {
            for wanted in [[0, 0, 0], [5, 500, 5], [999, 999, 999]] {
                let written = lengths(&wanted, &[0.6, 0.3, 0.6], room);
                let sum: usize = written.iter().map(|length| length + if *length > 0 { 2 } else { 0 }).sum();
                assert!(sum as u64 <= room, "{wanted:?} in {room}: {written:?}");
            }
        }
    }
}
