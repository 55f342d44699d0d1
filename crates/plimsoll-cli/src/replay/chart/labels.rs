//! Placement of names in a chart: they overlap neither each other nor marks, and a line connects each to its mark.

use std::fmt::Write as _;

use super::text_width;
use crate::replay::page::escape;

/// Distance between two lines of text.
pub(super) const LEADING: f64 = 14.0;
/// Distance from the centre of a mark to its edge.
const MARK: f64 = 8.0;
/// Minimum distance of names from marks: of a mark without neighbours, and of one with a connecting line.
const ALONE: f64 = 10.0;
const CROWDED: f64 = 18.0;
/// Vertical distance between candidate positions.
const STEP: f64 = 2.0;
/// Maximum distance from a mark at which a name needs no connecting line.
const NEAR: f64 = 6.0;

/// A rectangle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

impl Area {
    fn overlaps(&self, other: &Area) -> bool {
        self.left < other.right
            && self.right > other.left
            && self.top < other.bottom
            && self.bottom > other.top
    }

    fn contains(&self, other: &Area) -> bool {
        self.left <= other.left
            && self.right >= other.right
            && self.top <= other.top
            && self.bottom >= other.bottom
    }

    fn centered(x: f64, y: f64, reach: f64) -> Area {
        Area { left: x - reach, top: y - reach, right: x + reach, bottom: y + reach }
    }

    fn middle(&self) -> (f64, f64) {
        ((self.left + self.right) / 2.0, (self.top + self.bottom) / 2.0)
    }

    /// Point of the area nearest to another.
    fn nearest(&self, x: f64, y: f64) -> (f64, f64) {
        (x.clamp(self.left, self.right), y.clamp(self.top, self.bottom))
    }
}

/// Names of a mark, one per line.
pub(super) struct Label {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) colour: &'static str,
    pub(super) lines: Vec<String>,
}

impl Label {
    fn size(&self) -> (f64, f64) {
        let width = self.lines.iter().map(|line| text_width(line)).fold(0.0, f64::max);
        (width + 4.0, self.lines.len() as f64 * LEADING)
    }

    /// Candidate positions, nearest first: next to the mark, above and below it, then farther out.
    fn places(&self, within: &Area, least: f64) -> Vec<Area> {
        let (width, height) = self.size();
        let most = (within.right - width).max(within.left);
        let lefts = [
            self.x + least,
            self.x - least - width,
            self.x + 30.0,
            self.x - 30.0 - width,
            self.x - width / 2.0,
            self.x + 60.0,
            self.x - 60.0 - width,
            within.left,
            most,
        ];
        let steps = (within.bottom - within.top) / STEP;
        let offsets = (0..=steps as i32).flat_map(|step| [step, -step]).map(|step| f64::from(step) * STEP);
        let mut places: Vec<Area> = offsets
            .flat_map(|offset| {
                lefts.map(|left| {
                    let (left, top) = (left.clamp(within.left, most), self.y + offset - height / 2.0);
                    Area { left, top, right: left + width, bottom: top + height }
                })
            })
            .collect();
        let distance = |area: &Area| {
            let (x, y) = area.nearest(self.x, self.y);
            // A name next to its mark leaves the space above and below to others.
            let is_beside = area.top <= self.y && area.bottom >= self.y;
            (x - self.x).hypot(y - self.y) + if is_beside { 0.0 } else { 8.0 }
        };
        places.retain(|area| {
            within.contains(area) && !area.overlaps(&Area::centered(self.x, self.y, least - 1.0))
        });
        // The sort is stable: of equal positions, the one to the right comes first.
        places.sort_by(|a, b| distance(a).total_cmp(&distance(b)));
        places
    }
}

/// Line from a mark to its name.
#[derive(Clone, Copy)]
struct Leader {
    from: (f64, f64),
    to: (f64, f64),
}

impl Leader {
    fn crosses(&self, area: &Area) -> bool {
        // Sampled: a corner that is cut by less than a step is not visible.
        (1..24).any(|n| {
            let share = f64::from(n) / 24.0;
            let x = self.from.0 + (self.to.0 - self.from.0) * share;
            let y = self.from.1 + (self.to.1 - self.from.1) * share;
            area.overlaps(&Area::centered(x, y, 1.0))
        })
    }

    /// Whether it runs roughly towards a point.
    fn leads_to(&self, point: (f64, f64)) -> bool {
        let (ax, ay) = (self.to.0 - self.from.0, self.to.1 - self.from.1);
        let (bx, by) = (point.0 - self.from.0, point.1 - self.from.1);
        ax * bx + ay * by > 0.6 * self.length() * bx.hypot(by)
    }

    fn length(&self) -> f64 {
        (self.to.0 - self.from.0).hypot(self.to.1 - self.from.1)
    }
}

/// Marks, names and lines with a position.
struct Placed {
    marks: Vec<Area>,
    names: Vec<Area>,
    leaders: Vec<Leader>,
}

impl Placed {
    /// Whether a name fits there. A strict search also requires that its line leads away from marks that overlap its own,
    /// because it would seem to start at them; there may be no such position.
    fn has_room(&self, label: &Label, area: &Area, is_strict: bool) -> bool {
        let leader = Leader { from: (label.x, label.y), to: area.nearest(label.x, label.y) };
        let own = Area::centered(label.x, label.y, MARK);
        let is_crossed = |mark: &Area| match mark.overlaps(&own) {
            true => is_strict && leader.leads_to(mark.middle()),
            false => leader.crosses(mark),
        };
        self.is_free(area)
            && !self.leaders.iter().any(|other| other.crosses(area))
            && !self.names.iter().any(|name| leader.crosses(name))
            && !self.marks.iter().filter(|mark| **mark != own).any(is_crossed)
    }

    fn is_free(&self, area: &Area) -> bool {
        !self.names.iter().chain(&self.marks).any(|other| area.overlaps(other))
    }

    /// Whether other marks are so near that a name could be read as theirs.
    fn is_crowded(&self, label: &Label) -> bool {
        let own = Area::centered(label.x, label.y, MARK);
        let near = Area::centered(label.x, label.y, MARK + CROWDED);
        self.marks.iter().any(|mark| *mark != own && mark.overlaps(&near))
    }
}

/// Draws names next to their marks within an area. The first are placed first, and so nearest.
pub(super) fn draw(labels: &[Label], within: Area) -> String {
    let marks = labels.iter().map(|label| Area::centered(label.x, label.y, MARK)).collect();
    let mut placed = Placed { marks, names: Vec::new(), leaders: Vec::new() };
    let mut svg = String::new();
    for label in labels {
        let is_crowded = placed.is_crowded(label);
        let places = label.places(&within, if is_crowded { CROWDED } else { ALONE });
        let find = |is_strict| places.iter().find(|area| placed.has_room(label, area, is_strict));
        let free = || places.iter().find(|area| placed.is_free(area));
        // If there is no room, a name that overlaps another is better than none.
        let area = find(true).or_else(|| find(false)).or_else(free).or(places.first());
        let Some(area) = area.copied() else { continue };
        let (x, y) = area.nearest(label.x, label.y);
        let leader = Leader { from: (label.x, label.y), to: (x, y) };
        if is_crowded || leader.length() > MARK + NEAR {
            // Starts at the edge of the mark.
            let share = (MARK - 2.0) / leader.length().max(MARK);
            let _ = write!(
                svg,
                "<path class=\"leader\" d=\"M{:.1},{:.1}L{x:.1},{y:.1}\" stroke=\"{}\"/>",
                label.x + (x - label.x) * share,
                label.y + (y - label.y) * share,
                label.colour
            );
            placed.leaders.push(leader);
        }
        placed.names.push(area);
        let is_left = area.right <= label.x;
        let (at, anchor) = if is_left { (area.right - 2.0, "end") } else { (area.left + 2.0, "start") };
        for (number, line) in label.lines.iter().enumerate() {
            let _ = write!(
                svg,
                "<text class=\"name\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
                area.top + LEADING * (number as f64 + 0.8),
                escape(line)
            );
        }
    }
    svg
}

/// Returns the tops of blocks of these heights in one column, each as near to its desired middle as the others and the
/// ends of the column allow. Blocks are ordered by their desired middles.
pub(super) fn column(blocks: &[(f64, f64)], top: f64, bottom: f64) -> Vec<f64> {
    let mut tops: Vec<f64> = Vec::with_capacity(blocks.len());
    let mut free = top;
    for (middle, height) in blocks {
        let at = (middle - height / 2.0).max(free);
        tops.push(at);
        free = at + height;
    }
    // Blocks beyond the end push the others back.
    let mut end = bottom;
    for (at, (_, height)) in tops.iter_mut().zip(blocks).rev() {
        *at = at.min(end - height);
        end = *at;
    }
    tops
}

#[cfg(test)]
mod tests {
    use super::{Area, Label, column, draw};

    #[test]
    fn blocks_of_a_column_do_not_overlap() {
        let tops = column(&[(10.0, 14.0), (12.0, 28.0), (95.0, 14.0), (99.0, 14.0)], 0.0, 100.0);
        assert_eq!(tops, [3.0, 17.0, 72.0, 86.0]);
    }

    #[test]
    fn names_of_overlapping_marks_are_moved_and_connected() {
        let label = |x: f64, name: &str| Label { x, y: 50.0, colour: "#000", lines: vec![name.to_owned()] };
        let within = Area { left: 0.0, top: 0.0, right: 300.0, bottom: 100.0 };
        let single = draw(&[label(50.0, "one")], within);
        assert!(single.contains(">one<") && !single.contains("leader"), "{single}");
        let crowd: Vec<Label> =
            (0..4).map(|n| label(150.0 + f64::from(n), &format!("policy number {n}"))).collect();
        let svg = draw(&crowd, within);
        assert!(svg.matches("leader").count() >= 2, "{svg}");
        let lines: Vec<&str> =
            svg.split("<text").skip(1).filter_map(|text| text.split(" text-anchor").next()).collect();
        let mut different = lines.clone();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), 4, "no two names at one place: {lines:?}");
    }
}
