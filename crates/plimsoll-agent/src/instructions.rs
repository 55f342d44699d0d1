//! The texts of instruction files such as `AGENTS.md`, for the system prompt.

use std::collections::HashSet;
use std::path::Path;

use plimsoll_config::{INSTRUCTION_ENTRIES, RunConfig, read_in_time};

/// So much of all instruction files goes into the system prompt, in bytes; more would leave no room for work.
const MOST: usize = 200_000;

/// Maximum number of instruction files.
const MOST_FILES: usize = 200;

/// What instruction files say, and what of it is missing.
pub(crate) struct Instructions {
    /// The texts, each under the name of its file; none where there is nothing to say.
    pub(crate) text: Option<String>,
    /// Files that could not be read, or not whole, in words for a person. A rule that the model was never told is not
    /// followed, and its author would look for the reason elsewhere.
    pub(crate) notices: Vec<String>,
}

impl Instructions {
    pub(crate) fn read(run: &RunConfig, home: Option<&Path>) -> Instructions {
        let (mut all, mut notices) = (String::new(), Vec::new());
        for source in &run.standing {
            if let Some(problem) = &source.problem {
                let path = source.folder.join(&source.pattern);
                notices.push(format!("the model is not told what `{}` says: {problem}", path.display()));
            }
        }
        let mut entries = INSTRUCTION_ENTRIES;
        let sources = run.standing.iter().chain(&run.instructions);
        let files: Vec<_> = sources.flat_map(|source| source.files(home, &mut entries)).collect();
        if entries == 0 {
            notices.push(format!(
                "the patterns of `instructions` cover more than {INSTRUCTION_ENTRIES} files and folders; the rest is not searched"
            ));
        }
        let mut seen = HashSet::new();
        let files: Vec<_> = files.iter().filter(|file| seen.insert(*file)).collect();
        if let Some(more @ 1..) = files.len().checked_sub(MOST_FILES) {
            notices
                .push(format!("{more} more files of `instructions` are not read: the limit is {MOST_FILES}"));
        }
        for file in files.into_iter().take(MOST_FILES) {
            let shown = file.display();
            let left = MOST.saturating_sub(all.len());
            // A few bytes over the limit, so that a char that still fits is not cut.
            match read_in_time(file, MOST as u64 + 4) {
                // Zero bytes take six bytes each in a request: 200,000 of them were 300,000 tokens.
                Ok(head) if head.bytes.contains(&0) => {
                    notices.push(format!("`{shown}` is not read: it is a binary file"));
                }
                Ok(head) => {
                    // One stray byte must not cost the rest of the rules.
                    let text = String::from_utf8_lossy(&head.bytes);
                    let text = text.trim_end();
                    let end = text.floor_char_boundary(left);
                    if end > 0 {
                        all.push_str(&format!("Instructions from {shown}:\n{}\n\n", &text[..end]));
                    }
                    if end < text.len() || head.is_cut() {
                        notices.push(format!(
                            "the model is told {end} of the {} bytes in `{shown}`: all instructions together may have {MOST}",
                            if head.is_cut() { head.size } else { text.len() as u64 }
                        ));
                    }
                }
                Err(error) => {
                    notices.push(format!(
                        "the model is not told what `{shown}` says, which cannot be read: {error}"
                    ));
                }
            }
        }
        let all = all.trim_end().to_owned();
        Instructions { text: (!all.is_empty()).then_some(all), notices }
    }
}
