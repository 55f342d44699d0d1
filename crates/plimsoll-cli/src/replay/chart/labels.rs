//! Where names stand in a chart, so that they lie neither on each other nor on marks, with a line to what they name.

use std::fmt::Write as _;

use super::text_width;
use crate::replay::page::escape;

/// The distance between two lines of text.
pub(super) const LEADING: f64 = 14.0;
/// How far marks reach from their middle.
const MARK: f64 = 8.0;
/// How far names are from their marks at least: where a mark is alone, and where a line has to show whose they are.
const ALONE: f64 = 10.0;
const CROWDED: f64 = 18.0;
/// How far apart the places are that are tried one below the other.
const STEP: f64 = 2.0;
/// A name closer to its mark than this needs no line to it.
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

    /// The point of it that is nearest to another.
    fn nearest(&self, x: f64, y: f64) -> (f64, f64) {
        (x.clamp(self.left, self.right), y.clamp(self.top, self.bottom))
    }
}

/// Names for a mark, one a line.
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

    /// Places to try, the nearest first: beside the mark, above and below it, then farther out.
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
            // A name beside its mark leaves what is above and below to others.
            let is_beside = area.top <= self.y && area.bottom >= self.y;
            (x - self.x).hypot(y - self.y) + if is_beside { 0.0 } else { 8.0 }
        };
        places.retain(|area| {
            within.contains(area) && !area.overlaps(&Area::centered(self.x, self.y, least - 1.0))
        });
        // Stable, so that of equal places the right one comes first.
        places.sort_by(|a, b| distance(a).total_cmp(&distance(b)));
        places
    }
}

/// A line from a mark to its name.
#[derive(Clone, Copy)]
struct Leader {
    from: (f64, f64),
    to: (f64, f64),
}

impl Leader {
    fn crosses(&self, area: &Area) -> bool {
        // Sampled: a corner that is cut by less than a step is not seen either.
        (1..24).any(|n| {
            let share = f64::from(n) / 24.0;
            let x = self.from.0 + (self.to.0 - self.from.0) * share;
            let y = self.from.1 + (self.to.1 - self.from.1) * share;
            area.overlaps(&Area::centered(x, y, 1.0))
        })
    }

    /// Whether it goes about towards a point.
    fn leads_to(&self, point: (f64, f64)) -> bool {
        let (ax, ay) = (self.to.0 - self.from.0, self.to.1 - self.from.1);
        let (bx, by) = (point.0 - self.from.0, point.1 - self.from.1);
        ax * bx + ay * by > 0.6 * self.length() * bx.hypot(by)
    }

    fn length(&self) -> f64 {
        (self.to.0 - self.from.0).hypot(self.to.1 - self.from.1)
    }
}

/// What has its place already.
struct Placed {
    marks: Vec<Area>,
    names: Vec<Area>,
    leaders: Vec<Leader>,
}

impl Placed {
    /// Whether a name can stand there. At first its line must also lead away from marks that lie on its own, as it would
    /// seem to come from them; there may be no such place.
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

    /// Whether other marks are so near that a name beside this one could be theirs.
    fn is_crowded(&self, label: &Label) -> bool {
        let own = Area::centered(label.x, label.y, MARK);
        let near = Area::centered(label.x, label.y, MARK + CROWDED);
        self.marks.iter().any(|mark| *mark != own && mark.overlaps(&near))
    }
}

/// Draw names beside their marks within an area. The first are placed first, and so nearest.
pub(super) fn draw(labels: &[Label], within: Area) -> String {
    let marks = labels.iter().map(|label| Area::centered(label.x, label.y, MARK)).collect();
    let mut placed = Placed { marks, names: Vec::new(), leaders: Vec::new() };
    let mut svg = String::new();
    for label in labels {
        let is_crowded = placed.is_crowded(label);
        let places = label.places(&within, if is_crowded { CROWDED } else { ALONE });
        let find = |is_strict| places.iter().find(|area| placed.has_room(label, area, is_strict));
        let free = || places.iter().find(|area| placed.is_free(area));
        // Where all is full, a name that lies on another is still better than none.
        let area = find(true).or_else(|| find(false)).or_else(free).or(places.first());
        let Some(area) = area.copied() else { continue };
        let (x, y) = area.nearest(label.x, label.y);
        let leader = Leader { from: (label.x, label.y), to: (x, y) };
        if is_crowded || leader.length() > MARK + NEAR {
            // From the mark's edge on.
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

/// The tops of blocks of these heights in one column, each as near to where it would like its middle as the others and
/// the column's ends allow. Blocks are in the order of their wishes.
pub(super) fn column(wishes: &[(f64, f64)], top: f64, bottom: f64) -> Vec<f64> {
    let mut tops: Vec<f64> = Vec::with_capacity(wishes.len());
    let mut free = top;
    for (middle, height) in wishes {
        let at = (middle - height / 2.0).max(free);
        tops.push(at);
        free = at + height;
    }
    // What was pushed over the end pushes back.
    let mut end = bottom;
    for (at, (_, height)) in tops.iter_mut().zip(wishes).rev() {
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
    fn names_of_marks_at_one_place_are_moved_and_led_to() {
        let label = |x: f64, name: &str| Label { x, y: 50.0, colour: "#000", lines: vec![name.to_owned()] };
        let within = Area { left: 0.0, top: 0.0, right: 300.0, bottom: 100.0 };
        let alone = draw(&[label(50.0, "one")], within);
        assert!(alone.contains(">one<") && !alone.contains("leader"), "{alone}");
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
