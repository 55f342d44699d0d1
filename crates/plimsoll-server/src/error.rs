//! Errors as OpenCode's clients expect them: `{ "name": …, "data": { "message": … } }`.

use axum::http::StatusCode;
use axum::http::header::{HeaderValue, WWW_AUTHENTICATE};
use axum::response::{IntoResponse, Response};
use plimsoll::SessionId;
use plimsoll_agent::tasks::TaskError;
use plimsoll_agent::{AgentError, AgentSetupError, RevertError};
use plimsoll_host::{ErrorKind, HostError};
use plimsoll_session::{EditError, SessionError};
use plimsoll_store::StoreError;
use serde_json::{Value, json};

/// The error response to a request.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) body: Value,
}

pub(crate) type ApiResult<T> = Result<T, ApiError>;

impl ApiError {
    fn named(status: StatusCode, name: &str, message: impl Into<String>) -> ApiError {
        ApiError { status, body: json!({ "name": name, "data": { "message": message.into() } }) }
    }

    pub(crate) fn not_found(message: impl Into<String>) -> ApiError {
        ApiError::named(StatusCode::NOT_FOUND, "NotFoundError", message)
    }

    pub(crate) fn no_session(id: &SessionId) -> ApiError {
        ApiError::not_found(format!("Session not found: {id}"))
    }

    /// The request is invalid. `kind` is the part of it that is wrong: `Params`, `Headers`, `Query`, `Body` or `Payload`.
    pub(crate) fn bad_request(kind: &str, message: impl Into<String>) -> ApiError {
        let data = json!({ "message": message.into(), "kind": kind });
        ApiError { status: StatusCode::BAD_REQUEST, body: json!({ "name": "BadRequest", "data": data }) }
    }

    pub(crate) fn not_implemented(message: impl Into<String>) -> ApiError {
        ApiError::named(StatusCode::NOT_IMPLEMENTED, "NotImplementedError", message)
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> ApiError {
        ApiError::named(StatusCode::FORBIDDEN, "ForbiddenError", message)
    }

    pub(crate) fn unauthorized() -> ApiError {
        ApiError::named(
            StatusCode::UNAUTHORIZED,
            "UnauthorizedError",
            "a user name and a password are required",
        )
    }

    pub(crate) fn too_large(limit: usize) -> ApiError {
        let message = format!("the body is larger than {limit} bytes");
        ApiError::named(StatusCode::PAYLOAD_TOO_LARGE, "PayloadTooLargeError", message)
    }

    pub(crate) fn wrong_method(message: impl Into<String>) -> ApiError {
        ApiError::named(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowedError", message)
    }

    pub(crate) fn timed_out(message: impl Into<String>) -> ApiError {
        ApiError::named(StatusCode::REQUEST_TIMEOUT, "TimeoutError", message)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> ApiError {
        ApiError::named(StatusCode::SERVICE_UNAVAILABLE, "UnavailableError", message)
    }

    pub(crate) fn method_not_allowed(message: impl Into<String>) -> ApiError {
        ApiError::named(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowedError", message)
    }

    pub(crate) fn conflict(message: impl Into<String>) -> ApiError {
        ApiError::named(StatusCode::CONFLICT, "ConflictError", message)
    }

    pub(crate) fn busy(session: &SessionId, message: impl Into<String>) -> ApiError {
        let body = json!({ "_tag": "SessionBusyError", "sessionID": session, "message": message.into() });
        ApiError { status: StatusCode::CONFLICT, body }
    }

    pub(crate) fn internal(message: impl Into<String>) -> ApiError {
        ApiError::named(StatusCode::INTERNAL_SERVER_ERROR, "UnknownError", message)
    }

    /// Creates the error for a failed run. `asked` is the provider of its model.
    pub(crate) fn of_agent(error: &AgentError, asked: &str) -> ApiError {
        let message = error.to_string();
        match error {
            AgentError::Provider(provider) => {
                let body = match provider.name() {
                    name @ "ProviderAuthError" => {
                        json!({ "name": name, "data": { "message": message, "providerID": asked } })
                    }
                    _ => {
                        let data = json!({ "message": message, "isRetryable": provider.is_transient() });
                        json!({ "name": "APIError", "data": data })
                    }
                };
                ApiError { status: StatusCode::BAD_GATEWAY, body }
            }
            AgentError::CannotFit(_) | AgentError::Refused { .. } => {
                ApiError::named(StatusCode::BAD_REQUEST, "ContextOverflowError", message)
            }
            AgentError::NotSummarised(_) => ApiError::conflict(message),
            _ => ApiError::internal(message),
        }
    }

    /// Returns the message, for logs and events.
    pub(crate) fn message(&self) -> &str {
        let at = |path: &str| self.body.pointer(path).and_then(Value::as_str);
        at("/data/message").or_else(|| at("/message")).unwrap_or_default()
    }

    /// Returns the error for `session.error` and messages, as one of the kinds that clients know.
    pub(crate) fn for_session(&self) -> Value {
        let name = self.body.get("name").and_then(Value::as_str).unwrap_or_default();
        match name {
            "ProviderAuthError" | "ContextOverflowError" | "MessageAbortedError" | "APIError" => {
                self.body.clone()
            }
            _ => json!({ "name": "UnknownError", "data": { "message": self.message() } }),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        if self.status.is_server_error() && self.status != StatusCode::NOT_IMPLEMENTED {
            tracing::warn!(status = self.status.as_u16(), "a request failed");
        }
        let mut response = (self.status, axum::Json(self.body)).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Basic realm=\"plimsoll\", charset=\"UTF-8\"");
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> ApiError {
        match &error {
            StoreError::Missing { kind: "session", id } => {
                ApiError::not_found(format!("Session not found: {id}"))
            }
            StoreError::Missing { .. } => ApiError::not_found(error.to_string()),
            StoreError::Leased { session, .. } | StoreError::Fenced { session, .. } => {
                ApiError::busy(session, error.to_string())
            }
            StoreError::Refused(_)
            | StoreError::Stale { .. }
            | StoreError::Undone { .. }
            | StoreError::Undo(_)
            | StoreError::Ambiguous { .. }
            | StoreError::TaskMoved { .. } => ApiError::conflict(error.to_string()),
            StoreError::Expired { .. } | StoreError::Lost { .. } => ApiError::not_found(error.to_string()),
            _ => ApiError::internal(error.to_string()),
        }
    }
}

impl From<EditError> for ApiError {
    fn from(error: EditError) -> ApiError {
        match &error {
            EditError::Log(_) | EditError::Removed(_) => ApiError::not_found(error.to_string()),
            EditError::NotText(_) => ApiError::not_implemented(error.to_string()),
            EditError::Empty(_) => ApiError::bad_request("Payload", error.to_string()),
            _ => ApiError::bad_request("Params", error.to_string()),
        }
    }
}

impl From<SessionError> for ApiError {
    fn from(error: SessionError) -> ApiError {
        match error {
            SessionError::Store(error) => error.into(),
            SessionError::Edit(error) => error.into(),
            SessionError::Pin(error) => ApiError::bad_request("Payload", error.to_string()),
            SessionError::Stopped | SessionError::Closed => ApiError::unavailable(error.to_string()),
            other => ApiError::internal(other.to_string()),
        }
    }
}

impl From<AgentError> for ApiError {
    fn from(error: AgentError) -> ApiError {
        match error {
            AgentError::Session(error) => error.into(),
            other => ApiError::of_agent(&other, "unknown"),
        }
    }
}

impl From<HostError> for ApiError {
    fn from(error: HostError) -> ApiError {
        match error.kind() {
            ErrorKind::Negative => ApiError::conflict(error.message()),
            ErrorKind::Usage => ApiError::bad_request("Payload", error.message()),
            ErrorKind::Failure => ApiError::internal(error.message()),
        }
    }
}

impl From<AgentSetupError> for ApiError {
    fn from(error: AgentSetupError) -> ApiError {
        let hint = match &error {
            AgentSetupError::Model(error) => error.hint().lines().next().map(|hint| format!("; {hint}")),
            _ => None,
        };
        ApiError::bad_request("Payload", format!("{error}{}", hint.unwrap_or_default()))
    }
}

impl From<TaskError> for ApiError {
    fn from(error: TaskError) -> ApiError {
        match &error {
            TaskError::NotFound(_) => ApiError::not_found(error.to_string()),
            _ => ApiError::conflict(error.to_string()),
        }
    }
}

impl From<RevertError> for ApiError {
    fn from(error: RevertError) -> ApiError {
        match error {
            RevertError::Session(error) => error.into(),
            RevertError::Internal(error) => ApiError::internal(error.to_string()),
            other => ApiError::bad_request("Params", other.to_string()),
        }
    }
}
