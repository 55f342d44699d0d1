//! Reads instruction files such as `AGENTS.md` for the system prompt.

use std::collections::HashSet;
use std::path::Path;

use plimsoll_config::{INSTRUCTION_ENTRIES, RunConfig, read_in_time};

/// Maximum size of all instruction files in the system prompt, in bytes. More would leave no room for work.
const MOST: usize = 200_000;

/// Maximum number of instruction files.
const MAX_FILES: usize = 200;

/// Content of instruction files, and notices about missing content.
pub(crate) struct Instructions {
    /// The texts, each after the name of its file; `None` if there are none.
    pub(crate) text: Option<String>,
    /// Notices about files that were not read completely. The model cannot follow rules that it was not shown, so the
    /// user is shown which are missing.
    pub(crate) notices: Vec<String>,
}

impl Instructions {
    pub(crate) fn read(run: &RunConfig, home: Option<&Path>) -> Instructions {
        let (mut all, mut notices) = (String::new(), Vec::new());
        for source in &run.standing {
            if let Some(problem) = &source.problem {
                let path = source.directory.join(&source.pattern);
                notices.push(format!("`{}` is not included in the system prompt: {problem}", path.display()));
            }
        }
        let mut entries = INSTRUCTION_ENTRIES;
        let sources = run.standing.iter().chain(&run.instructions);
        let files: Vec<_> = sources.flat_map(|source| source.files(home, &mut entries)).collect();
        if entries == 0 {
            notices.push(format!(
                "the patterns of `instructions` cover more than {INSTRUCTION_ENTRIES} files and directories; the rest is not searched"
            ));
        }
        let mut seen = HashSet::new();
        let files: Vec<_> = files.iter().filter(|file| seen.insert(*file)).collect();
        if let Some(more @ 1..) = files.len().checked_sub(MAX_FILES) {
            notices
                .push(format!("{more} more files of `instructions` are not read: the limit is {MAX_FILES}"));
        }
        for file in files.into_iter().take(MAX_FILES) {
            let shown = file.display();
            let left = MOST.saturating_sub(all.len());
            // Four bytes more than the limit, so that a character at the limit is complete.
            match read_in_time(file, MOST as u64 + 4) {
                // Zero bytes take six bytes each in a request: 200,000 of them were 300,000 tokens.
                Ok(head) if head.bytes.contains(&0) => {
                    notices.push(format!("`{shown}` is not read: it is a binary file"));
                }
                Ok(head) => {
                    // One invalid byte must not hide the other rules.
                    let text = String::from_utf8_lossy(&head.bytes);
                    let text = text.trim_end();
                    let end = text.floor_char_boundary(left);
                    if end > 0 {
                        all.push_str(&format!("Instructions from {shown}:\n{}\n\n", &text[..end]));
                    }
                    if end < text.len() || head.is_cut() {
                        notices.push(format!(
                            "only {end} of the {} bytes of `{shown}` are included in the system prompt: the limit for all instructions is {MOST}",
                            if head.is_cut() { head.size } else { text.len() as u64 }
                        ));
                    }
                }
                Err(error) => {
                    notices.push(format!(
                        "`{shown}` is not included in the system prompt because it cannot be read: {error}"
                    ));
                }
            }
        }
        let all = all.trim_end().to_owned();
        Instructions { text: (!all.is_empty()).then_some(all), notices }
    }
}
