//! Sessions: what a connection to a program with Redis's protocol has asked, as far as it matters
//! beyond its answers.
//!
//! A session reads the connection's requests as they are fed, so all copies come to the same.
//!
//! - R1 a connection that has asked for something that is the copy's own (the time, chance, ids,
//!   the order of a hash table, what reads beside the log have done) is *masked* until the first
//!   point at which it was answered (behind a request that blocks, that is later); within a
//!   transaction until the first point behind it; one that is told what others ask (MONITOR, and
//!   what a replica of Redis is sent) for good.
//! - R2 a connection is *explained* by its requests if it is between two of them, each of which
//!   programs read alike, and a program that is told those that a session keeps, in order, treats a
//!   new connection as it treats this one. Those that the program's checkpoint does not hold are
//!   kept for the program as a whole, in [`Common`]: scripts, settings, users.
//! - R3 what is kept is bounded. A request that is repeated is kept once, at its last place: it
//!   does then what it did before, and nothing between depends on the first time. What does not fit
//!   cannot be explained.
//! - R4 a request is kept when its answer says that it was executed (`heard`): a copy that begins
//!   with a checkpoint must not do what the program has refused, or what was queued and discarded.
//!   Where that is not known, the connection, or the program, is not explained. (A script is kept
//!   then.)
//! - R5 what is kept for the program is in the order in which requests were fed, which is that of
//!   their execution; what was queued was executed with EXEC. Answers of several connections come
//!   in any order. (A request behind one that blocks is executed later than that: what is heard
//!   behind a point stands behind what was heard before. Between points this is not told apart.)

mod heard;
mod kept;

use crate::bugs::Bug;
use crate::requests::{self, Request, Requests};
use heard::{Asked, Done, Heard};
pub(crate) use kept::Common;
use kept::{Keep, Kept, Of};
use proto::planted::Planting;

/// The most bytes that a session keeps.
const KEPT_BYTES_MAX: usize = 16 << 10;
/// The most bytes that are kept for the program.
const COMMON_BYTES_MAX: usize = requests::RAW_BYTES_MAX;

/// Requests whose replies are not the input's alone, in the order of the alphabet. Hash tables are
/// in another order at a copy that began with a checkpoint, or where reads beside the log have
/// moved a hash (or the one that COPY has made of it) to its larger table. Expiries, and what the
/// pending entries of a stream tell, are by the copy's clock.
///
/// Not among them is what changes a value by such a thing (SPOP, XADD with an id of its own, XCLAIM
/// by an idle time): there a difference in the answer is one of the copies.
const MASKED: [&str; 58] = [
    "ACL",
    "BGREWRITEAOF",
    "BGSAVE",
    "CLIENT",
    "CLUSTER",
    "COMMAND",
    "COMMANDLOG",
    "CONFIG",
    "DBSIZE",
    "DEBUG",
    "DUMP",
    "EXPIRETIME",
    "FUNCTION",
    "HELLO",
    "HEXPIRETIME",
    "HGETALL",
    "HKEYS",
    "HPEXPIRETIME",
    "HPTTL",
    "HRANDFIELD",
    "HSCAN",
    "HTTL",
    "HVALS",
    "INFO",
    "KEYS",
    "LASTSAVE",
    "LATENCY",
    "LOLWUT",
    "MEMORY",
    "MODULE",
    "MONITOR",
    "OBJECT",
    "PEXPIRETIME",
    "PSYNC",
    "PTTL",
    "PUBSUB",
    "RANDOMKEY",
    "ROLE",
    "SAVE",
    "SCAN",
    "SDIFF",
    "SINTER",
    "SLOWLOG",
    "SMEMBERS",
    "SORT",
    "SORT_RO",
    "SRANDMEMBER",
    "SSCAN",
    "SUNION",
    "SYNC",
    "TIME",
    "TTL",
    "WAIT",
    "WAITAOF",
    "XINFO",
    "XPENDING",
    "ZRANDMEMBER",
    "ZSCAN",
];

/// What the requests of a connection have made of it.
#[derive(Clone, Debug, Default)]
struct Made {
    kept: Kept,
    /// The program may send what no request asks for, or treats the connection in a way of which
    /// no request is kept.
    is_special: bool,
}

impl Made {
    fn take(&mut self, done: &Done, common: &mut Common) {
        match done {
            Done::Executed(keep) => keep.keep(&mut self.kept, common),
            Done::InDoubt(keep) => keep.doubt(&mut self.kept, common),
            Done::Reset => *self = Made::default(),
        }
    }
}

/// The session of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Session {
    requests: Requests,
    heard: Heard,
    made: Made,
    is_masked: bool,
    /// The number of the last request that has masked it.
    masked_by: u64,
    /// It is told what all connections ask.
    is_monitor: bool,
}

/// Whether a name is not the one that the program reads: words in quotes may have signs for others.
fn is_hidden([name, word]: &[Vec<u8>; 2]) -> bool {
    let has_parts = matches!(&name[..], b"ACL" | b"CLIENT" | b"CONFIG" | b"SCRIPT");
    name.contains(&b'\\') || has_parts && word.contains(&b'\\')
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
        if MASKED.binary_search(&name).is_ok() {
            (self.is_masked, self.masked_by) = (true, self.heard.n_asked() + 1);
        }
        self.is_monitor |= matches!(name, "MONITOR" | "PSYNC" | "SYNC");
        let Session { heard, made, .. } = self;
        let number = common.number();
        if request.is_uncounted {
            heard.lose(&mut |done| made.take(&done, common));
        }
        let asked = match (name, word) {
            ("MULTI", _) => Some(Asked::Begin),
            ("EXEC" | "DISCARD", _) => Some(Asked::End(number)),
            ("WATCH", _) => Some(Asked::Watch),
            ("UNWATCH", _) => Some(Asked::Unwatch),
            ("RESET", _) => Some(Asked::Reset),
            (
                "SUBSCRIBE" | "PSUBSCRIBE" | "SSUBSCRIBE" | "UNSUBSCRIBE" | "PUNSUBSCRIBE"
                | "SUNSUBSCRIBE" | "MONITOR" | "SYNC" | "PSYNC" | "REPLCONF",
                _,
            )
            | ("CLIENT", "REPLY") => {
                heard.lose(&mut |done| made.take(&done, common));
                None
            }
            ("QUIT", _) | ("CLIENT", "TRACKING" | "CACHING") => {
                made.is_special = true;
                None
            }
            ("AUTH" | "HELLO" | "SELECT", _)
            | ("CLIENT", "SETNAME" | "SETINFO" | "NO-EVICT" | "NO-TOUCH") => {
                Some(Asked::Keep(Keep::new(Of::Connection, number, request.raw)))
            }
            ("EVAL" | "EVAL_RO", _) => Some(Asked::Keep(Keep::script(number, request.raw))),
            ("SCRIPT", "LOAD") => Some(Asked::Keep(Keep::new(Of::Scripts, number, request.raw))),
            ("SCRIPT", "FLUSH") | ("CONFIG", "SET") | ("ACL", "SETUSER" | "DELUSER") => {
                Some(Asked::Keep(Keep::new(Of::Program, number, request.raw)))
            }
            _ if is_hidden(request.words) => {
                Some(Asked::Hidden(Keep::new(Of::Program, number, None)))
            }
            _ => None,
        };
        heard.ask(asked, &mut |done| made.take(&done, common));
    }

    /// The program has sent these bytes, which answer what was taken (R4).
    pub(crate) fn hear(&mut self, bytes: &[u8], common: &mut Common) {
        let Session { heard, made, .. } = self;
        heard.hear(bytes, &mut |done| made.take(&done, common));
    }

    /// The connection to the program is no more.
    pub(crate) fn end(&mut self, common: &mut Common) {
        let Session { heard, made, .. } = self;
        heard.end(&mut |done| made.take(&done, common));
    }

    /// Whether replies alone are sent to the connection, one for each request, and each request is
    /// whole, as far as is known: a program may answer a part of one, and close the connection.
    pub(crate) fn is_plain(&self) -> bool {
        self.is_read() && !self.heard.is_lost() && !self.made.is_special
    }

    /// Whether all was read as every program reads it, up to the end of a request.
    fn is_read(&self) -> bool {
        self.requests.is_between() && self.requests.is_certain()
    }

    /// The requests that make another connection like this one, if there are such (R2).
    pub(crate) fn explanation(&self) -> Option<Vec<u8>> {
        let is_explained = self.is_read() && self.heard.is_plain() && !self.made.is_special;
        let kept = self.made.kept.requests().filter(|_| is_explained)?;
        Some(kept.flatten().copied().collect())
    }

    /// Whether the answers are left out (R1).
    pub(crate) fn is_masked(&self) -> bool {
        self.is_masked
    }

    /// The copy is at a point, and owes the connection so many answers.
    pub(crate) fn pass_point(&mut self, n_owed: u64, planted: impl Planting<Bug>) {
        let is_open = self.heard.may_be_in_transaction() && !planted.has(Bug::MaskEndsBeforeExec);
        let is_due = self.heard.may_await(self.masked_by, n_owed);
        self.is_masked &= is_open || is_due || self.is_monitor;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proto::planted::{Planted, Sound};

    fn session(bytes: &[u8]) -> Session {
        told(bytes, b"").0
    }

    /// The session of a connection that has said these bytes, and was answered so.
    fn told(bytes: &[u8], answers: &[u8]) -> (Session, Common) {
        let (mut session, mut common) = (Session::default(), Common::default());
        session.take(bytes, &mut common);
        session.hear(answers, &mut common);
        (session, common)
    }

    #[test]
    fn names_are_in_the_order_of_the_alphabet() {
        assert!(MASKED.is_sorted());
    }

    #[test]
    fn r1_a_connection_that_asks_for_the_time_is_masked_until_a_point() {
        let mut asks = told(b"*1\r\n$4\r\ntime\r\n", b"*2\r\n:1\r\n:2\r\n").0;
        assert!(asks.is_masked() && asks.is_plain());
        asks.pass_point(0, Sound);
        assert!(!asks.is_masked());
        assert!(session(b"SET a 1\r\nINFO server\r\n").is_masked());
        assert!(!session(b"*2\r\n$3\r\nGET\r\n$4\r\nTIME\r\n").is_masked(), "that is a key");
    }

    #[test]
    fn r1_what_is_asked_behind_a_request_that_blocks_is_masked_until_it_is_answered() {
        let mut asks = session(b"BLPOP q 0\r\nTIME\r\n");
        let mut unsure = session(b"CLIENT REPLY ON\r\nBLPOP q 0\r\nTIME\r\n");
        asks.pass_point(2, Sound);
        unsure.pass_point(2, Sound);
        assert!(asks.is_masked() && unsure.is_masked(), "the time was not told yet");
        let answers = b"*2\r\n$1\r\nq\r\n$1\r\nv\r\n*2\r\n$1\r\n1\r\n$1\r\n2\r\n";
        asks.hear(answers, &mut Common::default());
        asks.take(b"BLPOP q 0\r\n", &mut Common::default());
        asks.pass_point(1, Sound);
        assert!(!asks.is_masked(), "what it waits for now is no time");
        unsure.pass_point(0, Sound);
        assert!(!unsure.is_masked());
    }

    #[test]
    fn r1_what_a_table_or_a_clock_of_the_copy_decides_is_masked() {
        let own = [
            "DUMP h",
            "SORT s BY nosort",
            "sort_ro s by nosort",
            "FUNCTION LIST",
            "LOLWUT",
            "EXPIRETIME k",
            "pexpiretime k",
            "XPENDING s g - + 9",
            "XINFO CONSUMERS s g",
            "BGSAVE",
        ];
        for asked in own {
            assert!(session(format!("{asked}\r\n").as_bytes()).is_masked(), "{asked}");
        }
        for asked in ["COPY h g", "HGET h dump", "SPOP s", "XADD s * a 1", "XLEN s", "GETEX k"] {
            assert!(!session(format!("{asked}\r\n").as_bytes()).is_masked(), "{asked}");
        }
    }

    #[test]
    fn r1_a_connection_that_is_told_what_others_ask_is_masked_for_good() {
        for asked in ["MONITOR\r\n", "SYNC\r\n", "PSYNC ? -1\r\n"] {
            let mut asks = session(asked.as_bytes());
            asks.pass_point(0, Sound);
            assert!(asks.is_masked(), "{asked}");
        }
    }

    #[test]
    fn r1_a_transaction_is_masked_to_its_end() {
        let mut asks = told(b"MULTI\r\nTIME\r\n", b"+OK\r\n+QUEUED\r\n").0;
        asks.pass_point(0, Sound);
        assert!(asks.is_masked());
        let mut mistaken = asks.clone();
        mistaken.pass_point(0, Planted(Bug::MaskEndsBeforeExec));
        assert!(!mistaken.is_masked(), "the mistake shows");
        asks.take(b"EXEC\r\n", &mut Common::default());
        asks.hear(b"*1\r\n*2\r\n:1\r\n:2\r\n", &mut Common::default());
        assert!(asks.is_masked());
        asks.pass_point(0, Sound);
        assert!(!asks.is_masked());
    }

    #[test]
    fn a_connection_that_listens_is_not_plain() {
        assert!(session(b"*2\r\n$3\r\nGET\r\n$1\r\nx\r\n").is_plain());
        assert!(!session(b"*2\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n").is_plain());
        assert!(!session(b"*1\r\nno request\r\n").is_plain());
        assert!(!session(b"*1\r\n$4\r\nQUIT\r\n").is_plain(), "the program closes it");
        let refused: [&[u8]; 4] =
            [b"*1\r\n$999999999\r\n", b"*3\n$3\r\n", b"*2\r\n", b"GET \"a\r\n"];
        for bytes in refused {
            assert!(!session(bytes).is_plain(), "the program may refuse a part, and close it");
        }
    }

    fn explained(bytes: &[u8], answers: &[u8]) -> Option<String> {
        told(bytes, answers).0.explanation().map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn r2_what_made_the_connection_what_it_is_is_kept() {
        let select = "*2\r\n$6\r\nselect\r\n$1\r\n3\r\n";
        let named = "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$1\r\nx\r\n";
        let asked = format!("{select}GET a\r\n{named}*2\r\n$6\r\nCLIENT\r\n$2\r\nID\r\n");
        let answers = b"+OK\r\n$-1\r\n+OK\r\n:1\r\n";
        assert_eq!(explained(asked.as_bytes(), answers), Some(format!("{select}{named}")));
        let again = format!("{select}{named}{select}");
        let answers = b"+OK\r\n+OK\r\n+OK\r\n";
        assert_eq!(explained(again.as_bytes(), answers), Some(format!("{named}{select}")), "R3");
        let reset = b"SELECT 1\r\nRESET\r\n";
        assert_eq!(explained(reset, b"+OK\r\n+RESET\r\n"), Some(String::new()));
        assert_eq!(explained(reset, b"+OK\r\n-ERR\r\n"), Some("SELECT 1\r\n".to_owned()), "R4");
        let exec = b"MULTI\r\nSET a 1\r\nEXEC\r\n";
        let answers = b"+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n";
        assert_eq!(explained(exec, answers), Some(String::new()));
    }

    #[test]
    fn r2_what_no_request_explains_is_said() {
        for (asked, answers) in [
            ("MULTI\r\n", "+OK\r\n"),
            ("WATCH a\r\n", "+OK\r\n"),
            ("WATCH a\r\nEXEC\r\n", "+OK\r\n-ERR EXEC without MULTI\r\n"),
            ("MULTI\r\nEXEC\r\n", "+OK\r\n-NOPERM it\r\n"),
            ("SUBSCRIBE a\r\n", "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"),
            ("CLIENT REPLY OFF\r\n", ""),
            ("SELECT 1\r\n", ""),
            ("\"SELECT\" 1\r\n", "+OK\r\n"),
            ("*1\r\n$4\r\nPING", ""),
            ("PIN", ""),
        ] {
            assert_eq!(explained(asked.as_bytes(), answers.as_bytes()), None, "{asked:?}");
        }
        let long = format!("*2\r\n$4\r\nAUTH\r\n$20000\r\n{}\r\n", "x".repeat(20_000));
        assert_eq!(explained(long.as_bytes(), b"+OK\r\n"), None, "R3");
    }

    const SET: &str = "CONFIG SET maxmemory 1gb\r\n";

    #[test]
    fn r2_scripts_and_settings_are_kept_for_the_program() {
        let eval = "*3\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n0\r\n";
        let load = "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$8\r\nreturn 1\r\n";
        let asked = format!("{eval}{SET}{eval}CONFIG GET *\r\n");
        let (_, common) = told(asked.as_bytes(), b":1\r\n+OK\r\n:1\r\n*0\r\n");
        assert_eq!(common.requests(), Some(vec![SET.into(), load.into()]));
        let again = Common::of(&common.requests().unwrap());
        assert_eq!(again.requests(), common.requests());
        let (_, common) = told(b"EVAL 'return 1' 0\r\n", b":1\r\n");
        assert_eq!(common.requests(), None, "words in quotes are the program's to read");
        let ran =
            b"-ERR value is not an integer or out of range script: c243, on @user_script:1.\r\n";
        let (_, common) = told(eval.as_bytes(), ran);
        assert_eq!(common.requests(), Some(vec![load.into()]), "it failed, and is there");
        for refused in ["-NOAUTH it", "-NOPERM it", "-ERR value is not an integer or out of range"]
        {
            let (_, common) = told(eval.as_bytes(), format!("{refused}\r\n").as_bytes());
            assert_eq!(common.requests(), Some(vec![]), "{refused}");
        }
    }

    /// What is kept for the program of this, that was answered so.
    fn kept(asked: &str, answers: &str) -> Option<Vec<String>> {
        let requests = told(asked.as_bytes(), answers.as_bytes()).1.requests()?;
        Some(requests.into_iter().map(|raw| String::from_utf8(raw).unwrap()).collect())
    }

    #[test]
    fn r4_what_was_not_executed_is_not_kept() {
        assert_eq!(kept(SET, "-NOPERM it\r\n"), Some(vec![]));
        assert_eq!(kept(SET, ""), Some(vec![]), "it is not answered");
        assert_eq!(explained(b"AUTH x\r\n", b"-WRONGPASS it\r\n"), Some(String::new()));
        let queued = format!("MULTI\r\n{SET}GET a\r\nACL DELUSER x\r\nSELECT 3\r\n");
        let answers = "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n";
        let told = |end: &str, answer: &str| {
            let (asked, answers) = (format!("{queued}{end}\r\n"), format!("{answers}{answer}"));
            let of_connection = explained(asked.as_bytes(), answers.as_bytes());
            (kept(&asked, &answers), of_connection)
        };
        let nothing = (Some(vec![]), Some(String::new()));
        assert_eq!(told("DISCARD", "+OK\r\n"), nothing);
        assert_eq!(told("RESET", "+RESET\r\n"), nothing);
        assert_eq!(told("EXEC", "*-1\r\n"), nothing);
        assert_eq!(told("EXEC", "_\r\n"), nothing);
        assert_eq!(told("EXEC", "-EXECABORT it\r\n"), nothing);
        let done = "*4\r\n+OK\r\n*1\r\n-x\r\n-NOPERM it\r\n+OK\r\n";
        let expected = (Some(vec![SET.to_owned()]), Some("SELECT 3\r\n".to_owned()));
        assert_eq!(told("EXEC", done), expected, "one was refused as it was executed");
        assert_eq!(told("EXEC", "*1\r\n+OK\r\n").0, None, "these are not its answers");
    }

    /// A client without rights counts on answers that are taken for those of other requests.
    #[test]
    fn r4_answers_that_may_be_other_requests_say_nothing() {
        let set = "*4\r\n$6\r\nCONFIG\r\n$3\r\nSET\r\n$11\r\nrequirepass\r\n$0\r\n\r\n";
        let answers = "-NOAUTH it\r\n+RESET\r\n";
        for blank in ["\x0b\r\n", " \x0b\t\r\n", "\x0b\n", "\x0c\r\n"] {
            let asked = format!("{blank}{set}RESET\r\n");
            assert_eq!(kept(&asked, answers), Some(vec![]), "{blank:?} is no request");
        }
        for silent in ["REPLCONF ACK 0\r\n", "replconf getack *\r\n", "\0\r\n"] {
            let asked = format!("{silent}{set}RESET\r\n");
            assert_eq!(kept(&asked, answers), None, "{silent:?} has no answer");
        }
        let hidden = format!("CLIENT \"\\x52EPLY\" SKIP\r\nGET a\r\n{set}GET a\r\n");
        assert_eq!(kept(&hidden, "-NOPERM it\r\n$1\r\na\r\n"), None);
        // The program reads three requests in lines here, or one in two lines.
        let odd = format!("*+1\r\n$5\r\nRESET\r\nGET a\r\n{set}");
        assert_eq!(kept(&odd, "-ERR\r\n-ERR\r\n+RESET\r\n"), None);
        let spaced = format!(" *1\r\n{set}RESET\r\n");
        assert_eq!(kept(&spaced, "-ERR\r\n-NOAUTH it\r\n+RESET\r\n"), None);
        let eval = "*3\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n0\r\n";
        let behind_blank = kept(&format!("\x0b\r\n*0\r\n{eval}"), ":1\r\n");
        assert!(behind_blank.is_some(), "it can be repeated");
        assert_eq!(kept("CONFIG \x0b SET a 1\r\n", "+OK\r\n").map(|kept| kept.len()), Some(1));
        // A name that begins behind a blank is the name.
        let queued = format!("\x0b MULTI\r\n{set}DISCARD\r\n");
        assert_eq!(kept(&queued, "+OK\r\n+QUEUED\r\n+OK\r\n"), Some(vec![]));
    }

    #[test]
    fn r4_what_may_have_been_executed_makes_the_program_unknown() {
        let ended = |asked: &str, answers: &str| {
            let (mut session, mut common) = told(asked.as_bytes(), answers.as_bytes());
            session.end(&mut common);
            common.requests().map(|requests| requests.len())
        };
        assert_eq!(ended(SET, "+OK\r\n"), Some(1));
        assert_eq!(ended(SET, ""), None, "it is closed without an answer");
        assert_eq!(ended(&format!("MULTI\r\n{SET}"), "+OK\r\n+QUEUED\r\n"), Some(0));
        assert_eq!(ended(&format!("MULTI\r\n{SET}EXEC\r\n"), "+OK\r\n+QUEUED\r\n"), None);
        assert_eq!(kept(&format!("SUBSCRIBE a\r\n{SET}"), "*3\r\n"), None);
        assert_eq!(kept(&format!("{SET}MONITOR\r\n"), ""), None);
        assert_eq!(kept("\"CONFIG\" SET a 1\r\n", "+OK\r\n").map(|kept| kept.len()), Some(1));
        assert_eq!(kept("\"\\x43ONFIG\" SET a 1\r\n", "+OK\r\n"), None);
        assert_eq!(kept("\"\\x43ONFIG\" SET a 1\r\n", "-ERR\r\n"), Some(vec![]));
        assert_eq!(kept("SET a \"\\x43\"\r\n", "+OK\r\n"), Some(vec![]), "that is a value");
    }

    #[test]
    fn r5_settings_are_in_the_order_of_their_execution_not_of_their_answers() {
        let [set_3, set_9] = ["3", "9"].map(|n| format!("CONFIG SET maxmemory-samples {n}\r\n"));
        let mut common = Common::default();
        let [mut one, mut other] = [Session::default(), Session::default()];
        one.take(set_3.as_bytes(), &mut common);
        other.take(set_9.as_bytes(), &mut common);
        other.hear(b"+OK\r\n", &mut common);
        one.hear(b"+OK\r\n", &mut common);
        let expected = vec![set_3.clone().into_bytes(), set_9.clone().into_bytes()];
        assert_eq!(common.requests(), Some(expected.clone()));
        // What is repeated has its last place, wherever its answers come.
        one.take(set_3.as_bytes(), &mut common);
        other.take([&*set_9, &*set_9].concat().as_bytes(), &mut common);
        one.take(set_9.as_bytes(), &mut common);
        one.hear(b"+OK\r\n+OK\r\n", &mut common);
        other.hear(b"+OK\r\n+OK\r\n", &mut common);
        assert_eq!(common.requests(), Some(expected));
        let mut again = Common::of(&common.requests().unwrap());
        one.take(SET.as_bytes(), &mut again);
        one.hear(b"+OK\r\n", &mut again);
        assert_eq!(again.requests().unwrap().last().unwrap(), SET.as_bytes());
    }

    #[test]
    fn r5_what_is_heard_behind_a_point_was_executed_behind_it() {
        let [set_3, set_9] = ["3", "9"].map(|n| format!("CONFIG SET maxmemory-samples {n}\r\n"));
        let mut common = Common::default();
        let [mut blocked, mut other] = [Session::default(), Session::default()];
        blocked.take(format!("BLPOP a 0\r\n{set_3}").as_bytes(), &mut common);
        other.take(set_9.as_bytes(), &mut common);
        other.hear(b"+OK\r\n", &mut common);
        common.pass_point();
        other.take(b"LPUSH a 1\r\n", &mut common);
        other.hear(b":1\r\n", &mut common);
        blocked.hear(b"*2\r\n$1\r\na\r\n$1\r\n1\r\n+OK\r\n", &mut common);
        assert_eq!(common.requests(), Some(vec![set_9.into_bytes(), set_3.into_bytes()]));
    }

    #[test]
    fn r5_what_was_queued_is_executed_with_exec() {
        let [set_3, set_9] = ["3", "9"].map(|n| format!("CONFIG SET maxmemory-samples {n}\r\n"));
        let mut common = Common::default();
        let [mut one, mut other] = [Session::default(), Session::default()];
        one.take(format!("MULTI\r\n{set_9}{SET}").as_bytes(), &mut common);
        other.take(set_3.as_bytes(), &mut common);
        one.take(b"EXEC\r\n", &mut common);
        one.hear(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n+OK\r\n", &mut common);
        other.hear(b"+OK\r\n", &mut common);
        let expected = [&*set_3, &*set_9, SET].map(|raw| raw.as_bytes().to_vec());
        assert_eq!(common.requests(), Some(expected.to_vec()));
    }

    #[test]
    fn a1_what_waits_for_its_answer_is_bounded() {
        let script = "x".repeat(1 << 10);
        let eval = format!("*3\r\n$4\r\nEVAL\r\n$1024\r\n{script}\r\n$1\r\n0\r\n");
        let (mut session, mut common) = (Session::default(), Common::default());
        for _ in 0..5000 {
            session.take(eval.as_bytes(), &mut common);
        }
        assert_eq!(session.explanation(), None);
        assert_eq!(common.requests().map(|requests| requests.len()), Some(1), "a script is kept");
        session.take(SET.as_bytes(), &mut common);
        assert_eq!(common.requests(), None);
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
            for byte in b"+OK\r\n+PONG\r\n:7\r\n" {
                session.hear(&[*byte], &mut Common::default());
            }
            prop_assert!(session.is_masked() && session.explanation().is_some());
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            told(&bytes, &bytes).0.end(&mut Common::default());
        }
    }
}
