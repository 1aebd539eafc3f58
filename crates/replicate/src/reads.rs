//! Reads: requests that change nothing, told apart from all others by the protocol's plugin.
//!
//! A plugin answers two questions: where a request ends, and whether it only reads. A [`Scanner`]
//! asks them of everything that a client sends, and finds the pieces that may run beside the log,
//! at the copy beside the client alone.
//!
//! - S1 a piece is one of reads if it begins where a request begins, ends where one ends, and each
//!   request in it only reads. What has a request of another kind in it, or a part of one, is the
//!   log's.
//! - S2 where a request ends is known for certain, or nothing of the connection is a read from
//!   there on: what programs could read in two ways (an odd line, a command that is not known) is
//!   not guessed at. A program that took other bytes for a request than its member does would be at
//!   another place than the copies which have not seen the read.
//! - S3 a read-only request changes nothing that another request shows: neither values, nor what a
//!   program draws by chance, nor the choice that another request makes. (When a key was used last,
//!   and that one has expired is noticed, is excepted: docs/replicate.md.) What is not known to be
//!   such is no read.
//! - S4 a connection in a state in which requests mean something else, or replies are not one for
//!   each request, has no reads.

mod memcached;
mod resp;

use crate::bugs::Bug;
use crate::framing::Protocol;
use proto::planted::Planting;

/// What has to be known of a protocol.
trait Plugin {
    /// Takes the next bytes of a client, and tells for each request that ends in them whether it
    /// only reads.
    fn take(&mut self, bytes: &[u8], each: &mut dyn FnMut(bool));

    /// Whether the last byte that was taken was for certain that of a request, or nothing was taken
    /// (S2).
    fn is_between(&self) -> bool;

    /// Whether the connection is in a state of its own (S4).
    fn is_apart(&self) -> bool;

    /// Takes the next bytes of the program's answers to the client.
    fn hear(&mut self, _bytes: &[u8]) {}
}

/// The plugin of one connection.
#[derive(Clone, Debug)]
enum Of {
    Resp(Box<resp::Resp>),
    Memcached(memcached::Memcached),
}

/// What one client has sent. See the module's text.
#[derive(Clone, Debug)]
pub(crate) struct Scanner<B> {
    planted: B,
    of: Of,
}

impl<B: Planting<Bug>> Scanner<B> {
    /// The scanner of a connection that is opened.
    pub(crate) fn new(protocol: Protocol, planted: B) -> Scanner<B> {
        let of = match protocol {
            Protocol::Resp => Of::Resp(Box::default()),
            Protocol::Memcached => Of::Memcached(memcached::Memcached::default()),
        };
        Scanner { planted, of }
    }

    fn plugin(&mut self) -> &mut dyn Plugin {
        match &mut self.of {
            Of::Resp(of) => &mut **of,
            Of::Memcached(of) => of,
        }
    }

    /// Takes the next bytes of the answers to the client.
    pub(crate) fn hear(&mut self, bytes: &[u8]) {
        self.plugin().hear(bytes);
    }

    /// Takes the client's next bytes. Returns the number of reads that they are, or 0 where
    /// something else is among them (S1).
    pub(crate) fn take(&mut self, bytes: &[u8]) -> u64 {
        let planted = self.planted;
        let of = self.plugin();
        let begins = of.is_between();
        let (mut n, mut only_read) = (0u64, true);
        of.take(bytes, &mut |reads| {
            n += 1;
            only_read &= reads;
        });
        let is_whole = begins && of.is_between() || planted.has(Bug::PartsAreReads);
        let may_read = !of.is_apart() || planted.has(Bug::ReadsInTransactions);
        if only_read && is_whole && may_read { n } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proto::planted::{Planted, Sound};

    /// Whether each of these pieces of one connection is one of reads.
    pub(super) fn reads<B: Planting<Bug>>(of: Protocol, pieces: &[&[u8]], planted: B) -> Vec<bool> {
        let mut scanner = Scanner::new(of, planted);
        pieces.iter().map(|piece| scanner.take(piece) > 0).collect()
    }

    #[test]
    fn s1_a_piece_is_whole_reads_or_the_logs() {
        let get = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n";
        let two = [&get[..], &get[..]].concat();
        let (most, last) = get.split_at(15);
        let pieces: [&[u8]; 6] = [get, &two, most, last, b"SET a 1\r\nGET a\r\n", get];
        let each = reads(Protocol::Resp, &pieces, Sound);
        assert_eq!(each, [true, true, false, false, false, true]);
        let each = reads(Protocol::Resp, &pieces, Planted(Bug::PartsAreReads));
        assert!(each[3], "the mistake shows");
    }

    /// What looks like a read in the value of another request.
    #[test]
    fn s1_a_value_is_no_request() {
        let get = "*2\r\n$3\r\nGET\r\n$1\r\na\r\n";
        let set = format!("*3\r\n$3\r\nSET\r\n$1\r\na\r\n${}\r\n", get.len());
        let pieces = [set.as_bytes(), get.as_bytes(), b"\r\n", get.as_bytes()];
        assert_eq!(reads(Protocol::Resp, &pieces, Sound), [false, false, false, true]);
        let pieces: [&[u8]; 4] = [b"set a 0 0 7\r\n", b"get a\r\n", b"\r\n", b"get a\r\n"];
        assert_eq!(reads(Protocol::Memcached, &pieces, Sound), [false, false, false, true]);
    }

    proptest! {
        /// However a stream is cut: a piece of reads holds whole reads alone, so that the log's
        /// pieces are the rest of the stream, and each of its requests is whole.
        #[test]
        fn s1_any_cut_leaves_the_log_whole_requests(
            kinds in prop::collection::vec(0usize..5, 1..12),
            cuts in prop::collection::vec(1usize..60, 0..40),
        ) {
            let all: [&[u8]; 5] = [
                b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n",
                b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$21\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n\r\n",
                b"*1\r\n$4\r\nPING\r\n",
                b"GET a\r\n",
                b"\r\n",
            ];
            let stream = kinds.iter().flat_map(|kind| all[*kind]).copied().collect::<Vec<_>>();
            let (mut scanner, mut rest) = (Scanner::new(Protocol::Resp, Sound), &stream[..]);
            let mut logged = Vec::new();
            for cut in cuts.into_iter().chain([usize::MAX]) {
                let (piece, left) = rest.split_at(cut.min(rest.len()));
                rest = left;
                if scanner.take(piece) == 0 {
                    logged.extend_from_slice(piece);
                }
            }
            // What the log has is the stream without some of its reads, and nothing else.
            let mut at = 0;
            for kind in kinds {
                let one = all[kind];
                if logged[at..].starts_with(one) {
                    at += one.len();
                } else {
                    prop_assert!(kind == 0 || kind == 3 || kind == 4, "{kind} at {at}");
                }
            }
            prop_assert_eq!(at, logged.len());
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            reads(Protocol::Resp, &[&bytes], Sound);
            reads(Protocol::Memcached, &[&bytes], Sound);
        }
    }
}
