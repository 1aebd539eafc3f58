//! The door to groups: processes that come and go, agree on which of them are there, and multicast
//! to one another in one order.
//!
//! ```
//! use group::{Options, Replica, replicated};
//! use serde::{Deserialize, Serialize};
//! use std::collections::BTreeMap;
//! use std::time::Duration;
//!
//! /// The stock of a shop, the same at all its tills.
//! #[derive(Default, Serialize, Deserialize)]
//! struct Stock {
//!     pieces: BTreeMap<String, u32>,
//! }
//!
//! #[replicated]
//! impl Stock {
//!     #[ordered]
//!     fn deliver(&mut self, article: String, n: u32) {
//!         *self.pieces.entry(article).or_default() += n;
//!     }
//!
//!     /// True if one was left.
//!     #[ordered]
//!     fn sell(&mut self, article: String) -> bool {
//!         let left = self.pieces.get_mut(&article).filter(|left| **left > 0);
//!         left.map(|left| *left -= 1).is_some()
//!     }
//!
//!     #[query]
//!     fn left(&self, article: String) -> u32 {
//!         self.pieces.get(&article).copied().unwrap_or(0)
//!     }
//! }
//!
//! # let directory = tempfile::Builder::new().prefix("gregale-").tempdir_in("/dev/shm")?;
//! let options = Options::shm("shop", "only the tills know this", "shop 1");
//! # let options = Options { directory: directory.path().into(), ..options };
//! let first = StockHandle::from(Replica::found(&options, Stock::default())?);
//! let second = StockHandle::from(Replica::join(&options)?); // another process, as a rule
//! first.deliver("kite".into(), 1).wait()?;
//! let sold = [&first, &second].map(|till| till.sell("kite".into()));
//! let sold = sold.into_iter().filter(|sold| sold.wait() == Ok(true)).count();
//! assert_eq!((sold, second.left_ordered("kite".into()).wait()?), (1, 0));
//! # drop(first);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A *group* has a *view*, a numbered list of its members. Every member may multicast, and all
//! members deliver the same messages in the same order. When members join, leave or fail, the next
//! view begins, and the survivors have delivered the same messages before it does (*virtual
//! synchrony*).
//!
//! [`replicated`] makes an object of it: each member has a copy, an *ordered* method runs at all of
//! them at the same place of the order, and a *query* at the member that is asked; a *p2p* method
//! runs at one member, and changes what that one has for itself ([`Local`]). A newcomer is given a
//! copy. Fields that keep their versions ([`Persistent`]) can be asked for the past.
//! [`Group`] is the layer below, with views and messages of bytes as [`Event`]s.
#![forbid(unsafe_code)]

mod board;
mod boarded;
mod data;
mod deadline;
mod door;
mod error;
mod event;
mod founding;
mod ground;
mod layout;
mod node;
mod object;
mod options;
mod post;
mod probe;
mod seat;
#[doc(hidden)]
pub mod simulated;
mod teller;
mod time;
mod words;

pub use door::Group;
pub use error::{Error, Refused};
pub use event::{Delivered, Ended, Event, Fate, Member, Shard, StateWanted, View};
pub use ground::LETTER_BYTES_MAX;
pub use group_macros::replicated;
pub use layout::{Senders, Shards, Subgroup};
pub use object::{
    Access, CallError, Changing, Clients, Delta, Deltas, Here, HistoryError, Keep, Key, Local,
    MemberReply, Method, MethodKind, Moment, NoReply, Objects, Pending, Persistent, Remote,
    RemoteError, Replica, Replicas, Replicated, Replies, Shapes, Undecodable, VERSIONS_KEPT,
    Version, Volatile, Whole, agreed, decode, encode,
};
pub use options::{Data, MESSAGE_BYTES_MAX, Options, Transport, WINDOW_MAX};
pub use proto::rdmc::Schedule;
pub use proto::vsync::{Mode, Payload, Relayed, ShardId, Timing};
pub use time::{FarTimeError, Time};
