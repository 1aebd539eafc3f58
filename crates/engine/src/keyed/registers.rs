//! What this family's engine serves: registers, and what requests make of their values.

use proto::keyed::{KeyedCounts, Tag};

/// What a request wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The keys that it is about; not empty.
    pub keys: Vec<Vec<u8>>,
    /// Whether values are to change.
    pub is_write: bool,
}

/// The replicated state: a register for each key, and what requests make of values.
///
/// A value is bytes, the empty one that of a key that is not there.
pub trait Registers {
    /// This member's replica of `key`, if it has ever stored one.
    fn register(&self, key: &[u8]) -> Option<(Tag, &[u8])>;

    /// Puts a version in the place of whatever the replica of `key` holds.
    fn put_register(&mut self, key: &[u8], tag: Tag, value: &[u8]);

    /// The first register behind `after` in the order of keys; the first of all for `None`.
    fn next_register(&self, after: Option<&[u8]>) -> Option<(&[u8], Tag, &[u8])>;

    /// What `request` wants.
    ///
    /// # Errors
    /// The reply, if it cannot be done.
    fn plan(&mut self, request: &[u8]) -> Result<Plan, Vec<u8>>;

    /// Does part `at` of a request on the `value` that its key has: appends the part's answer to
    /// `reply`. For a write, `new` becomes the new value, and the result says whether there is one.
    fn perform(
        &mut self,
        request: &[u8],
        at: usize,
        value: &[u8],
        new: &mut Vec<u8>,
        reply: &mut Vec<u8>,
    ) -> bool;

    /// The machine's counts so far, for questions from outside.
    fn note(&mut self, counts: KeyedCounts);

    /// Joins the answers of a request's parts to its reply.
    fn join(&mut self, request: &[u8], parts: &[Vec<u8>], reply: &mut Vec<u8>);
}
