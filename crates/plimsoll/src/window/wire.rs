//! Common parts of requests to all providers: attachments, tool inputs and names of tools.
//!
//! `plimsoll-providers` builds requests that are sent, with cache breakpoints, thinking and a mapping of tool names.
//! `plimsoll-formats` writes a window as a file, one message at a time, and invents what the API requires. Apart from
//! this module they share only the conversion of a block, about forty lines. Moving it here would add provider-specific
//! JSON to the engine.

use serde_json::{Value, json};

use crate::chars::Text;

/// A file in a window, as a request refers to it.
#[derive(Clone, Copy, Debug)]
pub struct Attachment<'a> {
    mime: Option<&'a str>,
    /// The name of the file.
    pub name: Option<&'a str>,
    /// A `data:` URL, a web address or a path.
    pub url: Option<&'a str>,
}

impl<'a> Attachment<'a> {
    /// Creates an attachment from the fields of [`Block::File`](crate::Block::File).
    pub fn new(mime: &'a Option<String>, name: &'a Option<String>, url: &'a Option<Text>) -> Attachment<'a> {
        Attachment { mime: mime.as_deref(), name: name.as_deref(), url: url.as_ref().map(Text::as_str) }
    }

    /// Returns the files of a tool result.
    pub fn all(files: &'a [Value]) -> impl Iterator<Item = Attachment<'a>> {
        let text = |file: &'a Value, key: &str| file.get(key).and_then(Value::as_str);
        files.iter().map(move |file| Attachment {
            mime: text(file, "mime"),
            name: text(file, "filename"),
            url: text(file, "url"),
        })
    }

    /// Returns the media type and the base64 of a `data:` URL.
    pub fn data(&self) -> Option<(&'a str, &'a str)> {
        let (mime, data) = self.url?.strip_prefix("data:")?.split_once(";base64,")?;
        // Parameters such as `;charset=utf-8` are not part of the media type.
        Some((mime.split(';').next().unwrap_or(mime), data)).filter(|(_, data)| !data.is_empty())
    }

    /// Returns the media type. That of a `data:` URL has priority, because it is the one that is sent.
    pub fn mime(&self) -> Option<&'a str> {
        self.data().map(|(mime, _)| mime).or(self.mime)
    }

    /// Whether this is an image of a type that all providers accept. They reject a request with another one, such as SVG.
    pub fn is_image(&self) -> bool {
        matches!(self.mime(), Some("image/jpeg" | "image/png" | "image/gif" | "image/webp"))
    }

    /// Whether this is a PDF.
    pub fn is_pdf(&self) -> bool {
        self.mime() == Some("application/pdf")
    }

    /// Whether the provider can fetch the file.
    pub fn is_web(&self) -> bool {
        self.url.is_some_and(|url| url.starts_with("https://") || url.starts_with("http://"))
    }

    /// Returns the text that replaces a file that the request cannot contain.
    pub fn mention(&self) -> String {
        let name = self.name.or(self.url.filter(|url| !url.starts_with("data:"))).unwrap_or("unnamed");
        format!("[Attached file: {name} ({})]", self.mime().unwrap_or("unknown type"))
    }
}

/// Returns a tool's input as an object, which providers require.
pub fn object_input(input: &Value) -> Value {
    match input {
        Value::Object(_) => input.clone(),
        Value::Null => json!({}),
        other => json!({ "input": other }),
    }
}

/// Replaces characters that providers do not accept in names and ids, and shortens the name to `limit` characters.
pub fn legal_name(name: &str, limit: usize) -> String {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let plain: String = name.chars().map(|c| if is_legal(c) { c } else { '_' }).take(limit).collect();
    if plain.is_empty() { "unknown".into() } else { plain }
}
