//! Parts of values: APPEND, STRLEN, GETRANGE, SETRANGE.

use super::bits::grows_to;
use super::{Call, integer_or_reply, value_too_long};
use crate::reply::Reply;
use crate::store::{Store, VALUE_BYTES_MAX};

pub(crate) fn strlen(store: &Store, call: &Call<'_>, reply: &mut Reply) {
    reply.integer(store.value(call.key(1)).map_or(0, <[u8]>::len) as i64);
}

pub(crate) fn append(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    let (key, tail) = (call.key(1), call.args[2]);
    let len = store.value(key).map_or(0, <[u8]>::len) + tail.len();
    if len > VALUE_BYTES_MAX {
        reply.error(value_too_long());
        return;
    }
    store.change(key, |value| value.extend_from_slice(tail));
    reply.integer(len as i64);
}

pub(crate) fn getrange(store: &Store, call: &Call<'_>, reply: &mut Reply) {
    let Some(start) = integer_or_reply(call.args[2], reply) else { return };
    let Some(end) = integer_or_reply(call.args[3], reply) else { return };
    let value = store.value(call.key(1)).unwrap_or_default();
    let len = value.len() as i64;
    if start < 0 && end < 0 && start > end {
        reply.bulk(b"");
        return;
    }
    // An index below zero counts from the end; one before the beginning is the beginning.
    let index = |at: i64| if at < 0 { at.saturating_add(len).max(0) } else { at };
    let (start, end) = (index(start), index(end).min(len - 1));
    let range = if start > end { 0..0 } else { start as usize..end as usize + 1 };
    reply.bulk(&value[range]);
}

pub(crate) fn setrange(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    let (key, patch) = (call.key(1), call.args[3]);
    let Some(offset) = integer_or_reply(call.args[2], reply) else { return };
    let Ok(offset) = usize::try_from(offset) else {
        reply.error("ERR offset is out of range");
        return;
    };
    let len = store.value(key).map_or(0, <[u8]>::len);
    if patch.is_empty() {
        // There is nothing to write, so the key is not created either.
        reply.integer(len as i64);
        return;
    }
    let end = offset.saturating_add(patch.len());
    if end > VALUE_BYTES_MAX {
        reply.error(value_too_long());
        return;
    }
    if !grows_to(store, call, end, reply) {
        return;
    }
    store.change(key, |value| {
        if value.len() < end {
            value.resize(end, 0);
        }
        value[offset..end].copy_from_slice(patch);
    });
    reply.integer(len.max(end) as i64);
}
