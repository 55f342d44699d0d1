//! One format at a time, chosen by the first byte: reading and visiting agree, every window is legal, and reading can
//! resume where an earlier one ended.
#![no_main]
use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use plimsoll::{Log, Policy, Window};
use plimsoll_formats::{Format, read_as, visit_as, visit_from};

const FORMATS: [Format; 16] = [
    Format::OpencodeExport,
    Format::OpencodeMessages,
    Format::ClaudeCode,
    Format::Codex,
    Format::Pi,
    Format::SweAgent,
    Format::OpenaiChat,
    Format::AnthropicMessages,
    Format::GeminiCli,
    Format::Goose,
    Format::Cline,
    Format::Openhands,
    Format::Kimi,
    Format::ManagedAgents,
    Format::Trae,
    Format::Aider,
];

fuzz_target!(|bytes: &[u8]| {
    let Some((first, bytes)) = bytes.split_first() else { return };
    // `0` and the characters after it select by position, so that the seeds keep their formats when one is added at the end.
    let position = first.checked_sub(b'0').map(usize::from);
    let chosen = position.and_then(|position| FORMATS.get(position));
    let format = *chosen.unwrap_or(&FORMATS[usize::from(*first) % FORMATS.len()]);
    let mut visited = Vec::new();
    let visit = visit_as(format, Cursor::new(bytes), &mut |_, message| visited.push(message));
    let Ok(read) = read_as(format, bytes) else {
        assert!(visit.is_err());
        return;
    };
    assert!(visit.is_ok());
    // Resume after reading a shorter file, as if it were still being written.
    let half = bytes.len() / 2;
    if let Ok(shorter) = visit_as(format, Cursor::new(&bytes[..half]), &mut |_, _| {})
        && let Some(restart) = shorter.restart
    {
        let _ = visit_from(&restart, Cursor::new(bytes), &mut |_, _| {});
    }
    let sides = read.side_chains.iter().flat_map(|chain| &chain.messages);
    assert!(visited.iter().eq(read.messages.iter().chain(sides)));
    for messages in
        std::iter::once(read.messages).chain(read.side_chains.into_iter().map(|chain| chain.messages))
    {
        let log = Log::from_messages(messages);
        Window::of(&log, &Policy::default()).check().expect("a legal window");
    }
});
