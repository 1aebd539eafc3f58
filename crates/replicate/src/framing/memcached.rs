//! Memcached's protocol of lines. (Its binary one is not counted.)
//!
//! What may have no reply is not counted from there on: a command that wants none, or wants one of
//! some outcomes alone, has one all the same if it fails. So are commands that are not known here,
//! and statistics of some part, which have as many lines as they like.

use super::{Line, Reader, number};

/// The first byte of a connection of the binary protocol.
const BINARY: u8 = 0x80;

/// The framing of memcached's protocol, as of one leg.
#[derive(Clone, Debug, Default)]
pub struct Memcached {
    requests: Reader,
    has_begun: bool,
    replies: Reader,
}

impl Memcached {
    pub(super) fn has_lost_requests(&self) -> bool {
        self.requests.is_lost
    }

    pub(super) fn requests(&mut self, bytes: &[u8]) -> u64 {
        let first = bytes.first().filter(|_| !self.has_begun);
        self.requests.is_lost |= first == Some(&BINARY);
        self.has_begun |= first.is_some();
        let mut n = 0;
        let n_ended = self.requests.read(bytes, |line| {
            let of = request(line);
            n += u64::from(matches!(of, Line::Alone));
            of
        });
        n + n_ended
    }

    pub(super) fn replies(&mut self, bytes: &[u8]) -> u64 {
        let mut n = 0;
        let n_ended = self.replies.read(bytes, |line| {
            let mut words = words(line);
            let bytes_of = |word: Option<&[u8]>| word.and_then(length);
            match words.next() {
                // The values of a request end with a line of their own.
                Some(b"VALUE") => bytes_of(words.nth(2)).map_or(Line::Unknown, Line::Payload),
                Some(b"VA") => bytes_of(words.next()).map_or(Line::Unknown, Line::LastPayload),
                Some(b"STAT") => Line::Alone,
                _ => {
                    n += 1;
                    Line::Alone
                }
            }
        });
        n + n_ended
    }
}

fn words(line: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> + Clone {
    line.split(|byte| *byte == b' ').filter(|word| !word.is_empty())
}

fn length(word: &[u8]) -> Option<u64> {
    number(word).and_then(|n| u64::try_from(n).ok())
}

/// What follows the line of a request, which is one by itself if nothing does.
fn request(line: &[u8]) -> Line {
    let mut rest = words(line);
    // An empty line is answered as an error.
    let Some(command) = rest.next() else { return Line::Alone };
    let data_at = match command {
        b"get" | b"gets" | b"gat" | b"gats" | b"version" | b"mn" => return Line::Alone,
        b"stats" if rest.next().is_none() => return Line::Alone,
        b"delete" | b"incr" | b"decr" | b"touch" | b"flush_all" | b"verbosity"
            if rest.next_back() != Some(b"noreply") =>
        {
            return Line::Alone;
        }
        b"mg" | b"md" | b"ma" | b"me" if !is_quiet(rest.clone()) => return Line::Alone,
        b"set" | b"add" | b"replace" | b"append" | b"prepend" if rest.clone().count() == 4 => 3,
        b"cas" if rest.clone().count() == 5 && rest.clone().next_back() != Some(b"noreply") => 3,
        b"ms" if !is_quiet(rest.clone()) => 1,
        _ => return Line::Unknown,
    };
    rest.nth(data_at).and_then(length).map_or(Line::Unknown, Line::LastPayload)
}

/// Whether a meta command wants no reply if all is as usual.
fn is_quiet<'a>(mut rest: impl Iterator<Item = &'a [u8]>) -> bool {
    rest.any(|flag| flag == b"q")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REQUESTS: &[u8] = b"set a 0 0 5\r\nx\r\nyz\r\nget a b\r\n\r\ncas a 0 0 0 7\r\n\r\n\
        incr n 1\r\nstats\r\nms k 2 I\r\nhi\r\nmg k v\r\ndelete a\n";
    const REPLIES: &[u8] = b"STORED\r\nVALUE a 0 5\r\nEND\r\n\r\nVALUE b 0 1 9\r\nx\r\nEND\r\n\
        ERROR\r\nEXISTS\r\n8\r\nSTAT pid 1\r\nSTAT uptime 2\r\nEND\r\nHD\r\nVA 4 t0\r\nEN\r\n\r\n\
        DELETED\r\n";
    const N: u64 = 9;

    fn fed(requests: &[&[u8]]) -> (u64, bool) {
        let mut of = Memcached::default();
        let n = requests.iter().map(|bytes| of.requests(bytes)).sum();
        (n, of.has_lost_requests())
    }

    #[test]
    fn requests_and_replies_are_counted() {
        let mut of = Memcached::default();
        assert_eq!((of.requests(REQUESTS), of.replies(REPLIES)), (N, N));
        assert!(!of.has_lost_requests());
    }

    #[test]
    fn a_request_is_counted_when_its_data_are_there() {
        assert_eq!(fed(&[b"set a 0 0 5\r\nabc"]), (0, false));
        assert_eq!(fed(&[b"set a 0 0 5\r\nabc", b"de\r", b"\nget a\r\n"]), (2, false));
    }

    /// Each of them may be answered or not, or by more than one line.
    #[test]
    fn what_may_have_no_reply_is_not_counted() {
        let each: [&[u8]; 12] = [
            b"set a 0 0 1 noreply\r\n",
            b"cas a 0 0 1 noreply\r\n",
            b"incr n 1 noreply\r\n",
            b"delete a noreply\r\n",
            b"flush_all noreply\r\n",
            b"mg k v q\r\n",
            b"ms k 1 q\r\n",
            b"stats items\r\n",
            b"watch\r\n",
            b"quit\r\n",
            b"set a 0 0 -1\r\n",
            b"\x80\x01",
        ];
        for request in each {
            assert_eq!(fed(&[request, b"get a\r\n"]), (0, true), "{request:?}");
        }
    }

    proptest! {
        #[test]
        fn pieces_of_any_size_count_alike(cuts in prop::collection::vec(1usize..9, 0..60)) {
            let mut of = Memcached::default();
            let (mut requests, mut replies) = (REQUESTS, REPLIES);
            let (mut n_requests, mut n_replies) = (0, 0);
            for cut in cuts.into_iter().chain([usize::MAX]) {
                let (part, rest) = requests.split_at(cut.min(requests.len()));
                n_requests += of.requests(part);
                requests = rest;
                let (part, rest) = replies.split_at(cut.min(replies.len()));
                n_replies += of.replies(part);
                replies = rest;
            }
            prop_assert_eq!((n_requests, n_replies), (N, N));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut of = Memcached::default();
            of.requests(&bytes);
            of.replies(&bytes);
        }
    }
}
