//! Text files that are attached to a message.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use plimsoll::Text;
use plimsoll::log::FilePart;

/// Returns the content of a text file. OpenCode's windows, whose rule this is, have such files as text next to the file
/// part.
pub(crate) fn words_of(file: &FilePart) -> Option<String> {
    file.mime.as_deref().filter(|mime| mime.starts_with("text/plain"))?;
    let named = file.filename.as_deref().unwrap_or("text");
    let url = file.url.as_ref().map(Text::as_str);
    let data = url.and_then(|url| url.strip_prefix("data:")?.split_once(','));
    Some(match (data, url) {
        (Some((head, data)), _) if head.ends_with(";base64") => {
            let bytes = BASE64.decode(data).unwrap_or_else(|_| data.as_bytes().to_vec());
            format!("[Attached file: {named}]\n{}", String::from_utf8_lossy(&bytes))
        }
        (Some((_, words)), _) => format!("[Attached file: {named}]\n{words}"),
        (None, Some(url)) => format!("[Attached file: {named}, at {url}]"),
        (None, None) => format!("[Attached file: {named}]"),
    })
}
