//! Replicated objects: a type whose marked methods can be called at every member of a group.
//!
//! ```text
//! handle.put(k, v) -> ticket, number, arguments -> one multicast -> every member's object: put(k, v)
//!                                                    the caller's member: the result, by the ticket
//! ```
//! - O1 *One order.* An object changes by deliveries alone, in their order, one at a time. By
//!   construction: its lock is written by one thread.
//! - O2 *Each call has one outcome.* The result comes from the own delivery; a call of which none
//!   comes ends with the reason why the process is no longer in the group. By construction of
//!   `Calls`: a ticket is taken out once, and an end takes out all of them.
//! - O3 *No handler waits for itself.* A method that runs at its place in the order may call the
//!   object, and is refused where it would wait. Tested by `a_handler_that_would_wait_is_refused`.

mod calls;
mod codec;
mod letters;
mod pending;
mod replica;

pub use codec::{Undecodable, decode, encode};
pub use pending::{CallError, Pending};
pub use replica::Replica;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A type that `#[replicated]` has made callable. Its serialized form is the state that a newcomer
/// is given.
pub trait Replicated: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The methods that can be called, by their numbers.
    const METHODS: &'static [Method];

    /// Executes the ordered method with this number, and returns its result's bytes.
    ///
    /// # Errors
    /// No such method, or no arguments of it: nothing happened.
    fn execute(&mut self, method: u16, arguments: &[u8]) -> Result<Vec<u8>, Undecodable>;

    /// Answers the query with this number.
    ///
    /// # Errors
    /// As for [`Replicated::execute`].
    fn answer(&self, method: u16, arguments: &[u8]) -> Result<Vec<u8>, Undecodable>;
}

/// A method that can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method {
    /// The name.
    pub name: &'static str,
    /// The kind, the name and the types: the same at all members.
    pub signature: &'static str,
    /// Whether it changes nothing.
    pub is_query: bool,
}
