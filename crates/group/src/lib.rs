//! The door to groups: processes that come and go, agree on which of them are there, and multicast
//! to one another in one order.
//!
//! A *group* has a *view*, a numbered list of its members. Every member may multicast, and all
//! members deliver the same messages in the same order. When members join, leave or fail, the next
//! view begins, and the survivors have delivered the same messages before it does (*virtual
//! synchrony*).
//!
//! ```
//! use group::{Event, Group, Options};
//! use std::time::Duration;
//!
//! type Problem = Box<dyn std::error::Error + Send + Sync>;
//!
//! /// What one process of the group does: here each on a thread, elsewhere each on its own.
//! fn member(group: &Group, greeting: &str) -> Result<Vec<String>, Problem> {
//!     let (mut heard, mut has_spoken) = (Vec::new(), false);
//!     while heard.len() < 3 {
//!         match group.next(Duration::from_secs(10)).ok_or("nothing happens")? {
//!             Event::View(view) => {
//!                 println!("{view}"); // view 2: seats 1 2; joined 2; survives no failure
//!                 if view.members.len() == 3 && !has_spoken {
//!                     has_spoken = true;
//!                     group.send(greeting.as_bytes())?;
//!                 }
//!             }
//!             Event::Delivered(message) => heard.push(String::from_utf8(message.bytes)?),
//!             Event::Ended(why) => return Err(why.into()),
//!             Event::Inadequate { .. } | Event::StateWanted(_) | Event::State(_) => {}
//!         }
//!     }
//!     Ok(heard)
//! }
//!
//! # let directory = tempfile::Builder::new().prefix("gregale-").tempdir_in("/dev/shm")?;
//! let options = Options::shm("greeters", "only the greeters know this", "greeter 1");
//! # let options = Options { directory: directory.path().into(), ..options };
//! let groups = [Group::found(&options)?, Group::join(&options)?, Group::join(&options)?];
//! std::thread::scope(|scope| {
//!     let run = |(group, word)| scope.spawn(move || member(group, word));
//!     let members: Vec<_> = groups.iter().zip(["hello", "salut", "ciao"]).map(run).collect();
//!     let heard: Vec<_> = members.into_iter().map(|one| one.join().unwrap().unwrap()).collect();
//!     assert!(heard.iter().all(|one| *one == heard[0]), "one order: {heard:?}");
//! });
//! for group in groups {
//!     group.close(Duration::from_secs(5))?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod board;
mod door;
mod error;
mod event;
mod founding;
mod ground;
mod node;
mod options;
mod probe;
mod seat;
mod teller;

pub use door::Group;
pub use error::{Error, Refused};
pub use event::{Delivered, Ended, Event, Member, StateWanted, View};
pub use options::{MESSAGE_BYTES_MAX, Options, Transport, WINDOW_MAX};
pub use proto::vsync::Timing;
