//! A session weighed message by message.

use plimsoll::{Limits, Message, MessageId, Policy, Scale};
use plimsoll_tokens::{Measured, WindowMeter};

use super::describe::Describer;
use super::growth::Growth;
use super::log::LogTally;
use super::ranking::Weight;
use super::report::{MeasuredBy, Rebuilt, WindowReport};
use super::tally::BlockScale;
use super::view::View;
use crate::scale::WindowScale;
use crate::usage_gate::UsageGate;

/// Weighs a session message by message, in memory that does not grow with it.
///
/// ```
/// use plimsoll::{Limits, Message, Part, Policy, Tokens, Usage};
/// use plimsoll_session::Weigher;
///
/// let mut answer = Message::assistant("a1".into(), vec![Part::text("a1.1".into(), "A README.")]);
/// answer.info.tokens = Some(Usage::new(Tokens(18_000), Tokens(40)));
///
/// let policy = Policy::default();
/// let mut weigher = Weigher::new(&policy);
/// weigher.add(Message::user("u1".into(), "u1.1".into(), "What is in the directory?"));
/// weigher.add(answer);
/// let report = weigher.finish(Limits::new(200_000, 0), None);
/// assert_eq!(report.window, Tokens(18_040)); // the last request and its answer
/// assert_eq!(report.kinds()[0].name, "system prompt and tools (not recorded)");
/// ```
#[derive(Clone)]
pub struct Weigher<'a> {
    policy: &'a Policy,
    gate: UsageGate,
    counts_base: bool,
    meter: WindowMeter,
    messages: usize,
    pivots: usize,
    /// The newest marker, if its compaction was undone.
    undone: Option<MessageId>,
    growth: Growth,
    log: Option<LogTally>,
    view: View<'a>,
}

impl<'a> Weigher<'a> {
    /// Creates a weigher of windows.
    pub fn new(policy: &'a Policy) -> Weigher<'a> {
        Weigher {
            policy,
            gate: UsageGate::default(),
            counts_base: true,
            meter: WindowMeter::default(),
            messages: 0,
            pivots: 0,
            undone: None,
            growth: Growth::default(),
            log: None,
            view: View::new(policy),
        }
    }

    /// Creates a weigher of windows and of whole logs.
    pub fn with_log(policy: &'a Policy) -> Weigher<'a> {
        Weigher { log: Some(LogTally::new(policy.count)), ..Weigher::new(policy) }
    }

    /// Adds the next message of the session.
    pub fn add(&mut self, message: Message) {
        self.gate.pass(message).for_each(|message| self.weigh(message));
    }

    fn weigh(&mut self, message: Message) {
        self.messages += 1;
        if let Some(log) = &mut self.log {
            log.add(&message);
        }
        if let Some(marker) = message.marker() {
            self.undone = marker.set_aside.is_some().then(|| message.info.id.clone());
        }
        let answers_undone = match (&message.info.parent_id, &self.undone) {
            (Some(parent), Some(undone)) => parent == undone,
            (None, undone) => undone.is_some(),
            (Some(_), None) => false,
        };
        self.pivots += usize::from(message.is_finished_summary() && !answers_undone);
        if self.counts_base {
            self.meter.add(&message);
        }
        self.growth.add(&message, self.log.as_ref().map_or(Weight::default(), |log| log.total));
        let turn = u32::try_from(self.growth.turn()).unwrap_or(u32::MAX);
        self.view.add(message, turn);
    }

    /// Returns what is in the window. Paths are relative to `directory`, if the session has one.
    pub fn finish(self, limits: Limits, directory: Option<&str>) -> WindowReport {
        self.finish_with_scale(limits, directory).0
    }

    /// Returns what is in the window, and the scale on which its pieces were weighed.
    pub fn finish_with_scale(
        mut self,
        limits: Limits,
        directory: Option<&str>,
    ) -> (WindowReport, WindowScale) {
        if !self.gate.is_open() {
            self.counts_base = false;
            self.log.iter_mut().for_each(LogTally::drop_base);
            std::mem::take(&mut self.gate).waiting().into_iter().for_each(|message| self.weigh(message));
        }
        let Weigher { policy, meter, view, log, .. } = self;
        let scale = WindowScale::new(meter.read(), policy);
        let (measured, describer) = (scale.measured(), Describer { directory });
        let factor = measured.map(Measured::factor);
        let counter = scale.counter();
        let blocks = BlockScale { policy, counter: &*counter, scale: Scale::ESTIMATES, describer };
        let seen = view.report(&blocks, factor);
        let size = scale.size(seen.visible);
        let report = WindowReport {
            messages: self.messages,
            tokens: log.as_ref().map(|log| log.total.tokens(factor)),
            measured: if measured.is_some() { MeasuredBy::Usage } else { MeasuredBy::Characters },
            factor: factor.map(|factor| (factor * 1_000.0).round() / 1_000.0),
            rebuilt: measured.and_then(rebuilt),
            line: policy.overflow.line(limits).map(|line| line.at),
            pivots: self.pivots,
            growth: if log.is_some() { self.growth.turns(factor) } else { Vec::new() },
            log: log.map(|log| log.report(describer, factor)),
            ..seen.with_size(size)
        };
        drop(counter);
        (report, scale)
    }
}

fn rebuilt(measured: &Measured) -> Option<Rebuilt> {
    let (recorded, tokens) = measured.requests().next_back()?;
    Some(Rebuilt { recorded, tokens, gap: (measured.gap()? * 1_000.0).round() / 1_000.0 })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use plimsoll::{Limits, Message, Policy};
    use serde_json::json;

    use super::Weigher;

    fn message(value: serde_json::Value) -> Message {
        serde_json::from_value(value).unwrap()
    }

    /// A session of many turns that is compacted at intervals, with a tail of one turn.
    pub(in super::super) fn session(turns: usize, compacted_every: usize) -> Vec<Message> {
        let mut messages = vec![message(json!({ "info": { "id": "sys", "role": "system" },
            "parts": [{ "id": "sys.1", "type": "text", "text": "Be brief." }] }))];
        for turn in 1..=turns {
            let (user, answer) = (format!("u{turn}"), format!("a{turn}"));
            let words = "word ".repeat(turn % 50 + 1);
            messages.push(message(json!({ "info": { "id": user, "role": "user" },
                "parts": [{ "id": format!("{user}.1"), "type": "text", "text": words }] })));
            let state =
                json!({ "status": "completed", "input": { "path": format!("f{turn}") }, "output": words });
            messages.push(message(json!({
                "info": { "id": answer, "role": "assistant", "parentID": user, "finish": "stop" },
                "parts": [{ "id": format!("{answer}.1"), "type": "tool", "tool": "read", "callID": answer, "state": state },
                    { "id": format!("{answer}.2"), "type": "text", "text": "done" }] })));
            if turn.is_multiple_of(compacted_every) {
                let (marker, summary) = (format!("m{turn}"), format!("s{turn}"));
                messages.push(message(json!({ "info": { "id": marker, "role": "user" },
                    "parts": [{ "id": format!("{marker}.1"), "type": "compaction", "tail_start_id": answer }] })));
                messages.push(message(json!({
                    "info": { "id": summary, "role": "assistant", "parentID": marker, "summary": true, "finish": "stop" },
                    "parts": [{ "id": format!("{summary}.1"), "type": "text", "text": "So far so good." }] })));
            }
        }
        messages
    }

    #[test]
    fn of_equal_outputs_the_first_is_listed() {
        let policy = Policy::default();
        let mut weigher = Weigher::with_log(&policy);
        session(60, usize::MAX).into_iter().for_each(|message| weigher.add(message));
        let log = weigher.finish(Limits::new(200_000, 0), None).log.unwrap();
        assert_eq!(log.largest.len(), 10);
        assert_eq!(log.largest[0].part.as_str(), "a49.1");
        assert!(log.largest.is_sorted_by(|a, b| a.tokens >= b.tokens));
    }
}
