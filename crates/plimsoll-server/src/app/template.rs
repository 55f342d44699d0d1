//! Templates of commands, filled in as OpenCode does.

use std::collections::BTreeSet;

/// Placeholder for all arguments.
const ALL: &str = "$ARGUMENTS";

/// A template of a command.
#[derive(Clone, Copy)]
pub(crate) struct Template<'t>(pub(crate) &'t str);

/// A piece of a template.
enum Piece<'t> {
    Text(&'t str),
    /// `$1`, `$2` and so on.
    Argument(usize),
}

impl<'t> Template<'t> {
    /// The placeholders: `$1`, `$2` in order, then `$ARGUMENTS`.
    pub(crate) fn hints(self) -> Vec<String> {
        let numbered: BTreeSet<usize> = self.numbers().collect();
        let mut hints: Vec<String> = numbered.into_iter().map(|number| format!("${number}")).collect();
        hints.extend(self.0.contains(ALL).then(|| ALL.to_owned()));
        hints
    }

    /// Whether the template contains a shell command, as `` !`command` ``.
    pub(crate) fn has_shell(self) -> bool {
        let mut rest = self.0;
        while let Some((_, after)) = rest.split_once("!`") {
            match after.find('`') {
                Some(0) => rest = after,
                Some(_) => return true,
                None => return false,
            }
        }
        false
    }

    /// Puts the arguments in. The last numbered placeholder takes all that are left; without placeholders they are appended.
    pub(crate) fn fill(self, arguments: &str) -> String {
        let words = words(arguments);
        let last = self.numbers().max();
        let mut filled = String::new();
        for piece in self.pieces() {
            match piece {
                Piece::Text(text) => filled.push_str(&text.replace(ALL, arguments)),
                Piece::Argument(number) => {
                    let given =
                        number.checked_sub(1).and_then(|first| words.get(first..)).unwrap_or_default();
                    let taken = if Some(number) == last { given.len() } else { given.len().min(1) };
                    filled.push_str(&given[..taken].join(" "));
                }
            }
        }
        if last.is_none() && !self.0.contains(ALL) && !arguments.trim().is_empty() {
            filled.push_str("\n\n");
            filled.push_str(arguments);
        }
        filled.trim().to_owned()
    }

    /// Names of files or agents, which follow an `@`.
    pub(crate) fn references(self) -> Vec<&'t str> {
        let mut found: Vec<&str> = Vec::new();
        for (place, _) in self.0.match_indices('@') {
            let before = self.0[..place].chars().next_back();
            // An address of mail, or code.
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '`') {
                continue;
            }
            let rest = &self.0[place + 1..];
            let end = rest.find(|c: char| c.is_whitespace() || matches!(c, '`' | ',')).unwrap_or(rest.len());
            let name = rest[..end].trim_end_matches('.');
            if !name.is_empty() && !found.contains(&name) {
                found.push(name);
            }
        }
        found
    }

    fn numbers(self) -> impl Iterator<Item = usize> {
        self.pieces().into_iter().filter_map(|piece| match piece {
            Piece::Argument(number) => Some(number),
            Piece::Text(_) => None,
        })
    }

    fn pieces(self) -> Vec<Piece<'t>> {
        let (mut pieces, mut rest) = (Vec::new(), self.0);
        let mut from = 0;
        while let Some(place) = rest[from..].find('$').map(|place| from + place) {
            let digits = rest[place + 1..].bytes().take_while(u8::is_ascii_digit).count();
            match rest[place + 1..place + 1 + digits].parse() {
                Ok(number) => {
                    pieces.extend([Piece::Text(&rest[..place]), Piece::Argument(number)]);
                    (rest, from) = (&rest[place + 1 + digits..], 0);
                }
                Err(_) => from = place + 1,
            }
        }
        pieces.push(Piece::Text(rest));
        pieces
    }
}

/// Splits arguments at spaces. Quoted text is one argument, and so is `[Image 1]`, which clients write for an image.
fn words(arguments: &str) -> Vec<&str> {
    let (mut words, mut rest) = (Vec::new(), arguments.trim_start());
    while let Some(first) = rest.chars().next() {
        let (word, after) = match first {
            '"' | '\'' => match rest[1..].split_once(first) {
                Some((word, after)) => (word, after),
                // A quote that is never closed says nothing.
                None => {
                    rest = rest[1..].trim_start();
                    continue;
                }
            },
            '[' if rest.starts_with("[Image ") && rest.contains(']') => {
                rest.split_at(rest.find(']').map_or(rest.len(), |end| end + 1))
            }
            _ => {
                let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'');
                rest.split_at(rest.find(is_end).unwrap_or(rest.len()))
            }
        };
        words.push(word);
        rest = after.trim_start();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::{Template, words};

    #[test]
    fn arguments_are_put_in_as_in_opencode() {
        for (template, arguments, expected) in [
            ("Review $ARGUMENTS now.", "a \"b c\"", "Review a \"b c\" now."),
            ("$1 and $2", "one \"two three\"", "one and two three"),
            ("$1 then $2", "one two three", "one then two three"),
            ("first $1, again $1", "x y", "first x y, again x y"),
            ("$2 before $1", "x", "before x"),
            ("Review.", "this one", "Review.\n\nthis one"),
            ("Review.", " ", "Review."),
            ("costs $5x and $", "", "costs x and $"),
            ("$0", "x", ""),
            ("$99999999999999999999999", "x", "$99999999999999999999999\n\nx"),
            ("Say $1", "$ARGUMENTS", "Say $ARGUMENTS"),
            ("über $1 — ¢$2", "ä ö ü", "über ä — ¢ö ü"),
        ] {
            assert_eq!(Template(template).fill(arguments), expected, "{template} with {arguments}");
        }
        assert_eq!(words("a 'b c' [Image 1] d\"e f\" \"open"), ["a", "b c", "[Image 1]", "d", "e f", "open"]);
    }

    #[test]
    fn placeholders_files_and_shell_commands_are_found() {
        assert_eq!(Template("$2 $1 $2 $ARGUMENTS").hints(), ["$1", "$2", "$ARGUMENTS"]);
        let text = "Look at @src/main.rs, @.env.sample and @explore. Not a@b.de, `@code` nor @.";
        assert_eq!(Template(text).references(), ["src/main.rs", ".env.sample", "explore"]);
        assert!(Template("Status: !`git status`").has_shell());
        for text in ["!`", "wow! `code`", "!`` x", "a!b`c`"] {
            assert!(!Template(text).has_shell(), "{text}");
        }
    }
}
