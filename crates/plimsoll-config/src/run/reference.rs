//! References in values: `{env:NAME}` and `{file:PATH}`.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::bounded::read_in_time;
use crate::environment::Environment;

/// Maximum size of a referenced file. Keys, headers and prompts are smaller.
const MAX_BYTES: u64 = 1_000_000;

/// A piece of a text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// Literal text.
    Text(&'a str),
    /// A variable by its name.
    Variable(&'a str),
    /// A file by its unresolved path.
    File(&'a str),
}

/// Splits a text into pieces.
pub(crate) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((start, piece, length)) = next_reference(rest) {
        if start > 0 {
            pieces.push(Piece::Text(&rest[..start]));
        }
        pieces.push(piece);
        rest = &rest[start + length..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    pieces
}

/// Finds the first reference: its start, the piece, and its length.
fn next_reference(text: &str) -> Option<(usize, Piece<'_>, usize)> {
    let mut from = 0;
    while let Some(open) = text[from..].find('{').map(|at| at + from) {
        let inner = &text[open + 1..];
        if let Some(end) = inner.find('}') {
            let length = end + 2;
            let name = |prefix| inner[..end].strip_prefix(prefix).filter(|name: &&str| !name.is_empty());
            if let Some(name) = name("env:") {
                return Some((open, Piece::Variable(name), length));
            }
            if let Some(path) = name("file:") {
                return Some((open, Piece::File(path), length));
            }
        }
        from = open + 1;
    }
    None
}

/// Returns the unresolved paths of all files that a value refers to.
pub(crate) fn files(value: &Value) -> Vec<&str> {
    let file = |piece| if let Piece::File(path) = piece { Some(path) } else { None };
    all_pieces(value).into_iter().filter_map(file).collect()
}

/// Returns the names of all variables that a value refers to.
pub(crate) fn variables(value: &Value) -> Vec<String> {
    let name = |piece| if let Piece::Variable(name) = piece { Some(name.to_owned()) } else { None };
    all_pieces(value).into_iter().filter_map(name).collect()
}

/// Returns the pieces of all texts in a value.
pub(crate) fn all_pieces(value: &Value) -> Vec<Piece<'_>> {
    match value {
        Value::String(text) => pieces(text),
        Value::Array(items) => items.iter().flat_map(all_pieces).collect(),
        Value::Object(fields) => fields.values().flat_map(all_pieces).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

/// Returns the path that a reference means, relative to the directory of its file.
pub(crate) fn referenced_path(written: &str, directory: &Path, env: &Environment) -> Option<PathBuf> {
    match written.strip_prefix("~/") {
        Some(rest) => env.below_home(rest),
        None => Some(directory.join(written)),
    }
}

/// Replaces the references in a text; the error is the problem with one of them.
pub(crate) fn resolve(text: &str, directory: &Path, env: &Environment) -> Result<String, String> {
    let mut resolved = String::new();
    for piece in pieces(text) {
        match piece {
            Piece::Text(text) => resolved.push_str(text),
            Piece::Variable(name) => {
                let value = env.variable(name);
                resolved.push_str(value.ok_or_else(|| format!("the variable `{name}` is not set"))?);
            }
            Piece::File(written) => {
                let path = referenced_path(written, directory, env);
                let path = path.ok_or_else(|| format!("cannot resolve `{written}`: no home directory"))?;
                let text = read_text(&path).map_err(|why| format!("cannot read `{written}`: {why}"))?;
                // Editors end files with a line break, which is not part of a key.
                resolved.push_str(text.trim());
            }
        }
    }
    Ok(resolved)
}

/// Reads the text of a regular file.
pub(crate) fn read_text(path: &Path) -> Result<String, String> {
    let head = read_in_time(path, MAX_BYTES).map_err(|error| match error.kind() {
        std::io::ErrorKind::Other => error.to_string(),
        kind => kind.to_string(),
    })?;
    if head.is_cut() {
        return Err("larger than 1,000,000 bytes".to_owned());
    }
    String::from_utf8(head.bytes).map_err(|_| std::io::ErrorKind::InvalidData.to_string())
}

#[cfg(test)]
mod tests {
    use super::{Piece, pieces};

    #[test]
    fn references_are_distinguished_from_other_braces() {
        use Piece::{File, Text, Variable};
        assert_eq!(pieces("Bearer {env:KEY}!"), [Text("Bearer "), Variable("KEY"), Text("!")]);
        assert_eq!(pieces("{file:~/a b}{env:X}"), [File("~/a b"), Variable("X")]);
        assert_eq!(pieces("{{env:X}"), [Text("{"), Variable("X")]);
        for plain in ["", "{env:}", "{ env:X }", "{env:X", "{}", "{\"a\":1}"] {
            assert!(pieces(plain).iter().all(|piece| matches!(piece, Text(_))), "{plain}");
        }
    }
}
