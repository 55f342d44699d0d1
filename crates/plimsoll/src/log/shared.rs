//! Values that clones share.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A value that clones share until one of them changes it (copy on write).
///
/// Plans, climbs and drivers work on copies of a log. A deep copy of 100,000 short messages takes 80 MB, more than their texts.
///
/// ```
/// use plimsoll::Message;
/// let message = Message::user("msg_1".into(), "prt_1".into(), "hello");
/// let mut copy = message.clone();
/// copy.info.agent = Some("build".into());
/// assert_eq!(message.info.agent, None);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shared<T>(Arc<T>);

impl<T: Clone> Shared<T> {
    /// The value itself; a copy if it is shared.
    pub fn into_inner(self) -> T {
        Arc::unwrap_or_clone(self.0)
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Shared<T> {
        Shared(Arc::new(value))
    }
}

impl<T> FromIterator<T> for Shared<Vec<T>> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Shared<Vec<T>> {
        Shared(Arc::new(items.into_iter().collect()))
    }
}

impl<T: Clone> IntoIterator for Shared<Vec<T>> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.into_inner().into_iter()
    }
}

impl<'a, T> IntoIterator for &'a Shared<Vec<T>> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, T: Clone> IntoIterator for &'a mut Shared<Vec<T>> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}
