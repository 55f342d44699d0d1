//! `grep`: searches files.

use std::io::{self, Read, Write};
use std::path::Path;

use globset::Glob;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::sinks::Lossy;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink};
use plimsoll_providers::ToolSpec;
use plimsoll_sandbox::{Access, Subject, open_file};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::files;
use super::walk::{Walk, WalkOptions};
use crate::agent::{Tool, ToolCall, ToolError, optional_text, text};

/// Maximum number of matches.
const MOST: u64 = 500;
/// Maximum length of a line in bytes. The rest of a file after a longer one is not searched.
const LINE_MEMORY: usize = 16 << 20;
/// Maximum length of a shown line, in chars.
const LINE: usize = 400;

/// Searches files.
pub struct Grep {
    spec: ToolSpec,
}

impl Grep {
    /// Creates the tool.
    pub fn new() -> Grep {
        let description = format!(
            "Searches a file, or the files below a directory, for lines that match a regular expression (Rust syntax). Files \
             ignored by .gitignore are skipped. Returns at most {MOST} matches as `path:line:text`."
        );
        let schema = json!({
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "description": "Regular expression."},
                "path": {"type": "string", "description": "File or directory to search. Default: the project directory."},
                "include": {"type": "string", "description": "Only search files whose names match this glob, such as *.rs."},
                "ignore_case": {"type": "boolean", "description": "Case-insensitive search. Default: false."}
            },
            "required": ["pattern"]
        });
        Grep { spec: ToolSpec { name: "grep".into(), description, schema } }
    }
}

impl Default for Grep {
    fn default() -> Grep {
        Grep::new()
    }
}

impl Tool for Grep {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self) -> Access {
        Access::Read
    }

    fn subject(&self, input: &Value, directory: &Path) -> Result<Subject, ToolError> {
        files::subject_of(optional_text(input, "path")?.unwrap_or("."), directory)
    }

    fn run(&self, call: &ToolCall<'_>, out: &mut dyn Write) -> Result<(), ToolError> {
        let pattern = text(call.input, "pattern")?;
        let ignore_case = call.input.get("ignore_case").and_then(Value::as_bool).unwrap_or(false);
        let matcher = RegexMatcherBuilder::new()
            .case_insensitive(ignore_case)
            .line_terminator(Some(b'\n'))
            .build(pattern);
        let matcher = matcher
            .map_err(|error| ToolError::Input(format!("`pattern` is not a regular expression: {error}")))?;
        let include = match optional_text(call.input, "include")? {
            None => None,
            Some(glob) => {
                let bad = |error| ToolError::Input(format!("invalid glob in `include`: {error}"));
                Some(Glob::new(glob).map_err(bad)?.compile_matcher())
            }
        };
        let root = call.path()?;
        files::require_without_links(root, call)?;
        let mut searcher = searcher();
        let mut matches = 0_u64;
        // Workflows and settings are hidden files that are worth finding; the content of `.git` is not.
        let options = WalkOptions { hidden: true, without_git: true, ..WalkOptions::default() };
        let mut walk = Walk::new(root, options, call);
        for entry in walk.by_ref() {
            let entry = entry?;
            let is_file = entry.file_type().is_file();
            let is_wanted = include.as_ref().is_none_or(|glob| {
                glob.is_match(entry.file_name())
                    || glob.is_match(entry.path().strip_prefix(root).unwrap_or(entry.path()))
            });
            if !is_file || !is_wanted || !(call.may_read)(entry.path()) {
                continue;
            }
            let name = files::display_path(entry.path(), call.directory);
            let sink = Lossy(|line, found| {
                if matches == MOST || call.cancel.is_cancelled() {
                    return Ok(false);
                }
                matches += 1;
                let found = found.trim_end();
                let shown: String = found.chars().take(LINE).collect();
                let rest = if shown.len() < found.len() { " [line cut]" } else { "" };
                writeln!(out, "{name}:{line}:{shown}{rest}")?;
                Ok(true)
            });
            match open_file(entry.path()).map(|file| search(&mut searcher, &matcher, file, call.cancel, sink))
            {
                // An unreadable file does not end the search.
                Err(_) | Ok(Ok(())) => {}
                Ok(Err(error)) => return Err(error),
            }
            if matches == MOST {
                writeln!(
                    out,
                    "[Stopped at {MOST} matches. Use a more specific pattern, `path` or `include`.]"
                )?;
                break;
            }
        }
        if matches == 0 {
            writeln!(out, "[No matches.]")?;
        }
        for notice in walk.notices(call.directory) {
            writeln!(out, "{notice}")?;
        }
        Ok(())
    }
}

fn searcher() -> Searcher {
    SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(0))
        .line_number(true)
        .heap_limit(Some(LINE_MEMORY))
        .build()
}

/// Searches a file until the call is cancelled. A file that cannot be read counts as searched; a failed write is an error.
fn search(
    searcher: &mut Searcher,
    matcher: &RegexMatcher,
    file: impl Read,
    cancel: &CancellationToken,
    sink: impl Sink<Error = io::Error>,
) -> Result<(), ToolError> {
    let searched = searcher.search_reader(matcher, files::Cancellable::new(file, cancel), sink);
    if cancel.is_cancelled() {
        return Err(ToolError::Cancelled);
    }
    match searched {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Read};

    use grep_regex::RegexMatcher;
    use grep_searcher::sinks::Lossy;
    use tokio_util::sync::CancellationToken;

    use super::{search, searcher};
    use crate::agent::ToolError;

    /// Lines without end. The call is cancelled while they are read.
    struct EndlessLines<'a> {
        read: usize,
        cancel: &'a CancellationToken,
    }

    impl Read for EndlessLines<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.read += buffer.len();
            if self.read > 1 << 20 {
                assert!(!self.cancel.is_cancelled(), "a cancelled search reads on");
                self.cancel.cancel();
            }
            buffer.fill(b'\n');
            Ok(buffer.len())
        }
    }

    /// Only a match ended the search of a large file.
    #[test]
    fn a_search_without_matches_is_cancelled() {
        let cancel = CancellationToken::new();
        let matcher = RegexMatcher::new("keel").unwrap();
        let file = EndlessLines { read: 0, cancel: &cancel };
        let found = search(&mut searcher(), &matcher, file, &cancel, Lossy(|_, _| Ok(true)));
        assert!(matches!(found, Err(ToolError::Cancelled)), "{found:?}");
    }
}
