//! Simple highlighter for code in answers: comments, strings, numbers and keywords, line by line.
//!
//! `syntect` was considered: its grammars add over two megabytes and a second of build time, to colour a few lines on a
//! terminal. This highlighter is sometimes wrong about unusual languages, and never changes a character.

use anstyle::{AnsiColor, Style};

use crate::style::{QUIET, paint};

const KEYWORD: Style = AnsiColor::Magenta.on_default();
const STRING: Style = AnsiColor::Green.on_default();
const NUMBER: Style = AnsiColor::Yellow.on_default();
const ADDED: Style = AnsiColor::Green.on_default();
const REMOVED: Style = AnsiColor::Red.on_default();
const HUNK: Style = AnsiColor::Cyan.on_default();

/// Syntax of a language: comments, quotes and keywords.
struct Language {
    line_comments: &'static [&'static str],
    block_comment: Option<(&'static str, &'static str)>,
    quotes: &'static str,
    /// Separated by spaces.
    keywords: &'static str,
}

/// Highlights the lines of one block of code.
pub(super) struct Highlighter {
    language: Option<&'static Language>,
    is_diff: bool,
    in_comment: bool,
}

impl Highlighter {
    /// Creates a highlighter for a language by the name in a fence.
    pub(super) fn new(name: &str) -> Highlighter {
        let name = name.to_ascii_lowercase();
        let word = name.split(|c: char| !c.is_ascii_alphanumeric() && c != '+' && c != '#').next();
        let language = match word.unwrap_or_default() {
            "rust" | "rs" => Some(&RUST),
            "python" | "py" => Some(&PYTHON),
            "js" | "javascript" | "ts" | "typescript" | "jsx" | "tsx" | "mjs" => Some(&SCRIPT),
            "c" | "h" | "cpp" | "c++" | "cc" | "java" | "cs" | "c#" | "kotlin" | "swift" | "go"
            | "golang" => Some(&BRACES),
            "sh" | "bash" | "zsh" | "shell" | "console" | "fish" | "dockerfile" | "make" | "makefile" => {
                Some(&SHELL)
            }
            "json" | "json5" | "jsonc" | "toml" | "yaml" | "yml" | "ini" => Some(&DATA),
            "sql" => Some(&SQL),
            "ruby" | "rb" | "lua" | "perl" | "elixir" => Some(&PYTHON),
            _ => None,
        };
        let is_diff = matches!(word, Some("diff" | "patch"));
        Highlighter { language, is_diff, in_comment: false }
    }

    /// Highlights one line.
    pub(super) fn line(&mut self, line: &str) -> String {
        if self.is_diff {
            return diff_style(line).map_or_else(|| line.to_owned(), |style| paint(style, line));
        }
        let Some(language) = self.language else { return line.to_owned() };
        let mut painted = String::with_capacity(line.len() * 2);
        let mut rest = line;
        while !rest.is_empty() {
            let (style, length) = self.token(language, rest);
            let (token, after) = rest.split_at(length.clamp(1, rest.len()));
            match style {
                Some(style) => painted.push_str(&paint(style, token)),
                None => painted.push_str(token),
            }
            rest = after;
        }
        painted
    }

    /// Returns the style and length in bytes of the first token, which ends at a character boundary.
    fn token(&mut self, language: &Language, rest: &str) -> (Option<Style>, usize) {
        if let Some((open, close)) = language.block_comment
            && (self.in_comment || rest.starts_with(open))
        {
            let from = if self.in_comment { 0 } else { open.len() };
            let end = rest[from..].find(close).map(|at| from + at + close.len());
            self.in_comment = end.is_none();
            return (Some(QUIET), end.unwrap_or(rest.len()));
        }
        if language.line_comments.iter().any(|mark| rest.starts_with(mark)) {
            return (Some(QUIET), rest.len());
        }
        let Some(first) = rest.chars().next() else { return (None, 0) };
        if language.quotes.contains(first) {
            return match string_end(rest, first) {
                Some(end) => (Some(STRING), end),
                // A single quote is an apostrophe or a lifetime.
                None => (None, first.len_utf8()),
            };
        }
        if first.is_ascii_digit() {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.' && c != '_');
            return (Some(NUMBER), end.unwrap_or(rest.len()));
        }
        if first.is_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            let word = &rest[..end];
            let is_keyword = language.keywords.split(' ').any(|known| known.eq_ignore_ascii_case(word));
            return (is_keyword.then_some(KEYWORD), end);
        }
        (None, first.len_utf8())
    }
}

/// Colour of a line of a diff.
pub(super) fn diff_style(line: &str) -> Option<Style> {
    match line.as_bytes().first() {
        Some(b'+') => Some(ADDED),
        Some(b'-') => Some(REMOVED),
        Some(b'@') => Some(HUNK),
        _ => None,
    }
}

/// Returns the end of the string that starts here; `None` if it does not end on this line.
fn string_end(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return Some(at + c.len_utf8()),
            _ => {}
        }
    }
    None
}

const RUST: Language = Language {
    line_comments: &["//"],
    block_comment: Some(("/*", "*/")),
    quotes: "\"",
    keywords: "as async await break const continue crate dyn else enum extern false fn for if impl in let loop \
        match mod move mut pub ref return self static struct super trait true type unsafe use where \
        while",
};

const PYTHON: Language = Language {
    line_comments: &["#", "--"],
    block_comment: None,
    quotes: "\"'",
    keywords: "and as assert async await break class continue def del do elif else end except False finally for \
        from function global if import in is lambda local None nil not or pass raise return then True \
        try while with yield",
};

const SCRIPT: Language = Language {
    line_comments: &["//"],
    block_comment: Some(("/*", "*/")),
    quotes: "\"'`",
    keywords: "async await break case catch class const continue default delete do else enum export extends \
        false finally for from function if implements import in instanceof interface let new null of \
        private public readonly return static super switch this throw true try type typeof undefined var \
        void while yield",
};

const BRACES: Language = Language {
    line_comments: &["//", "#include", "#define", "#if", "#endif"],
    block_comment: Some(("/*", "*/")),
    quotes: "\"'`",
    keywords: "abstract auto bool break case catch chan char class const continue default defer do double else \
        enum extends false final float for func fun go if implements import int interface let long map \
        namespace new nil null override package private protected public range return select sizeof \
        static string struct switch template this throw true try type typedef union using val var void \
        while",
};

const SHELL: Language = Language {
    line_comments: &["#"],
    block_comment: None,
    quotes: "\"'",
    keywords: "case do done elif else esac export fi for function if in local return set source sudo then until \
        while",
};

const DATA: Language = Language {
    line_comments: &["#", "//"],
    block_comment: None,
    quotes: "\"'",
    keywords: "true false null yes no",
};

const SQL: Language = Language {
    line_comments: &["--"],
    block_comment: Some(("/*", "*/")),
    quotes: "'\"",
    keywords: "alter and as asc begin between by case commit count create default delete desc distinct drop \
        else end exists foreign from group having if in index insert into is join key left like limit \
        not null on or order primary references returning right select set table then union unique \
        update values view when where with",
};

#[cfg(test)]
mod tests {
    use super::Highlighter;

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn code_is_painted_without_changing_a_letter() {
        let lines = [
            "let x = \"a \\\" // b\"; // 12 é",
            "fn f<'a>(s: &'a str) {}",
            "/* over",
            "lines */ 3.5e2 文字 '",
            "",
        ];
        for language in ["rust", "python", "ts", "go", "bash", "json", "sql", "diff", "", "nothing known"] {
            let mut highlighter = Highlighter::new(language);
            for line in lines {
                assert_eq!(plain(&highlighter.line(line)), line, "{language}");
            }
        }
    }

    #[test]
    fn comments_strings_numbers_and_keywords_are_coloured() {
        let painted = Highlighter::new("rust").line("let n = 12; // it's \"quoted\"");
        assert_eq!(
            painted,
            "\u{1b}[35mlet\u{1b}[0m n = \u{1b}[33m12\u{1b}[0m; \u{1b}[2m// it's \"quoted\"\u{1b}[0m"
        );
        let mut highlighter = Highlighter::new("c");
        highlighter.line("/* a comment");
        assert!(highlighter.line("int x").starts_with("\u{1b}[2m"), "a comment can span lines");
    }
}
