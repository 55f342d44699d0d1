//! HTML into Markdown or text.
//!
//! The page may be made to hurt. A parser takes time that grows with the square of how deep elements lie in each other, and a
//! converter that calls itself for each level overflows its stack, which ends the whole process: 20,000 `<div>` did it. So
//! pages are parsed in pieces under a limit of time, and what lies too deep is given as plain text, by a walk that needs no
//! stack.

use std::time::{Duration, Instant};

use dom_query::{Document, NodeData, NodeRef};
use html5ever::tendril::TendrilSink;
use html5ever::{ParseOpts, parse_document};
use tokio_util::sync::CancellationToken;

use crate::agent::ToolError;

/// A page that takes longer to parse is not a page for people.
const PARSE_TIME: Duration = Duration::from_secs(2);
/// So much is parsed between two looks at the clock.
const PIECE: usize = 4 << 10;
/// Elements, texts and comments that a page may have. A few bytes can stand for many: each `<p>x</p>` opens again what
/// `<p><b id=1><b id=2>…</p>` has left open, so that 5 MB of it would take gigabytes.
const MOST_NODES: usize = 500_000;
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
            Ok(tree.md(Some(&SILENT)).to_string())
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

fn parse(source: &str, cancel: &CancellationToken) -> Result<Document, ToolError> {
    parse_within(MOST_NODES, source, cancel)
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

/// How deep elements lie in each other.
fn depth(tree: &Document) -> usize {
    let mut deepest = 0;
    let mut open = vec![(tree.root(), 0)];
    while let Some((node, level)) = open.pop() {
        deepest = deepest.max(level);
        open.extend(node.children_it(false).map(|child| (child, level + 1)));
    }
    deepest
}

/// The words of a page, without marks.
fn words(tree: &Document) -> String {
    enum Step<'a> {
        Enter(NodeRef<'a>),
        EndLine,
        EndCode,
    }
    let (mut text, mut code) = (String::new(), 0_usize);
    let mut steps = vec![Step::Enter(tree.root())];
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
                false
            }
            _ => false,
        });
        if !is_silent {
            steps.extend(node.children_it(true).map(Step::Enter));
        }
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

    use super::{MOST_LEVELS, parse_within, to_markdown, to_text};

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
    fn a_page_whose_tree_is_much_larger_than_its_text_is_given_up() {
        let cancel = CancellationToken::new();
        let open: String = (0..100).map(|number| format!("<b id={number}>")).collect();
        let page = format!("<p>{open}</p>{}", "<p>x</p>".repeat(2_000));
        // Each paragraph opens the hundred elements again.
        let nodes = parse_within(usize::MAX, &page, &cancel).map(|tree| tree.tree.len()).unwrap();
        assert!(nodes > 200_000, "{nodes}");
        let error = parse_within(50_000, &page, &cancel).err().map(|error| error.to_string());
        assert!(error.is_some_and(|error| error.contains("more than 50000 elements")));
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
