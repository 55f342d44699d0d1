//! Answers requests of servers.
#![expect(
    deprecated,
    reason = "roots and logging are deprecated in the newest protocol; most servers have an older one"
)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::model::{
    ClientCapabilities, ClientConfig, Implementation, ListRootsResult, LoggingMessageNotificationParam, Root,
    RootsCapabilities,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, ErrorData, RoleClient};

use crate::untrusted::clean;

/// Maximum length of a server's log message, in characters.
const LONGEST_LOG: usize = 500;

/// Client side of a connection. It answers with the project's directory. Sampling and elicitation are not declared and
/// are rejected.
pub(super) struct ClientSide {
    root: String,
    /// Set when the server announces that its tools have changed.
    changed: Arc<AtomicBool>,
}

impl ClientSide {
    pub(super) fn new(directory: &Path, changed: Arc<AtomicBool>) -> ClientSide {
        ClientSide { root: file_uri(directory), changed }
    }
}

impl ClientHandler for ClientSide {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = Some(RootsCapabilities::default());
        ClientConfig::new(capabilities, Implementation::new("plimsoll", env!("CARGO_PKG_VERSION")))
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(vec![Root::new(self.root.clone())]))
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.store(true, Ordering::Release);
    }

    async fn on_logging_message(
        &self,
        message: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let text = plimsoll::redact::redact(&clean(&message.data.to_string(), LONGEST_LOG)).text;
        tracing::debug!("an MCP server logs: {text}");
    }
}

/// Returns the URI of a directory.
fn file_uri(directory: &Path) -> String {
    let mut uri = "file://".to_owned();
    for byte in directory.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                uri.push(char::from(*byte));
            }
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::file_uri;

    #[test]
    fn an_address_of_a_directory_has_no_characters_with_a_meaning() {
        assert_eq!(file_uri(Path::new("/a b/ü#?%/c-1.x")), "file:///a%20b/%C3%BC%23%3F%25/c-1.x");
    }
}
