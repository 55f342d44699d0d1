//! Converts results of servers' tools to text for the model.

use std::io::Write;

use base64::Engine;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;

use crate::agent::{ToolCall, ToolError};
use crate::untrusted::clean;

/// Maximum length of an error, in characters. Errors are not truncated by the engine.
const LONGEST_ERROR: usize = 8_000;
/// Maximum length of a name, kind or URI, in characters.
const LONGEST_NAME: usize = 300;

/// Padding is optional, because servers differ.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Writes the result of a call. Text is truncated like any output; other content is stored and named, because a window
/// cannot contain the bytes of an image.
pub(super) fn write_result(
    result: &CallToolResult,
    call: &ToolCall<'_>,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    if result.is_error == Some(true) {
        let mut text = Vec::new();
        write_content(result, call, &mut text)?;
        let text = String::from_utf8_lossy(&text).into_owned();
        // A long error is stored in full as an output.
        out.write_all(text.as_bytes())?;
        let shown = clean(&text, LONGEST_ERROR);
        return Err(ToolError::Failed(if shown.is_empty() { "the tool failed".to_owned() } else { shown }));
    }
    write_content(result, call, out)
}

fn write_content(result: &CallToolResult, call: &ToolCall<'_>, out: &mut dyn Write) -> Result<(), ToolError> {
    let mut is_first = true;
    let mut between = |out: &mut dyn Write| {
        let separator = if std::mem::take(&mut is_first) { "" } else { "\n" };
        out.write_all(separator.as_bytes())
    };
    for block in &result.content {
        between(out)?;
        match block {
            ContentBlock::Text(text) => out.write_all(text.text.as_bytes())?,
            ContentBlock::Image(image) => {
                keep(call, "image", None, Some(&image.mime_type), &image.data, out)?;
            }
            ContentBlock::Audio(audio) => {
                keep(call, "audio", None, Some(&audio.mime_type), &audio.data, out)?;
            }
            ContentBlock::Resource(resource) => match &resource.resource {
                ResourceContents::TextResourceContents { uri, mime_type, text, .. } => {
                    let kind = mime_type.as_deref().unwrap_or("text");
                    write!(out, "[resource {}, {}]\n{text}", name(uri), name(kind))?;
                }
                ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                    keep(call, "resource", Some(uri), mime_type.as_deref(), blob, out)?;
                }
                _ => write!(out, "[resource of unknown kind]")?,
            },
            ContentBlock::ResourceLink(link) => {
                let size = link.size.map(|size| format!(", {size} bytes")).unwrap_or_default();
                let kind =
                    link.mime_type.as_deref().map(|kind| format!(", {}", name(kind))).unwrap_or_default();
                write!(
                    out,
                    "[link to the resource {} ({}){kind}{size}; it was not fetched]",
                    name(&link.uri),
                    name(&link.name)
                )?;
            }
            _ => write!(out, "[content of unknown kind]")?,
        }
    }
    // Servers also send structured content as text, for clients that do not support it.
    let is_said = |value: &Value| {
        result.content.iter().any(|block| {
            let text = block.as_text().map(|text| text.text.trim());
            text.and_then(|text| serde_json::from_str::<Value>(text).ok()).is_some_and(|said| said == *value)
        })
    };
    if let Some(value) =
        result.structured_content.as_ref().filter(|value| !value.is_null() && !is_said(value))
    {
        between(out)?;
        write!(out, "{value:#}")?;
    }
    Ok(())
}

/// Stores content that is not text, and writes its kind and handle.
fn keep(
    call: &ToolCall<'_>,
    what: &str,
    address: Option<&str>,
    kind: Option<&str>,
    data: &str,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    let kind = kind.map(|kind| format!(", {}", name(kind))).unwrap_or_default();
    let address = address.map(|address| format!(" {}", name(address))).unwrap_or_default();
    let bare: String = data.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let Ok(bytes) = BASE64.decode(&bare) else {
        return Ok(write!(out, "[{what}{address}{kind}: its data is not base64]")?);
    };
    let size = bytes.len();
    let shown = format!("{what}{address}{kind}, {size} bytes");
    match call.runtime.block_on(call.record.store_hidden(&shown, bytes)) {
        Ok(handle) => write!(out, "[{shown}: not shown, stored as {handle}]")?,
        Err(error) => write!(out, "[{shown}: not shown, and not stored: {error}]")?,
    }
    Ok(())
}

fn name(text: &str) -> String {
    clean(text, LONGEST_NAME).replace(['\n', '[', ']'], " ")
}
