//! Bodies of requests.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{FromRequest, Request};
use serde::de::DeserializeOwned;

use crate::app::App;
use crate::error::ApiError;

/// Maximum size of a body. Prompts may contain images.
pub(crate) const MAX_BYTES: usize = 32 * 1024 * 1024;

/// Extractor of a JSON body. An empty body counts as `{}`.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Arc<App>> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<JsonBody<T>, ApiError> {
        let bytes = read(request.into_body(), app.options.body_timeout).await?;
        let text = if bytes.iter().all(u8::is_ascii_whitespace) { &b"{}"[..] } else { &bytes };
        let parsed = serde_json::from_slice(text);
        parsed.map(JsonBody).map_err(|error| ApiError::bad_request("Payload", error.to_string()))
    }
}

async fn read(body: Body, longest: Duration) -> Result<Bytes, ApiError> {
    // Rejected before it is read if `Content-Length` already exceeds the limit.
    if body.size_hint().lower() > MAX_BYTES as u64 {
        return Err(ApiError::too_large(MAX_BYTES));
    }
    let read = axum::body::to_bytes(body, MAX_BYTES);
    match tokio::time::timeout(longest, read).await {
        Err(_) => Err(ApiError::timed_out("the body did not arrive in time")),
        // axum does not export the error of its limit, so it is recognised by its text.
        Ok(Err(error)) => match error.to_string() {
            text if text.contains("limit") => Err(ApiError::too_large(MAX_BYTES)),
            text => Err(ApiError::bad_request("Body", text)),
        },
        Ok(Ok(bytes)) => Ok(bytes),
    }
}
