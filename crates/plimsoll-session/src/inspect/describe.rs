//! Descriptions of parts of a session: a path, a command, the first words.

use plimsoll::facts::{paths, shell_commands};
use plimsoll::first_words;
use serde_json::Value;

/// Longest description of a part, in characters.
pub(super) const LONGEST: usize = 300;

/// Describes parts of a session that worked in a directory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Describer<'a> {
    /// The directory that paths are relative to.
    pub directory: Option<&'a str>,
}

impl Describer<'_> {
    /// Returns what a call is about: its command, its path, or the first of its inputs.
    pub fn call(&self, tool: &str, input: Option<&Value>) -> String {
        let Some(value) = input else { return String::new() };
        let commands = shell_commands(tool, value);
        if !commands.is_empty() {
            let line = commands.join("; ");
            let here = self.directory.and_then(|directory| {
                let rest = line.strip_prefix("cd ")?.strip_prefix(directory.trim_end_matches(['/', '\\']))?;
                rest.trim_start_matches('/').strip_prefix(" && ")
            });
            return first_words(&self.shorten(here.unwrap_or(&line)), LONGEST);
        }
        if let Some(path) = paths(value).first() {
            return self.relative(path);
        }
        let fields =
            ["command", "cmd", "script", "pattern", "query", "url", "description", "prompt", "input"];
        let named = fields.iter().find_map(|key| words(value.get(*key)?));
        let any = || value.as_object()?.values().find_map(words);
        first_words(&self.shorten(&named.or_else(any).unwrap_or_default()), LONGEST)
    }

    /// Returns the first words of a text on one line, with the session's directory left out of paths.
    pub fn words(&self, text: &str) -> String {
        self.shorten(&first_words(text, LONGEST))
    }

    /// Returns a path relative to the session's directory.
    pub fn relative(&self, path: &str) -> String {
        let Some(directory) = self.directory.map(|directory| directory.trim_end_matches(['/', '\\'])) else {
            return path.to_owned();
        };
        match path.strip_prefix(directory).filter(|_| !directory.is_empty()) {
            Some("") => ".".to_owned(),
            Some(rest) => rest.strip_prefix(['/', '\\']).unwrap_or(path).to_owned(),
            None => path.to_owned(),
        }
    }

    /// Returns a command with the session's directory left out of its paths.
    pub fn shorten(&self, command: &str) -> String {
        let directory = self.directory.map(|directory| directory.trim_end_matches(['/', '\\']));
        let Some(directory) = directory.filter(|directory| directory.len() > 1) else {
            return command.to_owned();
        };
        let mut short = String::with_capacity(command.len());
        let mut rest = command;
        while let Some(at) = rest.find(directory) {
            let (before, after) = (&rest[..at], &rest[at + directory.len()..]);
            short.push_str(before);
            // Inside a longer path it is another directory.
            let begins = !short.ends_with(|c: char| c.is_alphanumeric() || "/\\._-~".contains(c));
            match after.strip_prefix(['/', '\\']).filter(|_| begins) {
                Some(inside) => rest = inside,
                None => {
                    short.push_str(directory);
                    rest = after;
                }
            }
        }
        short + rest
    }
}

/// Returns the text of a value: a string, or a list of strings as commands are written.
fn words(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.trim().is_empty() => Some(text.clone()),
        Value::Array(items) => {
            let words: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
            words.filter(|words| !words.is_empty()).map(|words| words.join(" "))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::Describer;

    #[test]
    fn commands_name_paths_from_the_directory() {
        let shorten =
            |directory: &str, command: &str| Describer { directory: Some(directory) }.shorten(command);
        for (directory, command, short) in [
            ("/srv/app", "cat /srv/app/src/a.rs '/srv/app/b'", "cat src/a.rs 'b'"),
            ("/srv/app/", "cat /backup/srv/app/a /srv/app2/b", "cat /backup/srv/app/a /srv/app2/b"),
            ("/srv/app", "cd /srv/app && ls", "cd /srv/app && ls"),
            (r"C:\repos\game", r"Get-Content C:\repos\game\src\a.ts", r"Get-Content src\a.ts"),
        ] {
            assert_eq!(shorten(directory, command), short);
        }
    }
}
