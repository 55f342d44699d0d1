//! Recall: content that has left the window, looked up for a model. The command answers users with the same text, so
//! that they can see what an agent saw.

use plimsoll::SessionId;
use plimsoll::policy::RecallPolicy;
use plimsoll::recall::{Lookup, RecallAnswer, RecallContent, RecallQuery};
use plimsoll_store::{Archive, Line, Recalled, Scope, Search, Selection, StoreError};

use super::Driver;
use crate::error::SessionError;

/// Maximum number of UTF-8 bytes per char, replacement characters included.
const BYTES_PER_CHAR: u64 = 4;

impl Driver {
    /// Bounds of recall answers for the session's model.
    pub fn recall_policy(&self) -> RecallPolicy {
        let policy = &self.settings.policy;
        policy.recall.for_context(self.limits().context, &policy.count)
    }

    /// Answers a call of the recall tool. It reaches only what this session can see, and reads only as much of a long
    /// content into memory as an answer can show.
    pub fn recall(&self, query: &RecallQuery) -> Result<RecallAnswer, SessionError> {
        let policy = &self.recall_policy();
        let lookup = match self.look_up(query, policy) {
            Ok(lookup) => lookup,
            Err(error) if query.handle.is_none() => return Err(error.into()),
            Err(StoreError::Missing { .. }) => Lookup::Missing,
            Err(StoreError::Ambiguous { candidates, .. }) => {
                Lookup::Ambiguous(candidates.into_iter().map(|handle| (handle, String::new())).collect())
            }
            Err(error @ (StoreError::Expired { .. } | StoreError::Lost { .. })) => {
                Lookup::Gone(error.to_string())
            }
            Err(error) => return Err(error.into()),
        };
        Ok(query.answer(&lookup, policy))
    }

    fn look_up(&self, query: &RecallQuery, policy: &RecallPolicy) -> Result<Lookup, StoreError> {
        let wanted = Selection { stop: self.stop.of_store().clone(), ..selection(query, policy) };
        look_up_selection(&self.archive, self.session(), query, &wanted)
    }
}

/// Looks a query up in what a session can see, for [`RecallQuery::answer`]. If nothing is found, the error of the store
/// says why; [`Driver::recall`] passes it to the model.
pub fn look_up(
    archive: &Archive,
    session: &SessionId,
    query: &RecallQuery,
    policy: &RecallPolicy,
) -> Result<Lookup, StoreError> {
    look_up_selection(archive, session, query, &selection(query, policy))
}

fn look_up_selection(
    archive: &Archive,
    session: &SessionId,
    query: &RecallQuery,
    wanted: &Selection,
) -> Result<Lookup, StoreError> {
    match &query.handle {
        Some(handle) => {
            let found = archive.recall(Scope::Session(session), handle, wanted)?;
            Ok(Lookup::Found(excerpt(found.handle, found.what, found.found, query)))
        }
        None if query.search.is_some() => {
            let hits = archive.search(session, wanted)?;
            let contents = hits.into_iter().map(|hit| {
                let what = match &hit.tool {
                    Some(tool) if hit.handle.ends_with(":input") => format!("input of {tool}"),
                    Some(tool) => format!("output of {tool}"),
                    None => "text".to_owned(),
                };
                if let Some(why) = hit.unsearched {
                    return RecallContent::unsearched(hit.handle, what, why);
                }
                let is_cut = hit.found.cut;
                let content = excerpt(hit.handle, what, hit.found, query);
                if is_cut { content.ends_search() } else { content }
            });
            Ok(Lookup::Searched(contents.collect()))
        }
        None => Ok(Lookup::Searched(Vec::new())),
    }
}

/// Returns the selection that fills an answer.
fn selection(query: &RecallQuery, policy: &RecallPolicy) -> Selection {
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let (mut from, mut to) = (query.from.unwrap_or(1).max(1), query.to.unwrap_or(u64::MAX));
    if query.search.is_some() {
        // Context lines of a match may lie outside of the searched range.
        from = from.saturating_sub(policy.context_lines).max(1);
        to = to.saturating_add(policy.context_lines);
    }
    let chars = policy.max_chars.0.saturating_add(query.offset.unwrap_or(0)).saturating_add(1);
    // Long lines around matches are shortened only when they are shown.
    let per_match = policy.context_lines.saturating_mul(2).saturating_add(1);
    let search = query.search.as_ref().map(|pattern| Search {
        pattern: pattern.clone(),
        literal: query.is_literal(),
        ignore_case: false,
        context: count(policy.context_lines),
    });
    let bytes = match search {
        Some(_) => chars.saturating_mul(BYTES_PER_CHAR).saturating_mul(per_match),
        None => chars.saturating_mul(BYTES_PER_CHAR),
    };
    Selection {
        lines: Some((from, to.max(from))),
        search,
        max_bytes: count(bytes),
        // One more than is shown, so that the answer knows where to continue.
        max_matches: count(
            query.limit.unwrap_or(policy.max_matches).min(policy.max_matches).saturating_add(1),
        ),
        ..Selection::default()
    }
}

fn excerpt(handle: String, what: String, found: Recalled, query: &RecallQuery) -> RecallContent {
    let wanted = query.from.unwrap_or(1)..=query.to.unwrap_or(u64::MAX);
    let outside = found.lines.iter().filter(|line| line.is_match && !wanted.contains(&line.number)).count();
    let matches = found.matches.saturating_sub(outside as u64);
    let lines = found.lines.into_iter().map(|Line { number, text, .. }| (number, text));
    RecallContent::excerpt(handle, what, lines, (found.all_lines, matches))
}
