//! Markdown tables with aligned columns.
//!
//! The width of a column depends on its last row, so rows are held back until the table has ended. Tables are the only
//! part of an answer that does not stream.

use anstyle::Style;
use console::{Alignment, measure_text_width, pad_str};

use crate::style::{QUIET, paint};

/// Space between two columns.
const GAP: &str = "  ";

/// Formats rows as a painted table for a page of this width; `None` if they are not a table, or it is too wide. `cell`
/// paints the text of a cell.
pub(super) fn render(
    rows: &[String],
    page: usize,
    cell: impl Fn(&str, Style) -> String,
) -> Option<Vec<String>> {
    let (heading, rest) = rows.split_first()?;
    let (rule, rest) = rest.split_first()?;
    let indent: String = heading.chars().take_while(|c| *c == ' ').collect();
    let sides: Vec<Alignment> = split(rule).iter().map(|cell| side(cell)).collect::<Option<_>>()?;
    let heading: Vec<String> = split(heading).iter().map(|text| cell(text, Style::new().bold())).collect();
    if heading.len() != sides.len() {
        return None;
    }
    let plain = |row: &String| split(row).iter().map(|text| cell(text, Style::new())).collect::<Vec<_>>();
    let rest: Vec<Vec<String>> = rest.iter().map(plain).collect();
    // A cell without a column would be dropped.
    if rest.iter().any(|row| row.len() > sides.len()) {
        return None;
    }
    let all = || std::iter::once(&heading).chain(&rest);
    let width = |at: usize| all().filter_map(|row| row.get(at)).map(|cell| measure_text_width(cell)).max();
    let widths: Vec<usize> = (0..sides.len()).map(|at| width(at).unwrap_or(0).max(1)).collect();
    let gaps = GAP.len() * sides.len().saturating_sub(1);
    // The last column of the terminal stays empty, because terminals would wrap.
    if indent.len() + widths.iter().sum::<usize>() + gaps >= page {
        return None;
    }
    let line = |row: &Vec<String>| {
        let cells = widths.iter().zip(&sides).enumerate().map(|(at, (width, side))| {
            let cell = row.get(at).map_or("", String::as_str);
            pad_str(cell, *width, *side, None).into_owned()
        });
        format!("{indent}{}", cells.collect::<Vec<_>>().join(GAP)).trim_end().to_owned()
    };
    let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
    let mut lines = vec![line(&heading), format!("{indent}{}", paint(QUIET, &rule.join(GAP)))];
    lines.extend(rest.iter().map(line));
    Some(lines)
}

/// Splits a row into cells.
fn split(row: &str) -> Vec<String> {
    let row = row.trim();
    let row = row.strip_prefix('|').unwrap_or(row);
    let mut cells = vec![String::new()];
    let mut chars = row.chars().peekable();
    while let Some(c) = chars.next() {
        let is_escaped = c == '\\' && chars.next_if_eq(&'|').is_some();
        match (c, cells.last_mut()) {
            ('|', _) => cells.push(String::new()),
            (_, Some(cell)) if is_escaped => cell.push('|'),
            (c, Some(cell)) => cell.push(c),
            (_, None) => {}
        }
    }
    // A bar at the end closes the last cell.
    if cells.len() > 1 && cells.last().is_some_and(|cell| cell.trim().is_empty()) {
        cells.pop();
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

/// Parses the alignment of a column from the line below the heading; `None` if it is not such a line.
fn side(cell: &str) -> Option<Alignment> {
    let (left, right) = (cell.starts_with(':'), cell.ends_with(':'));
    let bars = cell.trim_matches(':');
    let is_rule = !bars.is_empty() && bars.chars().all(|c| c == '-');
    is_rule.then_some(match (left, right) {
        (true, true) => Alignment::Center,
        (false, true) => Alignment::Right,
        (_, false) => Alignment::Left,
    })
}
