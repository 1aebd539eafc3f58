//! Redis's protocol.

use super::{Line, Reader, number, trim};

/// The framing of Redis's protocol, versions 2 and 3, as of one leg.
#[derive(Clone, Debug, Default)]
pub struct Resp {
    requests: Reader,
    /// The arguments of the present request that are still to come.
    arguments: i64,
    replies: Reader,
    /// The parts of the present reply that are still to come.
    parts: i64,
    /// So many are left when the next element of the reply begins, if that is an array.
    at_element: i64,
    /// Whether the present reply answers no request.
    is_push: bool,
}

/// What a line begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// A reply that answers a request.
    Reply,
    /// An element of the reply that is an array.
    Element,
}

/// Whether the reply to EXEC or DISCARD begins as one that has ended the transaction.
pub(crate) fn ends_transaction(line: &[u8]) -> bool {
    let is_aborted = || line.starts_with(b"-EXECABORT");
    line.starts_with(b"*") || [&b"_"[..], b"$-1", b"+OK"].contains(&line) || is_aborted()
}

impl Resp {
    /// Whether replies are no longer counted (I1 of `framing`).
    pub(crate) fn has_lost_replies(&self) -> bool {
        self.replies.is_lost
    }

    pub(super) fn has_lost_requests(&self) -> bool {
        self.requests.is_lost
    }

    pub(super) fn requests(&mut self, bytes: &[u8]) -> u64 {
        let (mut n, arguments) = (0, &mut self.arguments);
        let n_ended = self.requests.read(bytes, |line| {
            let header = line.split_first().map(|(kind, rest)| (*kind, number(rest)));
            match (*arguments, header) {
                (0, None) => Line::Alone,
                // An array without an element is no request.
                (0, Some((b'*', Some(len)))) => {
                    *arguments = len.max(0);
                    Line::Alone
                }
                // A request in a line, or one that the program refuses.
                (0, Some(_)) => {
                    n += u64::from(!trim(line).is_empty());
                    Line::Alone
                }
                (_, Some((b'$', Some(len)))) if len >= 0 => {
                    *arguments -= 1;
                    match *arguments {
                        0 => Line::LastPayload(len as u64),
                        _ => Line::Payload(len as u64),
                    }
                }
                _ => Line::Unknown,
            }
        });
        n + n_ended
    }

    pub(super) fn replies(&mut self, bytes: &[u8]) -> u64 {
        self.replies_by(bytes, |_, _| ())
    }

    /// The same; hands the first line of each reply that answers a request, and of each element of
    /// one that is an array, to `begins`.
    pub(crate) fn replies_by(&mut self, bytes: &[u8], mut begins: impl FnMut(Begun, &[u8])) -> u64 {
        let Resp { replies, parts, at_element, is_push, .. } = self;
        let mut n = 0;
        let n_ended = replies.read(bytes, |line| {
            let Some((kind, rest)) = line.split_first() else { return Line::Unknown };
            let is_first = *parts == 0;
            if is_first {
                (*parts, *at_element, *is_push) = (1, 0, *kind == b'>');
                if *kind != b'>' {
                    begins(Begun::Reply, line);
                }
            } else if *parts == *at_element {
                *at_element -= 1;
                begins(Begun::Element, line);
            }
            let mut is_whole = |more: i64, parts: &mut i64| {
                *parts = parts.saturating_add(more - 1);
                n += u64::from(*parts == 0 && !*is_push);
            };
            match (kind, number(rest)) {
                (b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(', _) => {
                    is_whole(0, parts);
                    Line::Alone
                }
                (b'$' | b'!' | b'=', Some(len)) if len >= 0 => {
                    *parts -= 1;
                    match (*parts, *is_push) {
                        // The reply counts when all of it has come: a long one comes in pieces, and
                        // all of them are compared.
                        (0, false) => Line::LastPayload(len as u64),
                        _ => Line::Payload(len as u64),
                    }
                }
                (b'$' | b'!' | b'=', Some(_)) => {
                    is_whole(0, parts);
                    Line::Alone
                }
                (b'*' | b'~', Some(len)) => {
                    is_whole(len.max(0), parts);
                    if is_first {
                        *at_element = len.max(0);
                    }
                    Line::Alone
                }
                (b'%', Some(len)) => {
                    is_whole(2 * len.max(0), parts);
                    Line::Alone
                }
                // Attributes stand before a value, which is still to come.
                (b'|', Some(len)) => {
                    *parts = parts.saturating_add(2 * len.max(0));
                    Line::Alone
                }
                (b'>', Some(len)) => {
                    *is_push |= *parts == 1;
                    *parts = parts.saturating_add(len.max(0) - 1);
                    Line::Alone
                }
                _ => Line::Unknown,
            }
        });
        n + n_ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REQUESTS: &[u8] =
        b"*2\r\n$3\r\nGET\r\n$1\r\nx\r\nPING\r\n\r\n*0\r\n*1\r\n$6\r\na\r\nb\r\n\r\n*1\r\n$0\r\n\r\n";
    const REPLIES: &[u8] = b"+OK\r\n$-1\r\n*2\r\n$4\r\n+\r\n-\r\n:7\r\n%1\r\n+a\r\n*0\r\n\
        >2\r\n+message\r\n$2\r\nhi\r\n|1\r\n+k\r\n+v\r\n(99\r\n*-1\r\n#t\r\n";

    #[test]
    fn requests_and_replies_are_counted() {
        let mut resp = Resp::default();
        assert_eq!(resp.requests(REQUESTS), 4);
        assert_eq!(resp.replies(REPLIES), 7, "a push answers nothing");
        assert_eq!(resp.requests(b"PING\r\n"), 1);
        assert_eq!(resp.replies(b"+PONG\r\n"), 1);
    }

    #[test]
    fn a_line_of_blanks_is_no_request() {
        let mut resp = Resp::default();
        assert_eq!(resp.requests(b"\x0b\r\n \x0b\t\x0c\r\n\x0b PING\r\n"), 1);
    }

    /// A program does not answer before; a copy that waited for it would lose time.
    #[test]
    fn a_request_is_counted_when_all_of_it_is_there() {
        let mut resp = Resp::default();
        assert_eq!(resp.requests(b"*2\r\n$4\r\nECHO\r\n$6\r\nabc"), 0);
        assert_eq!(resp.requests(b"def\r"), 0);
        assert_eq!(resp.requests(b"\n*1\r\n$4\r\nPING\r\n"), 2);
    }

    /// What is still to come of it would be compared with the whole of another copy's.
    #[test]
    fn a_reply_is_counted_when_all_of_it_is_there() {
        let mut resp = Resp::default();
        assert_eq!(resp.replies(b"$6\r\nabc"), 0);
        assert_eq!(resp.replies(b"def\r"), 0);
        assert_eq!(resp.replies(b"\n*2\r\n:1\r\n$2\r\nh"), 1);
        assert_eq!(resp.replies(b"i\r\n"), 1);
    }

    #[test]
    fn elements_of_an_array_are_told_and_what_they_hold_is_not() {
        let mut begun = Vec::new();
        let replies =
            b"+OK\r\n*4\r\n*2\r\n*1\r\n:1\r\n:2\r\n-ERR\r\n$2\r\n-x\r\n*0\r\n>1\r\n:1\r\n:3\r\n";
        Resp::default().replies_by(replies, |what, line| {
            begun.push((what, String::from_utf8(line.to_vec()).unwrap()));
        });
        let (reply, element) = (Begun::Reply, Begun::Element);
        let expected = [
            (reply, "+OK"),
            (reply, "*4"),
            (element, "*2"),
            (element, "-ERR"),
            (element, "$2"),
            (element, "*0"),
            (reply, ":3"),
        ];
        assert_eq!(begun, expected.map(|(what, line)| (what, line.to_owned())));
    }

    #[test]
    fn i1_what_is_no_request_ends_the_counting() {
        let mut resp = Resp::default();
        assert_eq!(resp.requests(b"*1\r\nGET\r\nPING\r\n"), 0);
        assert_eq!(resp.requests(b"PING\r\n"), 0);
        assert_eq!(resp.replies(b"HTTP/1.1\r\n+OK\r\n"), 0);
    }

    proptest! {
        #[test]
        fn pieces_of_any_size_count_alike(cuts in prop::collection::vec(1usize..9, 0..60)) {
            let mut resp = Resp::default();
            let (mut requests, mut replies) = (REQUESTS, REPLIES);
            let (mut n_requests, mut n_replies) = (0, 0);
            for cut in cuts.into_iter().chain([usize::MAX]) {
                let (part, rest) = requests.split_at(cut.min(requests.len()));
                n_requests += resp.requests(part);
                requests = rest;
                let (part, rest) = replies.split_at(cut.min(replies.len()));
                n_replies += resp.replies(part);
                replies = rest;
            }
            prop_assert_eq!((n_requests, n_replies), (4, 7));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut resp = Resp::default();
            resp.requests(&bytes);
            resp.replies(&bytes);
        }
    }
}
