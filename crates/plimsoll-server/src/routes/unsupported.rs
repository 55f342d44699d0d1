//! Answers to requests without a route.

use axum::http::{Method, Uri};

use crate::error::ApiError;

/// Paths of OpenCode's API that this server does not have, as prefixes. They are distinguished from paths that do not exist at
/// all: a client may be able to continue without a feature.
const KNOWN: [&str; 34] = [
    "/api/",
    "/auth/",
    "/config",
    "/experimental/",
    "/file",
    "/find",
    "/formatter",
    "/global/config",
    "/global/dispose",
    "/global/upgrade",
    "/instance/dispose",
    "/log",
    "/lsp",
    "/mcp",
    "/permission",
    "/project",
    "/provider",
    "/pty",
    "/question",
    "/session",
    "/skill",
    "/sync/",
    "/tui/append-prompt",
    "/tui/clear-prompt",
    "/tui/control/",
    "/tui/execute-command",
    "/tui/open-",
    "/tui/publish",
    "/tui/select-session",
    "/tui/show-toast",
    "/tui/submit-prompt",
    "/vcs",
    "/agent",
    "/command",
];

pub(super) async fn answer(method: Method, uri: Uri) -> ApiError {
    let path = uri.path();
    let is_known = |prefix: &str| match path.strip_prefix(prefix) {
        Some(rest) => prefix.ends_with(['/', '-']) || rest.is_empty() || rest.starts_with('/'),
        None => false,
    };
    match KNOWN.into_iter().any(is_known) {
        true => ApiError::not_implemented(format!("{method} {path} is not implemented")),
        false => ApiError::not_found(format!("{method} {path} does not exist")),
    }
}

/// Answers requests with the wrong method for an existing path.
pub(super) async fn wrong_method(method: Method, uri: Uri) -> ApiError {
    if uri.path() == "/" || uri.path().starts_with("/plimsoll/") {
        return ApiError::wrong_method(format!("{method} is not allowed for {}", uri.path()));
    }
    answer(method, uri).await
}

#[cfg(test)]
mod tests {
    use axum::http::{Method, Uri};

    use super::answer;

    #[tokio::test]
    async fn known_paths_are_not_implemented_and_others_do_not_exist() {
        for (expected, path) in [
            (501, "/pty"),
            (501, "/pty/pty_1/connect"),
            (501, "/tui/open-help"),
            (501, "/session/ses_1/share"),
            (404, "/page.html"),
            (404, "/sessions"),
            (404, "/plimsoll/none"),
        ] {
            let error = answer(Method::POST, path.parse::<Uri>().unwrap()).await;
            assert_eq!(error.status.as_u16(), expected, "{path}");
        }
    }
}
