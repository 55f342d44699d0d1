//! Rendering of the same text in pieces of every size, on pages of every width.

use console::measure_text_width;

use super::Markdown;

fn render(text: &str, coloured: bool, width: usize, piece: usize) -> String {
    let mut markdown = Markdown::new(coloured);
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::new();
    for piece in chars.chunks(piece) {
        out.push_str(&markdown.push(&piece.iter().collect::<String>(), width));
    }
    out.push_str(&markdown.finish());
    out
}

fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

const ANSWER: &str = "# The depth\n\nIt is **nine metres** deep, as `depth.txt` says; *not* 2 * 3 or a*b.\n\n\n\
    - first thing, which goes on for longer than a narrow page is wide\n  - nested\n1. one\n\n\
    > quoted words that are wrapped with their bar on each of the lines\n\n\
    | a | b |\n|---|---|\n\n```rust\nfn main() {\n    let x = \"hi\"; // say\n}\n```\n---\nLast **word**";

#[test]
fn an_answer_looks_the_same_in_pieces_of_any_size() {
    for width in [10, 40, 80, 200] {
        let whole = render(ANSWER, true, width, usize::MAX);
        for piece in [1, 2, 3, 7, 50] {
            assert_eq!(render(ANSWER, true, width, piece), whole, "{width} columns, pieces of {piece}");
        }
    }
}

#[test]
fn markdown_is_made_readable() {
    insta::assert_snapshot!(plain(&render(ANSWER, true, 40, 5)), @r#"
    The depth

    It is nine metres deep, as depth.txt
    says; not 2 * 3 or a*b.

    • first thing, which goes on for longer
      than a narrow page is wide
      • nested
    1. one

    │ quoted words that are wrapped with
    │ their bar on each of the lines

    a  b
    ─  ─

    ─── rust
      fn main() {
          let x = "hi"; // say
      }
    ───
    ────────────────────────────────────────
    Last word
    "#);
}

#[test]
fn bold_code_and_headings_are_painted() {
    let seen = render("# Top\n**a b** `c d` *e*", true, 80, 1);
    assert_eq!(
        seen,
        "\u{1b}[1mTop\u{1b}[0m\n\u{1b}[1ma\u{1b}[0m \u{1b}[1mb\u{1b}[0m \u{1b}[36mc\u{1b}[0m \u{1b}[36md\u{1b}[0m \
         \u{1b}[3me\u{1b}[0m\n"
    );
}

#[test]
fn without_colour_the_text_is_unchanged() {
    let text = "**bold** and `code`\n\n- item\n\n```sh\nls -l  # *all*\n```\n";
    assert_eq!(render(text, false, 80, 3), text);
}

#[test]
fn no_line_of_prose_is_wider_than_the_page() {
    let text = "文字は幅が二つ分あるので数え方が違う。 Then some words in Latin letters, and 文字 again.";
    for width in [10, 13, 40] {
        for line in plain(&render(text, true, width, 2)).lines() {
            assert!(measure_text_width(line) <= width, "{width}: {line}");
        }
    }
    let joined: String = plain(&render(text, true, 13, 2)).split_whitespace().collect();
    assert_eq!(joined, text.split_whitespace().collect::<String>(), "nothing is left out");
}

#[test]
fn a_word_longer_than_the_page_is_not_broken() {
    let url = format!("https://example.com/{}", "a".repeat(60));
    assert!(plain(&render(&format!("see {url} for more"), true, 40, 1)).contains(&url));
}

#[test]
fn an_unclosed_code_block_is_shown_and_closed() {
    let seen = plain(&render("```py\nprint(1)\nprint(2)", true, 40, 4));
    assert_eq!(seen, "─── py\n  print(1)\n  print(2)\n───\n");
}

#[test]
fn escape_sequences_never_reach_the_terminal() {
    for text in ["a\u{1b}[31mb", "```\n\u{1b}]0;x\u{7}\n```", "| \u{9b}2J |", "# \u{1b}c"] {
        let seen = render(text, false, 40, 1);
        assert!(!seen.contains(['\u{1b}', '\u{7}', '\u{9b}']), "{seen:?}");
    }
}

#[test]
fn asterisks_that_are_not_emphasis_are_kept() {
    for text in ["2 * 3 * 4", "a*b*c", "**", "* * *x"] {
        let seen = plain(&render(text, true, 80, 1));
        if text != "* * *x" {
            assert_eq!(seen.trim_end(), text);
        }
    }
}

const TABLE: &str = "Here:\n\n| Name | Depth | Note |\n|:-----|------:|:----:|\n| **Bow** | 9 | `a\\|b` |\n\
    | 艫 | 12,000 |\n|Keel|1|left|\nAfter it.";

#[test]
fn table_columns_are_aligned_in_pieces_of_any_size() {
    let whole = plain(&render(TABLE, true, 40, usize::MAX));
    insta::assert_snapshot!(whole, @r"
    Here:

    Name   Depth  Note
    ────  ──────  ────
    Bow        9  a|b
    艫    12,000
    Keel       1  left
    After it.
    ");
    for piece in [1, 2, 5] {
        assert_eq!(plain(&render(TABLE, true, 40, piece)), whole, "pieces of {piece}");
    }
    let painted = render(TABLE, true, 40, 3);
    assert!(
        painted.contains("\u{1b}[1mName\u{1b}[0m") && painted.contains("\u{1b}[1mBow\u{1b}[0m"),
        "{painted:?}"
    );
    // At the end of an answer, and before code, too.
    assert_eq!(plain(&render("| a |\n|---|\n| b", true, 40, 1)), "a\n─\nb\n");
    assert_eq!(plain(&render("| a |\n|---|\n```\nx\n```\n", true, 40, 1)), "a\n─\n───\n  x\n───\n");
    assert_eq!(
        plain(&render("- x\n  | a | b |\n  |---|---|\n  | 1 | 2 |\n", true, 40, 1)),
        "• x\n  a  b\n  ─  ─\n  1  2\n"
    );
}

#[test]
fn a_table_that_is_too_wide_or_malformed_is_unchanged() {
    let wide = "| Name | Words |\n|---|---|\n| a | words that are far longer than the page is wide |\n";
    assert_eq!(plain(&render(wide, true, 40, 4)), wide);
    assert_eq!(plain(&render(wide, true, 80, 4)).lines().next(), Some("Name  Words"));
    // A table as wide as the page is too wide: terminals would wrap it.
    assert!(plain(&render("| aaaa | bbbb |\n|---|---|\n", true, 10, 1)).contains('|'));
    assert!(!plain(&render("| aaaa | bbbb |\n|---|---|\n", true, 11, 1)).contains('|'));
    for text in
        ["| no rule\n| below it\n", "| a |\n|---|\n| b | more than there are columns |\n", "|x|\n", "||\n"]
    {
        assert_eq!(plain(&render(text, true, 80, 3)), text);
    }
    assert_eq!(render(TABLE, false, 40, 3), format!("{TABLE}\n"));
}

#[test]
fn an_unfinished_table_is_shown() {
    let rows = "| a | b |\n".repeat(2_500);
    let seen = plain(&render(&format!("| x | y |\n|---|---|\n{rows}"), true, 40, 97));
    assert_eq!(seen.lines().count(), 2_502);
}
