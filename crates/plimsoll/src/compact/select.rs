//! Divides the window into messages that are summarised and a tail that stays verbatim.
//!
//! The cut is at the start of a turn if possible, never between a call and its result, and never after a prompt that
//! still waits for an answer.

use crate::count::window_message_tokens;
use crate::counter::Counter;
use crate::log::{Message, PartBody, Role};
use crate::pairs::separate_pairs;
use crate::pivot::{Pivot, VisibleRange};
use crate::plan::{CompactPlan, SummaryOrigin};
use crate::policy::{CompactPolicy, Policy, Scope, SplitTurns};
use crate::tokens::Tokens;
use crate::window::{Window, lead_of};

/// A division of the window into messages to summarise and messages to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Messages to summarise, oldest first, as positions in the log.
    pub head: Vec<usize>,
    /// Messages that stay.
    pub tail: Vec<usize>,
    /// Tokens of the head in the current window.
    pub head_tokens: Tokens,
    /// Tokens of the tail.
    pub tail_tokens: Tokens,
    /// Tokens of the user's words that are repeated before a tail that starts inside a turn.
    pub lead_tokens: Tokens,
    /// The pivot whose summary is merged into the new one.
    pub prior: Option<Pivot>,
    /// Size to which the newest step is cut, if it is in the tail but exceeds its budget.
    pub trim: Option<Tokens>,
    /// The user's message being worked on, if the tail begins after it. It stays in view.
    pub prompt: Option<usize>,
    /// Size to which that message is cut, if it is too long.
    pub prompt_trim: Option<Tokens>,
}

impl Selection {
    /// Converts the selection into a plan. `None` if the head is empty.
    pub fn plan(&self, messages: &[Message], made: SummaryOrigin, calls: u64) -> Option<CompactPlan> {
        let id = |place: &usize| messages[*place].info.id.clone();
        Some(CompactPlan {
            first: id(self.head.first()?),
            last: id(self.head.last()?),
            messages: self.head.len() as u64,
            tokens: self.head_tokens,
            tail_start: self.tail.first().map(id),
            tail_messages: self.tail.len() as u64,
            tail_tokens: self.tail_tokens,
            merges_summary: self.prior.is_some(),
            made,
            calls,
            prompt: self.prompt.as_ref().map(id),
            cut: Vec::new(),
            contract: Vec::new(),
            marker: None,
            continuation: None,
            unknown_names: Vec::new(),
            rejections: Vec::new(),
        })
    }
}

/// Sizes and limits for a selection, in estimated tokens.
#[derive(Clone, Copy, Debug, Default)]
pub struct Room {
    /// Weight of the next request.
    pub load: Tokens,
    /// The line.
    pub line: Tokens,
    /// The context window.
    pub context: Tokens,
    /// Limit for the tail that overrides the policy, if the window is still over the line with the policy's tail.
    pub tail_cap: Option<Tokens>,
    /// Limit for the tail in addition to the policy's `tailMax`.
    pub tail_max: Option<Tokens>,
    /// Tokens of everything else that stays: system prompt, tools, summary, contract and index.
    pub besides: Tokens,
    /// Whether the user asked for the compaction.
    pub asked: bool,
}

impl Room {
    /// Returns the longest tail with which a compaction of `all` tokens frees the policy's `minFreedShare`.
    fn tail_that_frees_enough(&self, all: Tokens, compact: &CompactPolicy) -> Tokens {
        if compact.min_freed_share == 0.0 {
            return Tokens(u64::MAX);
        }
        let stays = 1.0 - compact.min_freed_share;
        // Otherwise a large system prompt would leave no tail.
        let of_window = (self.load.share(stays) - self.besides).max(compact.tail_min);
        all.share(stays).min(of_window)
    }
}

/// Selects the messages that a compaction would summarise. `None` if there are too few.
pub fn select(messages: &[Message], policy: &Policy, room: Room, counter: &dyn Counter) -> Option<Selection> {
    let visible = VisibleRange::of(messages);
    let (places, compact) = (&visible.places, &policy.compact);
    let weights = weights(messages, &visible, policy, counter);
    let sizes: Vec<Tokens> = places.iter().map(|place| weights[*place]).collect();
    // Prompts that wait for an answer stay, however long they are. If the tail must shrink, only the newest stays.
    let waiting = places.iter().rev().take_while(|place| messages[**place].starts_turn()).count();
    let waiting = if room.tail_cap.is_some() { waiting.min(1) } else { waiting };
    let legal = legal_cuts(messages, places);
    let end = (0..=places.len() - waiting).rev().find(|cut| legal[*cut]).unwrap_or(0);
    // A tail that begins inside a turn starts with the user's words. A prompt that stays whole has its own budget.
    let lead = match compact.prompt_share {
        0.0 => policy.count.of_chars(compact.result_chars) + counter.message_overhead(),
        _ => Tokens::ZERO,
    };
    let division = Division { messages, places, sizes: &sizes, legal: &legal, end, lead };
    let is_system = |at: usize| messages[places[at]].info.role == Some(Role::System);
    let mut trim = None;
    // The newest step is worth more than anything older, so it is kept even if it has to be cut.
    let newest_step = division.newest_step().filter(|_| policy.shed.enabled);
    let cut = match (compact.scope, room.tail_cap) {
        (_, Some(cap)) => match (division.tail(cap, SplitTurns::WhenNeeded), newest_step) {
            (cut, Some(step)) if cut == end => step,
            (cut, _) => cut,
        },
        (Scope::All, None) => end,
        (Scope::Tail, None) => {
            let budget = compact.tail_budget(room.line);
            let budget = room.tail_max.map_or(budget, |max| budget.min(max));
            // In a session that is hardly longer than the tail, nothing worth a summary would be left. A user who asks
            // for a compaction prefers a short window to a long tail.
            let all: Tokens = (0..sizes.len()).filter(|at| !is_system(*at)).map(|at| sizes[at]).sum();
            let asked_share = if room.asked { compact.asked_tail_share } else { 1.0 };
            let budget = budget.min(all.share(asked_share)).min(room.tail_that_frees_enough(all, compact));
            // Results that the model has not seen yet stay in any case. A final answer that makes up most of the
            // session is summarised with the rest.
            let is_read = |step: usize| !calls_tools(&messages[places[step]]);
            let goes_too =
                |step: usize| asked_share < 1.0 && is_read(step) && sizes[step] > all - sizes[step];
            match (division.tail(budget, compact.split_turns), newest_step) {
                (cut, Some(step)) if cut == end && sizes[step] > budget && !goes_too(step) => {
                    let most = room.line.share(compact.step_share).max(budget);
                    trim = Some(most).filter(|most| sizes[step] > *most);
                    step
                }
                (cut, _) => cut,
            }
        }
        (Scope::Target, None) => {
            let target = Tokens(room.context.0.saturating_mul(compact.target_percent) / 100);
            // A user may ask for a compaction although the window is already below the target.
            let remove =
                (room.load - target).max(if room.asked { Tokens(room.load.0 / 2) } else { Tokens::ZERO });
            // A cut at the start of a turn must still bring the window under the line.
            let enough = remove.share(compact.turn_share).max(room.load - room.line);
            let freed = |at: usize| if is_system(at) { Tokens::ZERO } else { sizes[at] };
            division.target(Target { remove, enough }, compact.min_messages as usize, freed)
        }
    };
    // System messages are rules of the host, not history. They stay in view.
    let head: Vec<usize> = (0..cut).filter(|at| !is_system(*at)).collect();
    let prompt = visible
        .newest_prompt(messages)
        .filter(|prompt| compact.prompt_share > 0.0 && places.get(cut).is_none_or(|first| prompt < first));
    let gone = head.iter().filter(|at| Some(places[**at]) != prompt).count();
    if head.len() < compact.min_messages as usize || gone == 0 {
        return None;
    }
    let most = room.line.share(compact.prompt_share);
    let lead_tokens = match (prompt, places.get(cut).and_then(|first| lead_of(messages, *first, policy))) {
        (Some(prompt), _) => weights[prompt].min(most),
        (None, Some((_, words))) => counter.count_text(&words) + counter.message_overhead(),
        (None, None) => Tokens::ZERO,
    };
    Some(Selection {
        head_tokens: head.iter().map(|at| sizes[*at]).sum(),
        head: head.into_iter().map(|at| places[at]).collect(),
        tail: places[cut..].to_vec(),
        tail_tokens: sizes[cut..].iter().copied().sum(),
        lead_tokens,
        prior: visible.pivot,
        trim,
        prompt,
        prompt_trim: prompt.filter(|prompt| weights[*prompt] > most).map(|_| most),
    })
}

impl CompactPolicy {
    /// Maximum length of a summary.
    pub fn longest_summary(&self) -> Tokens {
        self.max_summary_tokens.unwrap_or(self.extractive_tokens)
    }

    /// Token budget for the tail, given the line. The default share of 12 % was chosen by replay: 15 % costs 1 % more
    /// and keeps as much of what was needed later.
    pub(crate) fn tail_budget(&self, line: Tokens) -> Tokens {
        line.share(self.tail_share).clamp(self.tail_min.min(self.tail_max), self.tail_max)
    }
}

fn calls_tools(message: &Message) -> bool {
    message.parts.iter().any(|part| matches!(part.body, PartBody::Tool(_) | PartBody::ToolCall(_)))
}

/// Tokens of each message of the log in the current window. Zero if it is not in view.
pub(super) fn weights(
    messages: &[Message],
    visible: &VisibleRange,
    policy: &Policy,
    counter: &dyn Counter,
) -> Vec<Tokens> {
    let window = Window::of_visible(messages, visible, policy);
    let mut weights = vec![Tokens::ZERO; messages.len()];
    for message in &window.messages {
        if let Some(place) = message.place {
            weights[place] += window_message_tokens(message, counter);
        }
    }
    weights
}

/// Returns for each position whether a cut before it keeps every separate call together with its result.
pub(super) fn legal_cuts(messages: &[Message], places: &[usize]) -> Vec<bool> {
    let mut legal = vec![true; places.len() + 1];
    let position = |place: usize| places.partition_point(|known| *known < place);
    // Pairs are ordered by call, so marking only unmarked positions keeps this linear.
    let mut marked = 0;
    for ((call, _), (result, _)) in separate_pairs(messages, places) {
        let (from, to) = (position(call) + 1, position(result));
        for cut in legal.iter_mut().take(to + 1).skip(from.max(marked)) {
            *cut = false;
        }
        marked = marked.max(to + 1);
    }
    legal
}

/// Share of its budget by which a tail must get longer to begin inside a turn instead of at its start.
const GAINED: f64 = 0.25;

struct Division<'a> {
    messages: &'a [Message],
    places: &'a [usize],
    sizes: &'a [Tokens],
    legal: &'a [bool],
    /// Last allowed position of a cut.
    end: usize,
    /// Tokens of the user's words before a tail that begins inside a turn.
    lead: Tokens,
}

impl Division<'_> {
    fn starts_turn(&self, cut: usize) -> bool {
        self.messages[self.places[cut]].starts_turn() && self.legal[cut]
    }

    /// The model's last answer before `end`, if a tail can start with it.
    fn newest_step(&self) -> Option<usize> {
        let step = self.end.checked_sub(1)?;
        (self.messages[self.places[step]].is_assistant() && self.legal[step]).then_some(step)
    }

    /// Returns the cut that leaves a tail of at most `budget`.
    fn tail(&self, budget: Tokens, split: SplitTurns) -> usize {
        let mut size: Tokens = self.sizes[self.end..].iter().copied().sum();
        let mut at_turn = self.end;
        let mut anywhere = self.end;
        for cut in (0..self.end).rev() {
            size += self.sizes[cut];
            if size > budget {
                break;
            }
            if self.starts_turn(cut) {
                (at_turn, anywhere) = (cut, cut);
            } else if self.legal[cut] && size + self.lead <= budget {
                anywhere = cut;
            }
        }
        // Without this, only a short newest turn after a long one would stay.
        let gained: Tokens = self.sizes[anywhere..at_turn].iter().copied().sum();
        let chosen = match split {
            SplitTurns::Always => anywhere,
            SplitTurns::WhenNeeded if at_turn < self.end && gained < budget.share(GAINED) => at_turn,
            SplitTurns::WhenNeeded => anywhere,
        };
        // With everything in the tail, there is nothing to summarise.
        if chosen == 0 { self.end } else { chosen }
    }

    /// Returns the cut after the oldest messages that together free at most the target. Each message frees
    /// `freed(position)`.
    ///
    /// The cut moves back to the start of a turn only if that still frees enough. If a short turn precedes a long one,
    /// the messages before the long turn are not worth a summary. The guide that this rule follows does not know turns.
    fn target(&self, target: Target, least: usize, freed: impl Fn(usize) -> Tokens) -> usize {
        let Target { remove, enough } = target;
        let mut sum = Tokens::ZERO;
        let mut cut = 0;
        let mut turn = None;
        loop {
            let starts_turn = cut == self.end || self.starts_turn(cut);
            if cut >= least && sum >= enough && starts_turn {
                turn = Some(cut);
            }
            if cut == self.end || sum + freed(cut) > remove {
                break;
            }
            sum += freed(cut);
            cut += 1;
        }
        // The guide's rule: no compaction of fewer than two messages.
        if cut < least {
            return 0;
        }
        let inside = || (least..=cut).rev().find(|at| self.legal[*at]);
        // Needed only if pairs of calls and results span all earlier positions.
        let ahead = || (cut..self.end).find(|at| self.starts_turn(*at));
        turn.or_else(inside).or_else(ahead).unwrap_or(0)
    }
}

/// Limits for a cut by the guide's rule.
#[derive(Clone, Copy)]
struct Target {
    /// Maximum to remove.
    remove: Tokens,
    /// Minimum to remove with a cut at the start of a turn.
    enough: Tokens,
}
