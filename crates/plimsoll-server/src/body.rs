//! Bodies of requests.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{FromRequest, Request};
use serde::de::DeserializeOwned;

use crate::app::App;
use crate::error::ApiError;

/// Maximum size of a body: prompts may carry images.
pub(crate) const MOST_BYTES: usize = 32 * 1024 * 1024;

/// A JSON body. An empty one counts as `{}`.
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
    // One that announces its size need not be read.
    if body.size_hint().lower() > MOST_BYTES as u64 {
        return Err(ApiError::too_large(MOST_BYTES));
    }
    let read = axum::body::to_bytes(body, MOST_BYTES);
    match tokio::time::timeout(longest, read).await {
        Err(_) => Err(ApiError::timed_out("the body did not arrive in time")),
        Ok(Err(error)) => match error.to_string() {
            text if text.contains("limit") => Err(ApiError::too_large(MOST_BYTES)),
            text => Err(ApiError::bad_request("Body", text)),
        },
        Ok(Ok(bytes)) => Ok(bytes),
    }
}
