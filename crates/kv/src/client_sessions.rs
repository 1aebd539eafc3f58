//! Client sessions: the record of what was executed for each client that asked for exactly once.
//!
//! [`sessions`](crate::sessions) lets a *member* hand a command over again; that record ends with
//! the member's life. A client that must know the fate of its command although every process died
//! meanwhile opens a session of its own: the log gives it an id, the client numbers its calls, and
//! every replica keeps the replies that the client has not acknowledged.
//!
//! - E1 a (session, sequence) is executed at most once. By construction: only `executed + 1` is
//!   [`Judged::Fresh`], and [`ClientSessions::record`] makes it `executed`.
//! - E2 sequences are executed in order, without gaps: a later one is refused, and the client knows
//!   that it was not executed.
//! - E3 an executed sequence that is not acknowledged gets its first reply again, or, if that was
//!   longer than [`REPLY_BYTES_MAX`], a definite "executed". It is never executed a second time. By
//!   construction: only a fresh sequence is executed (E1).
//! - E4 the memory is bounded: [`SESSIONS_MAX`] sessions, [`UNACKNOWLEDGED_MAX`] replies each, and
//!   no call is executed for a session that holds [`KEPT_BYTES_MAX`] bytes of them. Asserted in
//!   `record`.
//! - E7 a session without an executed call takes the place of no other: where all places are taken,
//!   the one of these that is idle for the longest ends for the one that is opened. Each attempt of
//!   a client that gets no answer opens another session, and those would fill all places for
//!   [`IDLE_MS`]. Nothing is lost with one that ends: a call in it is refused and never executed.
//!   Test `e7_sessions_that_were_never_used_make_room`.
//! - E5 a session that was idle for [`IDLE_MS`] of state time expires, at every replica at the same
//!   value of the log; later calls in it are refused and never executed. An id is never issued
//!   again, not even by another cluster on the same ports: it is above every id before it and above
//!   the state time in milliseconds times 1024.
//! - E6 all of this is a function of the calls and of state time: replicas agree. By construction:
//!   no clock, no hash order.

use std::collections::{BTreeMap, VecDeque};

use smallvec::SmallVec;

/// The most sessions of a cluster that may be open at once; opening another is refused if a call
/// was executed in each (E7).
pub const SESSIONS_MAX: usize = 4096;

/// The most calls of a session that may be executed but not acknowledged; a further one is refused.
pub const UNACKNOWLEDGED_MAX: usize = 256;

/// The longest reply that is kept for a repetition. A longer one only reaches the waiting client.
pub const REPLY_BYTES_MAX: usize = 16 << 10;

/// The bytes of kept replies at which a session's calls are refused until it acknowledges.
pub const KEPT_BYTES_MAX: usize = 32 << 10;

/// The state time without a call after which a session expires.
pub const IDLE_MS: u64 = 60 * 60 * 1000;

/// The least growth of ids per millisecond. The product stays below 2^53, which every client's
/// numbers can hold, for the next two centuries.
const IDS_PER_MS: u64 = 1024;
const ID_OF_TIME_MAX: u64 = 1 << 53;

/// The name of a client's session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// A call's number within its session, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallNumber(pub u64);

/// The answer to a client about its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The session's name.
    pub id: SessionId,
    /// The last call that was executed; 0 before the first.
    pub executed: CallNumber,
}

/// The decision about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged<'a> {
    /// The call is to be executed, and its reply recorded.
    Fresh,
    /// The call has been executed; this is its reply.
    Answered(&'a [u8]),
    /// The call has been executed; its reply was too long to be kept.
    TooLong,
    /// The call has been executed, and the client has acknowledged the reply.
    Acknowledged,
    /// The call was not executed: this is the next number.
    Gap(CallNumber),
    /// The call was not executed: too many replies are not acknowledged.
    WindowFull,
    /// This call was not executed: the session does not exist, or no longer exists.
    NoSession,
}

/// A reply that is kept; `None` if it was too long.
type Kept = Option<SmallVec<[u8; 16]>>;

#[derive(Clone, Debug, Default)]
struct ClientSession {
    /// State time of the last call.
    touched_ms: u64,
    executed: u64,
    /// The last acknowledged call, at most `executed`.
    acknowledged: u64,
    /// The replies of the calls above `acknowledged`, in order.
    replies: VecDeque<Kept>,
    /// The bytes of these replies.
    kept_bytes: usize,
}

/// One session, for a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRecord<'a> {
    /// The session's name.
    pub id: SessionId,
    /// State time of the last call in it.
    pub touched_ms: u64,
    /// The highest call whose reply the client has acknowledged.
    pub acknowledged: CallNumber,
    /// The replies above it, in order; `None` for one that was too long.
    pub replies: Vec<Option<&'a [u8]>>,
}

/// The error for a record that no history of calls leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a snapshot's client sessions are out of order or over their limits")]
pub struct ImpossibleSession;

/// All sessions of clients.
#[derive(Clone, Debug, Default)]
pub struct ClientSessions {
    sessions: BTreeMap<u64, ClientSession>,
    /// The last id that was issued.
    issued: u64,
    /// A time before which no session expires, which avoids looking at all of them. Not part of the
    /// state.
    none_expires_before_ms: u64,
}

impl ClientSession {
    fn expires_ms(&self) -> u64 {
        self.touched_ms.saturating_add(IDLE_MS)
    }

    /// Notes that the client knows all replies up to `number`. A call that was not executed cannot
    /// be acknowledged.
    fn acknowledge(&mut self, number: u64) {
        while self.acknowledged < number.min(self.executed) {
            let reply = self.replies.pop_front().expect("one for each that is not acknowledged");
            self.kept_bytes -= reply.map_or(0, |reply| reply.len());
            self.acknowledged += 1;
        }
    }

    fn keep(&mut self, reply: Option<&[u8]>) {
        self.executed += 1;
        let kept: Kept = reply.filter(|reply| reply.len() <= REPLY_BYTES_MAX).map(SmallVec::from);
        self.kept_bytes += kept.as_ref().map_or(0, |reply| reply.len());
        self.replies.push_back(kept);
    }

    fn is_full(&self) -> bool {
        self.replies.len() >= UNACKNOWLEDGED_MAX || self.kept_bytes >= KEPT_BYTES_MAX
    }

    fn judge(&self, number: u64) -> Judged<'_> {
        if number <= self.acknowledged {
            Judged::Acknowledged
        } else if number <= self.executed {
            let at = (number - self.acknowledged - 1) as usize;
            match &self.replies[at] {
                Some(reply) => Judged::Answered(reply),
                None => Judged::TooLong,
            }
        } else if number > self.executed + 1 {
            Judged::Gap(CallNumber(self.executed + 1))
        } else if self.is_full() {
            Judged::WindowFull
        } else {
            Judged::Fresh
        }
    }
}

impl ClientSessions {
    /// A table without sessions.
    pub fn new() -> ClientSessions {
        ClientSessions::default()
    }

    /// The number of open sessions.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether no session is open.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Ends the sessions that expire at state time `now_ms` (E5).
    pub fn expire(&mut self, now_ms: u64) {
        if now_ms < self.none_expires_before_ms {
            return;
        }
        self.sessions.retain(|_, session| session.expires_ms() > now_ms);
        // A call only delays the end of its session, so this stays a lower bound.
        let first = self.sessions.values().map(ClientSession::expires_ms).min();
        self.none_expires_before_ms = first.unwrap_or(0);
    }

    /// Opens a session; `None` if there are [`SESSIONS_MAX`] that are in use.
    pub fn open(&mut self, now_ms: u64) -> Option<Standing> {
        self.open_as(now_ms, 1, 0)
    }

    /// Opens a session with an id that is `residue` modulo `modulus`: tables that divide the
    /// residues among themselves issue no id twice.
    pub(crate) fn open_as(&mut self, now_ms: u64, modulus: u64, residue: u64) -> Option<Standing> {
        if self.sessions.len() >= SESSIONS_MAX && !self.end_unused() {
            return None;
        }
        let of_time = now_ms.saturating_mul(IDS_PER_MS).min(ID_OF_TIME_MAX);
        let next = self.issued.max(of_time) + 1;
        self.issued = next + (residue + modulus - next % modulus) % modulus;
        let session = ClientSession { touched_ms: now_ms, ..ClientSession::default() };
        self.none_expires_before_ms = self.none_expires_before_ms.min(session.expires_ms());
        self.sessions.insert(self.issued, session);
        Some(Standing { id: SessionId(self.issued), executed: CallNumber(0) })
    }

    /// Ends the session that is idle for the longest of those without an executed call (E7). False
    /// without such a session.
    fn end_unused(&mut self) -> bool {
        let unused = self.sessions.iter().filter(|(_, session)| session.executed == 0);
        let idle = unused.min_by_key(|(id, session)| (session.touched_ms, **id));
        idle.map(|(id, _)| SessionId(*id)).is_some_and(|id| self.end(id))
    }

    /// Resumes a session; `None` if it does not exist.
    pub fn resume(&mut self, id: SessionId, now_ms: u64) -> Option<Standing> {
        let session = self.sessions.get_mut(&id.0)?;
        session.touched_ms = now_ms;
        Some(Standing { id, executed: CallNumber(session.executed) })
    }

    /// Ends a session. False if it does not exist.
    pub fn end(&mut self, id: SessionId) -> bool {
        self.sessions.remove(&id.0).is_some()
    }

    /// Judges a call of a client that knows all replies up to `acknowledged`.
    pub fn judge(
        &mut self,
        id: SessionId,
        number: CallNumber,
        acknowledged: CallNumber,
        now_ms: u64,
    ) -> Judged<'_> {
        let Some(session) = self.sessions.get_mut(&id.0) else { return Judged::NoSession };
        session.touched_ms = now_ms;
        session.acknowledge(acknowledged.0);
        session.judge(number.0)
    }

    /// Keeps the reply of the call that [`ClientSessions::judge`] has just called fresh.
    ///
    /// # Panics
    /// If it has not.
    pub fn record(&mut self, id: SessionId, number: CallNumber, reply: &[u8]) {
        let session = self.sessions.get_mut(&id.0).expect("judged just now");
        assert!(session.executed + 1 == number.0, "E1, E2: each call once, in order");
        session.keep(Some(reply));
        assert!(session.kept_bytes < KEPT_BYTES_MAX + REPLY_BYTES_MAX, "E4");
        assert!(session.replies.len() <= UNACKNOWLEDGED_MAX, "E4");
    }

    /// Whether every call below `number` has been executed, so that a later read sees them.
    /// `stamp_ms` is the time of the read: if the session has expired by then and the state does
    /// not reflect it yet, the answer is [`ReadJudged::NeedsTick`].
    pub fn judge_read(&self, id: SessionId, number: CallNumber, stamp_ms: u64) -> ReadJudged {
        match self.sessions.get(&id.0) {
            None => ReadJudged::NoSession,
            Some(session) if session.expires_ms() <= stamp_ms => ReadJudged::NeedsTick,
            Some(session) if number.0 > session.executed + 1 => {
                ReadJudged::Gap(CallNumber(session.executed + 1))
            }
            Some(_) => ReadJudged::Good,
        }
    }

    /// Takes every session for one that was never used: a planted mistake.
    pub(crate) fn forget_calls_times(&mut self) {
        self.sessions.values_mut().for_each(|session| session.touched_ms = 0);
        self.none_expires_before_ms = 0;
    }

    /// Lets no session expire: a planted mistake.
    pub(crate) fn keep_all(&mut self) {
        self.none_expires_before_ms = u64::MAX;
    }

    /// The last id that was issued, 0 before the first.
    pub fn issued(&self) -> SessionId {
        SessionId(self.issued)
    }

    /// The sessions from an id on, by id.
    pub fn records(&self, from: SessionId) -> impl Iterator<Item = SessionRecord<'_>> {
        self.sessions.range(from.0..).map(|(id, session)| SessionRecord {
            id: SessionId(*id),
            touched_ms: session.touched_ms,
            acknowledged: CallNumber(session.acknowledged),
            replies: session.replies.iter().map(Option::as_deref).collect(),
        })
    }

    /// Sets the last id of a table that is being restored.
    ///
    /// # Errors
    /// The id is invalid, or not the one that was set before.
    pub fn restore_issued(&mut self, issued: SessionId) -> Result<(), ImpossibleSession> {
        if issued.0 == 0 || self.issued != 0 && self.issued != issued.0 {
            return Err(ImpossibleSession);
        }
        self.issued = issued.0;
        Ok(())
    }

    /// Adds a session to a table that is being restored, in order of ids.
    ///
    /// # Errors
    /// The session is not one that [`ClientSessions::records`] gives.
    pub fn restore(&mut self, record: SessionRecord<'_>) -> Result<(), ImpossibleSession> {
        let SessionRecord { id: SessionId(id), touched_ms, acknowledged, replies } = record;
        let is_next = self.sessions.last_key_value().is_none_or(|(last, _)| *last < id);
        let has_place = self.sessions.len() < SESSIONS_MAX && id != 0 && id <= self.issued;
        let acknowledged = acknowledged.0;
        let executed = acknowledged.checked_add(replies.len() as u64);
        // Above this, numbers would overflow.
        let has_numbers = executed.is_some_and(|executed| executed < u64::MAX / 2);
        if !is_next || !has_place || !has_numbers {
            return Err(ImpossibleSession);
        }
        let mut session = ClientSession {
            touched_ms,
            executed: acknowledged,
            acknowledged,
            ..Default::default()
        };
        for reply in replies {
            if session.is_full() || reply.is_some_and(|reply| reply.len() > REPLY_BYTES_MAX) {
                return Err(ImpossibleSession);
            }
            session.keep(reply);
        }
        self.sessions.insert(id, session);
        Ok(())
    }
}

/// The decision about a read in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadJudged {
    /// The read is to be answered.
    Good,
    /// A call before it has not been executed: this is the next number.
    Gap(CallNumber),
    /// A tick must be decided first.
    NeedsTick,
    /// The session does not exist.
    NoSession,
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_700_000_000_000;

    fn call(
        sessions: &mut ClientSessions,
        id: SessionId,
        number: u64,
        acknowledged: u64,
    ) -> String {
        let (number, acknowledged) = (CallNumber(number), CallNumber(acknowledged));
        match sessions.judge(id, number, acknowledged, NOW) {
            Judged::Fresh => {
                let reply = format!("reply {}", number.0);
                sessions.record(id, number, reply.as_bytes());
                reply
            }
            Judged::Answered(reply) => format!("again {}", String::from_utf8_lossy(reply)),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn e1_e2_e3_each_call_once_in_order_and_answered_alike() {
        let mut sessions = ClientSessions::new();
        let id = sessions.open(NOW).unwrap().id;
        assert_eq!(call(&mut sessions, id, 2, 0), "Gap(CallNumber(1))");
        assert_eq!(call(&mut sessions, id, 1, 0), "reply 1");
        assert_eq!(call(&mut sessions, id, 1, 0), "again reply 1");
        assert_eq!(call(&mut sessions, id, 3, 0), "Gap(CallNumber(2))");
        assert_eq!(call(&mut sessions, id, 2, 0), "reply 2");
        assert_eq!(call(&mut sessions, id, 1, 0), "again reply 1");
        // An acknowledgement never falls, and never exceeds what was executed.
        assert_eq!(call(&mut sessions, id, 3, 99), "reply 3");
        assert_eq!(call(&mut sessions, id, 2, 0), "Acknowledged");
        assert_eq!(call(&mut sessions, id, 3, 0), "again reply 3");
        assert_eq!(sessions.resume(id, NOW).unwrap().executed, CallNumber(3));
        assert_eq!(call(&mut sessions, SessionId(id.0 + 1), 1, 0), "NoSession");
    }

    #[test]
    fn e4_what_is_not_acknowledged_is_bounded() {
        let mut sessions = ClientSessions::new();
        let id = sessions.open(NOW).unwrap().id;
        let most = UNACKNOWLEDGED_MAX as u64;
        for number in 1..=most {
            assert_eq!(call(&mut sessions, id, number, 0), format!("reply {number}"));
        }
        assert_eq!(call(&mut sessions, id, most + 1, 0), "WindowFull");
        assert_eq!(call(&mut sessions, id, most, 0), format!("again reply {most}"));
        assert_eq!(call(&mut sessions, id, most + 1, 1), format!("reply {}", most + 1));
        let long = vec![b'x'; REPLY_BYTES_MAX];
        let id = sessions.open(NOW).unwrap().id;
        for number in 1..=2 {
            sessions.judge(id, CallNumber(number), CallNumber(0), NOW);
            sessions.record(id, CallNumber(number), &long);
        }
        assert_eq!(call(&mut sessions, id, 3, 0), "WindowFull", "by bytes");
        assert_eq!(call(&mut sessions, id, 3, 1), "reply 3");
        sessions.judge(id, CallNumber(4), CallNumber(3), NOW);
        sessions.record(id, CallNumber(4), &[&long[..], b"x"].concat());
        assert_eq!(call(&mut sessions, id, 4, 0), "TooLong");
    }

    fn open_and_use(sessions: &mut ClientSessions) -> SessionId {
        let id = sessions.open(NOW).unwrap().id;
        assert_eq!(call(sessions, id, 1, 0), "reply 1");
        id
    }

    /// A client that got no answer in an outage opened 4096 sessions, and for an hour no client
    /// could open any.
    #[test]
    fn e7_sessions_that_were_never_used_make_room() {
        let mut sessions = ClientSessions::new();
        let used = open_and_use(&mut sessions);
        let idle: Vec<_> = (1..SESSIONS_MAX).map(|_| sessions.open(NOW + 1).unwrap().id).collect();
        // The first of them is resumed, and the second one is refused a call: both are in touch.
        sessions.resume(idle[0], NOW + 2);
        sessions.judge(idle[1], CallNumber(9), CallNumber(0), NOW + 3);
        for at in (2..idle.len()).chain([0, 1]) {
            let id = sessions.open(NOW + 4).unwrap().id;
            assert_eq!(call(&mut sessions, idle[at], 1, 0), "NoSession", "{at}");
            sessions.judge(id, CallNumber(1), CallNumber(0), NOW + 4);
            sessions.record(id, CallNumber(1), b"reply");
            assert_eq!(sessions.len(), SESSIONS_MAX);
        }
        assert!(sessions.open(NOW + 5).is_none(), "all are in use");
        assert_eq!(call(&mut sessions, used, 2, 0), "reply 2");
    }

    #[test]
    fn e4_sessions_are_bounded_and_those_that_ended_make_room() {
        let mut sessions = ClientSessions::new();
        let ids: Vec<_> = (0..SESSIONS_MAX).map(|_| open_and_use(&mut sessions)).collect();
        assert!(sessions.open(NOW).is_none());
        assert!(sessions.end(ids[7]));
        assert!(!sessions.end(ids[7]));
        let id = sessions.open(NOW).unwrap().id;
        assert!(ids.iter().all(|other| *other < id), "E5: ids rise");
    }

    #[test]
    fn e5_a_session_in_which_calls_are_made_does_not_expire() {
        let mut sessions = ClientSessions::new();
        let id = sessions.open(NOW).unwrap().id;
        for number in 1..=4 {
            // Long after the session was opened, but it was never idle for that long.
            let now_ms = NOW + number * (IDLE_MS - 1);
            sessions.expire(now_ms);
            let (number, before) = (CallNumber(number), CallNumber(number - 1));
            assert!(matches!(sessions.judge(id, number, before, now_ms), Judged::Fresh));
            sessions.record(id, number, b"reply");
        }
    }

    #[test]
    fn e5_an_idle_session_expires_and_its_id_does_not_come_back() {
        let mut sessions = ClientSessions::new();
        let (idle, busy) = (sessions.open(NOW).unwrap().id, sessions.open(NOW).unwrap().id);
        assert!(idle.0 > NOW * 1024);
        sessions.expire(NOW + IDLE_MS - 1);
        assert_eq!(sessions.len(), 2);
        sessions.resume(busy, NOW + IDLE_MS - 1);
        let due = NOW + IDLE_MS;
        let before = CallNumber(1);
        assert_eq!(sessions.judge_read(idle, before, due - 1), ReadJudged::Good);
        assert_eq!(sessions.judge_read(idle, before, due), ReadJudged::NeedsTick);
        sessions.expire(due);
        assert_eq!(sessions.len(), 1);
        assert_eq!(sessions.judge_read(idle, before, due), ReadJudged::NoSession);
        assert_eq!(call(&mut sessions, idle, 1, 0), "NoSession");
        assert_eq!(sessions.judge_read(busy, CallNumber(2), due), ReadJudged::Gap(CallNumber(1)));
        sessions.expire(due + IDLE_MS);
        assert!(sessions.is_empty());
        // A clock that stood still, or a state that was restored at once, yields no id twice.
        assert!(sessions.open(NOW).unwrap().id > busy);
    }
}
