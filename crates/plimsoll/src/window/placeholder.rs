//! Placeholders of cleared tool results.

use crate::log::Part;

/// Replaces a cleared tool result in the window.
pub const PLACEHOLDER: &str = "[Old tool result content cleared]";
/// Placeholder of a result with a handle, up to the handle.
pub(super) const PLACEHOLDER_WITH_HANDLE: &str = "[Old tool result content cleared; recall ";
/// Precedes the names that stay of a cleared result or input.
pub(super) const NAMES: &str = "Names in it: ";

/// Returns a placeholder, followed by the names that stay of the result.
pub(crate) fn placeholder_with_names(placeholder: &str, part: &Part) -> String {
    let names = part.names_of_result();
    if names.is_empty() { placeholder.to_owned() } else { format!("{placeholder}\n{NAMES}{names}") }
}

/// Returns whether a text is a placeholder of a cleared result.
pub fn is_placeholder(text: &str) -> bool {
    let first = text
        .split_once('\n')
        .map_or(text, |(first, names)| if names.starts_with(NAMES) { first } else { text });
    first == PLACEHOLDER || placeholder_handle(first).is_some()
}

/// Returns whether a text is a placeholder without names.
pub fn is_bare_placeholder(text: &str) -> bool {
    is_placeholder(text) && !text.contains('\n')
}

/// Returns the handle in a placeholder, if the text is a placeholder with one.
///
/// ```
/// use plimsoll::window::placeholder_handle;
/// assert_eq!(placeholder_handle("[Old tool result content cleared; recall prt_1]"), Some("prt_1"));
/// assert_eq!(placeholder_handle("[Old tool result content cleared]"), None);
/// ```
pub fn placeholder_handle(text: &str) -> Option<&str> {
    let (first, names) = text.split_once('\n').unwrap_or((text, NAMES));
    first.strip_prefix(PLACEHOLDER_WITH_HANDLE)?.strip_suffix(']').filter(|_| names.starts_with(NAMES))
}
