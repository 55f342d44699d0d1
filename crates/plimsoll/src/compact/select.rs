//! What is summarised, and what stays word for word.
//!
//! The cut falls on the start of a turn where one fits, never between a call and its result, and never behind
//! a prompt that still waits for its answer.

use crate::count::{Counter, Tokens, window_message_tokens};
use crate::log::{Message, PartBody, Role};
use crate::pairs::separate_pairs;
use crate::pivot::{Pivot, Visible};
use crate::policy::{CompactPolicy, Policy, Scope, SplitTurns};
use crate::receipt::{CompactPlan, Made};
use crate::window::{Window, lead_of};

/// A division of the window into what is summarised and what stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Messages to summarise, oldest first, as places in the log.
    pub head: Vec<usize>,
    /// Messages that stay.
    pub tail: Vec<usize>,
    /// What the head weighs in the window now.
    pub head_tokens: Tokens,
    /// What the tail weighs.
    pub tail_tokens: Tokens,
    /// What the user's words weigh that lead a tail which starts inside a turn.
    pub lead_tokens: Tokens,
    /// The pivot whose summary goes into the new one.
    pub prior: Option<Pivot>,
    /// The newest step is in the tail though it is too long for it, and is to be cut to this.
    pub trim: Option<Tokens>,
    /// The user's message being worked on, if the tail begins after it; it stays in view.
    pub prompt: Option<usize>,
    /// What that message is to be cut to, if it is too long.
    pub prompt_trim: Option<Tokens>,
}

impl Selection {
    /// The same as a plan that can be shown; nothing for an empty head.
    pub fn plan(&self, messages: &[Message], made: Made, calls: u64) -> Option<CompactPlan> {
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
            go_on: None,
            unknown_names: Vec::new(),
            rejections: Vec::new(),
        })
    }
}

/// How much there is to be had.
#[derive(Clone, Copy, Debug, Default)]
pub struct Room {
    /// What the next request weighs.
    pub load: Tokens,
    /// Where the line is.
    pub line: Tokens,
    /// The whole context window.
    pub context: Tokens,
    /// Most that the tail may take, where the policy's own figure is too much.
    pub tail_cap: Option<Tokens>,
    /// Most that the tail may take instead of the policy's `tailMax`.
    pub tail_max: Option<Tokens>,
    /// Tokens of everything else that stays: the system prompt, the tools, the summary and what completes it.
    pub besides: Tokens,
    /// Whether a person asked for it, rather than a full window.
    pub asked: bool,
}

impl Room {
    /// The longest tail with which a compaction of a conversation of that size frees the share that the policy wants.
    fn tail_that_frees_enough(&self, all: Tokens, compact: &CompactPolicy) -> Tokens {
        if compact.min_freed_share == 0.0 {
            return Tokens(u64::MAX);
        }
        let stays = 1.0 - compact.min_freed_share;
        // A large system prompt must not take the whole tail.
        let of_window = (self.load.share(stays) - self.besides).max(compact.tail_min);
        all.share(stays).min(of_window)
    }
}

/// Decide what a compaction of `messages` would summarise; nothing if there is not enough to be worth it.
pub fn select(messages: &[Message], policy: &Policy, room: Room, counter: &dyn Counter) -> Option<Selection> {
    let visible = Visible::of(messages);
    let (places, compact) = (&visible.places, &policy.compact);
    let weights = weights(messages, &visible, policy, counter);
    let sizes: Vec<Tokens> = places.iter().map(|place| weights[*place]).collect();
    // A prompt nobody has answered yet stays, however large it is. Where room is short, only the newest does.
    let waiting = places.iter().rev().take_while(|place| messages[**place].starts_turn()).count();
    let waiting = if room.tail_cap.is_some() { waiting.min(1) } else { waiting };
    let legal = legal_cuts(messages, places);
    let end = (0..=places.len() - waiting).rev().find(|cut| legal[*cut]).unwrap_or(0);
    // A tail that begins inside a turn is led by the user's words; those that stay whole have room of their own.
    let lead = match compact.prompt_share {
        0.0 => policy.count.of_chars(compact.result_chars) + counter.message_overhead(),
        _ => Tokens::ZERO,
    };
    let division = Division { messages, places, sizes: &sizes, legal: &legal, end, lead };
    let is_system = |at: usize| messages[places[at]].info.role == Some(Role::System);
    let mut trim = None;
    // What was just done is worth more than anything older: rather a step cut short than none.
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
            // A session that is little longer than the tail would leave nothing worth a summary. Where a person asks for
            // one, they want a short window more than a long tail.
            let all: Tokens = (0..sizes.len()).filter(|at| !is_system(*at)).map(|at| sizes[at]).sum();
            let asked_share = if room.asked { compact.asked_tail_share } else { 1.0 };
            let budget = budget.min(all.share(asked_share)).min(room.tail_that_frees_enough(all, compact));
            // Results that the model has not been shown yet stay all the same; an answer that is most of the session
            // goes with the rest of it.
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
            // Somebody who asks for a compaction below the target still wants one.
            let remove =
                (room.load - target).max(if room.asked { Tokens(room.load.0 / 2) } else { Tokens::ZERO });
            // A cut at a turn's start must still bring the window under the line.
            let enough = remove.share(compact.turn_share).max(room.load - room.line);
            let freed = |at: usize| if is_system(at) { Tokens::ZERO } else { sizes[at] };
            division.target(Target { remove, enough }, compact.min_messages as usize, freed)
        }
    };
    // What a host laid down is not summarised; it stays in view.
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
    /// Longest summary that a compaction may have.
    pub fn longest_summary(&self) -> Tokens {
        self.max_summary_tokens.unwrap_or(self.extractive_tokens)
    }

    /// Token budget of the tail that a compaction keeps, in a window with that line.
    pub(crate) fn tail_budget(&self, line: Tokens) -> Tokens {
        line.share(self.tail_share).clamp(self.tail_min.min(self.tail_max), self.tail_max)
    }
}

fn calls_tools(message: &Message) -> bool {
    message.parts.iter().any(|part| matches!(part.body, PartBody::Tool(_) | PartBody::ToolCall(_)))
}

/// What each message of the log weighs in the window as it is now; nothing if it is not in view.
pub(super) fn weights(
    messages: &[Message],
    visible: &Visible,
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

/// For each position whether a cut before it keeps every separate call together with its result.
pub(super) fn legal_cuts(messages: &[Message], places: &[usize]) -> Vec<bool> {
    let mut legal = vec![true; places.len() + 1];
    let position = |place: usize| places.partition_point(|known| *known < place);
    // Pairs come ordered by call, so marking only what is not marked yet keeps this linear.
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

/// A tail begins inside a turn if it is longer by this share of its budget than a tail of whole turns.
const GAINED: f64 = 0.25;

struct Division<'a> {
    messages: &'a [Message],
    places: &'a [usize],
    sizes: &'a [Tokens],
    legal: &'a [bool],
    /// The last position a cut may have.
    end: usize,
    /// What the words weigh that lead a tail which begins inside a turn.
    lead: Tokens,
}

impl Division<'_> {
    fn starts_turn(&self, cut: usize) -> bool {
        self.messages[self.places[cut]].starts_turn() && self.legal[cut]
    }

    /// The last answer of the model before the cut must fall, if it can stand at the start of a tail.
    fn newest_step(&self) -> Option<usize> {
        let step = self.end.checked_sub(1)?;
        (self.messages[self.places[step]].is_assistant() && self.legal[step]).then_some(step)
    }

    /// The cut that leaves a tail of at most `budget`.
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
        // A short newest turn after a long one would otherwise be all that stays.
        let gained: Tokens = self.sizes[anywhere..at_turn].iter().copied().sum();
        let chosen = match split {
            SplitTurns::Always => anywhere,
            SplitTurns::WhenNeeded if at_turn < self.end && gained < budget.share(GAINED) => at_turn,
            SplitTurns::WhenNeeded => anywhere,
        };
        // A tail that holds everything leaves nothing to summarise.
        if chosen == 0 { self.end } else { chosen }
    }

    /// The cut that takes the oldest messages as long as they free no more than the target, of which each frees
    /// what `freed` says.
    ///
    /// It moves back to the start of a turn, but only where that still frees enough. A short turn before a long
    /// one is the case to think of: at the long turn's start there is nothing worth a summary, and the guide
    /// itself knows no turns.
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
        // Too little for the guide's own rule: it gives up below two messages.
        if cut < least {
            return 0;
        }
        let inside = || (least..=cut).rev().find(|at| self.legal[*at]);
        // Only where calls and results that belong together reach over all of it.
        let ahead = || (cut..self.end).find(|at| self.starts_turn(*at));
        turn.or_else(inside).or_else(ahead).unwrap_or(0)
    }
}

/// What a cut by the guide's rule aims at.
#[derive(Clone, Copy)]
struct Target {
    /// Most that may go.
    remove: Tokens,
    /// The least that must go for a cut at the start of a turn.
    enough: Tokens,
}
