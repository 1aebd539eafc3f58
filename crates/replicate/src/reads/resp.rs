//! What only reads, in Redis's protocol.

use super::Plugin;
use crate::framing::{self, Begun, ends_transaction};
use crate::requests::{Request, Requests};

/// Commands that only read (the module's S3), in the order of the alphabet. Not among them, though
/// they change no value:
///
/// - what looks for a member of a set, or draws: a set's table moves on by it, and SPOP's choice
///   with the table; ZUNION and its kin draw for a sorted set that they make;
/// - PFCOUNT, which keeps what it has counted; GETEX and TOUCH; OBJECT, which shows what reads do;
/// - what waits (XREAD), and scripts, whose contents are not known.
const READS: [&str; 51] = [
    "BITCOUNT",
    "BITFIELD_RO",
    "BITPOS",
    "EXISTS",
    "EXPIRETIME",
    "GEODIST",
    "GEOHASH",
    "GEOPOS",
    "GEORADIUSBYMEMBER_RO",
    "GEORADIUS_RO",
    "GEOSEARCH",
    "GET",
    "GETBIT",
    "GETRANGE",
    "HEXISTS",
    "HGET",
    "HGETALL",
    "HKEYS",
    "HLEN",
    "HMGET",
    "HSTRLEN",
    "HVALS",
    "LINDEX",
    "LLEN",
    "LPOS",
    "LRANGE",
    "MGET",
    "PEXPIRETIME",
    "PTTL",
    "SCARD",
    "SMEMBERS",
    "STRLEN",
    "SUBSTR",
    "TTL",
    "TYPE",
    "XLEN",
    "XRANGE",
    "XREVRANGE",
    "ZCARD",
    "ZCOUNT",
    "ZLEXCOUNT",
    "ZMSCORE",
    "ZRANGE",
    "ZRANGEBYLEX",
    "ZRANGEBYSCORE",
    "ZRANK",
    "ZREVRANGE",
    "ZREVRANGEBYLEX",
    "ZREVRANGEBYSCORE",
    "ZREVRANK",
    "ZSCORE",
];

/// Commands after which a connection's requests are the log's for good (the module's S4): it is
/// told what it did not ask for, or not what it asked. In the order of the alphabet.
const APART: [&str; 13] = [
    "ASKING",
    "DEBUG",
    "FAILOVER",
    "MODULE",
    "MONITOR",
    "PSUBSCRIBE",
    "PSYNC",
    "QUIT",
    "REPLCONF",
    "RESET",
    "SSUBSCRIBE",
    "SUBSCRIBE",
    "SYNC",
];

/// The subcommands of CLIENT that leave a connection as it is, in the order of the alphabet.
const CLIENT_PLAIN: [&str; 8] =
    ["GETNAME", "ID", "INFO", "LIST", "NO-EVICT", "NO-TOUCH", "SETINFO", "SETNAME"];

/// The requests of one connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Resp {
    requests: Requests,
    is_apart: bool,
    transaction: Transaction,
    n_asked: u64,
    n_heard: u64,
    replies: framing::Resp,
}

/// Whether requests are queued, as far as is known for certain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Transaction {
    #[default]
    None,
    /// MULTI was asked for.
    Begun,
    /// This request, by its number, ends it if it is not refused: its reply tells.
    Ending(u64),
}

fn is_among(names: &[&str], name: &str) -> bool {
    names.binary_search(&name).is_ok()
}

/// Whether a request puts its connection apart.
fn sets_apart([name, word]: [&str; 2]) -> bool {
    match name {
        "CLIENT" => !is_among(&CLIENT_PLAIN, word),
        "SCRIPT" => word == "DEBUG",
        _ => is_among(&APART, name),
    }
}

impl Plugin for Resp {
    fn take(&mut self, bytes: &[u8], each: &mut dyn FnMut(bool)) {
        let Resp { requests, is_apart, transaction, n_asked, .. } = self;
        requests.read(bytes, |Request { words, .. }| {
            let words = words.each_ref().map(|word| std::str::from_utf8(word).unwrap_or_default());
            *n_asked += 1;
            *is_apart |= sets_apart(words);
            match words[0] {
                "MULTI" => *transaction = Transaction::Begun,
                "EXEC" | "DISCARD" if *transaction != Transaction::None => {
                    *transaction = Transaction::Ending(*n_asked);
                }
                _ => {}
            }
            each(is_among(&READS, words[0]));
        });
    }

    fn is_between(&self) -> bool {
        self.requests.is_certain() && self.requests.is_between()
    }

    fn is_apart(&self) -> bool {
        self.is_apart || self.transaction != Transaction::None
    }

    fn hear(&mut self, bytes: &[u8]) {
        let Resp { replies, n_heard, transaction, .. } = self;
        replies.replies_by(bytes, |begun, line| {
            if begun == Begun::Element {
                return;
            }
            *n_heard += 1;
            if *transaction == Transaction::Ending(*n_heard) && ends_transaction(line) {
                *transaction = Transaction::None;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::Scanner;
    use super::super::tests::reads;
    use super::*;
    use crate::bugs::Bug;
    use crate::framing::Protocol;
    use proto::planted::{Planted, Sound};

    fn after(asked: &[u8]) -> bool {
        *reads(Protocol::Resp, &[asked, b"GET a\r\n"], Sound).last().unwrap()
    }

    #[test]
    fn names_are_in_the_order_of_the_alphabet() {
        assert!(READS.is_sorted() && APART.is_sorted() && CLIENT_PLAIN.is_sorted());
    }

    #[test]
    fn s3_what_may_change_something_is_no_read() {
        for asked in [
            "SET a 1",
            "GETEX a",
            "TOUCH a",
            "EVAL x 0",
            "EVAL_RO x 0",
            "SORT a STORE b",
            "OBJECT FREQ a",
            "SISMEMBER a b",
            "SRANDMEMBER a",
            "ZUNION 1 a",
            "PFCOUNT a",
            "SUBSCRIBE a",
            "no-such-command",
        ] {
            let asked = format!("{asked}\r\n");
            assert_eq!(reads(Protocol::Resp, &[asked.as_bytes()], Sound), [false], "{asked}");
        }
        assert_eq!(reads(Protocol::Resp, &[b"*2\r\n$3\r\ngEt\r\n$1\r\na\r\n"], Sound), [true]);
    }

    #[test]
    fn s4_a_connection_in_a_state_of_its_own_has_no_reads() {
        for asked in [
            "MULTI\r\n",
            "SUBSCRIBE a\r\n",
            "MONITOR\r\n",
            "CLIENT REPLY OFF\r\n",
            "CLIENT TRACKING ON\r\n",
            "SCRIPT DEBUG YES\r\n",
            "RESET\r\n",
        ] {
            assert!(!after(asked.as_bytes()), "{asked:?}");
        }
        for asked in ["HELLO 3\r\n", "SELECT 1\r\n", "AUTH x\r\n", "CLIENT SETNAME x\r\n"] {
            assert!(after(asked.as_bytes()), "{asked:?}");
        }
        let planted = Planted(Bug::ReadsInTransactions);
        let each = reads(Protocol::Resp, &[b"MULTI\r\n", b"GET a\r\n"], planted);
        assert_eq!(each, [false, true], "the mistake shows");
    }

    #[test]
    fn s4_a_transaction_ends_by_the_reply_that_says_so() {
        let ends = |asked: &[u8], replies: &[u8]| {
            let mut scanner = Scanner::new(Protocol::Resp, Sound);
            scanner.take(asked);
            scanner.hear(replies);
            scanner.take(b"GET a\r\n") == 1
        };
        let asked = b"GET a\r\nMULTI\r\nSET a 1\r\nEXEC\r\n";
        assert!(!ends(asked, b"$1\r\n*\r\n+OK\r\n+QUEUED\r\n"), "it is not answered");
        assert!(ends(asked, b"$1\r\n*\r\n+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n"));
        assert!(ends(asked, b"$-1\r\n+OK\r\n-ERR\r\n-EXECABORT it\r\n"));
        assert!(ends(asked, b"$-1\r\n+OK\r\n+QUEUED\r\n*-1\r\n"));
        assert!(!ends(asked, b"$-1\r\n+OK\r\n+QUEUED\r\n-NOPERM it\r\n"), "it goes on");
        assert!(ends(b"MULTI\r\nDISCARD\r\n", b"+OK\r\n+OK\r\n"));
        let again = b"MULTI\r\nEXEC\r\nMULTI\r\n";
        assert!(!ends(again, b"+OK\r\n*0\r\n+OK\r\n"), "another has begun");
    }

    #[test]
    fn s2_behind_what_can_be_read_in_two_ways_nothing_is_a_read() {
        for asked in ["*01\r\n$4\r\nPING\r\n", "SET a \"x\r\n", "PING\n", "*1\r\nPING\r\n", "*0\n"]
        {
            assert!(!after(asked.as_bytes()), "{asked:?}");
        }
    }
}
