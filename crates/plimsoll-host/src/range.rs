//! Compaction of a range of messages anywhere in the window.

use plimsoll::compact::{Bounds, Measured, RangeError, RangeSelection, Reply, accept, select_range};
use plimsoll::plan::{RangePlan, SummaryOrigin};
use plimsoll::{Limits, Log, Policy, Receipt, Text, Tokens};

use crate::config::HostConfig;
use crate::drive::StoredSession;
use crate::error::HostError;
use crate::host::Host;
use crate::input::WholeSession;
use crate::summarise::{EditSummary, SummarySource, SummaryTime};

/// A request to summarise a range of messages.
pub struct RangeRequest<'a> {
    /// Id or prefix of the first message.
    pub from: &'a str,
    /// Id or prefix of the last message.
    pub to: &'a str,
    /// Source of the summary.
    pub source: &'a SummarySource,
    /// Lets the user change the summary.
    pub edit: Option<EditSummary<'a>>,
}

impl WholeSession {
    /// Plans the compaction of a range, without writing the summary.
    pub fn plan_range(&self, range: &RangeRequest<'_>, policy: &Policy) -> Result<RangePlan, HostError> {
        let ranged = Ranged { range, policy, limits: self.limits };
        let selection = ranged.select(&self.log)?;
        let mut plan = ranged.plan(&self.log, &selection, &Text::default(), (SummaryOrigin::ByModel, 1));
        plan.text = Text::default();
        Ok(plan)
    }

    /// Summarises a range. Returns the summary and its plan.
    pub fn summarise_range(
        &self,
        range: &RangeRequest<'_>,
        policy: &Policy,
        host: &Host,
    ) -> Result<(Text, RangePlan), HostError> {
        Ranged { range, policy, limits: self.limits }.summarise(&self.log, host)
    }
}

impl StoredSession {
    /// Replaces a range of messages by a summary.
    pub fn compact_range(
        &self,
        range: &RangeRequest<'_>,
        config: &HostConfig,
        force: bool,
        host: &Host,
    ) -> Result<Receipt, HostError> {
        let ranged = Ranged { range, policy: &config.policy, limits: self.limits };
        let mut driver = self.drive(config, force, None, host)?;
        let (_, plan) = ranged.summarise(driver.log(), host)?;
        let receipt = driver.compact_range(plan, "chosen by the user")?;
        driver.close()?;
        receipt.ok_or_else(|| {
            HostError::negative("the summary would not make the window smaller; nothing was changed")
        })
    }
}

/// Compaction of a range in a session.
struct Ranged<'a> {
    range: &'a RangeRequest<'a>,
    policy: &'a Policy,
    limits: Limits,
}

impl Ranged<'_> {
    fn select(&self, log: &Log) -> Result<RangeSelection, HostError> {
        let policy = self.policy;
        select_range(log, (self.range.from, self.range.to), policy, &policy.count).map_err(|error| {
            let hint = match &error {
                RangeError::Torn { nearest_from, nearest_to, .. } => {
                    format!("use `--from {nearest_from} --to {nearest_to}` to keep them together")
                }
                _ => "list the messages in the window with `plimsoll window --json`".to_owned(),
            };
            HostError::usage(error.to_string()).hint(hint).caused_by(error)
        })
    }

    fn plan(
        &self,
        log: &Log,
        range: &RangeSelection,
        summary: &Text,
        made: (SummaryOrigin, u64),
    ) -> RangePlan {
        let policy = self.policy;
        let line = policy.overflow.line(self.limits).map_or(self.limits.context, |line| line.at);
        range.plan(log, summary, made, (policy, line), &policy.count)
    }

    /// Returns the accepted summary and its plan.
    fn summarise(&self, log: &Log, host: &Host) -> Result<(Text, RangePlan), HostError> {
        let (policy, source) = (self.policy, self.range.source);
        let range = self.select(log)?;
        let edited = |reply: Reply| match self.range.edit {
            Some(edit) => edit(reply),
            None => Ok(reply),
        };
        let longest = policy
            .compact
            .max_summary_tokens
            .unwrap_or(self.limits.output)
            .max(policy.compact.extractive_tokens);
        let take = |reply: &Reply, replaced: Tokens| {
            accept(reply, Bounds { replaced, longest }, &policy.count)
                .map_err(|why| HostError::failed(format!("no summary: {why}")).hint("nothing was changed"))
        };
        if matches!(source, SummarySource::Offline) {
            let extracted =
                host.during("summarising", || range.extract(log, policy, &policy.count).to_string());
            let extracted = Reply { is_extracted: true, ..Reply::finished(extracted) };
            let summary = take(&edited(extracted)?, range.tokens)?;
            let plan = self.plan(log, &range, &summary, (SummaryOrigin::WithoutModel, 0));
            return Ok((summary, plan));
        }
        let summariser = source.summariser(self.limits);
        let measured = Measured { limits: summariser.limits, counter: &policy.count, factor: 1.0 };
        let job = range.job(log, policy, measured).map_err(HostError::failed_of)?;
        let job = job.for_model(summariser.model);
        let (mut summary, mut time): (Option<Text>, _) = (None, SummaryTime::of(policy));
        for chunk in 0..job.chunks() {
            let Some(request) = job.request(chunk, summary.as_ref(), measured) else { break };
            let reply =
                source.ask(&request, &mut time, host).map_err(|error| source.failed(error.message()))?;
            let is_last = chunk + 1 == job.chunks();
            let before = summary.as_ref().map(|text| plimsoll::Counter::count_text(&policy.count, text));
            summary = Some(match is_last {
                true => take(&edited(reply)?, range.tokens)?,
                false => take(&reply, job.chunk_tokens(chunk, &policy.count) + before.unwrap_or_default())?,
            });
        }
        let summary = summary.ok_or_else(|| HostError::failed("nothing to summarise"))?;
        let plan = self.plan(log, &range, &summary, (SummaryOrigin::ByModel, job.chunks() as u64));
        Ok((summary, plan))
    }
}
