//! MEMORY USAGE, and TIME.

use super::{Call, SYNTAX, integer_or_reply};
use crate::reply::Reply;
use crate::store::Store;

/// The bytes that the limit of memory counts for a key: the same at every replica.
pub(crate) fn usage(store: &Store, call: &Call<'_>, reply: &mut Reply) {
    let mut words = call.args[3..].iter();
    while let Some(word) = words.next() {
        let samples = words.next().filter(|_| word.eq_ignore_ascii_case(b"samples"));
        let Some(samples) = samples else {
            reply.error(SYNTAX);
            return;
        };
        let Some(samples) = integer_or_reply(samples, reply) else { return };
        if samples < 0 {
            reply.error(SYNTAX);
            return;
        }
    }
    match store.cost_of(call.key(2)) {
        Some(bytes) => reply.integer(bytes as i64),
        None => reply.null(),
    }
}

pub(crate) fn help(_store: &Store, _call: &Call<'_>, reply: &mut Reply) {
    reply.help(&[
        "MEMORY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "USAGE <key> [SAMPLES <count>]",
        "    Return what the limit of memory counts for the <key> and its value. The",
        "    count of samples changes nothing: values are strings.",
    ]);
}

/// Answers state time, so that no client sees time run backwards, whichever members it asks. It has
/// a resolution of milliseconds; Redis has microseconds.
pub(crate) fn time(store: &Store, _call: &Call<'_>, reply: &mut Reply) {
    put_time(store.now_ms(), reply);
}

/// The answer of TIME at this moment.
pub(crate) fn put_time(unix_ms: u64, reply: &mut Reply) {
    reply.array(2);
    reply.bulk_integer((unix_ms / 1000) as i64);
    reply.bulk_integer((unix_ms % 1000 * 1000) as i64);
}
