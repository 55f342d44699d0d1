//! HTML into Markdown or text.
//!
//! The page may be made to hurt. A parser takes time that grows with the square of how deep elements lie in each other, and a
//! converter that calls itself for each level overflows its stack, which ends the whole process: 20,000 `<div>` did it. So
//! pages are parsed in pieces under a limit of time, and what lies too deep is given as plain text, by a walk that needs no
//! stack.

use std::rc::Rc;
use std::time::{Duration, Instant};

use htmd::HtmlToMarkdown;
use html5ever::tendril::TendrilSink;
use html5ever::{ParseOpts, parse_document};
use markup5ever_rcdom::{Node, NodeData, RcDom};
use tokio_util::sync::CancellationToken;

use crate::tools::ToolError;

/// A page that takes longer to parse is not a page for people.
const PARSE_TIME: Duration = Duration::from_secs(2);
/// So much is parsed between two looks at the clock.
const PIECE: usize = 4 << 10;
/// Browsers stop at 512 levels.
const MOST_LEVELS: usize = 512;
/// For the converter, which calls itself for each level.
const STACK: usize = 64 << 20;
/// Elements without words for a reader.
const SILENT: [&str; 8] = ["script", "style", "noscript", "template", "svg", "iframe", "object", "head"];
/// Elements that stand on lines of their own.
const BLOCKS: [&str; 28] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "br",
    "dd",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "li",
    "main",
    "ol",
    "p",
    "pre",
    "table",
    "tr",
];

/// A page as Markdown, or as text where it cannot be.
pub(super) fn to_markdown(source: &str, cancel: &CancellationToken) -> Result<String, ToolError> {
    // The tree cannot leave its thread, so the whole conversion has one of its own, with the stack that it needs.
    std::thread::scope(|scope| {
        let work = || {
            let tree = parse(source, cancel)?;
            if depth(&tree) > MOST_LEVELS {
                return Ok(words(&tree));
            }
            let converter = HtmlToMarkdown::builder().skip_tags(SILENT.to_vec()).build();
            Ok(converter.tree_to_markdown(&tree))
        };
        let failed = || ToolError::Failed("the page cannot be converted; ask for it as `html`".into());
        let thread = std::thread::Builder::new().name("plimsoll-page".into()).stack_size(STACK);
        let thread = thread.spawn_scoped(scope, work).map_err(|_| failed())?;
        thread.join().unwrap_or_else(|_| Err(failed()))
    })
}

/// A page as text.
pub(super) fn to_text(source: &str, cancel: &CancellationToken) -> Result<String, ToolError> {
    parse(source, cancel).map(|tree| words(&tree))
}

fn parse(source: &str, cancel: &CancellationToken) -> Result<Rc<Node>, ToolError> {
    let mut parser = parse_document(RcDom::default(), ParseOpts::default());
    let (until, mut rest) = (Instant::now() + PARSE_TIME, source);
    while !rest.is_empty() {
        if cancel.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        if Instant::now() > until {
            let problem = "the page is too tangled to be read; ask for it as `html`";
            return Err(ToolError::Failed(problem.into()));
        }
        let end = (PIECE.min(rest.len())..=rest.len()).find(|end| rest.is_char_boundary(*end));
        let (piece, left) = rest.split_at(end.unwrap_or(rest.len()));
        parser.process(piece.into());
        rest = left;
    }
    Ok(parser.finish().document)
}

/// How deep elements lie in each other.
fn depth(tree: &Rc<Node>) -> usize {
    let mut deepest = 0;
    let mut open = vec![(Rc::clone(tree), 0)];
    while let Some((node, level)) = open.pop() {
        deepest = deepest.max(level);
        open.extend(node.children.borrow().iter().map(|child| (Rc::clone(child), level + 1)));
    }
    deepest
}

/// The words of a page, without marks.
fn words(tree: &Rc<Node>) -> String {
    enum Step {
        Enter(Rc<Node>),
        EndLine,
        EndCode,
    }
    let (mut text, mut code) = (String::new(), 0_usize);
    let mut steps = vec![Step::Enter(Rc::clone(tree))];
    while let Some(step) = steps.pop() {
        let node = match step {
            Step::EndLine => {
                end_line(&mut text);
                continue;
            }
            Step::EndCode => {
                code -= 1;
                continue;
            }
            Step::Enter(node) => node,
        };
        match &node.data {
            NodeData::Text { contents } if code > 0 => text.push_str(&contents.borrow()),
            NodeData::Text { contents } => push_words(&mut text, &contents.borrow()),
            NodeData::Element { name, .. } => {
                let name: &str = &name.local;
                if SILENT.contains(&name) {
                    continue;
                }
                if BLOCKS.contains(&name) {
                    end_line(&mut text);
                    steps.push(Step::EndLine);
                }
                match name {
                    "pre" => {
                        code += 1;
                        steps.push(Step::EndCode);
                    }
                    "td" | "th" if !text.ends_with('\n') => text.push('\t'),
                    _ => {}
                }
            }
            _ => {}
        }
        steps.extend(node.children.borrow().iter().rev().map(|child| Step::Enter(Rc::clone(child))));
    }
    text.trim().to_owned()
}

/// Words with single spaces between them.
fn push_words(text: &mut String, words: &str) {
    let mut is_spaced = text.is_empty() || text.ends_with(char::is_whitespace);
    for c in words.chars() {
        match (c.is_whitespace(), is_spaced) {
            (true, true) => {}
            (true, false) => text.push(' '),
            (false, _) => text.push(c),
        }
        is_spaced = c.is_whitespace();
    }
}

fn end_line(text: &mut String) {
    let kept = text.trim_end_matches([' ', '\t']).len();
    text.truncate(kept);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use tokio_util::sync::CancellationToken;

    use super::{MOST_LEVELS, to_markdown, to_text};

    const PAGE: &str = "<html><head><title>T</title><style>p{}</style></head><body><h1>Head</h1><script>alert(1)</script>\
        <p>A <b>bold</b>  <a href='/x'>link</a>.</p><ul><li>one<li>two</ul><pre><code>let x =  1;\n</code></pre>\
        <table><tr><th>a<th>b<tr><td>1<td>2</table></body>";

    #[test]
    fn a_page_becomes_markdown_or_text() {
        let cancel = CancellationToken::new();
        let markdown = to_markdown(PAGE, &cancel).unwrap();
        for part in ["# Head", "A **bold** [link](/x).", "one", "```\nlet x =  1;\n```", "| 1 | 2 |"] {
            assert!(markdown.contains(part), "{part} in {markdown}");
        }
        assert!(!markdown.contains("alert") && !markdown.contains("p{}"), "{markdown}");
        let text = to_text(PAGE, &cancel).unwrap();
        assert_eq!(text, "Head\nA bold link.\none\ntwo\nlet x =  1;\na\tb\n1\t2");
    }

    #[test]
    fn a_page_that_is_made_to_hurt_neither_ends_the_process_nor_holds_it_up() {
        let cancel = CancellationToken::new();
        for piece in [
            "<div>",
            "<ul><li>",
            "<b>",
            "<table><tr><td>",
            "<blockquote>",
            "<p><b id=x>",
            "<a href=x>y",
            "<svg><g>",
        ] {
            // Twice as deep as is converted. The parser takes the square of the depth for some of these, and a busy machine
            // must not be taken for a tangled page here.
            let page = format!("{}deep", piece.repeat(2 * MOST_LEVELS));
            let markdown = to_markdown(&page, &cancel).unwrap();
            assert!(markdown.contains("deep") || markdown.contains('y') || piece.contains("svg"), "{piece}");
            let begun = Instant::now();
            // 5 MB of it.
            let _ = to_markdown(&piece.repeat((5 << 20) / piece.len()), &cancel);
            assert!(begun.elapsed() < Duration::from_secs(60), "{piece}: {:?}", begun.elapsed());
        }
    }
}
