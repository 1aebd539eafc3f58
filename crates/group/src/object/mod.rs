//! Replicated objects: a type whose marked methods can be called at every member of a group.
//!
//! ```text
//! handle.put(k, v) -> ticket, number, arguments -> one multicast
//!     every member's object: put(k, v);  the caller's member: the result, by the ticket
//! ```
//! - O1 *One order.* An object changes by deliveries alone, in their order, one at a time. By
//!   construction: its lock is written by one thread.
//! - O2 *Each call has one outcome.* The result comes from the own delivery, or from that of the
//!   member that was asked to make the call (O4); a call of which none
//!   comes ends with the reason why the process is no longer in the group. By construction of
//!   `Calls`: a ticket is taken out once, and an end takes out all of them.
//! - O4 *A shard's copy.* A process has a copy of the shard that it is in, and of no other: it
//!   begins with the shard, or is given. A call names its shard, and is executed there or not at
//!   all; one that another process is to make is asked for once. Tested by `objects_in_shards`.
//! - O5 *Times follow causes.* A call is later than every call of which its caller knew the
//!   outcome, in whichever shard, and than what its copies were given: letters and states carry the
//!   latest time that their writer knows of, and a member that multicasts has learned it. Tested by
//!   `a_cut_through_shards_is_causal`, `a_newcomer_has_the_versions_that_are_part_of_the_state`.
//! - O3 *No handler waits for itself.* A method that runs at its place in the order, or by a p2p
//!   call, and a look at a copy may call the object, and are refused where they would wait. Tested
//!   by `a_handler_that_would_wait_is_refused`, `o3_a_p2p_method_calls_and_does_not_wait`,
//!   `o3_a_query_within_a_look_is_refused`.
//! - O6 *A p2p call is executed once*, by the process that it names, however often it is asked for
//!   (`done`). Its caller has its result, or knows that it was not executed, or that this is
//!   unknown. Tested by `o6_each_p2p_call_is_executed_once`, `o6_a_p2p_call_of_a_dead_member_ends`.
//! - O7 *Replies end.* A call to which each member replies is a call as any other; each member that
//!   was in the shard replies, or is said not to, and there is an end (`gather`). Tested by
//!   `o7_each_member_replies_once`, `o7_a_member_that_fails_is_gone_and_the_replies_end`.

mod ahead;
mod aheads;
pub mod bugs;
mod calls;
mod clients;
mod codec;
mod copy;
mod current;
mod done;
mod each;
mod finals;
mod frames;
mod front;
mod gather;
mod handler;
mod host;
mod late;
mod letters;
mod local;
mod mark;
mod moment;
mod owner;
mod p2p;
mod pending;
mod remote;
mod replica;
mod replicated;
mod shape;
mod states;
mod stepped;
mod versions;

pub use clients::Clients;
pub use codec::{Key, Undecodable, decode, encode};
pub use each::{MemberReply, Replies};
pub use frames::RemoteError;
pub use gather::NoReply;
pub use local::{Here, Local};
pub use moment::{Moment, Version};
pub use pending::{CallError, Pending};
pub use remote::{Access, Remote};
pub use replica::{Objects, Replica, Replicas};
pub use replicated::{Method, MethodKind, Replicated, agreed};
pub use shape::Shapes;
pub(crate) use stepped::Stepped;
pub use stepped::{ask_again, ask_for_replies_again, look_at_copy};
pub use versions::{
    Changing, Delta, Deltas, HistoryError, Keep, Persistent, VERSIONS_KEPT, Volatile, Whole,
};
