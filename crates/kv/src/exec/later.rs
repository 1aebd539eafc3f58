//! Reads at a time later than the state's, outside of the log.
//!
//! State time stands still while nothing is written, and a read needs the present time. But the
//! replica that answers never decides by its own clock that a key has expired: another replica
//! would still show it, and time would run backwards. So the caller asks first whether the read
//! would find such a key ([`Store::sees_an_expiry`]). If it would, the caller has a stamp decided
//! that brings every replica to that time.

use super::Call;
use super::memory::put_time;
use crate::command::{CommandSpec, keys_of};
use crate::reply::Reply;
use crate::store::{Db, DbKey, NEVER, Store};

impl Store {
    /// Whether this read would find a key expired at `unix_ms` that is live in state time.
    pub(crate) fn sees_an_expiry(
        &self,
        db: Db,
        spec: &CommandSpec,
        args: &[&[u8]],
        unix_ms: u64,
    ) -> bool {
        if unix_ms <= self.now_ms() || self.expiring() == 0 {
            return false;
        }
        match keys_of(spec, args) {
            Ok(mut keys) => keys.any(|at| self.would_expire(DbKey { db, key: args[at] }, unix_ms)),
            Err(_) => self.any_would_expire(db, unix_ms),
        }
    }

    /// Executes a read that sees no expiry at `unix_ms`, as [`Store::query`] does. TIME, and TTL
    /// and PTTL of a key that will expire, count from then: with state time a key would not age
    /// while nothing is written.
    pub(crate) fn query_at(&self, unix_ms: u64, call: &Call<'_>, reply: &mut Reply) {
        let Call { spec, db, args, seed } = *call;
        let now_ms = unix_ms.max(self.now_ms());
        let left_ms = || {
            let entry = self.live(call.key(1))?;
            (entry.expire_at != NEVER).then(|| entry.expire_at.saturating_sub(now_ms))
        };
        let left = match spec.name {
            "time" => return put_time(now_ms, reply),
            "ttl" => left_ms().map(|ms| (ms + 500) / 1000),
            "pttl" => left_ms(),
            _ => None,
        };
        match left {
            Some(left) => reply.integer(left as i64),
            None => self.query(db, spec, args, seed, reply),
        }
    }
}
