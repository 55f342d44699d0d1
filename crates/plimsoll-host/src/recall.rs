//! Recall of content outside the window, and revert of files.

use std::io::Write;
use std::sync::Arc;

use plimsoll::policy::RecallPolicy;
use plimsoll::recall::{Lookup, RecallContent, RecallQuery};
use plimsoll::{Chars, Policy, Receipt, SessionId};
use plimsoll_agent::{RevertReport, RevertTarget, plan_revert, revert};
use plimsoll_config::Flags;
use plimsoll_session::look_up;
use plimsoll_store::{Hit, Recall, Scope, Search, Selection, StoreError};

use crate::error::HostError;
use crate::host::Host;
use crate::store::OpenStore;

/// Minimum length of an id prefix. Longer than most words, which would otherwise be read as ids.
const SHORTEST_ID: usize = 12;

/// Content to recall.
#[derive(Clone, Debug)]
pub struct RecallRequest {
    /// Handle of the content. If `None`, all content that left the window is searched.
    pub handle: Option<String>,
    /// Lines, from 1.
    pub lines: Option<(u64, u64)>,
    /// A search.
    pub search: Option<Search>,
    /// Maximum number of bytes.
    pub max_bytes: usize,
}

/// The answer that the model of the session would get.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecallText {
    /// The text.
    pub text: String,
    /// Whether there is more.
    pub has_more: bool,
    /// Whether nothing was found.
    pub is_negative: bool,
    /// Whether something could not be searched.
    pub is_partial: bool,
}

impl RecallRequest {
    /// Returns the selection. Only bytes are limited, not matches: unlike a model, a user can raise the limit.
    fn selection(&self) -> Selection {
        let (lines, search) = (self.lines, self.search.clone());
        Selection {
            lines,
            search,
            max_bytes: self.max_bytes,
            max_matches: usize::MAX,
            ..Selection::default()
        }
    }

    /// Returns the regular expression to search for.
    fn pattern(&self) -> Result<Option<String>, HostError> {
        let Some(search) = &self.search else { return Ok(None) };
        let pattern = if search.literal { regex::escape(&search.pattern) } else { search.pattern.clone() };
        regex::Regex::new(&pattern).map_err(|error| invalid(&pattern, &error.to_string()))?;
        Ok(Some(if search.ignore_case { format!("(?i){pattern}") } else { pattern }))
    }

    /// Converts the reason why nothing was recalled.
    fn refused(&self, error: StoreError) -> HostError {
        match (error, &self.search) {
            (StoreError::Refused(why), Some(search)) if why.starts_with("invalid pattern") => {
                invalid(&search.pattern, &why)
            }
            (error @ StoreError::Missing { .. }, _) => HostError::usage_of(error)
                .hint("the window shows handles in place of content, and `plimsoll receipts` lists them"),
            (error, _) => error.into(),
        }
    }
}

impl OpenStore {
    /// Returns the answer that the model of the session would get.
    pub fn recall_text(
        &self,
        session: &SessionId,
        request: &RecallRequest,
        host: &Host,
    ) -> Result<RecallText, HostError> {
        let (from, to) = request.lines.unzip();
        let (handle, search) = (request.handle.clone(), request.pattern()?);
        let query = RecallQuery { handle, from, to, search, ..RecallQuery::default() };
        let policy = RecallPolicy {
            max_chars: Chars(request.max_bytes as u64),
            max_matches: u64::MAX,
            context_lines: request.search.as_ref().map_or(0, |search| search.context as u64),
            ..Policy::default().recall.clone()
        };
        let found = host.during("recalling", || look_up(&self.archive, session, &query, &policy));
        let found = found.map_err(|error| self.not_recalled(error, request))?;
        let (has_matched, is_partial) = match &found {
            Lookup::Found(content) => {
                (content.excerpt.as_ref().is_none_or(|excerpt| excerpt.matches > 0), false)
            }
            Lookup::Searched(contents) => {
                let is_unsearched = |content: &RecallContent| content.unsearched.is_some();
                (!contents.iter().all(is_unsearched), contents.iter().any(is_unsearched))
            }
            _ => (false, false),
        };
        let answer = query.answer(&found, &policy);
        let is_negative = answer.is_error || (query.search.is_some() && !has_matched);
        Ok(RecallText { text: answer.text, has_more: answer.next.is_some(), is_negative, is_partial })
    }

    /// Returns content with its description.
    pub fn recall(
        &self,
        scope: Scope<'_>,
        handle: &str,
        request: &RecallRequest,
        host: &Host,
    ) -> Result<Recall, HostError> {
        let recalled = host.during("recalling", || self.archive.recall(scope, handle, &request.selection()));
        recalled.map_err(|error| self.not_recalled(error, request))
    }

    /// Writes the stored bytes of content.
    pub fn copy_content(
        &self,
        scope: Scope<'_>,
        handle: &str,
        request: &RecallRequest,
        to: &mut dyn Write,
    ) -> Result<(), HostError> {
        let copied = self.archive.copy_to(scope, handle, request.lines, to);
        copied.map(drop).map_err(|error| self.not_recalled(error, request))
    }

    /// Searches all content of a session outside its window.
    pub fn search_content(
        &self,
        session: &SessionId,
        request: &RecallRequest,
        host: &Host,
    ) -> Result<Vec<Hit>, HostError> {
        let hits = host.during("searching", || self.archive.search(session, &request.selection()));
        hits.map_err(|error| request.refused(error))
    }

    /// Finds the visible message or part whose id begins with `beginning`. Ids of other tools have any form, so a text is only
    /// known to be an id if it is found.
    pub fn id_in_view(&self, session: &SessionId, beginning: &str) -> Result<Option<String>, StoreError> {
        if beginning.len() < SHORTEST_ID || beginning.contains(char::is_whitespace) {
            return Ok(None);
        }
        let log = self.archive.store().window(session)?.log;
        let parts = log.iter().flat_map(|message| message.parts.iter().map(|part| part.id.as_str()));
        let mut ids = log.iter().map(|message| message.info.id.as_str()).chain(parts);
        Ok(ids.find(|id| id.starts_with(beginning)).map(str::to_owned))
    }

    /// Returns the handles of the content that a receipt removed from the window.
    pub fn receipt_handles(&self, id: &str) -> Result<(Receipt, Vec<String>), HostError> {
        let (_, receipt) = self.receipt(id)?;
        match plimsoll_store::handles(&receipt) {
            handles if handles.is_empty() => {
                Err(HostError::negative(format!("receipt `{}` has no handles: {}", receipt.id, receipt.plan)))
            }
            handles => Ok((receipt, handles)),
        }
    }

    /// Explains why a handle was not found.
    fn not_recalled(&self, error: StoreError, request: &RecallRequest) -> HostError {
        let is_session = |handle: &str| {
            self.sessions().is_ok_and(|all| all.iter().any(|session| session.id.as_str().starts_with(handle)))
        };
        match (&error, request.handle.as_deref()) {
            (StoreError::Missing { .. }, Some(handle)) if is_session(handle) => {
                HostError::usage(format!("`{handle}` is a session, not a handle"))
                    .hint(format!("search it with `plimsoll recall --session {handle} --grep PATTERN`"))
            }
            _ => request.refused(error),
        }
    }
}

impl Host {
    /// Restores the files of a stored session to their state before a turn, or plans it.
    pub fn revert(
        &self,
        session: Option<&str>,
        target: RevertTarget,
        is_plan: bool,
        force: bool,
    ) -> Result<RevertReport, HostError> {
        let config = self.config(&Flags::default())?;
        let opened = self.open_store(&config)?;
        let session = opened.session_or_newest(session, self)?;
        if is_plan {
            return Ok(plan_revert(&opened.archive, &session.id, target)?);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut open = opened.open_unweighed(&session, &config, force, self).await?;
            let report = revert(&mut open, target, &(Arc::new(|_: &_| {}) as _)).await;
            open.close().await?;
            Ok(report?)
        })
    }
}

fn invalid(pattern: &str, why: &str) -> HostError {
    // The last line of a `regex` error is its message. The lines before it mark the position, which a single-line error cannot
    // show.
    let problem = why.lines().last().unwrap_or(why).trim_start_matches("error: ");
    HostError::usage(format!("invalid pattern `{pattern}`: {problem}"))
        .hint("use `--fixed-strings` to search for literal text")
}
