//! SCAN over partitions: one after the other.
//!
//! A store's cursor has 48 bits and every client's integers hold 53, so the upper five name the
//! partition that the scan has reached. Each call concerns one partition only.
//!
//! - N1 a key that exists during the whole scan is returned: each partition's part of the scan is a
//!   whole scan of it. By construction; test `n1_a_scan_returns_every_key`.
//! - N2 a cursor is 0 at the beginning and at the end, and nowhere else. By construction: the
//!   cursor after a partition's end has the number of the next partition.

use crate::exec::scan::parse_cursor as parse;
use crate::reply::Reply;

const POSITION_BITS: u32 = 48;

const _: () = assert!(super::PARTITIONS_MAX <= 1 << (53 - POSITION_BITS));

/// The partition that a cursor has reached; for an invalid cursor some partition, which answers the
/// error.
pub(super) fn partition(cursor: &[u8]) -> usize {
    let number = parse(cursor).unwrap_or(0) >> POSITION_BITS;
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The cursor as that partition's own; an invalid cursor is unchanged.
pub(super) fn own_cursor(cursor: &[u8], partition: usize) -> Vec<u8> {
    match parse(cursor) {
        Some(number) if number >> POSITION_BITS == partition as u64 => {
            (number & ((1 << POSITION_BITS) - 1)).to_string().into_bytes()
        }
        // A number that is no partition's ends a scan, like any cursor that no SCAN gave.
        Some(_) => u64::MAX.to_string().into_bytes(),
        None => cursor.to_vec(),
    }
}

/// Appends a partition's answer with the cursor of the whole scan: `*2`, the cursor as a string,
/// the keys.
pub(super) fn put_answer(answer: &[u8], partition: usize, n: usize, reply: &mut Reply) {
    let Some((cursor, keys)) = cursor_and_rest(answer) else {
        return reply.raw(answer); // an error
    };
    let next = match cursor {
        0 if partition + 1 >= n => 0,
        0 => (partition as u64 + 1) << POSITION_BITS,
        position => (partition as u64) << POSITION_BITS | position,
    };
    reply.array(2);
    reply.bulk_integer(next as i64);
    reply.raw(keys);
}

fn cursor_and_rest(answer: &[u8]) -> Option<(u64, &[u8])> {
    let rest = answer.strip_prefix(b"*2\r\n$")?;
    let (_, rest) = line(rest)?;
    let (cursor, keys) = line(rest)?;
    Some((parse(cursor)?, keys))
}

fn line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.windows(2).position(|two| two == b"\r\n")?;
    Some((&bytes[..end], &bytes[end + 2..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n2_only_the_ends_are_zero() {
        let answer = |cursor: &str, partition, n| {
            let mut reply = Reply::default();
            let answer = format!("*2\r\n${}\r\n{cursor}\r\n*0\r\n", cursor.len());
            put_answer(answer.as_bytes(), partition, n, &mut reply);
            let (next, keys) = cursor_and_rest(reply.as_bytes()).unwrap();
            assert_eq!(keys, b"*0\r\n");
            next
        };
        assert_eq!(answer("0", 2, 3), 0);
        assert_eq!(answer("7", 0, 3), 7);
        for (cursor, at) in [("0", 2), ("7", 1)] {
            let next = answer(cursor, 1, 3);
            assert_eq!(partition(next.to_string().as_bytes()), at);
            assert_eq!(own_cursor(next.to_string().as_bytes(), at), cursor.as_bytes());
        }
        let last = answer(&((1u64 << 48) - 1).to_string(), 31, 32);
        assert!(last < 1 << 53, "a JavaScript number holds it");
    }

    #[test]
    fn a_cursor_below_zero_wraps_around_as_in_c() {
        let parsed = ["-0", "-1", "-18446744073709551615", "-", "--1", "-+1", "-x"]
            .map(|text| parse(text.as_bytes()));
        assert_eq!(parsed, [Some(0), Some(u64::MAX), Some(1), None, None, None, None]);
    }

    #[test]
    fn what_is_no_cursor_is_left_to_the_store() {
        assert_eq!(own_cursor(b"x", 0), b"x");
        assert_eq!((partition(b"x"), partition(b"")), (0, 0));
        let mut reply = Reply::default();
        put_answer(b"-ERR invalid cursor\r\n", 0, 2, &mut reply);
        assert_eq!(reply.as_bytes(), b"-ERR invalid cursor\r\n");
    }
}
