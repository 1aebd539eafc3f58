//! LCS: the longest common subsequence of two values.

use super::{Call, SYNTAX, integer_or_reply};
use crate::reply::{Reply, STEPS_MAX};
use crate::store::Store;

/// The largest table of lengths that is computed. It bounds the time that one command keeps the
/// replica busy (some milliseconds) as well as its memory; Redis bounds only the memory.
pub const LCS_CELLS_MAX: usize = 4 << 20;

const _: () = assert!(LCS_CELLS_MAX <= STEPS_MAX);

pub(crate) fn lcs(store: &Store, call: &Call<'_>, reply: &mut Reply) {
    let (mut idx, mut only_len, mut with_match_len, mut match_len_min) = (false, false, false, 0);
    let mut words = call.args[3..].iter();
    while let Some(word) = words.next() {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        if is("idx") {
            idx = true;
        } else if is("len") {
            only_len = true;
        } else if is("withmatchlen") {
            with_match_len = true;
        } else if is("minmatchlen")
            && let Some(least) = words.next()
        {
            let Some(least) = integer_or_reply(least, reply) else { return };
            match_len_min = usize::try_from(least).unwrap_or(0);
        } else {
            reply.error(SYNTAX);
            return;
        }
    }
    if idx && only_len {
        reply.error("ERR If you want both the length and indexes, please just use IDX.");
        return;
    }
    let a = store.value(call.key(1)).unwrap_or_default();
    let b = store.value(call.key(2)).unwrap_or_default();
    if !reply.take_steps((a.len() + 1).saturating_mul(b.len() + 1).min(LCS_CELLS_MAX)) {
        reply.error_fmt(format_args!(
            "ERR LCS and those before it in this transaction take more than {STEPS_MAX} steps \
             (gregale's limit: it would stop the replica)"
        ));
        return;
    }
    let Some(lengths) = Lengths::of(a, b) else {
        reply.error_fmt(format_args!(
            "ERR LCS of values of {} and {} bytes takes more than {LCS_CELLS_MAX} steps (gregale's \
             limit: it would stop the replica; compare parts of them)",
            a.len(),
            b.len(),
        ));
        return;
    };
    let total = lengths.at(a.len(), b.len()) as usize;
    if only_len {
        reply.integer(total as i64);
        return;
    }
    let (text, mut matches) = backtrack(a, b, &lengths, total);
    if !idx {
        reply.bulk(&text);
        return;
    }
    matches.retain(|found| found.len >= match_len_min);
    reply.map(2);
    reply.bulk(b"matches");
    reply.array(matches.len());
    for found in &matches {
        reply.array(if with_match_len { 3 } else { 2 });
        for start in [found.a_start, found.b_start] {
            reply.array(2);
            reply.integer(start as i64);
            reply.integer((start + found.len - 1) as i64);
        }
        if with_match_len {
            reply.integer(found.len as i64);
        }
    }
    reply.bulk(b"len");
    reply.integer(total as i64);
}

/// The lengths of the longest common subsequences of all pairs of prefixes.
struct Lengths {
    cells: Vec<u32>,
    width: usize,
}

impl Lengths {
    fn of(a: &[u8], b: &[u8]) -> Option<Lengths> {
        let width = b.len() + 1;
        let cells = (a.len() + 1).checked_mul(width).filter(|&cells| cells <= LCS_CELLS_MAX)?;
        let mut lengths = Lengths { cells: vec![0; cells], width };
        let mut rows = lengths.cells.chunks_exact_mut(width);
        let mut above = rows.next()?;
        for (byte, row) in a.iter().zip(rows) {
            let mut left = 0;
            for (at, other) in b.iter().enumerate() {
                left = if byte == other { above[at] + 1 } else { above[at + 1].max(left) };
                row[at + 1] = left;
            }
            above = row;
        }
        Some(lengths)
    }

    fn at(&self, i: usize, j: usize) -> u32 {
        self.cells[i * self.width + j]
    }
}

/// A run of bytes that both values contain.
struct Match {
    a_start: usize,
    b_start: usize,
    len: usize,
}

/// Walks the table from its end, with Redis's choice where both directions are equal; the last run
/// comes first, as in Redis's answer.
fn backtrack(a: &[u8], b: &[u8], lengths: &Lengths, total: usize) -> (Vec<u8>, Vec<Match>) {
    let (mut i, mut j) = (a.len(), b.len());
    let mut text = Vec::with_capacity(total);
    let mut matches: Vec<Match> = Vec::new();
    let mut in_run = false;
    while i > 0 && j > 0 {
        if a[i - 1] == b[j - 1] {
            (i, j) = (i - 1, j - 1);
            text.push(a[i]);
            match matches.last_mut() {
                Some(run) if in_run => {
                    (run.a_start, run.b_start, run.len) = (i, j, run.len + 1);
                }
                _ => matches.push(Match { a_start: i, b_start: j, len: 1 }),
            }
            in_run = true;
        } else {
            if lengths.at(i - 1, j) > lengths.at(i, j - 1) {
                i -= 1
            } else {
                j -= 1
            }
            in_run = false;
        }
    }
    text.reverse();
    (text, matches)
}
