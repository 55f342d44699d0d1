//! Converts HTML to Markdown or text.
//!
//! A page may be hostile. The parser's time grows with the square of the nesting depth, and a converter that recurses
//! for each level overflows its stack, which ends the process: 20,000 `<div>` did. So pages are parsed in pieces under
//! a time limit, and pages with deep nesting are converted to plain text by a walk without recursion.

use std::time::{Duration, Instant};

use dom_query::{Document, NodeData, NodeRef};
use html5ever::tendril::TendrilSink;
use html5ever::{ParseOpts, parse_document};
use tokio_util::sync::CancellationToken;

use crate::agent::ToolError;

/// Timeout for parsing.
const PARSE_TIME: Duration = Duration::from_secs(2);
/// Number of bytes parsed between two checks of the clock.
const PIECE: usize = 4 << 10;
/// Maximum number of elements, texts and comments of a page. A few bytes can create many: each `<p>x</p>` reopens what
/// `<p><b id=1><b id=2>…</p>` has left open, so 5 MB of it would take gigabytes.
const MAX_NODES: usize = 500_000;
/// Maximum nesting depth, like that of browsers.
const MAX_LEVELS: usize = 512;
/// Stack size for each level of the converter, which is recursive.
const STACK: usize = 64 << 20;
/// Elements without text for readers.
const SILENT: [&str; 8] = ["script", "style", "noscript", "template", "svg", "iframe", "object", "head"];
/// Elements that start a new line.
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

/// Converts a page to Markdown, or to text if that is not possible.
pub(super) fn to_markdown(source: &str, cancel: &CancellationToken) -> Result<String, ToolError> {
    // The tree cannot leave its thread, so the whole conversion runs on one with a large stack.
    std::thread::scope(|scope| {
        let work = || {
            let tree = parse(source, cancel)?;
            if depth(&tree) > MAX_LEVELS {
                return Ok(visible_text(&tree));
            }
            Ok(tree.md(Some(&SILENT)).to_string())
        };
        let failed = || ToolError::Failed("the page cannot be converted; ask for it as `html`".into());
        let thread = std::thread::Builder::new().name("plimsoll-page".into()).stack_size(STACK);
        let thread = thread.spawn_scoped(scope, work).map_err(|_| failed())?;
        thread.join().unwrap_or_else(|_| Err(failed()))
    })
}

/// Converts a page to text.
pub(super) fn to_text(source: &str, cancel: &CancellationToken) -> Result<String, ToolError> {
    parse(source, cancel).map(|tree| visible_text(&tree))
}

fn parse(source: &str, cancel: &CancellationToken) -> Result<Document, ToolError> {
    parse_within(MAX_NODES, source, cancel)
}

fn parse_within(most_nodes: usize, source: &str, cancel: &CancellationToken) -> Result<Document, ToolError> {
    let mut parser = parse_document(Document::default(), ParseOpts::default());
    let (until, mut rest) = (Instant::now() + PARSE_TIME, source);
    while !rest.is_empty() {
        if cancel.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        if Instant::now() > until {
            let problem = "the page is too tangled to be read; ask for it as `html`";
            return Err(ToolError::Failed(problem.into()));
        }
        if parser.tokenizer.sink.sink.tree.len() > most_nodes {
            let problem = format!("the page has more than {most_nodes} elements; ask for it as `html`");
            return Err(ToolError::Failed(problem));
        }
        let end = (PIECE.min(rest.len())..=rest.len()).find(|end| rest.is_char_boundary(*end));
        let (piece, left) = rest.split_at(end.unwrap_or(rest.len()));
        parser.process(piece.into());
        rest = left;
    }
    Ok(parser.finish())
}

/// Returns the nesting depth.
fn depth(tree: &Document) -> usize {
    let mut deepest = 0;
    let mut open = vec![(tree.root(), 0)];
    while let Some((node, level)) = open.pop() {
        deepest = deepest.max(level);
        open.extend(node.children_it(false).map(|child| (child, level + 1)));
    }
    deepest
}

/// Returns the text of a page without markup.
fn visible_text(tree: &Document) -> String {
    enum Visit<'a> {
        Enter(NodeRef<'a>),
        EndLine,
        EndCode,
    }
    let (mut text, mut code) = (String::new(), 0_usize);
    let mut steps = vec![Visit::Enter(tree.root())];
    while let Some(step) = steps.pop() {
        let node = match step {
            Visit::EndLine => {
                end_line(&mut text);
                continue;
            }
            Visit::EndCode => {
                code -= 1;
                continue;
            }
            Visit::Enter(node) => node,
        };
        let is_silent = node.query_or(false, |node| match &node.data {
            NodeData::Text { contents } if code > 0 => {
                text.push_str(contents);
                false
            }
            NodeData::Text { contents } => {
                push_words(&mut text, contents);
                false
            }
            NodeData::Element(element) => {
                let name: &str = &element.name.local;
                if SILENT.contains(&name) {
                    return true;
                }
                if BLOCKS.contains(&name) {
                    end_line(&mut text);
                    steps.push(Visit::EndLine);
                }
                match name {
                    "pre" => {
                        code += 1;
                        steps.push(Visit::EndCode);
                    }
                    "td" | "th" if !text.ends_with('\n') => text.push('\t'),
                    _ => {}
                }
                false
            }
            _ => false,
        });
        if !is_silent {
            steps.extend(node.children_it(true).map(Visit::Enter));
        }
    }
    text.trim().to_owned()
}

/// Appends words, separated by single spaces.
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

    use super::{MAX_LEVELS, parse_within, to_markdown, to_text};

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
    fn a_page_whose_tree_is_much_larger_than_its_text_is_rejected() {
        let cancel = CancellationToken::new();
        let open: String = (0..100).map(|number| format!("<b id={number}>")).collect();
        let page = format!("<p>{open}</p>{}", "<p>x</p>".repeat(2_000));
        // Each paragraph reopens the hundred elements.
        let nodes = parse_within(usize::MAX, &page, &cancel).map(|tree| tree.tree.len()).unwrap();
        assert!(nodes > 200_000, "{nodes}");
        let error = parse_within(50_000, &page, &cancel).err().map(|error| error.to_string());
        assert!(error.is_some_and(|error| error.contains("more than 50000 elements")));
    }

    #[test]
    fn a_hostile_page_neither_ends_nor_blocks_the_process() {
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
            // Twice the depth that is converted. For some of these the parser's time is quadratic in the depth, and a
            // busy machine must not make this test fail.
            let page = format!("{}deep", piece.repeat(2 * MAX_LEVELS));
            let markdown = to_markdown(&page, &cancel).unwrap();
            assert!(markdown.contains("deep") || markdown.contains('y') || piece.contains("svg"), "{piece}");
            let begun = Instant::now();
            // 5 MB of it.
            let _ = to_markdown(&piece.repeat((5 << 20) / piece.len()), &cancel);
            assert!(begun.elapsed() < Duration::from_secs(60), "{piece}: {:?}", begun.elapsed());
        }
    }
}
