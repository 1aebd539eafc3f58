//! Expiry of keys: EXPIRE and its family, TTL and its family.
//!
//! Relative times count from state time, which the caller has advanced to the stamp of the command.

use super::strings::invalid_expire_time;
use super::{Call, integer_or_reply};
use crate::reply::Reply;
use crate::store::{NEVER, Store};

pub(crate) fn expire(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    expire_at_base(store, call, 1000, true, reply);
}

pub(crate) fn pexpire(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    expire_at_base(store, call, 1, true, reply);
}

pub(crate) fn expireat(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    expire_at_base(store, call, 1000, false, reply);
}

pub(crate) fn pexpireat(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    expire_at_base(store, call, 1, false, reply);
}

/// The conditions of EXPIRE.
#[derive(Default)]
struct Conditions {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}

impl Conditions {
    fn parse(words: &[&[u8]], reply: &mut Reply) -> Option<Conditions> {
        let mut conditions = Conditions::default();
        for word in words {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            if is("nx") {
                conditions.nx = true;
            } else if is("xx") {
                conditions.xx = true;
            } else if is("gt") {
                conditions.gt = true;
            } else if is("lt") {
                conditions.lt = true;
            } else {
                let end = word.iter().position(|&byte| byte == 0).unwrap_or(word.len());
                reply.error([b"ERR Unsupported option ", &word[..end]].concat());
                return None;
            }
        }
        let Conditions { nx, xx, gt, lt } = conditions;
        if nx && (xx || gt || lt) {
            reply.error("ERR NX and XX, GT or LT options at the same time are not compatible");
            return None;
        }
        if gt && lt {
            reply.error("ERR GT and LT options at the same time are not compatible");
            return None;
        }
        Some(conditions)
    }

    /// Whether an expiry `old` may be replaced by `new`; no expiry counts as infinitely late.
    fn allow(&self, old: Option<i64>, new: i64) -> bool {
        !(self.nx && old.is_some()
            || self.xx && old.is_none()
            || self.gt && old.is_none_or(|old| new <= old)
            || self.lt && old.is_some_and(|old| new >= old))
    }
}

fn expire_at_base(
    store: &mut Store,
    call: &Call<'_>,
    unit_ms: i64,
    relative: bool,
    reply: &mut Reply,
) {
    let key = call.key(1);
    let Some(conditions) = Conditions::parse(&call.args[3..], reply) else { return };
    let Some(time) = integer_or_reply(call.args[2], reply) else { return };
    let base = if relative { store.now_ms() } else { 0 };
    let Some(when) = time.checked_mul(unit_ms).and_then(|ms| ms.checked_add_unsigned(base)) else {
        invalid_expire_time(call, reply);
        return;
    };
    let Some(entry) = store.live(key) else {
        reply.integer(0);
        return;
    };
    let old = (entry.expire_at != NEVER).then_some(entry.expire_at as i64);
    let allowed = conditions.allow(old, when);
    if allowed {
        // A time before 1970 is as expired as 1970.
        store.set_expiry(key, when.max(0).unsigned_abs());
    }
    reply.integer(i64::from(allowed));
}

pub(crate) fn persist(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    let expires = store.live(call.key(1)).is_some_and(|entry| entry.expire_at != NEVER);
    if expires {
        store.set_expiry(call.key(1), NEVER);
    }
    reply.integer(i64::from(expires));
}

pub(crate) fn ttl(store: &Store, call: &Call<'_>, reply: &mut Reply) {
    answer(store, call, reply, |at, now| round_to_seconds(at - now));
}

pub(crate) fn pttl(store: &Store, call: &Call<'_>, reply: &mut Reply) {
    answer(store, call, reply, |at, now| at - now);
}

pub(crate) fn expiretime(store: &Store, call: &Call<'_>, reply: &mut Reply) {
    answer(store, call, reply, |at, _| round_to_seconds(at));
}

pub(crate) fn pexpiretime(store: &Store, call: &Call<'_>, reply: &mut Reply) {
    answer(store, call, reply, |at, _| at);
}

/// -2 for an absent key, -1 for a key without expiry, else `form` of (expiry, now).
fn answer(store: &Store, call: &Call<'_>, reply: &mut Reply, form: fn(u64, u64) -> u64) {
    reply.integer(match store.live(call.key(1)) {
        None => -2,
        Some(entry) if entry.expire_at == NEVER => -1,
        Some(entry) => form(entry.expire_at, store.now_ms()) as i64,
    });
}

fn round_to_seconds(ms: u64) -> u64 {
    (ms + 500) / 1000
}
