//! The named policies.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::{
    AtSummary, CachePolicy, ClearedView, CompactPolicy, ContractPolicy, CutMarker, Detector, ForkPolicy,
    ForkRules, Keep, LineRule, Measure, NamesPolicy, Notice, OnMeeting, OverflowPolicy, PinPolicy, Policy,
    PolicyError, PolicySpec, PruneOrder, PrunePolicy, RecallPolicy, RequestForm, Scope, ShedPolicy,
    ShortenLines, SpillAs, SplitTurns, SummaryAs, SummaryPolicy, Template, Thrift, TruncatePolicy, UsageSum,
};
use crate::chars::Chars;
use crate::counter::{CharCounter, Rounding};
use crate::tokens::Tokens;

/// A named policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Preset {
    /// The default: constants of the source documents without their defects, and all rungs of the ladder.
    Plimsoll,
    /// OpenCode according to the pruning specification and the parity document, to the letter.
    Opencode,
    /// The behaviour of OpenCode 1.18.
    Opencode118,
    /// The token management guide, to the letter.
    Openfork,
}

impl Preset {
    /// All presets.
    pub const ALL: [Preset; 4] = [Preset::Plimsoll, Preset::Opencode, Preset::Opencode118, Preset::Openfork];

    /// Name of the preset.
    pub fn name(self) -> &'static str {
        match self {
            Preset::Plimsoll => "plimsoll",
            Preset::Opencode => "opencode",
            Preset::Opencode118 => "opencode-1.18",
            Preset::Openfork => "openfork",
        }
    }

    /// Returns the preset as a policy.
    pub fn policy(self) -> Policy {
        // Not validated here: a test validates every preset.
        Policy(self.spec())
    }

    pub(super) fn spec(self) -> PolicySpec {
        let opencode = opencode();
        match self {
            Preset::Plimsoll => PolicySpec {
                name: "plimsoll".into(),
                count: CharCounter::default(),
                truncate: TruncatePolicy {
                    terminal_keep: Keep::HeadTail,
                    shorten_lines: ShortenLines::WhenOver,
                    // Otherwise a single excess line would cost a longer notice and a recall.
                    only_if_shorter: true,
                    ..truncate()
                },
                prune: PrunePolicy {
                    // Clearing after every turn would invalidate the cache for little. Under the line, `thrift`
                    // decides.
                    after_turn: false,
                    at_summary: AtSummary::StopAtPivot,
                    min_output_chars: Chars(100),
                    name_handle: true,
                    inputs: true,
                    ..opencode.prune
                },
                thrift: Thrift::Careful,
                names: NamesPolicy { enabled: true, ..opencode.names },
                overflow: OverflowPolicy {
                    usage: UsageSum::All,
                    detector: Detector::Both,
                    // A prepared compaction keeps the turn from waiting; `soft_when_free` makes it cost nothing extra.
                    soft_share: Some(0.9),
                    soft_when_free: true,
                    // Otherwise the reserve for an answer would take most of a small window.
                    max_reserve_share: 0.5,
                    default_context: Tokens(128_000),
                    ..opencode.overflow
                },
                compact: CompactPolicy {
                    scope: Scope::Tail,
                    // Chosen by replay: 15 % costs 1 % more and keeps as much of what was needed later.
                    tail_share: 0.12,
                    tail_max: Tokens(60_000),
                    min_freed_share: 1.0 / 3.0,
                    // A user who asks for a compaction wants a short window, even in a session hardly longer than the
                    // tail.
                    asked_tail_share: 0.25,
                    prompt_share: 0.4,
                    template: Template::Anchored,
                    // Reads the window from the provider's cache instead of sending the history again.
                    request: RequestForm::Appended,
                    max_summary_tokens: Some(Tokens(4_000)),
                    extractive: true,
                    extractive_base: Tokens(1_000),
                    extractive_window_share: 0.025,
                    extractive_tokens: Tokens(8_000),
                    ..opencode.compact
                },
                contract: ContractPolicy { enabled: true, ..opencode.contract },
                shed: ShedPolicy { enabled: true, ..opencode.shed },
                // In a small window, a recall must not bring back most of what was just removed.
                recall: RecallPolicy { max_chars: Chars(8_000), max_share: 0.012, ..opencode.recall },
                fork: ForkPolicy::fitted(),
                ..opencode
            },
            Preset::Opencode => opencode,
            Preset::Opencode118 => PolicySpec {
                name: "opencode-1.18".into(),
                truncate: TruncatePolicy {
                    terminal_keep: Keep::Tail,
                    notice: Notice::Opencode,
                    tool_limits: BTreeMap::new(),
                    default_limit: Chars(u64::from(u32::MAX)),
                    ..truncate()
                },
                prune: PrunePolicy { enabled: false, ..opencode.prune },
                overflow: OverflowPolicy {
                    inclusive: true,
                    usage: UsageSum::TotalOrAll,
                    input_reserve: Tokens(20_000),
                    default_output: Tokens(32_000),
                    ..opencode.overflow
                },
                compact: CompactPolicy {
                    scope: Scope::Tail,
                    split_turns: SplitTurns::Always,
                    template: Template::Anchored,
                    continue_text: CONTINUE_118.into(),
                    ..opencode.compact
                },
                ..opencode
            },
            Preset::Openfork => PolicySpec {
                name: "openfork".into(),
                count: CharCounter { result_overhead: Tokens(4), ..CharCounter::default() },
                truncate: TruncatePolicy { spill_as: SpillAs::File, ..truncate() },
                prune: PrunePolicy {
                    after_turn: false,
                    measure: Measure::AllParts,
                    min_tokens: Tokens::ZERO,
                    active_turns: 0,
                    protected_tools: Vec::new(),
                    order: PruneOrder::OldestFirst,
                    stop_after_tokens: Some(Tokens(20_000)),
                    at_cleared: OnMeeting::Skip,
                    at_summary: AtSummary::Skip,
                    view: ClearedView::Retain,
                    gate_share: Some(0.85),
                    gate_headroom: Some(Tokens(16_384)),
                    ..opencode.prune
                },
                overflow: OverflowPolicy {
                    line: LineRule::Share,
                    share: 0.90,
                    inclusive: true,
                    detector: Detector::Estimate,
                    default_context: Tokens(128_000),
                    ..opencode.overflow
                },
                compact: CompactPolicy {
                    scope: Scope::Target,
                    // The guide counts messages and does not know turns. When the cut moved to the start of a turn, up
                    // to 70 % of the window was left instead of the guide's 50 %.
                    turn_share: 1.0,
                    summary_as: SummaryAs::System,
                    template: Template::Guide,
                    max_summary_tokens: Some(Tokens(2_000)),
                    ..opencode.compact
                },
                fork: ForkPolicy::uniform(),
                ..opencode
            },
        }
    }
}

const CONTINUE: &str = "Continue if you have next steps";
const CONTINUE_118: &str = "Continue if you have next steps, or stop and ask for clarification if you are \
                            unsure how to proceed.";

fn truncate() -> TruncatePolicy {
    let limits = [
        ("read", 100_000),
        ("bash", 50_000),
        ("grep", 30_000),
        ("glob", 20_000),
        ("webfetch", 50_000),
        ("websearch", 20_000),
        ("list", 10_000),
    ];
    TruncatePolicy {
        max_lines: 2_000,
        max_bytes: 51_200,
        max_line_chars: Chars(2_000),
        shorten_lines: ShortenLines::Always,
        tool_limits: limits.map(|(tool, limit)| (tool.to_owned(), Chars(limit))).into(),
        default_limit: Chars(50_000),
        tool_limit_overrides_bytes: false,
        terminal_tools: words(&["bash", "pty", "exec", "shell", "terminal"]),
        terminal_keep: Keep::Head,
        head_share: 0.5,
        notice: Notice::Guide,
        spill: true,
        spill_directory: "spill".into(),
        spill_as: SpillAs::Handle,
        only_if_shorter: false,
    }
}

fn opencode() -> PolicySpec {
    PolicySpec {
        name: "opencode".into(),
        count: CharCounter { rounding: Rounding::Round, ..CharCounter::default() },
        truncate: truncate(),
        prune: PrunePolicy {
            enabled: true,
            after_turn: true,
            // Both amounts are from the source documents. The default uses them too, without tuning.
            protect_tokens: Tokens(40_000),
            measure: Measure::ToolOutputs,
            min_tokens: Tokens(20_000),
            min_inclusive: false,
            min_output_chars: Chars::ZERO,
            active_turns: 2,
            protected_tools: words(&["skill"]),
            order: PruneOrder::NewestFirst,
            stop_after_tokens: None,
            at_cleared: OnMeeting::Stop,
            at_summary: AtSummary::Stop,
            view: ClearedView::Clear,
            retain_chars: Chars(2_000),
            name_handle: false,
            inputs: false,
            min_input_chars: Chars(1_000),
            gate_share: None,
            gate_headroom: None,
        },
        thrift: Thrift::Off,
        // Sizes chosen by replay of recorded sessions, for the default policy.
        names: NamesPolicy {
            enabled: false,
            share: 0.2,
            max_tokens: Tokens(600),
            index_share: 0.08,
            index_tokens: Tokens(8_000),
        },
        overflow: OverflowPolicy {
            auto: true,
            line: LineRule::Usable,
            share: 0.90,
            inclusive: false,
            soft_share: None,
            soft_when_free: false,
            usage: UsageSum::InputCacheReadOutput,
            detector: Detector::Usage,
            max_factor: 4.0,
            max_hidden_share: 0.5,
            // Doubled with each rejection: 5 % five times would leave a fifth of a full window for the answer, doubling
            // leaves two thirds.
            refused_margin: 0.05,
            output_cap: Tokens(32_000),
            input_reserve: Tokens::ZERO,
            max_reserve_share: 1.0,
            default_context: Tokens::ZERO,
            default_output: Tokens(16_384),
            models: BTreeMap::new(),
        },
        compact: CompactPolicy {
            scope: Scope::All,
            split_turns: SplitTurns::WhenNeeded,
            tail_share: 0.25,
            tail_min: Tokens(2_000),
            tail_max: Tokens(15_000),
            asked_tail_share: 1.0,
            step_share: 0.5,
            prompt_share: 0.0,
            target_percent: 50,
            turn_share: 0.5,
            min_messages: 2,
            min_freed_share: 0.0,
            summary_as: SummaryAs::Marker,
            template: Template::Continuing,
            request: RequestForm::Separate,
            max_summary_tokens: None,
            input_share: 0.8,
            result_chars: Chars(2_000),
            request_head_share: 0.8,
            request_least: Tokens(256),
            hook_chars: Chars(16_000),
            continue_text: CONTINUE.into(),
            retries: 1,
            breaker: 3,
            max_seconds: 300,
            extractive: false,
            extractive_base: Tokens(2_000),
            extractive_window_share: 0.0,
            extractive_tokens: Tokens(2_000),
            extractive_line_share: 0.25,
            extractive_gain_share: 0.5,
            extractive_least: Tokens(150),
        },
        summary: SummaryPolicy::default(),
        contract: ContractPolicy { enabled: false, ..ContractPolicy::default() },
        shed: ShedPolicy { enabled: false, min_part_chars: Chars(400), head_share: 0.5, rounds: 6 },
        pin: PinPolicy { max_tokens: Tokens(4_000), max_share: 0.25 },
        // Anthropic's rules and price ratios. If a provider charges nothing for cache writes, they overestimate the
        // price of a change, so the engine errs towards doing nothing.
        cache: CachePolicy {
            max_breakpoints: 4,
            look_back: 20,
            system_first: true,
            read_price: 0.1,
            write_price: 1.25,
            output_price: 5.0,
            minutes: 5,
        },
        recall: RecallPolicy {
            max_chars: Chars(20_000),
            max_share: 1.0,
            max_matches: 50,
            context_lines: 2,
            max_line_chars: Chars(500),
        },
        fork: ForkPolicy::tiered(),
    }
}

impl ForkPolicy {
    /// The fork document, to the letter: the newest results whole, older ones shorter, within 200,000 chars.
    pub fn tiered() -> ForkPolicy {
        ForkPolicy {
            char_budget: Chars(200_000),
            no_removal: Chars(120_000),
            tier1_count: 5,
            tier2_count: 10,
            tier2_limit: Chars(3_000),
            tier3_limit: Chars(500),
            params_tier1: Chars(500),
            params_tier2: Chars(200),
            params_tier3: Chars(100),
            head_ratio: 0.8,
            tail_ratio: 0.2,
            error_patterns: words(&["error", "Error", "ERROR", "failed", "FAILED", "exception", "traceback"]),
            head_tail_keywords: words(&["bash", "pty", "exec"]),
            uncut_tools: Vec::new(),
            cut_marker: CutMarker::Gap,
            label_host: false,
            newest_room: None,
            words_room: None,
            least_result: Chars(200),
            child_share: 0.5,
            summary_share: 0.0,
            newest_share: 0.5,
            words_share: 0.25,
            history_share: 0.8,
            rules: ForkRules::Document,
        }
    }

    /// The default: `tiered`, but made smaller for a child with a small window, with figures of the delivered text. The
    /// user's answers to questions stay whole, and removed messages are summarised.
    pub fn fitted() -> ForkPolicy {
        ForkPolicy {
            uncut_tools: words(&["ask_user_questions"]),
            rules: ForkRules::Fitted,
            label_host: true,
            // At equal size, a summary answers more of a child's questions than more of the newest messages.
            summary_share: 0.4,
            ..ForkPolicy::tiered()
        }
    }

    /// All results limited to 1,500 chars, within 100,000 tokens of four chars each.
    pub fn uniform() -> ForkPolicy {
        ForkPolicy {
            char_budget: Chars(400_000),
            no_removal: Chars(400_000),
            tier1_count: 0,
            tier2_count: 0,
            tier2_limit: Chars(1_500),
            tier3_limit: Chars(1_500),
            params_tier1: Chars(200),
            params_tier2: Chars(200),
            params_tier3: Chars(200),
            error_patterns: Vec::new(),
            head_tail_keywords: Vec::new(),
            cut_marker: CutMarker::Prefix,
            // High enough that 100,000 tokens fit a child with the usual window of 200,000.
            child_share: 0.6,
            label_host: false,
            summary_share: 0.0,
            ..ForkPolicy::fitted()
        }
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Preset {
    type Err = PolicyError;
    fn from_str(name: &str) -> Result<Preset, PolicyError> {
        let known = || Preset::ALL.map(|preset| format!("`{preset}`")).join(", ");
        Preset::ALL
            .into_iter()
            .find(|preset| preset.name() == name)
            .ok_or_else(|| PolicyError::UnknownPreset { name: name.to_owned(), known: known() })
    }
}
