//! `compact --from MESSAGE --to MESSAGE`: a summary in the place of messages anywhere in the window.

use std::process::ExitCode;

use plimsoll::compact::accept::{Bounds, Reply, accept};
use plimsoll::compact::range::{RangeError, RangeSelection, select_range};
use plimsoll::compact::request::Measured;
use plimsoll::receipt::{Made, RangePlan};
use plimsoll::{Limits, Log, Plan, Policy, Text, Tokens};
use serde_json::json;

use crate::args::CompactArgs;
use crate::error::CliError;
use crate::input::{self, Whole};
use crate::output::Output;
use crate::plans::{Contents, Page, WindowSizes};
use crate::progress::Progress;
use crate::reduce;
use crate::summarise::{self, Asked};
use crate::surroundings::Surroundings;

/// Compact a range of a file's or of a stored session's messages.
pub(crate) fn compact(
    args: &CompactArgs,
    (from, to): (&str, &str),
    around: &Surroundings,
    output: &mut Output,
) -> Result<ExitCode, CliError> {
    let (config, asked) = match summarise::load(args, around)? {
        (config, asked @ (Asked::Model(..) | Asked::Command(_))) => (config, Some(asked)),
        (config, Asked::Offline) => (config, None),
    };
    if args.apply {
        let (opened, session, limits) = reduce::stored(&args.input, &config, around)?;
        let ranged = Ranged { args, policy: &config.policy, limits, asked: asked.as_ref(), around };
        let mut driver = opened.driver_within(&session, &config, args.force, limits)?;
        let range = ranged.select(driver.log(), from, to)?;
        let (_, plan) = ranged.summarise(driver.log(), &range)?;
        let receipt = driver.compact_range(plan, "a person chose these messages")?;
        driver.close()?;
        let Some(receipt) = receipt else {
            return Err(CliError::no(
                "the window would not get smaller by the summary, and nothing was done",
            ));
        };
        return reduce::tell(&opened, &session, &[receipt], output);
    }
    let Whole { log, limits, directory } = input::whole_log(&args.input, &config, around)?;
    let ranged = Ranged { args, policy: &config.policy, limits, asked: asked.as_ref(), around };
    let range = ranged.select(&log, from, to)?;
    if asked.is_none() && !args.offline {
        let plan = ranged.plan(&log, &range, &Text::default(), (Made::ByModel, 1));
        let plan = RangePlan { text: Text::default(), ..plan };
        if output.json {
            output.json(&plan)?;
        } else {
            let planned = Plan::Range(plan);
            let contents = Contents::of(&log, directory.as_deref(), [&planned]);
            let sizes = WindowSizes::planned(&planned, &log, &config.policy, limits);
            let page = Page { contents: &contents, width: output.width(), handles: true };
            output.painted(&page.plan(&planned, sizes))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let (summary, plan) = ranged.summarise(&log, &range)?;
    if output.json {
        output.json(&json!({ "summary": summary, "plan": plan }))?;
    } else {
        output.words(&summary)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// How a range is summarised.
struct Ranged<'a> {
    args: &'a CompactArgs,
    policy: &'a Policy,
    limits: Limits,
    asked: Option<&'a Asked>,
    around: &'a Surroundings,
}

impl Ranged<'_> {
    fn select(&self, log: &Log, from: &str, to: &str) -> Result<RangeSelection, CliError> {
        let policy = self.policy;
        select_range(log, (from, to), policy, &policy.count).map_err(|error| {
            let hint = match &error {
                RangeError::Torn { nearest_from, nearest_to, .. } => {
                    format!("`--from {nearest_from} --to {nearest_to}` keeps them together")
                }
                _ => "`plimsoll window --json` names the messages that are in the window".to_owned(),
            };
            CliError::usage(error.to_string()).hint(hint)
        })
    }

    fn plan(&self, log: &Log, range: &RangeSelection, summary: &Text, made: (Made, u64)) -> RangePlan {
        let policy = self.policy;
        let line = policy.overflow.line(self.limits).map_or(self.limits.context, |line| line.at);
        range.plan(log, summary, made, (policy, line), &policy.count)
    }

    /// The summary as it is taken, and the plan that has it.
    fn summarise(&self, log: &Log, range: &RangeSelection) -> Result<(Text, RangePlan), CliError> {
        let policy = self.policy;
        let editor = self.args.edit.then(|| summarise::editor(self.around)).transpose()?;
        let edited = |reply: Reply| match &editor {
            Some(editor) => summarise::edit(reply, editor, self.around),
            None => Ok(reply),
        };
        let longest = policy
            .compact
            .max_summary_tokens
            .unwrap_or(self.limits.output)
            .max(policy.compact.extractive_tokens);
        let take = |reply: &Reply, replaced: Tokens| {
            accept(reply, Bounds { replaced, longest }, &policy.count)
                .map_err(|why| CliError::failed(format!("no summary: {why}")).hint("nothing was changed"))
        };
        let Some(asked) = self.asked else {
            let extracted =
                Progress::during("summarising", || range.extract(log, policy, &policy.count).to_string());
            let extracted = Reply { is_extracted: true, ..Reply::finished(extracted) };
            let summary = take(&edited(extracted)?, range.tokens)?;
            let plan = self.plan(log, range, &summary, (Made::WithoutModel, 0));
            return Ok((summary, plan));
        };
        let summariser = asked.summariser(self.limits);
        let measured = Measured { limits: summariser.limits, counter: &policy.count, factor: 1.0 };
        let job = range.job(log, policy, measured).map_err(|error| CliError::failed(error.to_string()))?;
        let job = job.for_model(summariser.model);
        let mut summary: Option<Text> = None;
        for chunk in 0..job.chunks() {
            let Some(request) = job.request(chunk, summary.as_ref(), measured) else { break };
            let reply = Progress::during(&asked.asking(&request), || asked.ask(&request));
            let reply = reply.map_err(|error| asked.failed(&error))?;
            let is_last = chunk + 1 == job.chunks();
            let before = summary.as_ref().map(|text| plimsoll::Counter::count_text(&policy.count, text));
            summary = Some(match is_last {
                true => take(&edited(reply)?, range.tokens)?,
                false => take(&reply, job.chunk_tokens(chunk, &policy.count) + before.unwrap_or_default())?,
            });
        }
        let summary = summary.ok_or_else(|| CliError::failed("there is nothing to summarise"))?;
        let plan = self.plan(log, range, &summary, (Made::ByModel, job.chunks() as u64));
        Ok((summary, plan))
    }
}
