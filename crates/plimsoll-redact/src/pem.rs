//! Private keys in PEM or PGP armour, however they are quoted.
//!
//! Agents show files with line numbers, in diffs, in quotes, in comments, in JSON. So the lines of a block are not
//! matched as lines: between two runs of base64 anything may stand that such a frame is made of. A run must be long
//! to count, so a block without an end never swallows the prose behind it.

/// Shorter runs are only believed right before the end of a block.
const LONG_RUN: usize = 20;

/// The longest frame between two runs.
const LONGEST_FRAME: usize = 160;

/// Longest name in an armour line, as in `-----BEGIN OPENSSH PRIVATE KEY-----`.
const LONGEST_LABEL: usize = 48;

pub(crate) const BEGIN: &str = "-----BEGIN ";
pub(crate) const END: &str = "-----END ";
pub(crate) const SSH2_BEGIN: &str = "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----";
pub(crate) const PUTTY: &str = "Private-Lines:";

/// Where the block ends whose first line begins at `at`; nothing if that is no private key.
pub(crate) fn block_end(text: &str, at: usize) -> Option<usize> {
    let rest = text.get(at..)?;
    if rest.starts_with(SSH2_BEGIN) {
        let header = at + SSH2_BEGIN.len();
        return Some(body_end(text, header)).filter(|end| *end > header);
    }
    if rest.starts_with(PUTTY) {
        // The count of lines goes with the block; a MAC line follows it.
        let end = body_end(text, at + PUTTY.len());
        return (end > at + PUTTY.len() + LONG_RUN).then_some(end);
    }
    let header = at + armour(rest, BEGIN)?;
    // An armour line alone is no key; patterns and error messages have it too.
    Some(body_end(text, header)).filter(|end| *end > header)
}

/// The body and the last line of a block whose beginning was cut off; `at` is where the last line begins.
pub(crate) fn cut_block(text: &str, at: usize) -> Option<(usize, usize)> {
    let footer = armour(text.get(at..)?, END)?;
    let bytes = text.as_bytes();
    let mut start = at;
    let mut here = at;
    // Backwards: what a frame is made of, then a run, as long as the runs are long.
    loop {
        let frame = frame_before(&bytes[..here]);
        let run = bytes[..here - frame].iter().rev().take_while(|byte| is_base64(**byte)).count();
        let from = here - frame - run;
        let is_line_number = (1..=6).contains(&run) && bytes[from..from + run].iter().all(u8::is_ascii_digit);
        // Right before the end a run may be short.
        if run >= LONG_RUN || (here == at && run > 0 && frame > 0) {
            here = from;
            start = if run >= LONG_RUN { from } else { start };
        } else if is_line_number {
            here = from;
        } else {
            break;
        }
    }
    // The `n` of the two characters `\n`.
    let escaped = start < at
        && bytes[start] == b'n'
        && start.checked_sub(1).is_some_and(|before| bytes[before] == b'\\');
    (start < at).then_some((start + usize::from(escaped), at + footer))
}

/// How long the frame is that `bytes` ends with.
fn frame_before(bytes: &[u8]) -> usize {
    let mut length = 0;
    while length < LONGEST_FRAME
        && let Some((byte, before)) = bytes[..bytes.len() - length].split_last()
    {
        let is_escape = matches!(byte, b'n' | b'r' | b't') && before.last() == Some(&b'\\');
        let is_mark = byte.is_ascii_whitespace() || b"\\\"'`>|,;#*:.()-".contains(byte) || *byte >= 0x80;
        if !is_escape && !is_mark {
            break;
        }
        length += 1;
    }
    length
}

/// Where base64 of a private key's armour ends that begins at `at`; the base64 of a certificate is none.
pub(crate) fn encoded_end(text: &str, at: usize) -> Option<usize> {
    // `-----BEGIN ` is followed by PRIVATE, RSA, EC, DSA, OPENSSH or ENCRYPTED.
    const LABELS: [&str; 6] =
        ["BQUklWQVRF", "BSU0Eg", "BFQyBQUklW", "BEU0Eg", "BPUEVOU1NI", "BFTkNSWVBURUQg"];
    let label = text.get(at + "LS0tLS1CRUdJTi".len()..)?;
    LABELS.iter().find(|known| label.starts_with(**known))?;
    let length = text.as_bytes()[at..].iter().take_while(|byte| is_base64(**byte)).count();
    Some(at + length)
}

/// The length of an armour line of a private key that `text` begins with.
fn armour(text: &str, begin: &str) -> Option<usize> {
    let label = text.strip_prefix(begin)?;
    let length = label
        .bytes()
        .take(LONGEST_LABEL)
        .take_while(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || *b == b' ')
        .count();
    let (name, after) = label.split_at(length);
    let is_private = name.ends_with("PRIVATE KEY") || name.ends_with("PRIVATE KEY BLOCK");
    (is_private && after.starts_with("-----")).then_some(begin.len() + length + 5)
}

/// Where the body ends that begins at `at`.
fn body_end(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    let begin = at;
    let mut end = at;
    let mut at = at;
    // One short run may be the last line of the body.
    let mut short_runs = 0;
    loop {
        let Some(next) = skip_frame(text, at) else { return end };
        at = next;
        let rest = &text[at..];
        if let Some(footer) = armour(rest, END) {
            return if end > begin { at + footer } else { begin };
        }
        if rest.starts_with("---- END SSH2") {
            return at + rest.find(['\n', '\r']).unwrap_or(rest.len());
        }
        if rest.starts_with("Private-MAC") {
            return end;
        }
        if let Some(length) = header_line(rest) {
            at += length;
            end = at;
            continue;
        }
        let run = bytes[at..].iter().take_while(|byte| is_base64(**byte)).count();
        if run >= LONG_RUN {
            at += run;
            end = at;
            short_runs = 0;
        } else if run > 0 {
            let is_line_number = run <= 6 && bytes[at..at + run].iter().all(u8::is_ascii_digit);
            let is_comment =
                run <= 3 && bytes[at..at + run].iter().all(|byte| matches!(byte, b'/' | b'+' | b'='));
            if !is_line_number && !is_comment {
                short_runs += 1;
            }
            if short_runs > 2 {
                return end;
            }
            at += run;
        } else {
            return end;
        }
    }
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

/// The length of a header inside a block.
fn header_line(rest: &str) -> Option<usize> {
    const HEADERS: [&str; 6] = ["Proc-Type:", "DEK-Info:", "Version:", "Comment:", "Hash:", "Charset:"];
    HEADERS.iter().find(|header| rest.starts_with(**header))?;
    let mut near = rest.len().min(LONGEST_FRAME);
    while !rest.is_char_boundary(near) {
        near -= 1;
    }
    let line = &rest[..near];
    Some(line.find(['\n', '\r', '\\']).unwrap_or(near))
}

/// Step over what a frame puts between two runs: white space and its escapes, quotes, marks of quotations, comments
/// and diffs, rulers behind line numbers.
fn skip_frame(text: &str, at: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut here = at;
    while here < bytes.len() && here - at <= LONGEST_FRAME {
        let rest = &bytes[here..];
        match rest[0] {
            b'\\' => {
                let slashes = rest.iter().take_while(|byte| **byte == b'\\').count();
                let letter = matches!(rest.get(slashes), Some(b'n' | b'r' | b't'));
                here += slashes + usize::from(letter);
            }
            b'-' if rest.starts_with(b"-----END ") || rest.starts_with(b"---- END ") => return Some(here),
            b' ' | b'\t' | b'\n' | b'\r' | b'"' | b'\'' | b'`' | b'>' | b'|' | b',' | b';' | b'#' | b'*'
            | b':' | b'.' | b'(' | b')' | b'-' => here += 1,
            // A sign of a diff or of a concatenation, not a part of base64.
            b'+' if matches!(rest.get(1), Some(b' ' | b'\t' | b'\n' | b'\r' | b'"' | b'\'' | b'`')) => {
                here += 1;
            }
            0xE2 => {
                let ruler =
                    ["→", "│", "┃", "⋮", "▏"].iter().find(|ruler| rest.starts_with(ruler.as_bytes()))?;
                here += ruler.len();
            }
            _ => return Some(here),
        }
    }
    (here < bytes.len() && here - at <= LONGEST_FRAME).then_some(here)
}
