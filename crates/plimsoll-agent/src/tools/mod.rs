//! The built-in tools.

mod bash;
mod change;
mod edit;
mod files;
mod glob;
mod grep;
mod list;
mod read;
mod recall;
mod replacing;
mod skill;
mod todo;
mod walk;
mod webfetch;
mod write;

use std::sync::Arc;

use plimsoll_sandbox::Sandbox;
use serde_json::Value;

use crate::agent::ToolSet;

pub use bash::Bash;
pub use edit::Edit;
pub use glob::Glob;
pub use grep::Grep;
pub use list::List;
pub use read::Read;
pub use recall::Recall;
pub use skill::Skill;
pub use todo::Todo;
pub use todo::newest_todos;
pub use webfetch::Webfetch;
pub use write::Write;

impl ToolSet {
    /// Returns the built-in tools: `read`, `list`, `grep`, `glob`, `write`, `edit`, `bash`, `webfetch`, `todo` and
    /// `recall`. Commands run in the sandbox.
    pub fn builtin(policy: &plimsoll::Policy, sandbox: &Arc<Sandbox>) -> ToolSet {
        ToolSet::new()
            .with(Read::new())
            .with(List::new())
            .with(Grep::new())
            .with(Glob::new())
            .with(Write::new())
            .with(Edit::new())
            .with(Bash::new(Arc::clone(sandbox)))
            .with(Webfetch::new())
            .with(Todo::new())
            .with(Recall::new(&policy.recall))
    }
}

/// Returns the first of these names that the input has, or else the first: models know some fields under the names of
/// other tools.
fn alias(input: &Value, names: &[&'static str]) -> &'static str {
    let is_there = |name: &&&'static str| input.get(**name).is_some();
    names.iter().find(is_there).or(names.first()).copied().unwrap_or_default()
}
