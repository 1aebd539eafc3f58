//! Whole clusters under seeds: the released engine, key-value door and state, over the simulated
//! network and disks, with clients that send RESP bytes and judge the replies.
//!
//! The other worlds of this crate run a protocol's machine alone and simulate the engine. Here that
//! part is the released one: requests, forwarding, batches, checks, state transfer, snapshots,
//! sessions, transactions, watched keys.
//!
//! - I1 the history of all clients is linearizable, transactions and watched keys included. Judged
//!   in `phases`.
//! - I2 the appends of one connection are there in order (`client`, C2). Judged in `phases`.
//! - I3 a member gives no reply that a client of Redis does not expect, and no request is refused
//!   because data is lost: `storms` keeps to what the protocol promises (S1). Judged in `client`.
//! - I4 a log on disk reaches back to the newest durable snapshot, unless that is damaged. Judged
//!   in `disk`.
//! - I5 when all is well again every client is answered within a bounded time, every member has
//!   executed the same prefix, and a read at each of them sees the same values (by I1). Judged in
//!   `phases`.
//! - I6 when nothing but the leader dies, every command that another member has taken is answered.
//!   Judged in `phases`.
//! - I7 an operator replaces, removes and adds members by the released commands, and a change that
//!   is called done is decided. Judged in `changes` (O2 to O6) and `supervisor` (A1, A4, A5).
//! - I8 where a program is replicated, no connection stays open without its client when all is
//!   well. Judged in `phases`.
//! - I9 a copy that answers otherwise than the others is put down within two comparisons, and no
//!   other is. Judged in `supervisor`.
//! - I10 when all is well, the states of all members are the same: keys, values, expiries,
//!   versions, sessions. Judged in `states`.
//! - I11 with `disk-all`, what a client is told is on the disk of every voter. Judged in
//!   `disk_all`.
//! - I12 keys that expire are there for their time, and gone after it for good. Judged in `expiry`.
//! - I13 a copy that takes up nothing, and that the others have passed, is put down, and its
//!   member's clients are answered (I5); no other copy is. Judged in `supervisor` and `phases`.
//! - I14 a connection sees its own order, whatever it sends without waiting. Judged in `own`.
//! - I15 a call of a session is executed once, whichever processes and connections end meanwhile,
//!   and no session is lost. Judged in `calls`.
//! - I16 as many members as WAIT says hold what was written. Judged in `waits`.
//! - I17 what a client is told is on the disks of a majority. Judged in `disk_all` (D4).
//! - I18 a member whose disk fails ends, one whose disk is damaged says so and does not serve, and
//!   both come back. Judged in `disk_faults` (F2, F3) and, with the others, in `phases`.
//! - I19 where the keyspace is in partitions, a command of several keys takes effect in all of
//!   them or in none (by I1, `several`), and when all is well the replicas of each partition are
//!   the same. Judged in `states`.
//! - I20 when nothing but a follower and its leader are cut off from each other, the clients of all
//!   members are answered meanwhile, within the same time. Judged in `phases`.
//! - I21 where a program is replicated, verdicts count the members that are in, and no others, when
//!   all is well. Judged in `phases`. They, the table of connections, and what is known of
//!   checkpoints are the same at all members, also at one that was given a state. Judged in
//!   `states`.
//! - I22 a request over a limit, and the transaction in which it stands, have no effect. Judged in
//!   `own` (W4).
//! - I23 where each key is kept by itself, a request of several keys that is refused has done
//!   nothing to any of them. Judged in `phases` (by I1, `several`).
//! - I24 commands that one process calls executed were executed in the order in which it took them;
//!   all that is said of the end of a state is the same; and where each key is kept by itself, an
//!   operation ends when a majority holds its version. Judged where members claim it:
//!   `checks::answered`, `checks::ends`, `checks::versions`.
//!
//! A seed replays everything, as in the other worlds.

mod aims;
mod bursts;
mod calls;
mod changes;
mod client;
mod clients;
mod compared;
mod deviants;
mod disk;
mod disk_all;
mod disk_faults;
mod expiry;
mod halfway;
mod idle;
mod kinds;
mod last_reads;
mod leases;
mod leg;
mod makers;
mod member;
mod operator;
mod outcomes;
mod own;
mod partitions;
mod phases;
mod plant;
mod program;
mod record;
mod replicated;
mod resp;
mod saves;
mod scripts;
mod seats;
mod several;
mod shelf;
mod silence;
mod start;
mod states;
mod storms;
mod supervisor;
mod sweeps;
mod talk;
mod timers;
mod times;
mod told;
mod values;
mod waits;
mod wipes;
mod world;

pub(crate) use kinds::Kinship;
pub use kinds::Protocol;
pub use sweeps::{mutant_named, mutants, replay, sweep};
pub(crate) use world::run;
