//! Colours and styles.

use anstyle::{AnsiColor, Style};
use clap::ValueEnum;

/// Style of a heading.
pub(crate) const HEADING: Style = Style::new().bold();
/// Style of a bar.
pub(crate) const BAR: Style = AnsiColor::Cyan.on_default();
/// Style of secondary text.
pub(crate) const QUIET: Style = Style::new().dimmed();
/// Style of `error:`.
pub(crate) const ERROR: Style = AnsiColor::Red.on_default().bold();
/// Style of `hint:`.
pub(crate) const HINT: Style = AnsiColor::Green.on_default().bold();

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorWhen {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl ColorWhen {
    /// Applies the choice to the process.
    pub(crate) fn apply(self) {
        match self {
            ColorWhen::Auto => anstream::ColorChoice::Auto,
            ColorWhen::Always => anstream::ColorChoice::Always,
            ColorWhen::Never => anstream::ColorChoice::Never,
        }
        .write_global();
    }
}

/// Applies a style to text.
pub(crate) fn paint(style: Style, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{style}{text}{style:#}") }
}

/// Paints the headings and bars of a plain report. A heading is a line without indentation after an empty line.
pub(crate) fn report(text: &str) -> String {
    let mut painted = String::new();
    let mut after_empty = false;
    for line in text.split_inclusive('\n') {
        let bare = line.trim_end_matches('\n');
        let is_heading = after_empty && !bare.is_empty() && !bare.starts_with(' ');
        after_empty = bare.is_empty();
        if is_heading {
            painted.push_str(&paint(HEADING, bare));
        } else if let (Some(from), Some(to)) = (bare.find('█'), bare.rfind('█')) {
            let to = to + '█'.len_utf8();
            painted.push_str(&bare[..from]);
            painted.push_str(&paint(BAR, &bare[from..to]));
            painted.push_str(&bare[to..]);
        } else {
            painted.push_str(bare);
        }
        painted.push_str(&line[bare.len()..]);
    }
    painted
}

#[cfg(test)]
mod tests {
    use super::report;

    #[test]
    fn a_report_is_painted_without_changing_a_letter() {
        let plain = "first line\n\nBy tool\n  10  ███   read\n\nGrowth\n  1  █  hi\n";
        let painted = report(plain);
        assert!(painted.contains("\u{1b}[1mBy tool\u{1b}[0m") && painted.contains("\u{1b}[36m███\u{1b}[0m"));
        assert!(
            painted.starts_with("first line\n"),
            "a line without an empty line before it is not a heading"
        );
        assert_eq!(anstream::adapter::strip_str(&painted).to_string(), plain);
    }
}
