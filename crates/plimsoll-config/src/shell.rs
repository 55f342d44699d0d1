//! Words for a shell, in commands that a message suggests.

/// Quotes a word for a POSIX shell, if it has to be.
///
/// Every suggested command goes through this function: paths and patterns come from models and checkouts, and the user
/// pastes the command.
///
/// ```
/// use plimsoll_config::shell_quoted;
///
/// assert_eq!(shell_quoted("/home/ada/plimsoll"), "/home/ada/plimsoll");
/// assert_eq!(shell_quoted("/home/ada/my file"), "'/home/ada/my file'");
/// ```
pub fn shell_quoted(word: &str) -> String {
    // No argument of a command can contain a NUL byte, so any visible text is as good as another.
    let word = word.replace('\0', "\\0");
    shlex::try_quote(&word).map_or_else(|_| word.clone(), |quoted| quoted.into_owned())
}

#[cfg(test)]
mod tests {
    use super::shell_quoted;

    #[test]
    fn a_shell_reads_a_quoted_word_as_it_was() {
        for word in
            ["/home/o'brien/trust.json", "a b", "$HOME `id` \"x\" !1", "'; rm -r ~; '", "", "~", "a\nb"]
        {
            let quoted = shell_quoted(word);
            assert_eq!(shlex::split(&quoted), Some(vec![word.to_owned()]), "{quoted}");
            // Not only for the crate that quoted it.
            let output = std::process::Command::new("sh")
                .arg("-c")
                .arg(format!("printf %s {quoted}"))
                .output()
                .unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), word, "{quoted}");
        }
        assert_eq!(shlex::split(&shell_quoted("a\0b")), Some(vec!["a\\0b".to_owned()]));
    }
}
