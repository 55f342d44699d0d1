//! Resources of a server, as two tools: one lists them, one reads one.
//!
//! Nothing is fetched before the model asks, and the rules for tools of servers apply. Results are truncated like any
//! other.

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, ContentBlock,
    ListResourcesRequest, ListResourcesResult, PaginatedRequestParams, ReadResourceRequest,
    ReadResourceRequestParams, ReadResourceResult, Resource,
};
use serde_json::{Value, json};

use super::declare::{ListedTool, Purpose};
use crate::agent::{ToolError, optional_text, text};
use crate::untrusted::clean;

/// Maximum number of resources listed from one page. A server decides how long its pages are.
const MAX_NAMED: usize = 200;
/// Maximum length of a resource's URI that is listed and can be read, in characters.
const LONGEST_ADDRESS: usize = 1_000;
/// Maximum length of a resource's name or description, in characters.
const LONGEST_TEXT: usize = 200;

/// Returns the tools for the resources of a server.
pub(super) fn tools_for(server: &str) -> [ListedTool; 2] {
    let tool = |name: &str, description: &str, schema: Value, purpose| ListedTool {
        server: server.to_owned(),
        tool: name.to_owned(),
        description: description.to_owned(),
        schema,
        purpose,
    };
    let list = json!({
        "type": "object",
        "properties": {"cursor": {"type": "string", "description": "Cursor from the previous page."}}
    });
    let read = json!({
        "type": "object",
        "properties": {"uri": {"type": "string", "description": "URI of the resource."}},
        "required": ["uri"]
    });
    [
        tool("list_resources", "Lists the server's resources with their URIs.", list, Purpose::ListResources),
        tool("read_resource", "Reads a resource of the server.", read, Purpose::ReadResource),
    ]
}

/// Returns the request that a call of a tool makes.
pub(super) fn request_for(purpose: Purpose, tool: &str, input: &Value) -> Result<ClientRequest, ToolError> {
    Ok(match purpose {
        Purpose::Call => {
            let mut params = CallToolRequestParams::new(tool.to_owned());
            params.arguments = input.as_object().cloned();
            ClientRequest::CallToolRequest(CallToolRequest::new(params))
        }
        Purpose::ListResources => {
            let cursor = optional_text(input, "cursor")?.filter(|cursor| !cursor.is_empty());
            let page = PaginatedRequestParams::default().with_cursor(cursor.map(str::to_owned));
            ClientRequest::ListResourcesRequest(ListResourcesRequest::with_param(page))
        }
        Purpose::ReadResource => {
            let params = ReadResourceRequestParams::new(text(input, "uri")?);
            ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params))
        }
    })
}

/// Formats a page of a list of resources as the result of a call.
pub(super) fn format_list(list: &ListResourcesResult) -> CallToolResult {
    let (readable, unreadable): (Vec<&Resource>, Vec<&Resource>) =
        list.resources.iter().partition(|resource| resource.uri.chars().count() <= LONGEST_ADDRESS);
    let mut lines: Vec<String> =
        readable.iter().take(MAX_NAMED).map(|resource| format_resource(resource)).collect();
    if lines.is_empty() {
        lines.push("[There are no resources.]".to_owned());
    }
    if readable.len() > MAX_NAMED {
        lines.push(format!("[{} more on this page are not listed.]", readable.len() - MAX_NAMED));
    }
    if !unreadable.is_empty() {
        lines.push(format!(
            "[{} have a URI of more than {LONGEST_ADDRESS} characters and are not listed.]",
            unreadable.len()
        ));
    }
    if let Some(next) = list.next_cursor.as_deref().filter(|next| !next.is_empty()) {
        lines.push(format!("[There are more: use the cursor {}]", clean(next, LONGEST_ADDRESS)));
    }
    CallToolResult::success(vec![ContentBlock::text(lines.join("\n"))])
}

fn format_resource(resource: &Resource) -> String {
    let line = |text: &str, most: usize| clean(text, most).replace('\n', " ");
    let name = resource.title.as_deref().unwrap_or(&resource.name);
    let mut about = vec![line(name, LONGEST_TEXT)];
    about.extend(resource.mime_type.as_deref().map(|kind| line(kind, LONGEST_TEXT)));
    about.extend(resource.size.map(|size| format!("{size} bytes")));
    let description = resource.description.as_deref().map(|text| line(text, LONGEST_TEXT));
    let description = description.filter(|text| !text.is_empty()).map(|text| format!(": {text}"));
    format!(
        "{} ({}){}",
        line(&resource.uri, LONGEST_ADDRESS),
        about.join(", "),
        description.unwrap_or_default()
    )
}

/// Formats the content of a resource as the result of a call.
pub(super) fn format_contents(read: ReadResourceResult) -> CallToolResult {
    CallToolResult::success(read.contents.into_iter().map(ContentBlock::resource).collect())
}

#[cfg(test)]
mod tests {
    use rmcp::model::{ListResourcesResult, Resource};

    use super::{MAX_NAMED, format_list};

    #[test]
    fn descriptions_of_resources_are_bounded_and_cleaned() {
        let mut evil = Resource::new("f://evil", "a\u{1b}[2J\nb");
        evil.description = Some("words ".repeat(1_000));
        let long = Resource::new(format!("f://{}", "x".repeat(5_000)), "long");
        let many = (0..MAX_NAMED + 5).map(|n| Resource::new(format!("f://{n}"), "one"));
        let resources = [evil, long].into_iter().chain(many).collect();
        let list = ListResourcesResult { resources, next_cursor: Some("page2".into()), ..Default::default() };
        let text = format_list(&list).content[0].as_text().unwrap().text.clone();
        assert!(text.starts_with("f://evil (a[2J b): words words"), "{text}");
        assert!(text.contains("[6 more on this page are not listed.]"), "{text}");
        assert!(text.contains("[1 have a URI of more than 1000 characters"), "{text}");
        assert!(text.ends_with("[There are more: use the cursor page2]"), "{text}");
        assert!(text.len() < 10_000, "{}", text.len());
        let none = format_list(&ListResourcesResult::default());
        assert_eq!(none.content[0].as_text().unwrap().text, "[There are no resources.]");
    }
}
