//! GET, SET and their family: whole values.

use super::{Call, NOT_AN_INTEGER, SYNTAX, bulk_or_null, number};
use crate::command::wrong_arity;
use crate::reply::Reply;
use crate::store::{Expiry, NEVER, Store};

pub(crate) fn get(store: &Store, call: &Call<'_>, reply: &mut Reply) {
    bulk_or_null(store.value(call.key(1)), reply);
}

pub(crate) fn mget(store: &Store, call: &Call<'_>, reply: &mut Reply) {
    reply.array(call.args.len() - 1);
    for key in &call.args[1..] {
        bulk_or_null(store.value(call.of(key)), reply);
    }
}

/// The expiry option of SET and GETEX, in the words of the request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until<'a> {
    Unsaid,
    /// SET only.
    KeepTtl,
    /// GETEX only.
    Persist,
    Time(Unit, &'a [u8]),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Ex,
    Px,
    ExAt,
    PxAt,
}

impl Unit {
    fn of(word: &[u8]) -> Option<Unit> {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        match word.len() {
            2 if is("ex") => Some(Unit::Ex),
            2 if is("px") => Some(Unit::Px),
            4 if is("exat") => Some(Unit::ExAt),
            4 if is("pxat") => Some(Unit::PxAt),
            _ => None,
        }
    }
}

/// The options of SET and GETEX.
struct Options<'a> {
    only_absent: bool,
    only_present: bool,
    get: bool,
    until: Until<'a>,
}

impl<'a> Options<'a> {
    /// Parses the words after the key (and value); `is_set` distinguishes SET from GETEX. As in
    /// Redis an option may occur twice, and of two times in one unit the later counts.
    fn parse(words: &[&'a [u8]], is_set: bool) -> Option<Options<'a>> {
        let mut options =
            Options { only_absent: false, only_present: false, get: false, until: Until::Unsaid };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            let until = options.until;
            if is_set && is("nx") && !options.only_present {
                options.only_absent = true;
            } else if is_set && is("xx") && !options.only_absent {
                options.only_present = true;
            } else if is_set && is("get") {
                options.get = true;
            } else if is_set && is("keepttl") && matches!(until, Until::Unsaid | Until::KeepTtl) {
                options.until = Until::KeepTtl;
            } else if !is_set && is("persist") && matches!(until, Until::Unsaid | Until::Persist) {
                options.until = Until::Persist;
            } else if let Some(unit) = Unit::of(word)
                && (until == Until::Unsaid
                    || matches!(until, Until::Time(earlier, _) if earlier == unit))
                && let Some(time) = words.next()
            {
                options.until = Until::Time(unit, time);
            } else {
                return None;
            }
        }
        Some(options)
    }
}

/// The instant that `time` denotes, or Redis's error about it.
fn instant(
    store: &Store,
    call: &Call<'_>,
    unit: Unit,
    time: &[u8],
    reply: &mut Reply,
) -> Option<u64> {
    let Some(time) = number::parse(time) else {
        reply.error(NOT_AN_INTEGER);
        return None;
    };
    let ms = match unit {
        Unit::Ex | Unit::ExAt => time.checked_mul(1000),
        Unit::Px | Unit::PxAt => Some(time),
    };
    let at = ms.filter(|&ms| ms > 0).and_then(|ms| match unit {
        Unit::Ex | Unit::Px => ms.checked_add_unsigned(store.now_ms()),
        Unit::ExAt | Unit::PxAt => Some(ms),
    });
    if at.is_none() {
        invalid_expire_time(call, reply);
    }
    at.map(i64::unsigned_abs)
}

/// Redis's error for a time that is not a valid expiry.
pub(super) fn invalid_expire_time(call: &Call<'_>, reply: &mut Reply) {
    reply.error_fmt(format_args!("ERR invalid expire time in '{}' command", call.spec.name));
}

pub(crate) fn set(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    let (key, value) = (call.key(1), call.args[2]);
    if call.args.len() == 3 {
        store.put(key, value, Expiry::Clear);
        reply.ok();
        return;
    }
    let Some(options) = Options::parse(&call.args[3..], true) else {
        reply.error(SYNTAX);
        return;
    };
    let expiry = match options.until {
        Until::Unsaid | Until::Persist => Expiry::Clear,
        Until::KeepTtl => Expiry::Keep,
        Until::Time(unit, time) => match instant(store, call, unit, time, reply) {
            Some(at) => Expiry::At(at),
            None => return,
        },
    };
    let old = store.value(key);
    let refused = if old.is_some() { options.only_absent } else { options.only_present };
    if options.get {
        bulk_or_null(old, reply);
    } else if refused {
        reply.null();
    } else {
        reply.ok();
    }
    if !refused {
        store.put(key, value, expiry);
    }
}

pub(crate) fn setex(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    set_until(store, call, Unit::Ex, reply);
}

pub(crate) fn psetex(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    set_until(store, call, Unit::Px, reply);
}

fn set_until(store: &mut Store, call: &Call<'_>, unit: Unit, reply: &mut Reply) {
    if let Some(at) = instant(store, call, unit, call.args[2], reply) {
        store.put(call.key(1), call.args[3], Expiry::At(at));
        reply.ok();
    }
}

pub(crate) fn setnx(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    let absent = store.live(call.key(1)).is_none();
    if absent {
        store.put(call.key(1), call.args[2], Expiry::Clear);
    }
    reply.integer(i64::from(absent));
}

pub(crate) fn getset(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    bulk_or_null(store.value(call.key(1)), reply);
    store.put(call.key(1), call.args[2], Expiry::Clear);
}

pub(crate) fn getdel(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    match store.remove(call.key(1)) {
        Some(entry) => reply.bulk(&entry.value),
        None => reply.null(),
    }
}

pub(crate) fn getex(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    let key = call.key(1);
    let Some(options) = Options::parse(&call.args[2..], false) else {
        reply.error(SYNTAX);
        return;
    };
    let Some(entry) = store.live(key) else {
        reply.null();
        return;
    };
    let expires = entry.expire_at != NEVER;
    let expire_at = match options.until {
        Until::Time(unit, time) => match instant(store, call, unit, time, reply) {
            Some(at) => Some(at),
            None => return,
        },
        Until::Persist if expires => Some(NEVER),
        Until::Persist | Until::KeepTtl | Until::Unsaid => None,
    };
    reply.bulk(&entry.value);
    if let Some(at) = expire_at {
        store.set_expiry(key, at);
    }
}

pub(crate) fn mset(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    if call.args.len().is_multiple_of(2) {
        wrong_arity(call.spec, reply);
        return;
    }
    put_pairs(store, call);
    reply.ok();
}

pub(crate) fn msetnx(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    if call.args.len().is_multiple_of(2) {
        wrong_arity(call.spec, reply);
        return;
    }
    let all_absent = call.args[1..].iter().step_by(2).all(|key| store.live(call.of(key)).is_none());
    if all_absent {
        put_pairs(store, call);
    }
    reply.integer(i64::from(all_absent));
}

fn put_pairs(store: &mut Store, call: &Call<'_>) {
    for pair in call.args[1..].chunks_exact(2) {
        store.put(call.of(pair[0]), pair[1], Expiry::Clear);
    }
}
