//! Reads outside of the log, on the state as it is.
//!
//! The caller has made sure that the state is recent enough (a linearizable read check). What
//! remains is time: the state's clock stands still while nothing is written, so a read that would
//! find a key expired by now first has a tick decided (`exec::later`).

use super::Machine;
use crate::client_sessions::ReadJudged;
use crate::command::resolve;
use crate::entry::{Command, SessionCommand};
use crate::exec::Call;
use crate::reply::Reply;
use crate::store::DbKey;
use crate::text;

/// The outcome of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    /// Exactly one reply was appended.
    Done,
    /// Nothing was appended: at the given time the read would find a key expired that the state has
    /// not expired yet. Have a tick with that stamp decided, then read again.
    NeedsTick,
}

impl Machine {
    /// Answers a read that the door has encoded. `stamp_ms` is the stamp that a tick would get now;
    /// `seed` is the randomness of RANDOMKEY.
    ///
    /// The versions that WATCH asks for are answered as an array of integers, for the door.
    pub fn read(&self, command: &[u8], stamp_ms: u64, seed: u64, reply: &mut Reply) -> ReadOutcome {
        let mut outcome = ReadOutcome::Done;
        reply.bounded(text::ANSWER_TOO_LONG, |reply| {
            outcome = self.read_at_length(command, stamp_ms, seed, reply);
        });
        outcome
    }

    fn read_at_length(
        &self,
        command: &[u8],
        stamp_ms: u64,
        seed: u64,
        reply: &mut Reply,
    ) -> ReadOutcome {
        match Command::decode(command) {
            Ok(Command::Plain { db, protocol, args }) => {
                reply.set_protocol(protocol);
                let Some(spec) = resolve(&args, reply) else { return ReadOutcome::Done };
                if !spec.is_for_store() || spec.is_write() {
                    reply.error(text::MALFORMED);
                    return ReadOutcome::Done;
                }
                if self.store.sees_an_expiry(db, spec, &args, stamp_ms) {
                    return ReadOutcome::NeedsTick;
                }
                let call = Call { spec, db, args: &args, seed };
                self.store.query_at(stamp_ms, &call, reply);
            }
            Ok(Command::Versions { db, keys }) => {
                let of = |key| DbKey { db, key };
                if keys.iter().any(|key| self.store.would_expire(of(key), stamp_ms)) {
                    return ReadOutcome::NeedsTick;
                }
                reply.array(keys.len());
                keys.iter().for_each(|key| reply.integer(self.store.version(of(key)) as i64));
            }
            Ok(Command::Session(SessionCommand::Read { id, number, command })) => {
                // A call in a session cannot be another session command.
                let is_plain = matches!(Command::decode(command), Ok(Command::Plain { .. }));
                match self.clients.judge_read(id, number, stamp_ms) {
                    _ if !is_plain => reply.error(text::MALFORMED),
                    ReadJudged::Good => return self.read_at_length(command, stamp_ms, seed, reply),
                    ReadJudged::NeedsTick => return ReadOutcome::NeedsTick,
                    ReadJudged::NoSession => reply.error(text::NO_SESSION),
                    ReadJudged::Gap(next) => super::session::gap(next, reply),
                }
            }
            Ok(Command::Transaction { .. } | Command::Session(_)) | Err(_) => {
                reply.error(text::MALFORMED);
            }
        }
        ReadOutcome::Done
    }
}
