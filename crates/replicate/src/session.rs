//! Sessions: what a connection to a program with Redis's protocol has asked, as far as it matters
//! beyond its answers.
//!
//! A session reads the connection's requests as they are fed, so all copies come to the same.
//!
//! - R1 a connection that has asked for something that is the copy's own (the time, chance, ids,
//!   the order of a hash table, what reads beside the log have done) is *masked* until the next
//!   point; within a transaction until the first point behind it; one that is told what others ask
//!   (MONITOR) for good.
//! - R2 a connection is *explained* by its requests if it is between two of them, and a program
//!   that is told those that a session keeps, in order, treats a new connection as it treats this
//!   one. Those that the program's checkpoint does not hold are kept for the program as a whole, in
//!   [`Common`]: scripts, settings, users.
//! - R3 what is kept is bounded. A request that is repeated is kept once, at its last place: it
//!   does then what it did before, and nothing between depends on the first time. What does not fit
//!   cannot be explained.

use crate::bugs::Bug;
use crate::requests::{self, Request, Requests};
use proto::planted::Planting;
use std::collections::VecDeque;

/// The most bytes that a session keeps.
const KEPT_BYTES_MAX: usize = 16 << 10;
/// The most bytes that are kept for the program.
const COMMON_BYTES_MAX: usize = requests::RAW_BYTES_MAX;

/// Requests whose replies are not the input's alone, in the order of the alphabet.
const MASKED: [&str; 37] = [
    "ACL",
    "CLIENT",
    "COMMAND",
    "CONFIG",
    "DBSIZE",
    "DEBUG",
    "HELLO",
    "HGETALL",
    "HKEYS",
    "HRANDFIELD",
    "HSCAN",
    "HVALS",
    "INFO",
    "KEYS",
    "LASTSAVE",
    "LATENCY",
    "MEMORY",
    "MODULE",
    "MONITOR",
    "OBJECT",
    "PTTL",
    "PUBSUB",
    "RANDOMKEY",
    "ROLE",
    "SCAN",
    "SDIFF",
    "SINTER",
    "SLOWLOG",
    "SMEMBERS",
    "SRANDMEMBER",
    "SSCAN",
    "SUNION",
    "TIME",
    "TTL",
    "WAIT",
    "ZRANDMEMBER",
    "ZSCAN",
];

/// Requests, each at its last place (R3).
#[derive(Clone, Debug, Default)]
struct Kept {
    requests: VecDeque<Vec<u8>>,
    n_bytes: usize,
    /// Something did not fit.
    is_over: bool,
}

impl Kept {
    fn push(&mut self, raw: Option<&[u8]>, bytes_max: usize) {
        let Some(raw) = raw else {
            self.is_over = true;
            return;
        };
        if let Some(at) = self.requests.iter().position(|one| one == raw) {
            self.requests.remove(at);
            self.n_bytes -= raw.len();
        }
        if self.n_bytes + raw.len() > bytes_max {
            self.is_over = true;
            return;
        }
        self.n_bytes += raw.len();
        self.requests.push_back(raw.to_vec());
    }
}

/// What a program was told on all connections, beside what its checkpoint holds (R2).
#[derive(Clone, Debug, Default)]
pub(crate) struct Common(Kept);

impl Common {
    /// The requests, if they are all there.
    pub(crate) fn requests(&self) -> Option<Vec<Vec<u8>>> {
        (!self.0.is_over).then(|| self.0.requests.iter().cloned().collect())
    }

    fn push(&mut self, raw: Option<&[u8]>) {
        self.0.push(raw, COMMON_BYTES_MAX);
    }
}

/// A script as a request that only loads it. It needs the bytes, in parts.
fn loading(raw: Option<&[u8]>) -> Option<Vec<u8>> {
    let mut rest = raw?;
    let mut body = None;
    for at in 0..3 {
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        let (line, left) = rest.split_at(end + 1);
        if at == 0 {
            rest = left; // the number of arguments
            continue;
        }
        let len = std::str::from_utf8(line.strip_prefix(b"$")?.trim_ascii_end()).ok()?;
        let (argument, left) = left.split_at_checked(len.parse::<usize>().ok()?)?;
        (body, rest) = (Some(argument), left.get(2..)?);
    }
    let body = body?;
    let mut out = format!("*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n${}\r\n", body.len()).into_bytes();
    out.extend_from_slice(body);
    out.extend_from_slice(b"\r\n");
    Some(out)
}

/// The session of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Session {
    requests: Requests,
    kept: Kept,
    is_in_transaction: bool,
    is_watching: bool,
    /// The program may send what no request asks for, or treats the connection in a way of which
    /// no request is kept.
    is_special: bool,
    is_masked: bool,
    /// It is told what all connections ask.
    is_monitor: bool,
}

impl Session {
    /// The connection's next bytes are fed.
    pub(crate) fn take(&mut self, bytes: &[u8], common: &mut Common) {
        let mut requests = std::mem::take(&mut self.requests);
        requests.read(bytes, |request| self.note(request, common));
        self.requests = requests;
    }

    fn note(&mut self, request: &Request<'_>, common: &mut Common) {
        let [name, word] =
            request.words.each_ref().map(|word| std::str::from_utf8(word).unwrap_or_default());
        self.is_masked |= MASKED.binary_search(&name).is_ok();
        self.is_monitor |= name == "MONITOR";
        match (name, word) {
            ("MULTI", _) => self.is_in_transaction = true,
            ("EXEC" | "DISCARD", _) => (self.is_in_transaction, self.is_watching) = (false, false),
            ("WATCH", _) => self.is_watching = true,
            ("UNWATCH", _) => self.is_watching = false,
            ("RESET", _) => {
                let requests = std::mem::take(&mut self.requests);
                *self = Session { requests, is_masked: self.is_masked, ..Session::default() };
            }
            (
                "SUBSCRIBE" | "PSUBSCRIBE" | "SSUBSCRIBE" | "MONITOR" | "SYNC" | "PSYNC" | "QUIT",
                _,
            )
            | ("CLIENT", "TRACKING" | "REPLY" | "CACHING") => self.is_special = true,
            ("AUTH" | "HELLO" | "SELECT", _)
            | ("CLIENT", "SETNAME" | "SETINFO" | "NO-EVICT" | "NO-TOUCH") => {
                // In a transaction it may not come to that.
                self.is_special |= self.is_in_transaction;
                self.kept.push(request.raw, KEPT_BYTES_MAX);
            }
            ("EVAL" | "EVAL_RO", _) => common.push(loading(request.raw).as_deref()),
            ("SCRIPT", "LOAD" | "FLUSH") | ("CONFIG", "SET") | ("ACL", "SETUSER" | "DELUSER") => {
                common.push(request.raw);
            }
            _ => {}
        }
    }

    /// Whether replies alone are sent to the connection, one for each request, as far as is known.
    pub(crate) fn is_plain(&self) -> bool {
        !self.requests.is_lost() && !self.is_special
    }

    /// The requests that make another connection like this one, if there are such (R2).
    pub(crate) fn explanation(&self) -> Option<Vec<u8>> {
        let is_explained = self.requests.is_between()
            && !self.is_special
            && !self.is_in_transaction
            && !self.is_watching
            && !self.kept.is_over;
        is_explained.then(|| self.kept.requests.iter().flatten().copied().collect())
    }

    /// Whether the answers are left out (R1).
    pub(crate) fn is_masked(&self) -> bool {
        self.is_masked
    }

    /// The copy is at a point.
    pub(crate) fn pass_point(&mut self, planted: impl Planting<Bug>) {
        let is_open = self.is_in_transaction && !planted.has(Bug::MaskEndsBeforeExec);
        self.is_masked &= is_open || self.is_monitor;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proto::planted::{Planted, Sound};

    fn session(bytes: &[u8]) -> Session {
        told(bytes).0
    }

    fn told(bytes: &[u8]) -> (Session, Common) {
        let (mut session, mut common) = (Session::default(), Common::default());
        session.take(bytes, &mut common);
        (session, common)
    }

    #[test]
    fn names_are_in_the_order_of_the_alphabet() {
        assert!(MASKED.is_sorted());
    }

    #[test]
    fn r1_a_connection_that_asks_for_the_time_is_masked_until_a_point() {
        let mut asks = session(b"*1\r\n$4\r\ntime\r\n");
        assert!(asks.is_masked() && asks.is_plain());
        asks.pass_point(Sound);
        assert!(!asks.is_masked());
        assert!(session(b"SET a 1\r\nINFO server\r\n").is_masked());
        assert!(!session(b"*2\r\n$3\r\nGET\r\n$4\r\nTIME\r\n").is_masked(), "that is a key");
    }

    #[test]
    fn r1_a_connection_that_is_told_what_others_ask_is_masked_for_good() {
        let mut asks = session(b"MONITOR\r\n");
        asks.pass_point(Sound);
        assert!(asks.is_masked());
    }

    #[test]
    fn r1_a_transaction_is_masked_to_its_end() {
        let mut asks = session(b"MULTI\r\nTIME\r\n");
        asks.pass_point(Sound);
        assert!(asks.is_masked());
        let mut mistaken = asks.clone();
        mistaken.pass_point(Planted(Bug::MaskEndsBeforeExec));
        assert!(!mistaken.is_masked(), "the mistake shows");
        asks.take(b"EXEC\r\n", &mut Common::default());
        assert!(asks.is_masked());
        asks.pass_point(Sound);
        assert!(!asks.is_masked());
    }

    #[test]
    fn a_connection_that_listens_is_not_plain() {
        assert!(session(b"*2\r\n$3\r\nGET\r\n$1\r\nx\r\n").is_plain());
        assert!(!session(b"*2\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n").is_plain());
        assert!(!session(b"*1\r\nno request\r\n").is_plain());
        assert!(!session(b"*1\r\n$4\r\nQUIT\r\n").is_plain(), "the program closes it");
    }

    fn explained(bytes: &[u8]) -> Option<String> {
        session(bytes).explanation().map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn r2_what_made_the_connection_what_it_is_is_kept() {
        let select = "*2\r\n$6\r\nselect\r\n$1\r\n3\r\n";
        let named = "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$1\r\nx\r\n";
        let asked = format!("{select}GET a\r\n{named}*2\r\n$6\r\nCLIENT\r\n$2\r\nID\r\n");
        assert_eq!(explained(asked.as_bytes()), Some(format!("{select}{named}")));
        let again = format!("{select}{named}{select}");
        assert_eq!(explained(again.as_bytes()), Some(format!("{named}{select}")), "R3");
        assert_eq!(explained(b"SELECT 1\r\nRESET\r\n"), Some(String::new()));
        assert_eq!(explained(b"MULTI\r\nSET a 1\r\nEXEC\r\n"), Some(String::new()));
    }

    #[test]
    fn r2_what_no_request_explains_is_said() {
        for asked in [
            "MULTI\r\n",
            "WATCH a\r\n",
            "SUBSCRIBE a\r\n",
            "CLIENT REPLY OFF\r\n",
            "MULTI\r\nSELECT 1\r\nDISCARD\r\n",
            "*1\r\n$4\r\nPING",
            "PIN",
        ] {
            assert_eq!(explained(asked.as_bytes()), None, "{asked:?}");
        }
        let long = format!("*2\r\n$4\r\nAUTH\r\n$20000\r\n{}\r\n", "x".repeat(20_000));
        assert_eq!(explained(long.as_bytes()), None, "R3");
    }

    #[test]
    fn r2_scripts_and_settings_are_kept_for_the_program() {
        let eval = "*3\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n0\r\n";
        let load = "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$8\r\nreturn 1\r\n";
        let set = "CONFIG SET maxmemory 1gb\r\n";
        let (_, common) = told(format!("{eval}{set}{eval}CONFIG GET *\r\n").as_bytes());
        assert_eq!(common.requests(), Some(vec![set.into(), load.into()]));
        let (_, common) = told(b"EVAL 'return 1' 0\r\n");
        assert_eq!(common.requests(), None, "words in quotes are the program's to read");
    }

    const ASKED: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$6\r\nTI\r\nME\r\n\r\n*0\r\nPING\r\n\
        *2\r\n$6\r\nclient\r\n$2\r\nid\r\n";

    proptest! {
        #[test]
        fn pieces_of_any_size_are_read_alike(cuts in prop::collection::vec(1usize..9, 0..60)) {
            let (mut session, mut bytes) = (Session::default(), ASKED);
            for cut in cuts.into_iter().chain([usize::MAX]) {
                let (part, rest) = bytes.split_at(cut.min(bytes.len()));
                session.take(part, &mut Common::default());
                bytes = rest;
            }
            prop_assert!(session.is_masked() && session.explanation().is_some());
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            session(&bytes);
        }
    }
}
