//! Counters: INCR and DECR, in integers and in x86's extended floats.

use super::float::{Extended, TEXT_BYTES_MAX};
use super::{Call, integer_or_reply, steps};
use crate::reply::Reply;
use crate::store::{DbKey, Store};

pub(crate) fn incr(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    add(store, call.key(1), 1, reply);
}

pub(crate) fn decr(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    add(store, call.key(1), -1, reply);
}

pub(crate) fn incrby(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    if let Some(by) = integer_or_reply(call.args[2], reply) {
        add(store, call.key(1), by, reply);
    }
}

pub(crate) fn decrby(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    let Some(by) = integer_or_reply(call.args[2], reply) else { return };
    match by.checked_neg() {
        Some(by) => add(store, call.key(1), by, reply),
        None => reply.error("ERR decrement would overflow"),
    }
}

fn add(store: &mut Store, key: DbKey<'_>, by: i64, reply: &mut Reply) {
    let Some(old) = integer_or_reply(store.value(key).unwrap_or(b"0"), reply) else { return };
    let Some(new) = old.checked_add(by) else {
        reply.error("ERR increment or decrement would overflow");
        return;
    };
    replace(store, key, itoa::Buffer::new().format(new).as_bytes());
    reply.integer(new);
}

pub(crate) fn incrbyfloat(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    let old = store.value(call.key(1)).unwrap_or(b"0");
    let n_digits = old.len().min(TEXT_BYTES_MAX) + call.args[2].len().min(TEXT_BYTES_MAX);
    if !steps::counts(n_digits, reply) {
        return;
    }
    let old = Extended::parse(old);
    let by = Extended::parse(call.args[2]);
    let (Some(old), Some(by)) = (old, by) else {
        reply.error("ERR value is not a valid float");
        return;
    };
    let Some(sum) = old.add(&by) else {
        reply.error("ERR increment would produce NaN or Infinity");
        return;
    };
    let text = sum.to_string();
    if !steps::counts(text.len(), reply) {
        return;
    }
    replace(store, call.key(1), text.as_bytes());
    reply.bulk(text.as_bytes());
}

/// Writes a number and keeps the expiry.
fn replace(store: &mut Store, key: DbKey<'_>, text: &[u8]) {
    store.change(key, |value| {
        value.clear();
        value.extend_from_slice(text);
    });
}
