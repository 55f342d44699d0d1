//! The texts of instruction files such as `AGENTS.md`, for the system prompt.

use std::path::Path;

use plimsoll_config::RunConfig;

/// So much of all instruction files goes into the system prompt, in bytes; more would leave no room for work.
const MOST: usize = 200_000;

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
        let mut seen = Vec::new();
        for file in run.standing.iter().chain(&run.instructions).flat_map(|source| source.files(home)) {
            if seen.contains(&file) {
                continue;
            }
            let shown = file.display();
            match std::fs::read(&file) {
                Ok(bytes) => {
                    // One stray byte must not cost the rest of the rules.
                    let text = String::from_utf8_lossy(&bytes);
                    let text = text.trim_end();
                    let left = MOST.saturating_sub(all.len());
                    let end = text.floor_char_boundary(left);
                    if end > 0 {
                        all.push_str(&format!("Instructions from {shown}:\n{}\n\n", &text[..end]));
                    }
                    if end < text.len() {
                        notices.push(format!(
                            "the model is told {end} of the {} bytes in `{shown}`: all instructions together may have {MOST}",
                            text.len()
                        ));
                    }
                }
                Err(error) => {
                    notices.push(format!(
                        "the model is not told what `{shown}` says, which cannot be read: {error}"
                    ));
                }
            }
            seen.push(file);
        }
        let all = all.trim_end().to_owned();
        Instructions { text: (!all.is_empty()).then_some(all), notices }
    }
}
