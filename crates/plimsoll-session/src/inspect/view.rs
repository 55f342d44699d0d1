//! The messages that a window may contain, in bounded memory.

use plimsoll::{
    Counter, Memo, Message, Policy, RequestOverhead, Tokens, VisibleRange, Window, WindowRole,
    request_tokens, window_message_tokens,
};
use plimsoll_tokens::Bpe;

use super::ranking::Weight;
use super::report::WindowReport;
use super::tally::BlockScale;
use crate::usage_gate::size;

/// Maximum size of the messages that are held, in bytes.
const MAX_HELD: usize = 32 << 20;

/// The part of a session that its window is made of. Up to a size all messages are held, and the window is exactly the
/// engine's. Beyond it, messages that a summary replaces are dropped. If that is not enough, the older half is weighed
/// and dropped too, which is right unless a later compaction keeps a tail from so far back.
#[derive(Clone)]
pub(super) struct View<'a> {
    policy: &'a Policy,
    held: Vec<Message>,
    /// The turn of each message that is held.
    turns: Vec<u32>,
    bytes: usize,
    most: usize,
    /// Weight of what was dropped, and of the system messages in it, which no summary replaces.
    weighed: Weight,
    system: Weight,
}

impl<'a> View<'a> {
    pub(super) fn new(policy: &'a Policy) -> View<'a> {
        let (held, turns, bytes, weighed, system) = Default::default();
        View { policy, held, turns, bytes, most: MAX_HELD, weighed, system }
    }

    pub(super) fn add(&mut self, message: Message, turn: u32) {
        self.bytes += size(&message);
        self.held.push(message);
        self.turns.push(turn);
        if self.bytes > self.most {
            self.drop_hidden();
            if self.bytes > self.most / 2 {
                self.drop_older();
            }
        }
    }

    /// Drops what no window will show again.
    fn drop_hidden(&mut self) {
        let visible = VisibleRange::of(&self.held);
        if visible.pivot.is_none() {
            return;
        }
        // All weighed messages precede this pivot, which replaces them; only system messages stay.
        self.weighed = self.system;
        let mut shown = vec![false; self.held.len()];
        visible.needed(&self.held).into_iter().for_each(|place| shown[place] = true);
        let mut each = shown.iter();
        self.held.retain(|_| *each.next().unwrap_or(&false));
        let mut each = shown.iter();
        self.turns.retain(|_| *each.next().unwrap_or(&false));
        self.bytes = self.held.iter().map(size).sum();
    }

    /// Weighs the older half and drops it, up to where a turn starts.
    fn drop_older(&mut self) {
        let mut left = self.bytes / 2;
        let half = self.held.iter().position(|message| {
            left = left.saturating_sub(size(message));
            left == 0
        });
        let half = half.unwrap_or(self.held.len());
        let turn = self.held[half..].iter().position(Message::starts_turn).map(|turn| half + turn);
        let cut = turn.filter(|turn| *turn > 0).unwrap_or(half.max(1)).min(self.held.len());
        let rest = self.held.split_off(cut);
        let older = std::mem::replace(&mut self.held, rest);
        self.turns.drain(..cut.min(self.turns.len()));
        let window = Window::of(&older, self.policy);
        let base = Memo::new(Bpe::O200k);
        let weigh = |count: &dyn Fn(&dyn Counter) -> Tokens| Weight {
            chars: count(&self.policy.count),
            base: count(&base),
            ..Weight::default()
        };
        self.weighed += weigh(&|counter| request_tokens(&window, RequestOverhead::default(), counter));
        let system = || window.messages.iter().filter(|message| message.role == WindowRole::System);
        self.system +=
            weigh(&|counter| system().map(|message| window_message_tokens(message, counter)).sum());
        self.bytes = self.held.iter().map(size).sum();
    }

    /// Returns what is in view.
    pub(super) fn report(mut self, scale: &BlockScale, factor: Option<f64>) -> WindowReport {
        if self.weighed != Weight::default() {
            self.drop_hidden();
        }
        scale.add_up(&self.held, &self.turns, self.weighed.tokens(factor))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use plimsoll::request_tokens;
    use plimsoll::{Message, Policy, RequestOverhead, Scale, Window};

    use super::super::describe::Describer;
    use super::super::tally::BlockScale;
    use super::super::weigher::tests::session;
    use super::View;

    fn check(messages: &[Message], most: usize) {
        let policy = Policy::default();
        let mut view = View { most, ..View::new(&policy) };
        messages.iter().cloned().for_each(|message| view.add(message, 1));
        assert!(view.held.len() < messages.len(), "something was dropped");
        let whole = request_tokens(&Window::of(messages, &policy), RequestOverhead::default(), &policy.count);
        let scale = BlockScale {
            policy: &policy,
            counter: &policy.count,
            scale: Scale::ESTIMATES,
            describer: Describer::default(),
        };
        assert_eq!(view.report(&scale, None).visible, whole);
    }

    #[test]
    fn a_window_weighed_in_pieces_has_the_same_size() {
        check(&session(500, usize::MAX), 60_000);
    }

    #[test]
    fn summarised_messages_are_dropped_and_the_tail_with_its_question_is_held() {
        check(&session(500, 40), 60_000);
        check(&session(500, 123), 60_000);
        check(&session(499, 499), 200_000);
    }
}
