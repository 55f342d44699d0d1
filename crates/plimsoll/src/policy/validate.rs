//! Validation of policies.

use super::{ClearedView, ForkPolicy, LineRule, PolicyError, PolicySpec, Scope, SummaryPolicy};
use crate::chars::Chars;
use crate::log::Cut;
use crate::tokens::Tokens;

/// Minimum length of the recall tool's answer, so that it has room for content in addition to its frame.
const SMALLEST_ANSWER: Chars = Chars(2_000);
/// Minimum length of a text of an input that is worth clearing, because its placeholder has about 250 chars.
const SHORTEST_INPUT: Chars = Chars(400);
/// Maximum relative price of a token.
const HIGHEST_PRICE: f64 = 1e6;

/// Returns the first problem of a policy.
pub(super) fn check(spec: &PolicySpec) -> Result<(), PolicyError> {
    let PolicySpec {
        name,
        count,
        truncate,
        prune,
        thrift: _,
        names,
        overflow,
        compact,
        summary,
        contract,
        shed,
        pin,
        cache,
        recall,
        fork,
    } = spec;
    rule(!name.trim().is_empty(), "name", || "must not be empty: receipts refer to it".into())?;
    above_zero("count.charsPerToken", count.chars_per_token)?;

    above_zero("truncate.maxLines", truncate.max_lines)?;
    above_zero("truncate.maxBytes", truncate.max_bytes)?;
    above_zero("truncate.maxLineChars", truncate.max_line_chars.0)?;
    above_zero("truncate.defaultLimit", truncate.default_limit.0)?;
    for (tool, limit) in &truncate.tool_limits {
        above_zero(&format!("truncate.toolLimits.{tool}"), limit.0)?;
    }
    share("truncate.headShare", truncate.head_share)?;
    rule(!truncate.spill || !truncate.spill_directory.is_empty(), "truncate.spillDirectory", || {
        "must not be empty if `truncate.spill` is true".into()
    })?;

    rule(prune.view == ClearedView::Clear || prune.retain_chars > Chars::ZERO, "prune.retainChars", || {
        "must be above 0 if `prune.view` is `retain`".into()
    })?;
    if let Some(stop) = prune.stop_after_tokens {
        rule(stop > prune.min_tokens, "prune.stopAfterTokens", || {
            format!(
                "{stop} is not above `prune.minTokens`, which is {}: nothing would ever be pruned",
                prune.min_tokens
            )
        })?;
    }
    if let Some(gate) = prune.gate_share {
        share("prune.gateShare", gate)?;
    }

    rule(prune.min_input_chars >= SHORTEST_INPUT, "prune.minInputChars", || {
        format!("{} is too little to save anything (minimum {SHORTEST_INPUT})", prune.min_input_chars)
    })?;

    share("names.share", names.share)?;
    share("names.indexShare", names.index_share)?;

    share("overflow.share", overflow.share)?;
    if let Some(soft) = overflow.soft_share {
        rule(soft > 0.0 && soft < 1.0, "overflow.softShare", || {
            format!("{soft} is not between 0 and 1; remove the field to prepare no compaction")
        })?;
    }
    share("overflow.maxReserveShare", overflow.max_reserve_share)?;
    rule(overflow.max_factor >= 1.0, "overflow.maxFactor", || format!("{} is below 1", overflow.max_factor))?;
    share("overflow.maxHiddenShare", overflow.max_hidden_share)?;
    rule((0.0..1.0).contains(&overflow.refused_margin), "overflow.refusedMargin", || {
        format!("{} must be at least 0 and below 1", overflow.refused_margin)
    })?;
    above_zero("overflow.outputCap", overflow.output_cap.0)?;
    for (model, limits) in &overflow.models {
        if let Some(input) = limits.input.filter(|_| limits.context > Tokens::ZERO) {
            rule(input <= limits.context, &format!("overflow.models.{model}.input"), || {
                format!("{input} is more than the context window, which is {}", limits.context)
            })?;
        }
    }

    share("compact.tailShare", compact.tail_share)?;
    share("compact.askedTailShare", compact.asked_tail_share)?;
    share("compact.stepShare", compact.step_share)?;
    rule((0.0..1.0).contains(&compact.prompt_share), "compact.promptShare", || {
        format!("{} must be at least 0 and below 1", compact.prompt_share)
    })?;
    rule(compact.tail_min <= compact.tail_max, "compact.tailMin", || {
        format!("{} is more than `compact.tailMax`, which is {}", compact.tail_min, compact.tail_max)
    })?;
    rule((1..100).contains(&compact.target_percent), "compact.targetPercent", || {
        format!("{} is not between 1 and 99", compact.target_percent)
    })?;
    let line_percent = overflow.share * 100.0;
    let by_share = overflow.line == LineRule::Share && compact.scope == Scope::Target;
    rule(!by_share || (compact.target_percent as f64) < line_percent, "compact.targetPercent", || {
        format!("{} is not below the line at {line_percent} percent", compact.target_percent)
    })?;
    share("compact.turnShare", compact.turn_share)?;
    above_zero("compact.minMessages", compact.min_messages)?;
    rule((0.0..1.0).contains(&compact.min_freed_share), "compact.minFreedShare", || {
        format!("{} must be at least 0 and below 1", compact.min_freed_share)
    })?;
    share("compact.inputShare", compact.input_share)?;
    above_zero("compact.resultChars", compact.result_chars.0)?;
    share("compact.requestHeadShare", compact.request_head_share)?;
    share("compact.extractiveLineShare", compact.extractive_line_share)?;
    share("compact.extractiveGainShare", compact.extractive_gain_share)?;
    let of_window = compact.extractive_window_share;
    rule((0.0..=1.0).contains(&of_window), "compact.extractiveWindowShare", || {
        format!("{of_window} is not between 0 and 1")
    })?;
    above_zero("compact.extractiveTokens", compact.extractive_tokens.0)?;
    if let Some(most) = compact.max_summary_tokens {
        above_zero("compact.maxSummaryTokens", most.0)?;
    }
    rule(!compact.continue_text.trim().is_empty(), "compact.continueText", || "must not be empty".into())?;

    summarising(summary)?;
    share("contract.maxShare", contract.max_share)?;
    rule(!contract.enabled || contract.max_tokens > Tokens::ZERO, "contract.maxTokens", || {
        "must be above 0 if `contract.enabled` is true".into()
    })?;

    rule(shed.min_part_chars >= Cut::LEAST, "shed.minPartChars", || {
        format!("{} leaves no room for the marker (minimum {})", shed.min_part_chars, Cut::LEAST)
    })?;
    share("shed.headShare", shed.head_share)?;
    rule((1..=100).contains(&shed.rounds), "shed.rounds", || {
        format!("{} is not between 1 and 100", shed.rounds)
    })?;

    above_zero("cache.lookBack", cache.look_back)?;
    let prices = [
        ("cache.readPrice", cache.read_price),
        ("cache.writePrice", cache.write_price),
        ("cache.outputPrice", cache.output_price),
    ];
    for (field, price) in prices {
        rule((0.0..=HIGHEST_PRICE).contains(&price), field, || {
            format!("{price} is not between 0 and {HIGHEST_PRICE}")
        })?;
    }

    rule(recall.max_chars >= SMALLEST_ANSWER, "recall.maxChars", || {
        format!("{} leaves no room for content (minimum {SMALLEST_ANSWER})", recall.max_chars)
    })?;
    share("recall.maxShare", recall.max_share)?;
    above_zero("recall.maxMatches", recall.max_matches)?;
    above_zero("recall.maxLineChars", recall.max_line_chars.0)?;
    rule(recall.max_line_chars <= Chars(recall.max_chars.0 / 2), "recall.maxLineChars", || {
        format!(
            "{} is more than half of `recall.maxChars`, which is {}",
            recall.max_line_chars, recall.max_chars
        )
    })?;

    share("pin.maxShare", pin.max_share)?;

    let least = ForkPolicy::MIN_BUDGET;
    rule(fork.char_budget >= least, "fork.charBudget", || {
        format!("{} is too little for a digest (minimum {least})", fork.char_budget)
    })?;
    rule(fork.no_removal <= fork.char_budget, "fork.noRemoval", || {
        format!("{} is more than `fork.charBudget`, which is {}", fork.no_removal, fork.char_budget)
    })?;
    rule(fork.tier3_limit <= fork.tier2_limit, "fork.tier3Limit", || {
        format!("{} is more than `fork.tier2Limit`, which is {}", fork.tier3_limit, fork.tier2_limit)
    })?;
    rule((0.0..1.0).contains(&fork.summary_share), "fork.summaryShare", || {
        format!("{} must be at least 0 and below 1", fork.summary_share)
    })?;
    share("fork.headRatio", fork.head_ratio)?;
    share("fork.tailRatio", fork.tail_ratio)?;
    rule(fork.head_ratio + fork.tail_ratio <= 1.0 + 1e-9, "fork.tailRatio", || {
        format!(
            "the sum of {} and `fork.headRatio`, which is {}, is more than 1",
            fork.tail_ratio, fork.head_ratio
        )
    })?;
    rule(fork.least_result >= Cut::LEAST, "fork.leastResult", || {
        format!("{} leaves no room for the marker (minimum {})", fork.least_result, Cut::LEAST)
    })?;
    share("fork.childShare", fork.child_share)?;
    share("fork.newestShare", fork.newest_share)?;
    share("fork.wordsShare", fork.words_share)?;
    share("fork.historyShare", fork.history_share)?;
    rule(fork.newest_share + fork.words_share <= 1.0 + 1e-9, "fork.wordsShare", || {
        format!(
            "the sum of {} and `fork.newestShare`, which is {}, is more than 1",
            fork.words_share, fork.newest_share
        )
    })?;
    rule(fork.error_patterns.iter().all(|pattern| !pattern.is_empty()), "fork.errorPatterns", || {
        "an empty pattern matches every text".into()
    })
}

/// Checks the shares and lengths of summaries.
fn summarising(summary: &SummaryPolicy) -> Result<(), PolicyError> {
    for (field, value) in summary.shares().into_iter().chain(summary.standing_shares()) {
        rule((0.0..=1.0).contains(&value), &format!("summary.{field}"), || {
            format!("{value} is not between 0 and 1")
        })?;
    }
    let sum: f64 = summary.shares().iter().map(|(_, share)| share).sum();
    rule(summary.report_share() > 0.0, "summary.todosShare", || {
        "the shares within the state of the work leave no room for the last report".into()
    })?;
    rule((sum - 1.0).abs() < 1e-6, "summary.userShare", || {
        format!("the sum of the sections' shares is {sum:.2} and must be 1")
    })?;
    rule((0.0..1.0).contains(&summary.prior_share), "summary.priorShare", || {
        format!("{} must be at least 0 and below 1", summary.prior_share)
    })?;
    share("summary.duplicateShare", summary.duplicate_share)?;
    share("summary.evenShare", summary.even_share)?;
    rule((0.0..=1.0).contains(&summary.report_head_share), "summary.reportHeadShare", || {
        format!("{} is not between 0 and 1", summary.report_head_share)
    })?;
    rule(summary.ends_weight >= 1.0 && summary.ends_weight.is_finite(), "summary.endsWeight", || {
        format!("{} is below 1", summary.ends_weight)
    })?;
    above_zero("summary.minWords", summary.min_words.0)?;
    above_zero("summary.pasteRun", summary.paste_run)?;
    above_zero("summary.sentenceChars", summary.sentence_chars.0)?;
    above_zero("summary.turnSentences", summary.turn_sentences)?;
    above_zero("summary.commandChars", summary.command_chars.0)?;
    above_zero("summary.instructionChars", summary.instruction_chars.0)?;
    above_zero("summary.resultChars", summary.result_chars.0)
}

fn rule(holds: bool, field: &str, why: impl FnOnce() -> String) -> Result<(), PolicyError> {
    if holds { Ok(()) } else { Err(PolicyError::Field { field: field.to_owned(), why: why() }) }
}

fn above_zero(field: &str, number: u64) -> Result<(), PolicyError> {
    rule(number > 0, field, || "must be above 0".into())
}

fn share(field: &str, share: f64) -> Result<(), PolicyError> {
    rule(share > 0.0 && share <= 1.0, field, || format!("{share} is not above 0 and at most 1"))
}
