//! Prompts of the turns: reading this repository.

use std::error::Error;
use std::path::Path;

use serde_json::{Value, json};

use crate::shim::ScriptedAnswer;

/// Files below this size are left out: the outputs are to be large.
const LEAST: u64 = 5_000;

/// Number of lines in a piece: a few hundred tokens.
const PIECE: u64 = 16;

/// The files that are read, in an order that mixes crates and sizes.
pub(crate) struct Workload {
    files: Vec<String>,
}

/// A turn: what the user asks, and what the model is made to call.
pub(crate) struct Task {
    pub(crate) prompt: String,
    pub(crate) answers: Vec<ScriptedAnswer>,
}

impl Workload {
    pub(crate) fn of(root: &Path) -> Result<Workload, Box<dyn Error>> {
        let mut files = Vec::new();
        collect(root, &root.join("crates"), &mut files)?;
        if files.len() < 20 {
            return Err("there are too few files to read: run it from a checkout".into());
        }
        files.sort();
        Ok(Workload { files })
    }

    fn file(&self, number: u64) -> &str {
        // A step that has no factor in common with most lengths visits files far apart one after the other.
        let at = number.wrapping_mul(37) as usize % self.files.len();
        &self.files[at]
    }

    /// A piece of a file in most turns. Every tenth turn reads a file of which even layer 1 leaves more than the
    /// model's window; others read a whole file, or two pieces in one answer or in two.
    pub(crate) fn turn(&self, number: u64) -> Task {
        let file = self.file(number);
        let whole = ("read", json!({ "path": file }));
        let piece = |file: &str| ("read", json!({ "path": file, "limit": PIECE }));
        let other = piece(self.file(number + 1_000));
        let huge = ("read", json!({ "path": "Cargo.lock", "offset": number }));
        let calls: Vec<Vec<(&'static str, Value)>> = match number % 10 {
            0 => vec![vec![huge]],
            2 => vec![vec![piece(file), other]],
            5 => vec![vec![whole]],
            7 => vec![vec![piece(file)], vec![other]],
            _ => vec![vec![piece(file)]],
        };
        // Many models call without a word, so every other answer has none.
        let words =
            |step: usize| if (number as usize + step).is_multiple_of(2) { "I look at it first." } else { "" };
        let answers = calls.into_iter().enumerate();
        let answers = answers.map(|(step, calls)| ScriptedAnswer { words: words(step), calls });
        Task {
            prompt: format!("Task {number}: read `{file}` and say in one sentence what it is for."),
            answers: answers.collect(),
        }
    }
}

fn collect(root: &Path, directory: &Path, files: &mut Vec<String>) -> Result<(), Box<dyn Error>> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() {
            collect(root, &path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && entry.metadata()?.len() >= LEAST
        {
            files.push(path.strip_prefix(root)?.display().to_string());
        }
    }
    Ok(())
}
