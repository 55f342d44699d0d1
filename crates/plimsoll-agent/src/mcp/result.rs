//! What a call of a server's tool gave, as text for the model.

use std::io::Write;

use base64::Engine;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;

use crate::agent::{ToolCall, ToolError};
use crate::untrusted::clean;

/// So much of an error is told, in characters; an error does not pass layer 1.
const LONGEST_ERROR: usize = 8_000;
/// The longest name, kind or address that is told, in characters.
const LONGEST_NAME: usize = 300;

/// Padding may be there or not: servers differ.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Write the result of a call. Text goes through layer 1 like any output; what is no text is kept beside the window and
/// named, because a window holds no bytes of an image.
pub(super) fn write_result(
    result: &CallToolResult,
    call: &ToolCall<'_>,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    if result.is_error == Some(true) {
        let mut text = Vec::new();
        write_content(result, call, &mut text)?;
        let text = String::from_utf8_lossy(&text).into_owned();
        // The whole of a long error is kept as an output, beside what is told of it.
        out.write_all(text.as_bytes())?;
        let told = clean(&text, LONGEST_ERROR);
        return Err(ToolError::Failed(if told.is_empty() { "the tool failed".to_owned() } else { told }));
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
                _ => write!(out, "[a resource of a kind that is not known here]")?,
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
            _ => write!(out, "[content of a kind that is not known here]")?,
        }
    }
    // Servers say structured content in a text as well, for clients that do not know it.
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

/// Keep what is no text beside the window, and say what and where it is.
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
        Ok(handle) => write!(out, "[{shown}: not shown, kept as {handle}]")?,
        Err(error) => write!(out, "[{shown}: not shown, and not kept: {error}]")?,
    }
    Ok(())
}

fn name(text: &str) -> String {
    clean(text, LONGEST_NAME).replace(['\n', '[', ']'], " ")
}
