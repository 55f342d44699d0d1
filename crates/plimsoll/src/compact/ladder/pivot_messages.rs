//! The messages of a pivot: marker, summary, and a message to continue.

use super::super::select::Selection;
use super::{Ladder, Trigger};
use crate::chars::Text;
use crate::log::{CompactionPart, Ids, Info, Message, MessageId, Part, PartBody, Role, Time};
use crate::plan::{CompactPlan, Plan, SummaryOrigin};
use crate::receipt::Receipt;

impl Ladder {
    pub(super) fn pivot_messages(
        &mut self,
        selection: &Selection,
        summary: Text,
        plan: &CompactPlan,
        ids: &mut Ids,
    ) -> Vec<Message> {
        let now = self.context.now;
        let auto = self.context.trigger != Trigger::Manual;
        let waiting = selection.tail.last().is_some_and(|place| self.log[*place].starts_turn());
        let newest_user = self.log.iter().rev().find(|message| message.starts_turn()).map(|m| m.info.clone());
        let user = |id: MessageId, part: Part| {
            // Agent and model as in the user's newest message, so that a host continues with them.
            let mut info = Info { id, role: Some(Role::User), ..Info::default() };
            if let Some(user) = &newest_user {
                (info.session_id, info.agent) = (user.session_id.clone(), user.agent.clone());
                info.extra.extend(user.extra.get("model").map(|model| ("model".to_owned(), model.clone())));
            }
            info.time = Some(Time { created: Some(now), ..Time::default() });
            Message { info: info.into(), parts: vec![part].into(), ..Message::default() }
        };
        let marker = CompactionPart {
            auto: Some(auto),
            tail_start: plan.tail_start.clone(),
            prompt: plan.prompt.clone(),
            messages: Some(plan.messages),
            tokens: Some(plan.tokens.0),
            extractive: (plan.made == SummaryOrigin::WithoutModel).then_some(true),
            contract: plan.contract.clone(),
            ..CompactionPart::default()
        };
        let marker = Part::new(ids.part(now), PartBody::Compaction(marker));
        let marker = user(ids.message(now), marker);
        let by_model = plan.made == SummaryOrigin::ByModel;
        let summariser = self.context.summariser.as_ref().and_then(|summariser| summariser.model.clone());
        let answer = Info {
            id: ids.message(now),
            role: Some(Role::Assistant),
            parent_id: Some(marker.info.id.clone()),
            agent: Some("compaction".into()),
            mode: Some("compaction".into()),
            session_id: marker.info.session_id.clone(),
            summary: true,
            finish: Some("stop".into()),
            model_id: self.model.clone().or_else(|| summariser.filter(|_| by_model)),
            // The sum over all calls: chunks and rejected answers.
            tokens: self.usage.iter().cloned().reduce(|all, one| all + one),
            cost: self.cost.and_then(serde_json::Number::from_f64),
            time: Some(Time { created: Some(now), completed: Some(now), ..Time::default() }),
            ..Info::default()
        };
        let parts = vec![Part::text(ids.part(now), summary)];
        let mut messages =
            vec![marker, Message { info: answer.into(), parts: parts.into(), ..Message::default() }];
        let compacted = |receipt: &Receipt| matches!(receipt.plan, Plan::Compact(_));
        // A user who asked for the compaction decides what comes next, a waiting prompt is a request already, and an
        // earlier compaction of this climb has added one.
        if auto && !waiting && !self.receipts.iter().any(compacted) {
            let part = ids.part(now);
            let continuation =
                Message::continuation(ids.message(now), part, &self.context.policy.compact.continue_text);
            messages
                .extend(continuation.parts.into_iter().map(|part| user(continuation.info.id.clone(), part)));
        }
        messages
    }
}
