//! Where hooks are asked, and what becomes of their answers.

use plimsoll::compact::request::HookText;
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

/// The longest refusal and the longest addition of a hook, in characters: neither passes layer 1.
const LONGEST_TEXT: usize = 8_000;

/// What hooks made of the input of a call.
pub(crate) enum HookedInput {
    /// It stays as it is.
    Same,
    /// It is another.
    Changed(Value),
    /// The call is not made.
    Refused(String),
    /// The run was cancelled meanwhile.
    Cancelled,
}

/// What hooks made of what the model sees of a result.
#[derive(Default)]
pub(crate) struct HookedOutput {
    /// In the place of the output.
    pub(crate) replacement: Option<String>,
    /// After it.
    pub(crate) addition: String,
}

impl Agent {
    /// The hooks for a moment.
    fn hooks_for(&self, event: HookEvent, tool: Option<&str>) -> impl Iterator<Item = &dyn Hooks> {
        let tool = tool.map(str::to_owned);
        let hooks = self.hooks.iter().map(AsRef::as_ref);
        hooks.filter(move |hook: &&dyn Hooks| hook.is_for(event, tool.as_deref()))
    }

    /// Whether a hook has something to say at a moment.
    pub(crate) fn has_hooks(&self, event: HookEvent, tool: Option<&str>) -> bool {
        self.hooks_for(event, tool).next().is_some()
    }

    fn tell_hooked(&self, hook: &dyn Hooks, event: HookEvent, outcome: HookOutcome) {
        let hook = hook.name();
        if let HookOutcome::Failed { error } = &outcome {
            tracing::warn!(hook, %event, error, "a hook failed");
        }
        self.tell(&Event::Hooked { hook, event, outcome });
    }

    /// What a hook says; nothing if it fails, which is told, or if the run is cancelled.
    async fn hear<T>(
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
                self.tell_hooked(hook, event, HookOutcome::Failed { error });
                None
            }
        }
    }

    /// What hooks have to say about a summary, with what the agent itself has.
    pub(crate) async fn summary_text(
        &self,
        context: &CompactionContext,
        cancel: &CancellationToken,
    ) -> HookText {
        let mut all = self.own_summary_text();
        for hook in self.hooks_for(HookEvent::Compacting, None) {
            let said = self.hear(hook, HookEvent::Compacting, hook.compacting(context), cancel).await;
            let Some(HookText { context, prompt, .. }) = said else { continue };
            if !context.is_empty() || prompt.is_some() {
                self.tell_hooked(hook, HookEvent::Compacting, HookOutcome::ChangedSummary);
            }
            all.context.extend(context);
            all.prompt = prompt.or(all.prompt);
        }
        all
    }

    /// The hook that does not want a turn to go on after a compaction, if there is one.
    pub(crate) async fn stopping_hook(
        &self,
        context: &CompactionContext,
        cancel: &CancellationToken,
    ) -> Option<String> {
        for hook in self.hooks_for(HookEvent::Autocontinue, None) {
            let goes_on = self.hear(hook, HookEvent::Autocontinue, hook.autocontinue(context), cancel).await;
            if goes_on == Some(false) {
                self.tell_hooked(hook, HookEvent::Autocontinue, HookOutcome::Stopped);
                return Some(hook.name());
            }
        }
        None
    }

    /// Notifies hooks of the compactions among these receipts.
    pub(crate) async fn tell_compacted(
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
            self.hear(hook, HookEvent::Compacted, hook.compacted(&context), cancel).await;
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
    /// Ask hooks about a call before it is judged. Each is given what the one before it made of the input.
    pub(crate) async fn hook_input(&self, call: &HookedCall, cancel: &CancellationToken) -> HookedInput {
        let (event, mut call, mut is_changed) = (HookEvent::ToolBefore, call.clone(), false);
        let tool = call.tool.clone();
        for hook in self.agent.hooks_for(event, Some(&tool)) {
            match self.agent.hear(hook, event, hook.before_tool(&call), cancel).await {
                None if cancel.is_cancelled() => return HookedInput::Cancelled,
                None | Some(BeforeTool::Go) => {}
                Some(BeforeTool::Change(input)) if !input.is_object() => {
                    let error = "the input that it gives is not an object".to_owned();
                    self.agent.tell_hooked(hook, event, HookOutcome::Failed { error });
                }
                Some(BeforeTool::Change(input)) if input == call.input => {}
                Some(BeforeTool::Change(input)) => {
                    (call.input, is_changed) = (input, true);
                    self.agent.tell_hooked(hook, event, HookOutcome::ChangedInput);
                }
                Some(BeforeTool::Refuse(words)) => {
                    let words = clean(&words, LONGEST_TEXT);
                    self.agent.tell_hooked(hook, event, HookOutcome::Refused { words: words.clone() });
                    return HookedInput::Refused(words);
                }
            }
        }
        if is_changed { HookedInput::Changed(call.input) } else { HookedInput::Same }
    }

    /// Ask hooks about a result. Each is given what the model would see after the one before it.
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
            match self.agent.hear(hook, event, hook.after_tool(call, result), cancel).await {
                None | Some(AfterTool::Keep) => {}
                Some(AfterTool::Replace(text)) if status == CallStatus::Completed => {
                    hooked = HookedOutput { replacement: Some(text), addition: String::new() };
                    self.agent.tell_hooked(hook, event, HookOutcome::ReplacedOutput);
                }
                Some(AfterTool::Append(text) | AfterTool::Replace(text)) => {
                    let text = clean(&text, LONGEST_TEXT);
                    hooked.addition.push_str(&format!("\n\n[A hook adds:]\n{text}"));
                    self.agent.tell_hooked(hook, event, HookOutcome::AddedText);
                }
            }
        }
        hooked
    }
}
