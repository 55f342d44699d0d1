//! Text of a permission question: an excerpt that fits the screen, and the full text for the pager.
//!
//! The content comes from a model. Every line of it follows a bar and is wrapped here instead of by the terminal, so that
//! none can imitate the question; invisible characters are spelled out, and the size of the hidden rest is shown. A command
//! can only be allowed after all of it was on the screen, because it cannot be undone; a change can be, so only a
//! permanent permission requires that all of it was shown.

use anstyle::{AnsiColor, Style};
use console::measure_text_width;
use plimsoll::Tokens;
use plimsoll_agent::{PermissionQuestion, Preview};

use super::highlight::diff_style;
use super::text::{one_line, visible};
use crate::output::counted;
use crate::style::{HEADING, QUIET, paint};

pub(super) const QUESTION: Style = AnsiColor::Yellow.on_default().bold();
/// Rows of the question outside the model's content: heading, notes, answers and the input line.
const FRAME: usize = 9;
/// Minimum number of content rows, on the smallest screen.
const MIN_ROWS: usize = 6;
/// Maximum number of rows of the rule that "always" would add.
const RULE_ROWS: usize = 3;

/// Task that asks.
pub(super) struct AskingTask {
    /// Abbreviated id, as in `/tasks`.
    pub(super) id: String,
    /// Description.
    pub(super) description: String,
}

/// A question and its texts.
pub(super) struct QuestionText {
    head: String,
    what: String,
    detail: Option<Detail>,
    rule: String,
}

/// Details of the call.
struct Detail {
    /// Heading.
    heading: &'static str,
    text: String,
    is_diff: bool,
}

/// Excerpt of a question that fits the screen.
pub(super) struct Brief {
    /// Text of the question, without the input line.
    pub(super) text: String,
    /// Shown parts of the question.
    pub(super) shown: Shown,
}

/// How much of a question fits on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// Part of the command or path.
    Part,
    /// The whole command or path, but not the whole change or rule.
    Call,
    /// Everything.
    All,
}

impl QuestionText {
    pub(super) fn new(question: &PermissionQuestion, task: Option<&AskingTask>) -> QuestionText {
        let tool = one_line(&question.tool, 60);
        let agent = match question.agent.as_str() {
            "build" => String::new(),
            agent => format!("{}: ", one_line(agent, 40)),
        };
        let mut head = format!("{} {agent}{}", paint(QUESTION, "?"), paint(HEADING, &tool));
        head.push_str(&paint(QUIET, &format!(" ({})", question.why)));
        head.push('\n');
        if let Some(task) = task {
            let about = format!("  asked by task {}: {}", task.id, one_line(&task.description, 100));
            head.push_str(&format!("{about}\n"));
        }
        let detail = question.preview.as_ref().map(|preview| {
            let (heading, text, is_diff) = match preview {
                Preview::Change(diff) => ("  with", diff, true),
                Preview::Content(content) => ("  new file with", content, false),
            };
            // The final newline is not a line of its own; whether a file has one is rarely relevant.
            let text = visible(&text.replace('\t', "    "));
            Detail { heading, text: text.trim_end_matches('\n').to_owned(), is_diff }
        });
        QuestionText { head, what: visible(&question.what), detail, rule: rule_text(question) }
    }

    /// Returns the excerpt for a screen of this size.
    pub(super) fn brief(&self, width: usize, height: usize) -> Brief {
        let rule = Excerpt::of(&self.rule, width, RULE_ROWS, false);
        let room = height.saturating_sub(FRAME + RULE_ROWS).max(MIN_ROWS);
        let what = Excerpt::of(&self.what, width, if self.detail.is_some() { room / 2 } else { room }, false);
        let left = room.saturating_sub(what.rows);
        let detail = self.detail.as_ref();
        let shown = detail.map(|detail| Excerpt::of(&detail.text, width, left, detail.is_diff));
        let seen = match (what.is_whole(), rule.is_whole() && shown.as_ref().is_none_or(Excerpt::is_whole)) {
            (true, true) => Shown::All,
            (true, false) => Shown::Call,
            (false, _) => Shown::Part,
        };
        let mut text = format!("{}{what}", self.head);
        if let (Some(detail), Some(shown)) = (detail, shown) {
            text.push_str(&paint(QUIET, detail.heading));
            text.push_str(&format!("\n{shown}"));
        }
        // `y` is not offered before the whole command was on the screen: its hidden end could be the dangerous part.
        if seen != Shown::Part {
            text.push_str(&paint(QUIET, "  y  allow once\n"));
        }
        let later = match seen {
            Shown::All => None,
            Shown::Call => Some("; then  a  (always) is available\n"),
            Shown::Part => Some("; then  y  (once) and  a  (always) are available\n"),
        };
        match later {
            None => text.push_str(&format!("{}\n", self.always(width))),
            Some(later) => {
                text.push_str(&paint(QUESTION, "  v  show everything"));
                text.push_str(&paint(QUIET, later));
            }
        }
        text.push_str(&paint(QUIET, "  n  deny (also Enter), or type a reason"));
        Brief { text, shown: seen }
    }

    /// Formats the answer "always" and the rule that it adds.
    pub(super) fn always(&self, width: usize) -> String {
        let rule = Excerpt::of(&self.rule, width, RULE_ROWS, false).to_string();
        paint(QUIET, "  a  always allow in this session:\n") + rule.trim_end_matches('\n')
    }

    /// Returns the full text as rows.
    pub(super) fn rows(&self, width: usize) -> Vec<String> {
        let mut rows: Vec<String> = self.head.lines().map(str::to_owned).collect();
        rows.extend(barred(&self.what, width, false).map(|row| row.text));
        if let Some(detail) = &self.detail {
            rows.push(paint(QUIET, detail.heading));
            rows.extend(barred(&detail.text, width, detail.is_diff).map(|row| row.text));
        }
        rows.push(paint(QUIET, "  a  (always) would allow in this session:"));
        rows.extend(barred(&self.rule, width, false).map(|row| row.text));
        rows
    }
}

/// Formats the rule that "always" would add, on one line.
pub(super) fn rule_text(question: &PermissionQuestion) -> String {
    let (tool, pattern) = (&question.always.tool, &question.always.pattern);
    let rule = if pattern == "*" { format!("every `{tool}`") } else { format!("{tool}:{pattern}") };
    visible(&rule).replace('\n', "\\n")
}

/// Beginning of a text after bars, and a note on the rest.
struct Excerpt {
    shown: String,
    rows: usize,
    note: Option<String>,
}

impl Excerpt {
    fn of(text: &str, width: usize, most: usize, is_diff: bool) -> Excerpt {
        let mut rows = barred(text, width, is_diff);
        let shown: Vec<Row> = rows.by_ref().take(most).collect();
        let next = rows.next();
        let note = next.map(|next| {
            let total = text.split('\n').count();
            // For a single long line, a count of lines would say that nothing is hidden.
            if total == 1 {
                let seen: usize = shown.iter().map(|row| row.chars).sum();
                let more = text.chars().count().saturating_sub(seen);
                return format!("the line has {}", counted(more, "more character"));
            }
            // A line that continues in the first hidden row does not count as shown.
            format!("{} of {} shown", Tokens(next.line as u64), counted(total, "line"))
        });
        let rows = shown.len();
        Excerpt { shown: shown.into_iter().map(|row| row.text + "\n").collect(), rows, note }
    }

    fn is_whole(&self) -> bool {
        self.note.is_none()
    }
}

impl std::fmt::Display for Excerpt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown)?;
        match &self.note {
            Some(note) => writeln!(f, "{}", paint(QUESTION, &format!("  … {note}"))),
            None => Ok(()),
        }
    }
}

/// Row of the screen.
struct Row {
    text: String,
    /// Index of its line in the text.
    line: usize,
    /// Number of characters.
    chars: usize,
}

/// Formats text after a bar: `│` for the first row of a line, `┆` for the following ones. Rows are created lazily, because a
/// change may have far more than are shown.
fn barred(text: &str, width: usize, is_diff: bool) -> impl Iterator<Item = Row> {
    let room = width.saturating_sub(5).max(8);
    text.split('\n').enumerate().flat_map(move |(line, whole)| {
        let style = diff_style(whole).filter(|_| is_diff);
        Pieces { rest: Some(whole), room }.enumerate().map(move |(at, piece)| {
            let bar = paint(QUESTION, if at == 0 { "│" } else { "┆" });
            let painted = style.map_or_else(|| piece.to_owned(), |style| paint(style, piece));
            Row { text: format!("  {bar} {painted}"), line, chars: piece.chars().count() }
        })
    })
}

/// Pieces of a line of at most `room` columns; an empty line is one piece.
struct Pieces<'t> {
    rest: Option<&'t str>,
    room: usize,
}

impl<'t> Iterator for Pieces<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        let rest = self.rest.take()?;
        let mut column = 0;
        for (at, c) in rest.char_indices() {
            let width = if c.is_ascii() { 1 } else { measure_text_width(c.encode_utf8(&mut [0; 4])) };
            // A character wider than the room is taken anyway; otherwise the loop would never end.
            if column + width > self.room && at > 0 {
                self.rest = Some(&rest[at..]);
                return Some(&rest[..at]);
            }
            column += width;
        }
        Some(rest)
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_agent::{PermissionQuestion, Preview, parse_allow};

    use super::{AskingTask, QuestionText, Shown};

    fn question(what: &str, preview: Option<&str>) -> PermissionQuestion {
        PermissionQuestion {
            session: "ses_1".into(),
            agent: "build".into(),
            part: "prt_1".into(),
            tool: "bash".into(),
            what: what.into(),
            preview: preview.map(|diff| Preview::Change(diff.to_owned())),
            why: "it runs a command",
            always: parse_allow("bash:cargo *", None).unwrap(),
        }
    }

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    fn brief(question: &PermissionQuestion, width: usize, height: usize) -> (String, Shown) {
        let brief = QuestionText::new(question, None).brief(width, height);
        (plain(&brief.text), brief.shown)
    }

    #[test]
    fn a_question_shows_exactly_what_would_run() {
        let (shown, seen) = brief(&question("cargo test\u{1b}[2K\rrm -rf ~ # \u{202e}txt", None), 60, 24);
        assert_eq!(seen, Shown::All);
        insta::assert_snapshot!(shown, @r"
        ? bash (it runs a command)
          │ cargo test\e[2K\rrm -rf ~ # \u{202e}txt
          y  allow once
          a  always allow in this session:
          │ bash:cargo *
          n  deny (also Enter), or type a reason
        ");
        let change = "@@ -1 +1 @@\n-\told line\n+\tnew line\n";
        insta::assert_snapshot!(brief(&question("src/a.rs", Some(change)), 40, 24).0, @r"
        ? bash (it runs a command)
          │ src/a.rs
          with
          │ @@ -1 +1 @@
          │ -    old line
          │ +    new line
          y  allow once
          a  always allow in this session:
          │ bash:cargo *
          n  deny (also Enter), or type a reason
        ");
    }

    #[test]
    fn a_long_change_is_counted_and_shown_in_full_in_the_pager() {
        let change: String = (1..=2_500).map(|n| format!("+line {n}\n")).collect();
        let asked = question("src/a.rs", Some(&change));
        let (shown, seen) = brief(&asked, 60, 20);
        assert_eq!(seen, Shown::Call);
        insta::assert_snapshot!(shown, @r"
        ? bash (it runs a command)
          │ src/a.rs
          with
          │ +line 1
          │ +line 2
          │ +line 3
          │ +line 4
          │ +line 5
          │ +line 6
          │ +line 7
          … 7 of 2,500 lines shown
          y  allow once
          v  show everything; then  a  (always) is available
          n  deny (also Enter), or type a reason
        ");
        let pages = plain(&QuestionText::new(&asked, None).rows(60).join("\n"));
        assert!((1..=2_500).all(|n| pages.contains(&format!("\n  │ +line {n}\n"))));
        // A command of many lines, and one line that is longer than the screen.
        let command: String = (1..=40).map(|n| format!("echo {n}\n")).collect();
        let (shown, seen) = brief(&question(&command, None), 60, 20);
        assert!(!shown.contains("  y  allow once"), "{shown}");
        assert!(seen == Shown::Part && shown.contains("  │ echo 8\n  … 8 of 41 lines shown\n"), "{shown}");
        let (shown, seen) = brief(&question(&"echo 文字; ".repeat(60), None), 40, 18);
        assert!(seen == Shown::Part && shown.contains("  … the line has "), "{shown}");
        for height in [1, 20, 24, 40] {
            let rows = brief(&asked, 60, height).0.lines().count();
            assert!(rows < height.max(17), "{rows} rows on a screen of {height}");
        }
    }

    #[test]
    fn a_new_file_differs_from_a_change_and_has_no_diff_colours() {
        let content = "+ one\n- two\n@ three\n";
        let painted = |asked: &PermissionQuestion| {
            let text = QuestionText::new(asked, None);
            [text.brief(60, 24).text, text.rows(60).join("\n")]
        };
        let mut asked = question("list.md", Some(content));
        assert!(
            painted(&asked).iter().all(|shown| !shown.contains("\u{1b}[0m + one\n")),
            "a change has colours"
        );
        asked.preview = Some(Preview::Content(content.into()));
        for shown in painted(&asked) {
            for line in content.lines() {
                assert!(shown.contains(&format!("\u{1b}[0m {line}\n")), "{shown:?}");
            }
            assert!(plain(&shown).contains("\n  new file with\n  │ + one\n"), "{shown}");
        }
    }

    #[test]
    fn a_rule_that_does_not_fit_counts_as_hidden() {
        let mut asked = question("true", None);
        asked.always.pattern = "x".repeat(400);
        assert_eq!(brief(&asked, 40, 40).1, Shown::Call);
        let rows = plain(&QuestionText::new(&asked, None).rows(40).join(""));
        assert_eq!(rows.matches('x').count(), 400);
    }

    #[test]
    fn a_task_that_asks_is_named() {
        let task = AskingTask { id: "1e0f4059".into(), description: "Measure\nthe harbour".into() };
        let text = QuestionText::new(&question("ls", None), Some(&task)).brief(80, 24).text;
        assert!(plain(&text).contains("\n  asked by task 1e0f4059: Measure the harbour\n"), "{text}");
    }

    #[test]
    fn every_line_of_a_model_follows_a_bar() {
        let evil = format!("true{}allow? [y/a/N] y\n\nallow? [y/a/N] y", " ".repeat(300));
        for width in [20, 40, 80, 200] {
            let asked = question(&evil, None);
            let rows = plain(&QuestionText::new(&asked, None).rows(width).join("\n"));
            for shown in [brief(&asked, width, 60).0, rows] {
                for line in shown.lines().filter(|line| line.contains("allow?")) {
                    assert!(line.starts_with("  │ ") || line.starts_with("  ┆ "), "{line}");
                }
                assert!(
                    shown.lines().all(|line| console::measure_text_width(line) <= width.max(70)),
                    "{shown}"
                );
            }
        }
    }
}
