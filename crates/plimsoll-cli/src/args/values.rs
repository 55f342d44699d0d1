//! Parsers of option values.

use plimsoll::{InvalidTokens, Tokens};
use plimsoll_formats::Format;

pub(super) fn request_format(name: &str) -> Result<Format, String> {
    match name.parse() {
        Ok(format @ (Format::OpenaiChat | Format::AnthropicMessages)) => Ok(format),
        _ => Err("expected openai-chat or anthropic-messages".to_owned()),
    }
}

/// Parses an output format. The error for an unknown name only lists formats that can be written; a format that can only be
/// read has its own error when it is written.
pub(super) fn output_format(name: &str) -> Result<Format, String> {
    let [first @ .., last] = Format::WRITABLE.map(Format::name);
    name.parse().map_err(|_| format!("expected {} or {last}", first.join(", ")))
}

pub(super) fn lines(text: &str) -> Result<(u64, u64), String> {
    let number = |text: &str| text.trim().parse::<u64>().ok().filter(|number| *number > 0);
    let range = match text.split_once('-') {
        None => number(text).map(|line| (line, line)),
        Some((first, "")) => number(first).map(|first| (first, u64::MAX)),
        Some((first, last)) => number(first).zip(number(last)),
    };
    let range = range.ok_or("expected a line range counted from 1, such as 100-140, 100- or 100")?;
    if range.0 > range.1 {
        return Err(format!("line {} is after line {}", range.0, range.1));
    }
    Ok(range)
}

/// Parses an interval in seconds.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|seconds| (0.1..=3_600.0).contains(seconds));
    number.ok_or_else(|| "expected a number of seconds from 0.1 to 3600".to_owned())
}

/// Parses a share of the window, such as `60%`.
pub(super) fn percent(text: &str) -> Result<u8, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    let whole = number.parse().ok().filter(|percent| (1..100).contains(percent));
    whole.ok_or_else(|| "expected a percentage from 1% to 99%".to_owned())
}

/// Parses a number of tokens greater than 0.
pub(super) fn tokens(text: &str) -> Result<u64, String> {
    let above_zero = || "expected a number of tokens above 0, such as 128000, 128k or 1m".to_owned();
    tokens_or_zero(text).ok().filter(|tokens| *tokens > 0).ok_or_else(above_zero)
}

/// Parses a number of tokens, which may be 0.
pub(super) fn tokens_or_zero(text: &str) -> Result<u64, String> {
    text.parse().map(|Tokens(tokens)| tokens).map_err(|error: InvalidTokens| error.to_string())
}
