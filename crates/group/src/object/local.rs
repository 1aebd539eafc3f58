//! What one member has for itself alone: [`Local`] fields, and [`Here`], which reaches them.
//!
//! - H1 *Copies stay equal.* What is in a [`Local`] differs between members, so nothing that is
//!   the same at all of them may follow from it. By type: it is reached with a [`Here`] alone,
//!   which p2p methods are lent, and ordered methods and queries are not; and a p2p method has
//!   `&self`, so it changes no other field. Tested by the examples below that do not compile.
//! - H2 *Not in a state.* A [`Local`] is no part of the object's bytes, and two of them are equal:
//!   it begins with its default wherever a copy begins. Tested by
//!   `h2_what_is_local_is_in_no_state`.

use crate::event::Member;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::sync::{Mutex, MutexGuard, TryLockError};

/// A field of a replicated object that each member has for itself: no part of the object's state,
/// and the same as any other in comparisons. A member's begins with its default, when the member
/// gets a copy, and is gone with that.
///
/// `#[p2p]` methods reach it, with what they are lent:
///
/// ```
/// use group::{Here, Local, replicated};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Default, Serialize, Deserialize)]
/// struct Tickets {
///     sold: u64,
///     asked_here: Local<u64>,
/// }
///
/// #[replicated]
/// impl Tickets {
///     #[ordered]
///     fn sell(&mut self) {
///         self.sold += 1;
///     }
///
///     /// How often this member was asked, and how many tickets are sold.
///     #[p2p]
///     fn ask(&self, here: &Here) -> (u64, u64) {
///         let mut asked = self.asked_here.lock(here);
///         *asked += 1;
///         (*asked, self.sold)
///     }
/// }
/// ```
///
/// Others have nothing to reach it with, so copies stay equal:
///
/// ```compile_fail,E0061
/// # use group::{Local, replicated};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Default, Serialize, Deserialize)]
/// # struct Tickets { sold: u64, asked_here: Local<u64> }
/// #[replicated]
/// impl Tickets {
///     #[ordered]
///     fn sell(&mut self) {
///         self.sold += *self.asked_here.lock();
///     }
/// }
/// ```
///
/// A p2p method changes nothing else:
///
/// ```compile_fail,E0594
/// # use group::{Here, Local, replicated};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Default, Serialize, Deserialize)]
/// # struct Tickets { sold: u64, asked_here: Local<u64> }
/// #[replicated]
/// impl Tickets {
///     #[p2p]
///     fn ask(&self, here: &Here) {
///         self.sold += 1;
///     }
/// }
/// ```
#[derive(Default)]
pub struct Local<T>(Mutex<T>);

impl<T> Local<T> {
    /// The value at this member, until what this returns is dropped.
    ///
    /// # Panics
    /// If the method that asks has it already.
    pub fn lock(&self, _: &Here) -> MutexGuard<'_, T> {
        // P2p methods run one at a time, and one that panics ends its process.
        match self.0.try_lock() {
            Ok(value) => value,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => panic!("this method has the local value already"),
        }
    }
}

/// H2
impl<T> PartialEq for Local<T> {
    fn eq(&self, _: &Local<T>) -> bool {
        true
    }
}

impl<T> Eq for Local<T> {}

/// H2
impl<T> Serialize for Local<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit_struct("Local")
    }
}

impl<'de, T: Default> Deserialize<'de> for Local<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Local<T>, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename = "Local")]
        struct Nothing;
        Nothing::deserialize(deserializer).map(|Nothing| Local::default())
    }
}

/// H1: without the value, which an ordered method could read there.
impl<T> fmt::Debug for Local<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Local(..)")
    }
}

/// What a p2p method is lent while it runs at a member: it reaches the member's [`Local`] values,
/// and says for which member it runs.
#[derive(Debug)]
pub struct Here {
    me: Member,
    caller: Member,
}

impl Here {
    pub(super) const fn new(me: Member, caller: Member) -> Here {
        Here { me, caller }
    }

    /// This member.
    pub const fn me(&self) -> Member {
        self.me
    }

    /// The member that calls; for a client outside of the group, the one by whose way it does.
    pub const fn caller(&self) -> Member {
        self.caller
    }
}

#[cfg(test)]
mod tests {
    use super::super::codec::{decode, encode};
    use super::*;

    fn here() -> Here {
        let one = Member { seat: 1, incarnation: 7, metadata: [0; 2] };
        Here::new(one, one)
    }

    #[test]
    fn h2_what_is_local_is_in_no_state() {
        #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
        struct Held {
            shared: u8,
            local: Local<u64>,
        }

        let held = Held { shared: 5, local: Local::default() };
        *held.local.lock(&here()) = 9;
        let bytes = encode(&held);
        assert_eq!(bytes, [5]);
        let there: Held = decode(&bytes).expect("bytes of it");
        assert_eq!((*held.local.lock(&here()), *there.local.lock(&here())), (9, 0));
        assert_eq!(there, held, "what is local is not compared");
        assert_eq!(format!("{:?}", held.local), "Local(..)", "H1");
    }

    #[test]
    #[should_panic(expected = "has the local value already")]
    fn a_method_that_locks_twice_is_told_so() {
        let local = Local::<u64>::default();
        let _held = local.lock(&here());
        let _again = local.lock(&here());
    }
}
