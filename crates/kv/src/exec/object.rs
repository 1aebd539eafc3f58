//! OBJECT: Redis's answers about the internals of a value.
//!
//! Encodings are answered from the content, as Redis chooses them for a value that was SET. Redis
//! keeps `raw` for a value that APPEND or SETRANGE made; here that history is not kept.

use super::{Call, number};
use crate::reply::Reply;
use crate::store::Store;

/// The longest string that Redis embeds in its object header.
const EMBSTR_BYTES_MAX: usize = 44;

/// The bound below which Redis shares the objects of integers, as its answer about references
/// shows.
const SHARED_INTEGERS: i64 = 10_000;

pub(crate) fn encoding(store: &Store, call: &Call<'_>, reply: &mut Reply) {
    let Some(value) = store.value(call.key(2)) else {
        reply.null();
        return;
    };
    let name = if number::parse(value).is_some() {
        "int"
    } else if value.len() <= EMBSTR_BYTES_MAX {
        "embstr"
    } else {
        "raw"
    };
    reply.bulk(name.as_bytes());
}

pub(crate) fn refcount(store: &Store, call: &Call<'_>, reply: &mut Reply) {
    let Some(value) = store.value(call.key(2)) else {
        reply.null();
        return;
    };
    let shared = number::parse(value).is_some_and(|value| (0..SHARED_INTEGERS).contains(&value));
    reply.integer(if shared { i64::from(i32::MAX) } else { 1 });
}

/// Access times are not kept, since a read would have to go through the log. Every key counts as
/// just used.
pub(crate) fn idletime(store: &Store, call: &Call<'_>, reply: &mut Reply) {
    match store.live(call.key(2)) {
        Some(_) => reply.integer(0),
        None => reply.null(),
    }
}

pub(crate) fn freq(store: &Store, call: &Call<'_>, reply: &mut Reply) {
    match store.live(call.key(2)) {
        Some(_) => reply.error(
            "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please \
             note that when switching between policies at runtime LRU and LFU data will take some \
             time to adjust.",
        ),
        None => reply.null(),
    }
}

pub(crate) fn help(_store: &Store, _call: &Call<'_>, reply: &mut Reply) {
    reply.help(&[
        "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "ENCODING <key>",
        "    Return the kind of internal representation used in order to store the value",
        "    associated with a <key>.",
        "FREQ <key>",
        "    Return the access frequency index of the <key>. The returned integer is",
        "    proportional to the logarithm of the recent access frequency of the key.",
        "IDLETIME <key>",
        "    Return the idle time of the <key>, that is the approximated number of",
        "    seconds elapsed since the last access to the key.",
        "REFCOUNT <key>",
        "    Return the number of references of the value associated with the specified",
        "    <key>.",
    ]);
}
