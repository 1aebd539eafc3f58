//! Walking the keys: KEYS, SCAN, RANDOMKEY.
//!
//! A cursor is the top 48 bits of a position, so that every client's integers hold it exactly, and
//! means "from here on". Positions depend only on keys: a cursor is valid at every replica, across
//! failovers and restarts, and a key that exists during the whole scan is returned. Keys that share
//! the 48 bits are returned together, since no cursor lies between them.

use smallvec::SmallVec;

use super::steps::{self, Matching};
use super::{Call, SYNTAX, integer_or_reply};
use crate::reply::Reply;
use crate::store::{Entry, Store};

/// The number of bits of a position that a cursor omits.
const CURSOR_SHIFT: u32 = 16;

/// The number of keys that one SCAN without COUNT visits. Those that have expired and are not
/// removed yet count as others do: there may be millions of them before the next live one.
const SCAN_COUNT_DEFAULT: i64 = 10;

/// The number of neighbours of a random position among which RANDOMKEY picks: a single neighbour
/// would be picked in proportion to the gap before it.
const RANDOM_NEIGHBOURS: usize = 16;

/// The longest pattern, and the longest name of a channel: a pattern is matched against every key
/// or channel, which takes the product of the lengths.
pub(crate) const PATTERN_BYTES_MAX: usize = 1024;

/// Or answers that it is not.
pub(crate) fn is_short(what: &str, pattern: &[u8], reply: &mut Reply) -> bool {
    if pattern.len() > PATTERN_BYTES_MAX {
        reply.error_fmt(format_args!(
            "ERR {what} is longer than {PATTERN_BYTES_MAX} bytes (gregale's limit)"
        ));
    }
    pattern.len() <= PATTERN_BYTES_MAX
}

pub(crate) fn keys(store: &Store, call: &Call<'_>, reply: &mut Reply) {
    let pattern = call.args[1];
    if !is_short("pattern", pattern, reply) || !steps::begins(reply) {
        return;
    }
    let mut matching = Matching::new(reply);
    steps::visits(store.len_of(call.db), reply);
    let mut found: Vec<&Entry> = Vec::new();
    for entry in store.walk_live(call.db, 0) {
        let Some(wanted) = matching.matches(pattern, &entry.key) else {
            matching.end(reply);
            reply.error(steps::SPENT);
            return;
        };
        if wanted {
            found.push(entry);
        }
    }
    matching.end(reply);
    reply.array(found.len());
    for entry in found {
        reply.bulk(&entry.key);
    }
}

pub(crate) fn scan(store: &Store, call: &Call<'_>, reply: &mut Reply) {
    let Some(cursor) = parse_cursor(call.args[1]) else {
        reply.error("ERR invalid cursor");
        return;
    };
    let (mut count, mut pattern, mut only_type) = (SCAN_COUNT_DEFAULT, None, None);
    let mut words = call.args[2..].iter();
    while let Some(word) = words.next() {
        let Some(value) = words.next() else {
            reply.error(SYNTAX);
            return;
        };
        if word.eq_ignore_ascii_case(b"count") {
            let Some(value) = integer_or_reply(value, reply) else { return };
            if value < 1 {
                reply.error(SYNTAX);
                return;
            }
            count = value;
        } else if word.eq_ignore_ascii_case(b"match") {
            if !is_short("pattern", value, reply) {
                return;
            }
            pattern = (*value != b"*").then_some(*value);
        } else if word.eq_ignore_ascii_case(b"type") {
            only_type = Some(*value);
        } else {
            reply.error(SYNTAX);
            return;
        }
    }
    if !steps::begins(reply) {
        return;
    }
    let mut matching = Matching::new(reply);
    let n_max = usize::try_from(count).unwrap_or(usize::MAX).min(steps::visits_left(reply));
    let mut n_visited = 0;
    let mut found: SmallVec<[&Entry; 16]> = SmallVec::new();
    let mut next = 0;
    if cursor >> (64 - CURSOR_SHIFT) == 0 {
        let mut group = None;
        for (position, live) in store.walk(call.db, cursor << CURSOR_SHIFT) {
            let prefix = position >> CURSOR_SHIFT;
            if n_visited >= n_max && group != Some(prefix) {
                // The cursor is never 0, which would end the scan: an earlier prefix has been
                // visited.
                next = prefix;
                break;
            }
            group = Some(prefix);
            n_visited += 1;
            let Some(entry) = live else { continue };
            let matches = |pattern| matching.matches(pattern, &entry.key);
            let Some(wanted) = pattern.map_or(Some(true), matches) else {
                steps::visits(n_visited, reply);
                matching.end(reply);
                reply.error(steps::SPENT);
                return;
            };
            if wanted && only_type.is_none_or(|name| name.eq_ignore_ascii_case(b"string")) {
                found.push(entry);
            }
        }
    }
    steps::visits(n_visited, reply);
    matching.end(reply);
    reply.array(2);
    reply.bulk_integer(next as i64);
    reply.array(found.len());
    for entry in found {
        reply.bulk(&entry.key);
    }
}

/// A cursor as Redis parses it: an unsigned number, or an empty text, which is 0.
pub(crate) fn parse_cursor(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return Some(0);
    }
    let text = std::str::from_utf8(text).ok()?;
    // As in C, a number may have a sign, and one below zero wraps around.
    match text.strip_prefix('-') {
        Some(digits) if !digits.starts_with('+') => {
            digits.parse().ok().map(|number: u64| number.wrapping_neg())
        }
        Some(_) => None,
        None => text.parse().ok(),
    }
}

pub(crate) fn randomkey(store: &Store, call: &Call<'_>, reply: &mut Reply) {
    if !steps::begins(reply) {
        return;
    }
    // The seed may be a small number, so it is spread over the positions first.
    let mut rng = base::Rng::new(call.seed);
    let (position, neighbour) = (rng.next_u64(), rng.below(RANDOM_NEIGHBOURS as u64) as usize);
    // Past the last key the walk continues at the first: it visits each entry once at most.
    let begin = store.walk(call.db, 0).take_while(|(at, _)| *at < position);
    let mut n_visited = 0;
    let mut found: SmallVec<[&Entry; RANDOM_NEIGHBOURS]> = SmallVec::new();
    for (_, live) in store.walk(call.db, position).chain(begin) {
        n_visited += 1;
        found.extend(live);
        if found.len() > neighbour {
            break;
        }
    }
    steps::visits(n_visited, reply);
    match found.len() {
        0 => reply.null(),
        n => reply.bulk(&found[neighbour % n].key),
    }
}
