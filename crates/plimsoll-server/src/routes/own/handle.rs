//! Handles of sessions, for reading and for reductions.

use std::ops::Deref;
use std::sync::Arc;

use axum::http::StatusCode;
use plimsoll::SessionId;
use plimsoll_session::{Session, SessionHandle};

use crate::app::App;
use crate::app::project::Project;
use crate::error::ApiResult;

/// Returns a handle to read a session: the server's own if it has the session open, otherwise one without a lease. This way a
/// session can be shown without a model, and while another process or a background task runs it.
pub(super) async fn reader(
    app: &Arc<App>,
    project: &Arc<Project>,
    session: &SessionId,
) -> ApiResult<SessionHandle> {
    project.session(session).await?;
    if let Some(open) = app.runners.open_handle(session)
        && open.keep_lease().await.is_ok()
    {
        return Ok(open);
    }
    Ok(project.setup.read(&project.board, &project.database.opened, session).await?)
}

/// A session that can be reduced.
pub(super) enum Editor {
    /// A session that this server has open, and releases later.
    Open(SessionHandle),
    /// A session opened for this request, because no model is configured for it.
    Own(Box<Session>),
}

impl Deref for Editor {
    type Target = SessionHandle;

    fn deref(&self) -> &SessionHandle {
        match self {
            Editor::Open(handle) => handle,
            Editor::Own(session) => session,
        }
    }
}

impl Editor {
    pub(super) async fn open(
        app: &Arc<App>,
        project: &Arc<Project>,
        session: &SessionId,
    ) -> ApiResult<Editor> {
        match app.runners.handle(app, project, session).await {
            Err(error) if error.status == StatusCode::BAD_REQUEST => {
                let opened = &project.database.opened;
                Ok(Editor::Own(Box::new(project.setup.open_for_reductions(opened, session).await?)))
            }
            handle => Ok(Editor::Open(handle?)),
        }
    }

    /// Releases the session if it was opened for this request, and wakes the poller so that clients see the change at once.
    pub(super) async fn finish(self, project: &Project) -> ApiResult<()> {
        project.database.changed.notify_one();
        match self {
            Editor::Open(_) => Ok(()),
            Editor::Own(session) => Ok(session.close().await?),
        }
    }
}
