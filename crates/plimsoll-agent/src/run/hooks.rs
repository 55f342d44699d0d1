//! Calls hooks and applies their replies.

use plimsoll::compact::HookText;
use plimsoll::{Receipt, SessionId};
use plimsoll_config::HookEvent;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::Conversation;
use super::compaction::compaction_figures;
use crate::agent::Agent;
use crate::event::{Event, HookOutcome};
use crate::figures::{CallStatus, ReceiptFigures};
use crate::hooks::{
    AfterTool, BeforeTool, CompactionContext, HookError, HookFuture, HookedCall, HookedResult, Hooks,
};
use crate::untrusted::clean;

/// Maximum length of a hook's refusal or addition, in characters. Neither is truncated by the engine.
const LONGEST_TEXT: usize = 8_000;

/// Input of a call after hooks.
pub(crate) enum HookedInput {
    /// Unchanged.
    Same,
    /// Changed.
    Changed(Value),
    /// Denied.
    Refused(String),
    /// The run was cancelled.
    Cancelled,
}

/// Changes of hooks to a result.
#[derive(Default)]
pub(crate) struct HookedOutput {
    /// Text that replaces the output.
    pub(crate) replacement: Option<String>,
    /// Text appended to the output.
    pub(crate) addition: String,
}

impl Agent {
    /// Returns the hooks for an event.
    fn hooks_for(&self, event: HookEvent, tool: Option<&str>) -> impl Iterator<Item = &dyn Hooks> {
        let tool = tool.map(str::to_owned);
        let hooks = self.hooks.iter().map(AsRef::as_ref);
        hooks.filter(move |hook: &&dyn Hooks| hook.is_for(event, tool.as_deref()))
    }

    /// Returns whether any hook handles an event.
    pub(crate) fn has_hooks(&self, event: HookEvent, tool: Option<&str>) -> bool {
        self.hooks_for(event, tool).next().is_some()
    }

    fn report_hook(&self, hook: &dyn Hooks, event: HookEvent, outcome: HookOutcome) {
        let hook = hook.name();
        if let HookOutcome::Failed { error } = &outcome {
            tracing::warn!(hook, %event, error, "a hook failed");
        }
        self.emit(&Event::Hooked { hook, event, outcome });
    }

    /// Waits for a hook's reply; `None` if it fails, which is reported, or if the run is cancelled.
    async fn await_reply<T>(
        &self,
        hook: &dyn Hooks,
        event: HookEvent,
        answer: HookFuture<'_, T>,
        cancel: &CancellationToken,
    ) -> Option<T> {
        let answer = tokio::select! {
            biased;
            () = cancel.cancelled() => return None,
            answer = answer => answer,
        };
        match answer {
            Ok(answer) => Some(answer),
            Err(HookError(error)) => {
                self.report_hook(hook, event, HookOutcome::Failed { error });
                None
            }
        }
    }

    /// Returns the summary text of the agent and its hooks.
    pub(crate) async fn summary_text(
        &self,
        context: &CompactionContext,
        cancel: &CancellationToken,
    ) -> HookText {
        let mut all = self.own_summary_text();
        for hook in self.hooks_for(HookEvent::Compacting, None) {
            let said = self.await_reply(hook, HookEvent::Compacting, hook.compacting(context), cancel).await;
            let Some(HookText { context, prompt, .. }) = said else { continue };
            if !context.is_empty() || prompt.is_some() {
                self.report_hook(hook, HookEvent::Compacting, HookOutcome::ChangedSummary);
            }
            all.context.extend(context);
            all.prompt = prompt.or(all.prompt);
        }
        all
    }

    /// Returns the hook that stops the turn after a compaction, if there is one.
    pub(crate) async fn stopping_hook(
        &self,
        context: &CompactionContext,
        cancel: &CancellationToken,
    ) -> Option<String> {
        for hook in self.hooks_for(HookEvent::Autocontinue, None) {
            let continues =
                self.await_reply(hook, HookEvent::Autocontinue, hook.autocontinue(context), cancel).await;
            if continues == Some(false) {
                self.report_hook(hook, HookEvent::Autocontinue, HookOutcome::Stopped);
                return Some(hook.name());
            }
        }
        None
    }

    /// Notifies hooks of the compactions among these receipts.
    pub(crate) async fn notify_compacted(
        &self,
        session: &SessionId,
        trigger: &'static str,
        receipts: &[Receipt],
        cancel: &CancellationToken,
    ) {
        let compacted = compaction_figures(receipts);
        if compacted.is_empty() {
            return;
        }
        let context = self.compaction_context(session, trigger, compacted);
        for hook in self.hooks_for(HookEvent::Compacted, None) {
            self.await_reply(hook, HookEvent::Compacted, hook.compacted(&context), cancel).await;
        }
    }

    pub(crate) fn compaction_context(
        &self,
        session: &SessionId,
        trigger: &'static str,
        receipts: Vec<ReceiptFigures>,
    ) -> CompactionContext {
        CompactionContext { session: session.clone(), agent: self.profile.name.clone(), trigger, receipts }
    }
}

impl Conversation {
    /// Passes a call to the hooks before permissions are checked. Each hook receives the input that the previous one
    /// returned.
    pub(crate) async fn hook_input(&self, call: &HookedCall, cancel: &CancellationToken) -> HookedInput {
        let (event, mut call, mut is_changed) = (HookEvent::ToolBefore, call.clone(), false);
        let tool = call.tool.clone();
        for hook in self.agent.hooks_for(event, Some(&tool)) {
            match self.agent.await_reply(hook, event, hook.before_tool(&call), cancel).await {
                None if cancel.is_cancelled() => return HookedInput::Cancelled,
                None | Some(BeforeTool::Go) => {}
                Some(BeforeTool::Change(input)) if !input.is_object() => {
                    let error = "its `input` is not an object".to_owned();
                    self.agent.report_hook(hook, event, HookOutcome::Failed { error });
                }
                Some(BeforeTool::Change(input)) if input == call.input => {}
                Some(BeforeTool::Change(input)) => {
                    (call.input, is_changed) = (input, true);
                    self.agent.report_hook(hook, event, HookOutcome::ChangedInput);
                }
                Some(BeforeTool::Refuse(words)) => {
                    let words = clean(&words, LONGEST_TEXT);
                    self.agent.report_hook(hook, event, HookOutcome::Refused { words: words.clone() });
                    return HookedInput::Refused(words);
                }
            }
        }
        if is_changed { HookedInput::Changed(call.input) } else { HookedInput::Same }
    }

    /// Passes a result to the hooks. Each hook receives the text that the previous one returned.
    pub(crate) async fn hook_output(
        &self,
        call: &HookedCall,
        status: CallStatus,
        output: &str,
        cancel: &CancellationToken,
    ) -> HookedOutput {
        let (event, mut hooked) = (HookEvent::ToolAfter, HookedOutput::default());
        for hook in self.agent.hooks_for(event, Some(&call.tool)) {
            let seen = format!("{}{}", hooked.replacement.as_deref().unwrap_or(output), hooked.addition);
            let result = HookedResult { status, output: &seen };
            match self.agent.await_reply(hook, event, hook.after_tool(call, result), cancel).await {
                None | Some(AfterTool::Keep) => {}
                Some(AfterTool::Replace(text)) if status == CallStatus::Completed => {
                    hooked = HookedOutput { replacement: Some(text), addition: String::new() };
                    self.agent.report_hook(hook, event, HookOutcome::ReplacedOutput);
                }
                Some(AfterTool::Append(text) | AfterTool::Replace(text)) => {
                    let text = clean(&text, LONGEST_TEXT);
                    hooked.addition.push_str(&format!("\n\n[A hook adds:]\n{text}"));
                    self.agent.report_hook(hook, event, HookOutcome::AddedText);
                }
            }
        }
        hooked
    }
}
