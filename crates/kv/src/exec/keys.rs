//! Keys of any type: deleting, renaming, copying, counting.

use super::{Call, DB_OUT_OF_RANGE, NO_SUCH_KEY, SYNTAX, database_or_reply, number, steps};
use crate::reply::Reply;
use crate::store::{Db, DbKey, Entry, Expiry, NEVER, Store};

/// DEL and UNLINK.
pub(crate) fn del(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    let gone = call.args[1..].iter().filter(|key| store.remove(call.of(key)).is_some()).count();
    reply.integer(gone as i64);
}

/// EXISTS and TOUCH: a key that is named twice counts twice.
pub(crate) fn exists(store: &Store, call: &Call<'_>, reply: &mut Reply) {
    let there = call.args[1..].iter().filter(|key| store.live(call.of(key)).is_some()).count();
    reply.integer(there as i64);
}

pub(crate) fn type_of(store: &Store, call: &Call<'_>, reply: &mut Reply) {
    reply.simple(if store.live(call.key(1)).is_some() { "string" } else { "none" });
}

pub(crate) fn rename(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    let (source, target) = (call.key(1), call.key(2));
    if store.live(source).is_none() {
        reply.error(NO_SUCH_KEY);
        return;
    }
    if source != target && !moves(store, source, target, reply) {
        return;
    }
    reply.ok();
}

pub(crate) fn renamenx(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    let (source, target) = (call.key(1), call.key(2));
    if store.live(source).is_none() {
        reply.error(NO_SUCH_KEY);
        return;
    }
    let free = store.live(target).is_none();
    if free && !moves(store, source, target, reply) {
        return;
    }
    reply.integer(i64::from(free));
}

/// Moves a live key with its expiry over another, or answers that no steps are left.
fn moves(store: &mut Store, source: DbKey<'_>, target: DbKey<'_>, reply: &mut Reply) -> bool {
    if !steps::copies(store.value(source).map_or(0, <[u8]>::len), reply) {
        return false;
    }
    if let Some(entry) = store.remove(source) {
        store.put(target, &entry.value, expiry_of(&entry));
    }
    true
}

fn expiry_of(entry: &Entry) -> Expiry {
    if entry.expire_at == NEVER { Expiry::Clear } else { Expiry::At(entry.expire_at) }
}

/// The database that the options of a COPY name; `None` if they name no database, or are invalid.
pub(crate) fn copy_target(options: &[&[u8]]) -> Option<Db> {
    let mut words = options.iter();
    let mut found = None;
    while let Some(word) = words.next() {
        if word.eq_ignore_ascii_case(b"db") {
            found = words.next().and_then(|db| number::parse(db)).and_then(Db::new);
        }
    }
    found
}

pub(crate) fn copy(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    let (source, mut target) = (call.key(1), call.key(2));
    let mut replace = false;
    let mut words = call.args[3..].iter();
    while let Some(word) = words.next() {
        if word.eq_ignore_ascii_case(b"replace") {
            replace = true;
        } else if word.eq_ignore_ascii_case(b"db")
            && let Some(db) = words.next()
        {
            let Some(db) = database_or_reply(db, reply) else { return };
            target.db = db;
        } else {
            reply.error(SYNTAX);
            return;
        }
    }
    if source == target {
        reply.error(SAME_OBJECT);
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
    if !steps::copies(entry.value.len(), reply) {
        return;
    }
    let (value, expiry) = (entry.value.clone(), expiry_of(entry));
    store.put(target, &value, expiry);
    reply.integer(1);
}

const SAME_OBJECT: &str = "ERR source and destination objects are the same";

pub(crate) fn move_to(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    let source = call.key(1);
    let Some(db) = database_or_reply(call.args[2], reply) else { return };
    let target = DbKey { db, ..source };
    if source == target {
        reply.error(SAME_OBJECT);
        return;
    }
    let can = store.live(source).is_some() && store.live(target).is_none();
    if can && !moves(store, source, target, reply) {
        return;
    }
    reply.integer(i64::from(can));
}

pub(crate) fn swapdb(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    let mut databases = [None; 2];
    for (at, which) in ["first", "second"].into_iter().enumerate() {
        let number = number::parse(call.args[at + 1]).map(i32::try_from);
        let Some(Ok(number)) = number else {
            reply.error_fmt(format_args!("ERR invalid {which} DB index"));
            return;
        };
        databases[at] = Db::new(number.into());
    }
    let [Some(one), Some(other)] = databases else {
        reply.error(DB_OUT_OF_RANGE);
        return;
    };
    if one != other {
        store.swap_databases(one, other);
    }
    reply.ok();
}

pub(crate) fn dbsize(store: &Store, call: &Call<'_>, reply: &mut Reply) {
    reply.integer(store.len_of(call.db) as i64);
}

pub(crate) fn flushall(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    if admits_flush(call, reply) {
        store.clear();
        reply.ok();
    }
}

pub(crate) fn flushdb(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    if admits_flush(call, reply) {
        store.clear_database(call.db);
        reply.ok();
    }
}

fn admits_flush(call: &Call<'_>, reply: &mut Reply) -> bool {
    let is_good = match call.args[1..] {
        [] => true,
        [how] => how.eq_ignore_ascii_case(b"async") || how.eq_ignore_ascii_case(b"sync"),
        _ => false,
    };
    if !is_good {
        reply.error(SYNTAX);
    }
    is_good
}
