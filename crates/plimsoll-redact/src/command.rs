//! Passwords in command lines, where a short option or a place names them.

use std::ops::Range;

use crate::cursor::{Cursor, near_before, never};
use crate::header::cookie_pairs;
use crate::names::is_among;
use crate::values::{is_mixed, is_placeholder};

/// The longest command line looked through.
const LONGEST_LINE: usize = 600;

/// How a command is given its password.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// Right behind an option: `mysql -pX`.
    Attached(&'static str),
    /// As the word behind an option: `sshpass -p X`.
    Next(&'static str),
    /// Behind an option, a user and this mark: `curl -u user:X`.
    AfterUser(&'static str, char),
    /// Right behind this text: `openssl -passin pass:X`.
    Behind(&'static str),
    /// As the second word behind a verb: `rabbitmqctl add_user user X`.
    Second(&'static str),
}

use Way::{AfterUser, Attached, Behind, Next, Second};

struct Command {
    /// With the space behind them, so that the search does not stop at every word that contains one.
    programs: &'static [&'static str],
    /// The word that must be among the arguments; `docker run -p 80:80` publishes a port.
    verb: Option<&'static str>,
    ways: &'static [Way],
}

const fn command(programs: &'static [&'static str], ways: &'static [Way]) -> Command {
    Command { programs, verb: None, ways }
}

static COMMANDS: &[Command] = &[
    command(
        &[
            "mysql ",
            "mysqldump ",
            "mysqladmin ",
            "mysqlimport ",
            "mysqlcheck ",
            "mysqlsh ",
            "mariadb ",
            "mariadb-dump ",
            "mariadb-admin ",
            "mycli ",
        ],
        &[Attached("-p")],
    ),
    command(&["sshpass "], &[Next("-p"), Attached("-p")]),
    command(
        &["curl ", "wget ", "xh "],
        &[AfterUser("-u", ':'), AfterUser("--user", ':'), AfterUser("--proxy-user", ':')],
    ),
    command(&["redis-cli "], &[Next("-a"), Next("--pass")]),
    Command {
        programs: &["docker ", "podman ", "nerdctl ", "buildah ", "skopeo ", "helm ", "oras "],
        verb: Some("login"),
        ways: &[Next("-p")],
    },
    Command { programs: &["az "], verb: Some("login"), ways: &[Next("-p")] },
    command(
        &["mongo ", "mongosh ", "mongodump ", "mongorestore ", "mongoexport ", "mongoimport ", "cqlsh "],
        &[Next("-p"), Attached("-p")],
    ),
    command(&["sqlcmd ", "osql ", "bcp ", "isql ", "tsql "], &[Next("-P"), Attached("-P")]),
    command(
        &["ldapsearch ", "ldapmodify ", "ldapadd ", "ldapwhoami ", "ldapdelete ", "ldappasswd "],
        &[Next("-w"), Attached("-w")],
    ),
    command(&["zip ", "unzip "], &[Next("-P"), Attached("-P")]),
    command(&["7z ", "7za ", "7zz ", "rar ", "unrar "], &[Attached("-p")]),
    command(&["smbclient ", "rpcclient "], &[AfterUser("-U", '%')]),
    command(&["lftp "], &[AfterUser("-u", ',')]),
    command(&["plink ", "pscp ", "psftp "], &[Next("-pw")]),
    command(&["openssl "], &[Behind("pass:")]),
    command(&["ssh-keygen "], &[Next("-N")]),
    command(&["rabbitmqctl "], &[Second("add_user"), Second("change_password")]),
];

/// What the search looks for: every program and the space behind it, and its row.
pub(crate) fn programs() -> impl Iterator<Item = (&'static str, usize)> {
    let rows = COMMANDS.iter().enumerate();
    rows.flat_map(|(row, command)| command.programs.iter().map(move |name| (*name, row)))
}

/// A word of a command line.
struct Word<'t> {
    text: &'t str,
    start: usize,
    /// Nothing stands between this word and the one before, as in `-p'X'`.
    is_glued: bool,
}

impl Word<'_> {
    /// The last `length` bytes.
    fn last(&self, length: usize) -> Range<usize> {
        let end = self.start + self.text.len();
        end - length..end
    }
}

/// The passwords given to the program of a row whose name stands in `name`, and where its command line ends; nothing if
/// this is no program.
pub(crate) fn passwords(text: &str, name: Range<usize>, row: usize) -> Option<(Vec<Range<usize>>, usize)> {
    let command = COMMANDS.get(row)?;
    let before = name.start.checked_sub(1).and_then(|at| text.as_bytes().get(at));
    let begins =
        before.is_none_or(|byte| !byte.is_ascii_alphanumeric() && !matches!(byte, b'_' | b'-' | b'.'));
    if !begins {
        return None;
    }
    let (words, end) = split_line(text, name.end);
    if command.verb.is_some_and(|verb| words.iter().all(|word| word.text != verb)) {
        return Some((Vec::new(), end));
    }
    let secrets = (0..words.len())
        .flat_map(|at| command.ways.iter().filter_map(|way| way.password(&words, at)).collect::<Vec<_>>());
    let cookies = words.windows(2).filter(|pair| pair[0].text == "-b" && command.programs.contains(&"curl "));
    let cookies = cookies
        .filter(|pair| pair[1].text.contains('='))
        .flat_map(|pair| cookie_pairs(text, pair[1].start).0);
    let secrets = secrets.filter(|secret| is_password_argument(&text[secret.clone()]));
    Some((secrets.chain(cookies).collect(), end))
}

impl Way {
    /// The password that the word in place `at` brings with it.
    fn password(self, words: &[Word<'_>], at: usize) -> Option<Range<usize>> {
        let word = words.get(at)?;
        let next = words.get(at + 1);
        let whole = |word: &Word<'_>| word.last(word.text.len());
        let behind = |start: &str| word.text.strip_prefix(start).filter(|rest| !rest.is_empty());
        match self {
            Attached(flag) if word.text == flag => next.filter(|next| next.is_glued).map(whole),
            Attached(flag) => behind(flag).map(|rest| word.last(rest.len())),
            Behind(start) => behind(start).map(|rest| word.last(rest.len())),
            Next(flag) if word.text == flag => next.map(whole),
            Second(verb) if word.text == verb => words.get(at + 2).map(whole),
            AfterUser(flag, mark) => {
                let joined = if flag.starts_with("--") {
                    behind(flag).and_then(|rest| rest.strip_prefix('='))
                } else {
                    behind(flag)
                };
                let pair = match joined {
                    Some(rest) => Some((rest, word)),
                    None if word.text == flag => next.map(|next| (next.text, next)),
                    None => None,
                };
                pair.and_then(|(pair, word)| Some(word.last(pair.split_once(mark)?.1.len())))
            }
            Next(_) | Second(_) => None,
        }
    }
}

/// Digits alone may be a password here, unless they are a port or a pair of ids.
fn is_password_argument(value: &str) -> bool {
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
    value.len() >= 2 && !value.starts_with(['-', '/', ')', ']']) && (is_number || !is_placeholder(value))
}

/// The words of the command line that goes on at `start`, and where it ends: at the end of the line if that is not
/// escaped, at a pipe, or at the next command.
fn split_line(text: &str, start: usize) -> (Vec<Word<'_>>, usize) {
    let bytes = text.as_bytes();
    let most = (start + LONGEST_LINE).min(bytes.len());
    let mut words = Vec::new();
    let mut at = start;
    let mut last_end = start;
    while at < most {
        let rest = &bytes[at..most];
        // In strings a line ends with the two characters `\n`, and an escaped one with `\\\n`.
        let escaped_end =
            [&b"\\\n"[..], b"\\\r\n", b"\\\\\\n", b"\\\\n"].into_iter().find(|end| rest.starts_with(end));
        if let Some(end) = escaped_end {
            at += end.len();
            continue;
        }
        match rest[0] {
            b' ' | b'\t' => {
                at += 1;
                continue;
            }
            b'\n' | b'\r' | b'|' | b';' | b'&' | b')' | b'`' => break,
            b'\\' if matches!(rest.get(1), Some(b'n' | b'r')) => break,
            _ => {}
        }
        let mut cursor = Cursor::new(text, at);
        let is_glued = at == last_end;
        let range = match cursor.quote() {
            Some(quote) => {
                let quoted = cursor.quoted(quote);
                at = cursor.at;
                quoted.range
            }
            None => {
                let length = rest.iter().position(|byte| ends_word(*byte)).unwrap_or(rest.len());
                let length = if length == 0 { 1 } else { length };
                at += length;
                at - length..at
            }
        };
        last_end = at;
        if let Some(text) = text.get(range.clone()) {
            words.push(Word { text, start: range.start, is_glued });
        }
    }
    (words, at.max(start))
}

fn ends_word(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'"' | b'\'' | b'`' | b'|' | b';' | b'\\' | b')')
}

/// The password in a line of netrc, `machine h login u password X`, also over several lines. `name` is where the word
/// `password` stands.
pub(crate) fn netrc(text: &str, name: Range<usize>) -> Option<Range<usize>> {
    let mut words = near_before(text, name.start, 300).split_ascii_whitespace().rev();
    // Backwards: a value and the word that names it, again and again, up to a machine.
    let mut machine = false;
    let mut has_login = false;
    while !machine {
        if words.next()? == "default" && has_login {
            break;
        }
        match words.next()?.trim_matches(|c: char| !c.is_ascii_alphanumeric()) {
            "machine" => machine = true,
            "login" | "account" => has_login = true,
            _ => return None,
        }
    }
    let rest = text.get(name.end..)?;
    let spaces = rest.bytes().take(80).take_while(|byte| byte.is_ascii_whitespace()).count();
    let value = Cursor::new(text, name.end + spaces).word(never);
    let word = &text[value.clone()];
    let is_prose = is_among(word, "field fields form is and or for in of the to");
    (spaces > 0 && word.len() >= 2 && !is_prose && !is_placeholder(word)).then_some(value)
}

/// The password in a line of pgpass, `host:5432:database:user:X`, whose port stands in `port`, colons included.
pub(crate) fn pgpass(text: &str, port: Range<usize>) -> Option<Range<usize>> {
    let line = Cursor::new(text, port.end).line(200);
    let mut fields = line.splitn(3, ':');
    let (database, user, password) = (fields.next()?, fields.next()?, fields.next()?);
    let is_field = |field: &str| {
        !field.is_empty() && field.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.*".contains(&b))
    };
    let password = password.split([' ', '\t', '"', '\'', '`', '\\']).next()?;
    let start = port.end + database.len() + user.len() + 2;
    let fits = is_field(database) && is_field(user) && password.len() >= 3 && !is_placeholder(password);
    fits.then_some(start..start + password.len())
}

/// What `echo` hands through a pipe to the command at `at`: `echo X | sudo -S id`.
pub(crate) fn echoed(text: &str, at: usize) -> Option<Range<usize>> {
    let before = near_before(text, at, 200);
    let from = at - before.len();
    let pipe = before.rfind('|')?;
    let start = before[..pipe].rfind("echo ")? + "echo ".len();
    let mut cursor = Cursor::new(text, from + start);
    cursor.eat("-n ");
    cursor.skip_spaces();
    let range = match cursor.quote() {
        Some(quote) => cursor.quoted(quote).range,
        None => cursor.word(never),
    };
    // `chpasswd` reads a user and a password.
    let value = text.get(range.clone())?;
    let value = value.split_once(':').map_or(value, |(_, password)| password);
    let fits = range.end <= from + pipe
        && value.len() >= 3
        && !value.contains(['\n', ' '])
        && !is_placeholder(value);
    fits.then_some(range.end - value.len()..range.end)
}

/// The password of a `-u` or `--user` without a program that is known to take one. It must look like a password,
/// because `--user alice:admins` names a group.
pub(crate) fn user_option(text: &str, end: usize) -> Option<Range<usize>> {
    let mut cursor = Cursor::new(text, end);
    if cursor.skip_spaces() == 0 && !cursor.eat("=") {
        return None;
    }
    cursor.quote();
    let pair = cursor.word(never);
    let (_, password) = text[pair.clone()].split_once(':')?;
    let fits = password.len() >= 6 && is_mixed(password) && !is_placeholder(password);
    fits.then_some(pair.end - password.len()..pair.end)
}
