//! What `#[replicated]` makes of a type.

use super::codec::Undecodable;
use super::local::Here;
use super::shape::Shapes;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A type that `#[replicated]` has made callable. Its serialized form is the state that a newcomer
/// is given.
pub trait Replicated: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The methods that can be called, by their numbers.
    const METHODS: &'static [Method];

    /// Adds the types of the object, and of its methods' arguments and results.
    fn describe(shapes: &mut Shapes);

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

    /// Runs the p2p method with this number, at one member.
    ///
    /// # Errors
    /// As for [`Replicated::execute`].
    fn run_here(&self, method: u16, arguments: &[u8], here: &Here) -> Result<Vec<u8>, Undecodable>;
}

/// What the members of a group have to agree on of an object, in words: its methods, and what their
/// types and the object's are made of.
pub fn agreed<S: Replicated>() -> String {
    let methods: Vec<&str> = S::METHODS.iter().map(|method| method.signature).collect();
    let mut shapes = Shapes::default();
    S::describe(&mut shapes);
    format!("{}; {shapes}", methods.join("; "))
}

/// A method that can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method {
    /// The name.
    pub name: &'static str,
    /// The kind, the name and the types: the same at all members.
    pub signature: &'static str,
    /// Where it is executed, and what it may change.
    pub kind: MethodKind,
}

/// Where a method is executed, and what it may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MethodKind {
    /// At every member, in one order: the object.
    Ordered,
    /// At one member, or at a place of the order: nothing.
    Query,
    /// At one member, once: what is that member's alone ([`super::Local`]).
    P2p,
}
