//! The search: one pass that finds where to look closer, and what that finds.

use std::ops::{Range, RangeInclusive};
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use crate::services::SERVICES;
use crate::shape::{Part, Set, is_start, match_at, run};
use crate::tokens::{INFIXES, WEBHOOKS};
use crate::values::{is_random, is_template};
use crate::{Found, MARK, SecretKind, assign, command, forms, header, names, pem, tokens, url};

/// Codes and signatures in the parameters of a URL are that long. A longer one is a text of its own.
const PARAMETER_LENGTHS: RangeInclusive<usize> = 16..=1024;

/// A secret in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) range: Range<usize>,
    pub(crate) found: Found,
}

/// What to look for where a text was found.
#[derive(Clone, Copy, Debug)]
enum Clue {
    Prefix(usize),
    Infix(usize),
    Webhook(usize),
    Name,
    ForeignName,
    Signature,
    Code,
    Authorization,
    Bearer,
    Basic,
    Cookie,
    Url,
    PrivateKey,
    CutPrivateKey,
    EncodedPrivateKey,
    Jwt,
    Program(usize),
    UserOption,
    Echoed,
    Pgpass,
    OracleUrl,
    DataSource,
    Literal,
}

struct Clues {
    /// None if it could not be built, which the tests rule out.
    texts: Option<AhoCorasick>,
    clues: Vec<Clue>,
}

/// All clues and what they are found by, in any case of letters; where the case matters, the closer look says so.
fn all_clues() -> Vec<(&'static str, Clue)> {
    let mut all = Vec::new();
    let services = SERVICES.iter().enumerate();
    all.extend(
        services.flat_map(|(at, row)| row.prefixes.iter().map(move |prefix| (*prefix, Clue::Prefix(at)))),
    );
    let webhooks = WEBHOOKS.iter().enumerate();
    all.extend(
        webhooks.flat_map(|(at, row)| row.prefixes.iter().map(move |prefix| (*prefix, Clue::Webhook(at)))),
    );
    all.extend(INFIXES.iter().enumerate().map(|(at, row)| (row.text, Clue::Infix(at))));
    all.extend(names::KEYWORDS.iter().map(|keyword| (*keyword, Clue::Name)));
    all.extend(names::FOREIGN.iter().map(|keyword| (*keyword, Clue::ForeignName)));
    all.extend(["&sig=", "?sig=", "signature="].map(|text| (text, Clue::Signature)));
    all.extend(["&code=", "?code="].map(|text| (text, Clue::Code)));
    all.extend(command::programs().map(|(program, row)| (program, Clue::Program(row))));
    all.extend([" -u", " --user"].map(|text| (text, Clue::UserOption)));
    all.extend(
        ["sudo -S", "--password-stdin", "passwd --stdin", "chpasswd"].map(|text| (text, Clue::Echoed)),
    );
    all.extend([
        ("authorization", Clue::Authorization),
        ("bearer", Clue::Bearer),
        ("basic ", Clue::Basic),
        ("cookie", Clue::Cookie),
        ("://", Clue::Url),
        (pem::BEGIN, Clue::PrivateKey),
        (pem::END, Clue::CutPrivateKey),
        (pem::SSH2_BEGIN, Clue::PrivateKey),
        (pem::PUTTY, Clue::PrivateKey),
        ("LS0tLS1CRUdJTi", Clue::EncodedPrivateKey),
        ("eyJ", Clue::Jwt),
        (":5432:", Clue::Pgpass),
        ("jdbc:oracle:thin:", Clue::OracleUrl),
        ("@tcp(", Clue::DataSource),
        ("@unix(", Clue::DataSource),
        ("identified by ", Clue::Literal),
        ("ConvertTo-SecureString ", Clue::Literal),
    ]);
    all
}

static CLUES: LazyLock<Clues> = LazyLock::new(|| {
    let all = all_clues();
    let texts = AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::Standard)
        .kind(Some(AhoCorasickKind::DFA))
        .build(all.iter().map(|(text, _)| text));
    Clues { texts: texts.ok(), clues: all.into_iter().map(|(_, clue)| clue).collect() }
});

/// All secrets of a text, in order, none overlapping another.
pub(crate) fn search(text: &str) -> Vec<Span> {
    let mut search = Search { text, spans: Vec::new(), done: Done::default() };
    if let Some(texts) = &CLUES.texts {
        for hit in texts.find_overlapping_iter(text) {
            if let Some(clue) = CLUES.clues.get(hit.pattern().as_usize()) {
                search.look(*clue, hit.start()..hit.end());
            }
        }
    }
    for (service, range) in tokens::without_mark(text) {
        search.add_of(SecretKind::ServiceToken, Some(service), range);
    }
    search.merged()
}

struct Search<'t> {
    text: &'t str,
    spans: Vec<Span>,
    done: Done,
}

/// How far each closer look has got. What lies before that is not looked at again in the same way: a text made of
/// nothing but beginnings would otherwise be read once for each of them.
#[derive(Default)]
struct Done {
    names: usize,
    commands: usize,
    cookies: usize,
    headers: usize,
    keys: usize,
    jwts: usize,
    parameters: usize,
    webhooks: usize,
    /// By row of the table.
    services: Vec<usize>,
}

impl Search<'_> {
    fn add(&mut self, kind: SecretKind, found: impl IntoIterator<Item = Range<usize>>) {
        found.into_iter().for_each(|range| self.add_of(kind, None, range));
    }

    fn add_of(&mut self, kind: SecretKind, service: Option<&'static str>, range: Range<usize>) {
        // What was replaced before is not replaced again, whatever it has become a part of.
        let is_new =
            self.text.get(range.clone()).is_some_and(|value| !value.is_empty() && !value.contains(MARK));
        if is_new {
            self.spans.push(Span { range, found: Found { kind, service } });
        }
    }

    fn look(&mut self, clue: Clue, hit: Range<usize>) {
        use SecretKind::{Assignment, CloudKey, Header, Jwt, PrivateKey, UrlPassword};
        let text = self.text;
        match clue {
            Clue::Prefix(row) => self.token(row, hit),
            Clue::Webhook(row) => {
                if hit.start >= self.done.webhooks
                    && let Some(row) = WEBHOOKS.get(row)
                    && let Some(range) = tokens::of_webhook(text, row, hit)
                {
                    self.done.webhooks = range.end;
                    self.add_of(row.kind, Some(row.name), range);
                }
            }
            Clue::Infix(row) => {
                if let Some(row) = INFIXES.get(row)
                    && let Some(range) = tokens::around(text, row, hit)
                {
                    self.add_of(row.kind, Some(row.name), range);
                }
            }
            Clue::Name => {
                let found = assign::secret(text, hit, &mut self.done.names);
                self.add(Assignment, found);
            }
            Clue::ForeignName => self.add(Assignment, forms::foreign_secret(text, hit)),
            Clue::Signature => self.parameter(CloudKey, hit.end),
            Clue::Code => self.parameter(Assignment, hit.end),
            Clue::Authorization if hit.start >= self.done.headers && is_start(text.as_bytes(), hit.start) => {
                let (found, end) = header::authorization(text, hit.end);
                self.done.headers = end;
                self.add(Header, found);
            }
            Clue::Bearer if is_start(text.as_bytes(), hit.start) => {
                self.add(Header, header::bearer(text, hit.end));
            }
            Clue::Basic if is_start(text.as_bytes(), hit.start) => {
                self.add(Header, header::basic(text, hit.end - 1));
            }
            Clue::Authorization | Clue::Bearer | Clue::Basic => {}
            Clue::Cookie => {
                if hit.start >= self.done.cookies {
                    let (found, end) = header::cookies(text, hit);
                    self.done.cookies = end;
                    self.add(Header, found);
                }
            }
            Clue::Url => self.add(UrlPassword, url::secret(text, hit.start)),
            Clue::PrivateKey => {
                if hit.start >= self.done.keys
                    && let Some(end) = pem::block_end(text, hit.start)
                {
                    self.done.keys = end;
                    self.add(PrivateKey, Some(hit.start..end));
                }
            }
            Clue::CutPrivateKey => {
                if hit.start >= self.done.keys
                    && let Some((start, end)) = pem::cut_block(text, hit.start)
                {
                    self.done.keys = end;
                    self.add(PrivateKey, Some(start..end));
                }
            }
            Clue::EncodedPrivateKey => {
                if hit.start >= self.done.keys
                    && is_start(text.as_bytes(), hit.start)
                    && let Some(end) = pem::encoded_end(text, hit.start)
                {
                    self.done.keys = end;
                    self.add(PrivateKey, Some(hit.start..end));
                }
            }
            Clue::Jwt => {
                let bytes = text.as_bytes();
                if hit.start < self.done.jwts || !is_start(bytes, hit.start) || text[hit.clone()] != *"eyJ" {
                    return;
                }
                let dot = Part::Text(".");
                let end = match_at(
                    &[run(Set::Word, 8), dot, run(Set::Word, 8), dot, run(Set::Dotted, 0)],
                    bytes,
                    hit.end,
                );
                // Whatever begins later in the same first part ends in the same way.
                self.done.jwts = end.or(match_at(&[run(Set::Word, 0)], bytes, hit.end)).unwrap_or(hit.end);
                self.add(Jwt, end.map(|end| hit.start..end));
            }
            Clue::Program(row) => {
                if hit.start >= self.done.commands
                    && let Some((found, end)) = command::passwords(text, hit, row)
                {
                    self.done.commands = end;
                    self.add(Header, found);
                }
            }
            Clue::UserOption => self.add(Header, command::user_option(text, hit.end)),
            Clue::Echoed => self.add(Assignment, command::echoed(text, hit.start)),
            Clue::Pgpass => self.add(Assignment, command::pgpass(text, hit)),
            Clue::OracleUrl => self.add(UrlPassword, url::oracle(text, hit.end)),
            Clue::DataSource => self.add(UrlPassword, url::data_source(text, hit.start)),
            Clue::Literal => self.add(Assignment, forms::literal(text, hit.end)),
        }
    }

    fn token(&mut self, at: usize, prefix: Range<usize>) {
        let Some(row) = SERVICES.get(at) else { return };
        if self.done.services.get(at).is_some_and(|done| prefix.start < *done) {
            return;
        }
        let Some(token) = tokens::with_prefix(self.text, row, prefix.clone()) else { return };
        self.done.services.resize(SERVICES.len(), 0);
        self.done.services[at] = token.end;
        if token.is_secret {
            self.add_of(row.kind, Some(row.name), prefix.start..token.end);
        }
    }

    /// The value of a parameter of a URL that has no telling name.
    fn parameter(&mut self, kind: SecretKind, at: usize) {
        if at < self.done.parameters {
            return;
        }
        let rest = self.text.as_bytes().get(at..).unwrap_or_default();
        let is_value = |byte: &&u8| Set::Base64.has(**byte) || matches!(**byte, b'%' | b'.' | b'~');
        let length = rest.iter().take_while(is_value).count();
        self.done.parameters = at + length;
        let value = &self.text[at..at + length];
        let is_token = PARAMETER_LENGTHS.contains(&length) && !value.contains('+') && is_random(value);
        if is_token && !is_template(&value.to_ascii_lowercase()) {
            self.add(kind, Some(at..at + length));
        }
    }

    /// What was found, in order; of those that overlap the most telling kind for all of them.
    fn merged(mut self) -> Vec<Span> {
        self.spans.sort_by_key(|span| (span.range.start, span.range.end));
        let mut merged: Vec<Span> = Vec::with_capacity(self.spans.len());
        for span in self.spans {
            match merged.last_mut() {
                Some(last) if span.range.start < last.range.end => {
                    last.range.end = last.range.end.max(span.range.end);
                    // Of two that begin alike the later one has the longer prefix: `sk-ant-` after `sk-`.
                    let is_closer =
                        span.found.kind == last.found.kind && span.range.start == last.range.start;
                    if span.found.kind < last.found.kind || is_closer {
                        last.found = span.found;
                    }
                }
                _ => merged.push(span),
            }
        }
        merged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_clues_are_looked_for() {
        assert_eq!(CLUES.texts.as_ref().map(AhoCorasick::patterns_len), Some(all_clues().len()));
    }

    /// A run without a limit that is not the last part can fail after it was read. That is only cheap if the next
    /// prefix cannot stand inside the same run.
    #[test]
    fn no_run_is_read_twice_for_one_row() {
        for row in SERVICES.iter().chain(WEBHOOKS) {
            let Some((_, inner)) = row.rest.split_last() else { continue };
            for part in inner {
                if let Part::Run(set, _, usize::MAX) = part {
                    let ends_run = |prefix: &&str| prefix.bytes().any(|byte| !set.has(byte));
                    assert!(row.prefixes.iter().all(ends_run), "{}: {part:?}", row.name);
                }
            }
        }
        for row in INFIXES {
            let is_endless = |part: &Part| matches!(part, Part::Run(_, _, usize::MAX));
            assert!(!row.after.iter().any(is_endless), "{}", row.name);
        }
    }

    #[test]
    fn clues_are_long_enough_not_to_stand_in_every_word() {
        for (text, clue) in all_clues() {
            assert!(text.len() >= 2, "{clue:?} is looked for by {text:?}");
        }
    }
}
