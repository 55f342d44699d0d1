//! Derives the lifetime of a session's prompt cache from its usage.

use plimsoll::{Message, Millis, Tokens};

use super::recorded;

/// Default lifetime: five minutes after the last use.
pub(crate) const MINUTES: Millis = Millis(5 * 60 * 1_000);
/// The longer lifetime that some providers sell, and the maximum of those that cache automatically.
pub(crate) const HOUR: Millis = Millis(60 * 60 * 1_000);

/// Returns the lifetime of the cache; `None` if the usage does not show it.
///
/// Anthropic's usage says which writes are for an hour, but not every tool that records usage keeps it. The pauses
/// decide instead: if most requests after a pause of more than five minutes and less than an hour still read what the
/// previous request sent, the cache survived the pause. Providers that cache automatically and do not count writes
/// (OpenAI, Google, DeepSeek) are judged in the same way. Anthropic's cache is never written automatically: usage of
/// its models without a write is incomplete, and its reads may have been writes, so it shows nothing.
pub(crate) fn of_usage(messages: &[Message]) -> Option<Millis> {
    let usages = || messages.iter().filter_map(|message| message.info.tokens.as_ref());
    let written: Tokens = usages().map(|usage| usage.cache_write).sum();
    let hour: Tokens = usages().map(|usage| usage.cache_write_hour).sum();
    if hour.0 > written.0 / 2 {
        return Some(HOUR);
    }
    let of_writes = (written > Tokens::ZERO).then_some(MINUTES);
    if of_writes.is_none() && messages.iter().any(is_claude) {
        return None;
    }
    let (mut survived, mut died) = (0, 0);
    let mut before: Option<(Millis, Tokens)> = None;
    for message in messages.iter().filter(|message| message.is_assistant()) {
        let at = message.info.time.as_ref().and_then(|time| time.created);
        let (Some(at), Some(usage)) = (at, message.info.tokens.as_ref()) else { continue };
        let request = recorded::request(usage);
        if request == Tokens::ZERO {
            continue;
        }
        if let Some((then, sent)) = before {
            let pause = Millis(at.0.saturating_sub(then.0));
            // A much shorter request was reduced, so it could not read the previous one.
            if pause > MINUTES && pause <= HOUR && request.0 > sent.0 / 2 {
                let read = usage.cache_read.0 > sent.0.min(request.0) / 2;
                if read { survived += 1 } else { died += 1 }
            }
        }
        before = Some((at, request));
    }
    let of_pauses = (survived + died > 0).then_some(if survived > died { HOUR } else { MINUTES });
    of_pauses.or(of_writes)
}

/// Whether a message is of one of Anthropic's models, served by Anthropic or by another provider.
fn is_claude(message: &Message) -> bool {
    message.info.model_id.as_ref().is_some_and(|model| model.to_ascii_lowercase().contains("claude"))
}

#[cfg(test)]
mod tests {
    use plimsoll::{Message, Millis, Part, Tokens, Usage};

    use super::{HOUR, MINUTES, of_usage};

    /// Creates a session with answers `minutes` apart, each with its cache reads and writes in thousands of tokens.
    fn session(answers: &[(u64, u64, u64)]) -> Vec<Message> {
        let mut minutes = 0;
        let answer = |(number, (pause, read, written)): (usize, &(u64, u64, u64))| {
            minutes += pause;
            let id = format!("a{number}");
            let mut message = Message::assistant(id.as_str().into(), vec![Part::text("p".into(), "done")])
                .at(Millis(1_794_775_451_033 + minutes * 60_000));
            let mut usage = Usage::new(Tokens(20_000 - read * 1_000), Tokens(9));
            (usage.cache_read, usage.cache_write) = (Tokens(read * 1_000), Tokens(written * 1_000));
            message.info.tokens = Some(usage);
            message
        };
        answers.iter().enumerate().map(answer).collect()
    }

    #[test]
    fn the_lifetime_follows_from_writes_or_pauses() {
        assert_eq!(of_usage(&session(&[(0, 0, 20), (30, 0, 20)])), Some(MINUTES));
        assert_eq!(of_usage(&session(&[(0, 0, 20)])), Some(MINUTES));
        assert_eq!(
            of_usage(&session(&[(0, 0, 20), (30, 19, 1)])),
            Some(HOUR),
            "it was read after half an hour"
        );
        assert_eq!(of_usage(&session(&[(0, 0, 0), (30, 19, 0)])), Some(HOUR));
        assert_eq!(of_usage(&session(&[(0, 0, 0), (30, 0, 0), (1, 19, 0)])), Some(MINUTES));
        assert_eq!(of_usage(&session(&[(0, 0, 0), (1, 19, 0)])), None, "without a pause");
        let mut claude = session(&[(0, 0, 0), (30, 19, 0)]);
        claude[0].info.model_id = Some("anthropic/claude-sonnet-4-5".into());
        assert_eq!(of_usage(&claude), None, "it left out what was written");
        let mut hour = session(&[(0, 0, 20)]);
        hour[0].info.tokens.iter_mut().for_each(|usage| usage.cache_write_hour = usage.cache_write);
        assert_eq!(of_usage(&hour), Some(HOUR));
    }
}
