//! Keys of any type: deleting, renaming, copying, counting.

use super::{Call, DB_OUT_OF_RANGE, NO_SUCH_KEY, SYNTAX, integer_or_reply};
use crate::reply::Reply;
use crate::store::{Expiry, NEVER, Store};

/// DEL and UNLINK.
pub(crate) fn del(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    let gone = call.args[1..].iter().filter(|key| store.remove(key).is_some()).count();
    reply.integer(gone as i64);
}

/// EXISTS and TOUCH: a key that is named twice counts twice.
pub(crate) fn exists(store: &Store, call: &Call<'_>, reply: &mut Reply) {
    let there = call.args[1..].iter().filter(|key| store.live(key).is_some()).count();
    reply.integer(there as i64);
}

pub(crate) fn type_of(store: &Store, call: &Call<'_>, reply: &mut Reply) {
    reply.simple(if store.live(call.args[1]).is_some() { "string" } else { "none" });
}

pub(crate) fn rename(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    let (source, target) = (call.args[1], call.args[2]);
    if store.live(source).is_none() {
        reply.error(NO_SUCH_KEY);
        return;
    }
    if source != target {
        move_key(store, source, target);
    }
    reply.ok();
}

pub(crate) fn renamenx(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    let (source, target) = (call.args[1], call.args[2]);
    if store.live(source).is_none() {
        reply.error(NO_SUCH_KEY);
        return;
    }
    let free = store.live(target).is_none();
    if free {
        move_key(store, source, target);
    }
    reply.integer(i64::from(free));
}

/// Moves a live key with its expiry over another.
fn move_key(store: &mut Store, source: &[u8], target: &[u8]) {
    if let Some(entry) = store.remove(source) {
        store.put(target, &entry.value, expiry_of(entry.expire_at));
    }
}

pub(crate) fn copy(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    let (source, target) = (call.args[1], call.args[2]);
    let mut replace = false;
    let mut words = call.args[3..].iter();
    while let Some(word) = words.next() {
        if word.eq_ignore_ascii_case(b"replace") {
            replace = true;
        } else if word.eq_ignore_ascii_case(b"db")
            && let Some(db) = words.next()
        {
            let Some(db) = integer_or_reply(db, reply) else { return };
            if i32::try_from(db).is_err() {
                reply.error(
                    "ERR value is out of range, value must between -2147483648 and 2147483647",
                );
                return;
            }
            if db != 0 {
                reply.error(DB_OUT_OF_RANGE);
                return;
            }
        } else {
            reply.error(SYNTAX);
            return;
        }
    }
    if source == target {
        reply.error("ERR source and destination objects are the same");
        return;
    }
    let Some(entry) = store.live(source) else {
        reply.integer(0);
        return;
    };
    if !replace && store.live(target).is_some() {
        reply.integer(0);
        return;
    }
    let (value, expiry) = (entry.value.clone(), expiry_of(entry.expire_at));
    store.put(target, &value, expiry);
    reply.integer(1);
}

fn expiry_of(expire_at: u64) -> Expiry {
    if expire_at == NEVER { Expiry::Clear } else { Expiry::At(expire_at) }
}

pub(crate) fn dbsize(store: &Store, _call: &Call<'_>, reply: &mut Reply) {
    reply.integer(store.len() as i64);
}

/// FLUSHALL and FLUSHDB: there is one database.
pub(crate) fn flushall(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    match call.args[1..] {
        [] => {}
        [how] if how.eq_ignore_ascii_case(b"async") || how.eq_ignore_ascii_case(b"sync") => {}
        _ => {
            reply.error(SYNTAX);
            return;
        }
    }
    store.clear();
    reply.ok();
}
