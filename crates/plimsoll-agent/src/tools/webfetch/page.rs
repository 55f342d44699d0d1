//! A fetched page.

use std::io::Read;

use encoding_rs::{Encoding, UTF_8};
use flate2::read::MultiGzDecoder;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE};
use reqwest::{Response, Url};
use tokio_util::sync::CancellationToken;

use super::convert::{to_markdown, to_text};
use super::{Format, last_cause, shown};
use crate::agent::ToolError;

/// Maximum size of a page, compressed and uncompressed, in bytes.
const MAX_BYTES: usize = 5 << 20;
/// Number of bytes in which a page may declare its encoding, as in browsers.
const HEAD: usize = 1_024;
/// A page with a zero byte among this many first bytes counts as binary.
const LOOK: usize = 8_192;

/// A fetched page.
pub(super) struct Page {
    /// Address, after redirects.
    pub(super) url: Url,
    /// Whether the page is longer.
    pub(super) is_cut: bool,
    kind: String,
    bytes: Vec<u8>,
}

impl Page {
    /// Reads a response up to the maximum size.
    pub(super) async fn read(url: Url, mut response: Response) -> Result<Page, ToolError> {
        let header = |name| {
            let value = response.headers().get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().trim().to_lowercase()
        };
        let (kind, packing) = (header(CONTENT_TYPE), header(CONTENT_ENCODING));
        let status = response.status();
        if !status.is_success() {
            return Err(ToolError::Failed(format!("{} answered {status}", shown(&url))));
        }
        if !is_text(&kind) {
            let problem = format!("{} is not text but `{kind}`", shown(&url));
            return Err(ToolError::Failed(problem));
        }
        let failed = |error: reqwest::Error| {
            ToolError::Failed(format!("{} broke off: {}", shown(&url), last_cause(&error)))
        };
        let (mut bytes, mut is_cut) = (Vec::new(), false);
        while let Some(piece) = response.chunk().await.map_err(failed)? {
            bytes.extend_from_slice(&piece);
            if bytes.len() > MAX_BYTES {
                bytes.truncate(MAX_BYTES);
                is_cut = true;
                break;
            }
        }
        match packing.as_str() {
            "" | "identity" => {}
            "gzip" | "x-gzip" => {
                let (unpacked, more) = unpack(&bytes, is_cut).map_err(|error| {
                    ToolError::Failed(format!("{} cannot be decompressed: {error}", shown(&url)))
                })?;
                (bytes, is_cut) = (unpacked, more);
            }
            other => {
                let problem = format!("{} has an unsupported content encoding: `{other}`", shown(&url));
                return Err(ToolError::Failed(problem));
            }
        }
        if bytes.iter().take(LOOK).any(|byte| *byte == 0) && Encoding::for_bom(&bytes).is_none() {
            return Err(ToolError::Failed(format!("{} is not text", shown(&url))));
        }
        Ok(Page { url, is_cut, kind, bytes })
    }

    /// Returns the page in a format.
    pub(super) fn text(&self, format: Format, cancel: &CancellationToken) -> Result<String, ToolError> {
        let (source, ..) = self.encoding().decode(&self.bytes);
        let is_html =
            self.kind.contains("html") || (self.kind.is_empty() && source.trim_start().starts_with('<'));
        match format {
            Format::Markdown if is_html => to_markdown(&source, cancel),
            Format::Text if is_html => to_text(&source, cancel),
            Format::Html | Format::Markdown | Format::Text => Ok(source.into_owned()),
        }
    }

    fn encoding(&self) -> &'static Encoding {
        let of_label = |text: &str| {
            let (_, rest) = text.split_once("charset")?;
            let label = rest.trim_start().strip_prefix('=')?.trim_start().trim_start_matches(['"', '\'']);
            let end = label.find(['"', '\'', ';', '>', ' ', '/']).unwrap_or(label.len());
            Encoding::for_label(&label.as_bytes()[..end])
        };
        let head = || String::from_utf8_lossy(&self.bytes[..self.bytes.len().min(HEAD)]).to_lowercase();
        of_label(&self.kind).or_else(|| of_label(&head())).unwrap_or(UTF_8)
    }
}

/// Returns whether a type is text. A missing type counts as text.
fn is_text(kind: &str) -> bool {
    let bare = kind.split(';').next().unwrap_or_default().trim();
    let words = ["json", "xml", "javascript", "ecmascript", "yaml", "toml", "x-sh", "graphql", "sql"];
    bare.is_empty() || bare.starts_with("text/") || words.iter().any(|word| bare.contains(word))
}

/// Decompresses up to the maximum size, because a small response may contain a very large page. Returns whether there
/// is more.
fn unpack(packed: &[u8], was_cut: bool) -> std::io::Result<(Vec<u8>, bool)> {
    let mut bytes = Vec::new();
    let read = MultiGzDecoder::new(packed).take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes);
    if let Err(error) = read
        && !was_cut
    {
        return Err(error);
    }
    let is_cut = was_cut || bytes.len() > MAX_BYTES;
    bytes.truncate(MAX_BYTES);
    Ok((bytes, is_cut))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::{MAX_BYTES, Page, is_text, unpack};

    #[test]
    fn a_small_answer_is_not_unpacked_to_a_large_page() {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        for _ in 0..200 {
            packer.write_all(&[b'x'; 1 << 20]).unwrap();
        }
        let packed = packer.finish().unwrap();
        assert!(packed.len() < 1 << 20);
        let (bytes, is_cut) = unpack(&packed, false).unwrap();
        assert_eq!((bytes.len(), is_cut), (MAX_BYTES, true));
        assert!(unpack(&packed[..100], false).is_err(), "it broke off");
    }

    #[test]
    fn a_page_is_read_in_its_own_encoding() {
        let text = |kind: &str, bytes: &[u8]| {
            let page = Page {
                url: "http://a/".parse().unwrap(),
                is_cut: false,
                kind: kind.into(),
                bytes: bytes.into(),
            };
            page.text(super::Format::Html, &Default::default()).unwrap()
        };
        assert_eq!(text("text/plain; charset=iso-8859-1", b"gr\xfc\xdfe"), "gr\u{fc}\u{df}e");
        assert_eq!(text("text/plain;charset=\"shift_jis\"", b"\x93\xfa"), "\u{65e5}");
        assert!(text("text/html", b"<meta charset='windows-1252'>\x80").ends_with('\u{20ac}'));
        assert_eq!(text("text/plain", b"\xff\xfea\0b\0"), "ab", "by its byte-order mark");
        assert_eq!(text("text/plain; charset=nonsense", "gr\u{fc}n".as_bytes()), "gr\u{fc}n");
    }

    #[test]
    fn content_that_is_not_text_is_recognised_by_its_type() {
        for kind in
            ["", "text/html; charset=utf-8", "application/json", "application/ld+json", "image/svg+xml"]
        {
            assert!(is_text(kind), "{kind}");
        }
        for kind in
            ["image/png", "application/pdf", "application/octet-stream", "video/mp4", "application/zip"]
        {
            assert!(!is_text(kind), "{kind}");
        }
    }
}
