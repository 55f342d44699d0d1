//! Any bytes, as any format: an error or a transcript whose window is legal, never a panic.
#![no_main]
use libfuzzer_sys::fuzz_target;
use plimsoll::{Log, Policy, Window};
use plimsoll_formats::{Format, read, read_as, write};

fuzz_target!(|bytes: &[u8]| {
    let _ = read(bytes);
    for format in Format::ALL {
        let Ok(transcript) = read_as(format, bytes) else { continue };
        let log = Log::from_messages(transcript.messages);
        Window::of(&log, &Policy::default()).check().expect("a legal window");
        for to in [Format::OpencodeExport, Format::OpenaiChat, Format::AnthropicMessages] {
            let _ = write(to, &transcript.info, &log);
        }
    }
});
