//! Extractors that reject requests with the API's error shape. axum's own extractors answer with plain text, which clients
//! cannot parse.

use axum::extract::{FromRequestParts, Path as AxumPath, Query as AxumQuery};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::error::ApiError;

/// Extractor of path segments.
pub(crate) struct Path<T>(pub(crate) T);

/// Extractor of query parameters.
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Path<T>, ApiError> {
        let read = AxumPath::from_request_parts(parts, state).await;
        read.map(|AxumPath(value)| Path(value))
            .map_err(|error| ApiError::bad_request("Params", error.body_text()))
    }
}

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Query<T>, ApiError> {
        let read = AxumQuery::from_request_parts(parts, state).await;
        read.map(|AxumQuery(value)| Query(value))
            .map_err(|error| ApiError::bad_request("Query", error.body_text()))
    }
}
