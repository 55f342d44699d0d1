//! Resources of a server, as two tools: one lists them, one reads one.
//!
//! Nothing of them is fetched before the model asks, and a rule is asked first as for any tool of a server. What they say
//! passes layer 1 like any result.

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, ContentBlock,
    ListResourcesRequest, ListResourcesResult, PaginatedRequestParams, ReadResourceRequest,
    ReadResourceRequestParams, ReadResourceResult, Resource,
};
use serde_json::{Value, json};

use super::declare::{ListedTool, Purpose};
use crate::agent::{ToolError, optional_text, text};
use crate::untrusted::clean;

/// So many resources of one page are named. A server decides how long its pages are.
const MOST_NAMED: usize = 200;
/// The longest address of a resource that is told and can be read, in characters.
const LONGEST_ADDRESS: usize = 1_000;
/// The longest name or description of a resource that is told, in characters.
const LONGEST_TEXT: usize = 200;

/// The tools for the resources of a server.
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
        "properties": {"cursor": {"type": "string", "description": "Where to go on, as the last list said."}}
    });
    let read = json!({
        "type": "object",
        "properties": {"uri": {"type": "string", "description": "The address of the resource."}},
        "required": ["uri"]
    });
    [
        tool(
            "list_resources",
            "Lists the server's resources with their addresses.",
            list,
            Purpose::ListResources,
        ),
        tool("read_resource", "Reads a resource of the server.", read, Purpose::ReadResource),
    ]
}

/// What a call of a tool asks of the server.
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

/// A page of a list of resources, as the result of a call.
pub(super) fn told_list(list: &ListResourcesResult) -> CallToolResult {
    let (readable, unreadable): (Vec<&Resource>, Vec<&Resource>) =
        list.resources.iter().partition(|resource| resource.uri.chars().count() <= LONGEST_ADDRESS);
    let mut lines: Vec<String> = readable.iter().take(MOST_NAMED).map(|resource| told(resource)).collect();
    if lines.is_empty() {
        lines.push("[There are no resources.]".to_owned());
    }
    if readable.len() > MOST_NAMED {
        lines.push(format!("[{} more on this page are not named.]", readable.len() - MOST_NAMED));
    }
    if !unreadable.is_empty() {
        lines.push(format!(
            "[{} have an address of more than {LONGEST_ADDRESS} characters and are not named.]",
            unreadable.len()
        ));
    }
    if let Some(next) = list.next_cursor.as_deref().filter(|next| !next.is_empty()) {
        lines.push(format!("[There are more: list them with the cursor {}]", clean(next, LONGEST_ADDRESS)));
    }
    CallToolResult::success(vec![ContentBlock::text(lines.join("\n"))])
}

fn told(resource: &Resource) -> String {
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

/// What a resource holds, as the result of a call.
pub(super) fn told_contents(read: ReadResourceResult) -> CallToolResult {
    CallToolResult::success(read.contents.into_iter().map(ContentBlock::resource).collect())
}

#[cfg(test)]
mod tests {
    use rmcp::model::{ListResourcesResult, Resource};

    use super::{MOST_NAMED, told_list};

    #[test]
    fn what_a_server_says_of_its_resources_is_bounded_and_cleaned() {
        let mut evil = Resource::new("f://evil", "a\u{1b}[2J\nb");
        evil.description = Some("words ".repeat(1_000));
        let long = Resource::new(format!("f://{}", "x".repeat(5_000)), "long");
        let many = (0..MOST_NAMED + 5).map(|n| Resource::new(format!("f://{n}"), "one"));
        let resources = [evil, long].into_iter().chain(many).collect();
        let list = ListResourcesResult { resources, next_cursor: Some("page2".into()), ..Default::default() };
        let told = told_list(&list).content[0].as_text().unwrap().text.clone();
        assert!(told.starts_with("f://evil (a[2J b): words words"), "{told}");
        assert!(told.contains("[6 more on this page are not named.]"), "{told}");
        assert!(told.contains("[1 have an address of more than 1000 characters"), "{told}");
        assert!(told.ends_with("[There are more: list them with the cursor page2]"), "{told}");
        assert!(told.len() < 10_000, "{}", told.len());
        let none = told_list(&ListResourcesResult::default());
        assert_eq!(none.content[0].as_text().unwrap().text, "[There are no resources.]");
    }
}
