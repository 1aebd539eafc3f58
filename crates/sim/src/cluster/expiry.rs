//! The judge of keys that expire, from what clients saw of them.
//!
//! - E1 *Gone is gone*: a key that was seen absent is not seen present again by a read that begins
//!   later, unless it was set again. No clock decides this.
//! - E2 a read shows the newest value, or none.
//! - E3 a key that was set with an expiry has one, of at most that length, until it is persisted.
//! - E4 a key that was persisted is not absent before it is set again; nor is one that was set with
//!   KEEPTTL where nothing was.
//! - E5 *Not early*: within a reign, a key is not absent before the time that it was given, less
//!   [`SLACK_PERCENT`]. A reign counts from its first answered write on, because a leader's first
//!   stamp may be behind what the leader before stamped last; and it ends where a clock jumps, or a
//!   leader's wall clock may found another estimate (`base::state_clock`, I4).
//! - E6 *Not for ever*: when all is well, a key is absent [`LATE_NS`] after its time, or after the
//!   beginning of the present reign.
//! - E7 *Guards see expiry*: a transaction behind a WATCH of a key finds what the read behind the
//!   WATCH showed (by [`super::leases`]), and is not executed if the key was set or persisted
//!   between the two, although it may have expired again.
//! - E8 *Not late*: within a reign, a client of the leader does not see a key after its time, and
//!   [`LATER_PERCENT`]: that a tick may come later is the leader's affair. (A follower's estimate
//!   may be behind by the time that it has heard nothing for.)
//!
//! Why no false alarm: an operation that ended as unknown may take effect at any later time, and no
//! clause relies on it. E5 and E6 are the bounds of `base::state_clock`, I2, for one estimate, on a
//! clock whose rate is wrong by at most ten percent; and of `engine::ticks`, which looks for keys
//! that are due each second at least.

use crate::plan::MS;
use std::collections::BTreeMap;

/// What clocks may be wrong by (a tenth), and state time (a hundredth), with a reserve.
const SLACK_PERCENT: u64 = 12;
/// The same where the clock is slow: a time that passes is shown as nine tenths of it.
const LATER_PERCENT: u64 = 13;
/// What rounding to milliseconds takes.
const ROUNDING_NS: u64 = 3 * MS;
/// The longest time between two looks of a leader at what is due, and as much again to decide it.
const LATE_NS: u64 = 2_200 * MS;

/// A time, and the number of the reign that the world saw then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) at: u64,
    pub(super) reign: usize,
}

/// A request about one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Set {
        value: u64,
        ttl_ms: u64,
    },
    /// A read and then a write with KEEPTTL in a transaction: it is noted as the latter.
    Keep {
        value: u64,
    },
    Get,
    /// A read of another key and then of this one, in one command or one transaction.
    Seek {
        beside: u64,
        in_transaction: bool,
    },
    Ttl,
    Persist,
    /// WATCH and then a read: it is noted as the latter.
    Watch,
    /// A read and then a write in a transaction: it is noted as the latter.
    Exec {
        value: u64,
        ttl_ms: u64,
    },
}

/// A transaction and what it was guarded by, as the numbers of two operations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guard {
    pub(super) looked: usize,
    pub(super) written: usize,
}

/// The answer to it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Saw {
    Set,
    Gone,
    Value(u64),
    /// The milliseconds left; `None` if it stays.
    Left(Option<u64>),
    Persisted(bool),
    /// It was set with KEEPTTL, where nothing was or not.
    Kept {
        was_gone: bool,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Unknown,
    Refused,
    Answered(Moment, Saw),
}

/// A client's operation on a key that expires.
#[derive(Clone, Copy, Debug)]
pub(super) struct Op {
    pub(super) key: u64,
    pub(super) act: Act,
    pub(super) begun: Moment,
    pub(super) end: End,
    /// Whether the leader was asked.
    pub(super) at_leader: bool,
}

/// What the world knows of time.
#[derive(Clone, Debug)]
pub(super) struct Times {
    /// The beginnings of the reigns.
    pub(super) reigns: Vec<u64>,
    /// When all faults ended.
    pub(super) healed_at: Option<u64>,
    /// Whether one leader at a time stamps what is executed. In partitions each member stamps what
    /// it sends, and state time is the highest stamp: E5 and E8 hold for one estimate alone.
    pub(super) has_one_clock: bool,
}

/// A write that took effect, or may yet.
#[derive(Clone, Copy, Debug)]
struct Write {
    begun: Moment,
    /// `None`: no client knows.
    ended: Option<u64>,
    value: u64,
    /// Nothing of what is set with KEEPTTL.
    ttl_ns: u64,
    /// Whether the key stays for certain since then, of what may have made it stay.
    surely: bool,
}

impl Write {
    /// Whether it may take effect between the two times.
    fn may_lie(&self, from: u64, until: u64) -> bool {
        self.begun.at <= until && self.ended.is_none_or(|ended| ended >= from)
    }
}

/// What a read showed.
#[derive(Clone, Copy, Debug)]
struct Read {
    begun: Moment,
    ended: Moment,
    saw: Saw,
    at_leader: bool,
}

/// The operations on one key.
#[derive(Debug, Default)]
struct OfKey {
    sets: Vec<Write>,
    persists: Vec<Write>,
    reads: Vec<Read>,
}

/// Judges the operations of a run. Returns the number of reads that found a key gone which was set
/// before.
///
/// # Errors
/// The first clause that does not hold, in words.
pub(super) fn check(ops: &[Op], times: &Times) -> Result<usize, String> {
    let mut keys: BTreeMap<u64, OfKey> = BTreeMap::new();
    // E5: the first answered write of each reign.
    let mut settled = vec![u64::MAX; times.reigns.len()];
    for op in ops {
        let of = keys.entry(op.key).or_default();
        let (begun, at_leader) = (op.begun, op.at_leader);
        let ended = match op.end {
            End::Refused => continue,
            End::Unknown => None,
            End::Answered(ended, saw) => Some((ended, saw)),
        };
        let ended_at = ended.map(|(at, _)| at.at);
        let write = Write { begun, ended: ended_at, value: 0, ttl_ns: 0, surely: true };
        match (op.act, ended) {
            (Act::Set { value, ttl_ms } | Act::Exec { value, ttl_ms }, ended) => {
                of.sets.push(Write { value, ttl_ns: ttl_ms * MS, ..write });
                let is_of_reign = |at: &Moment| at.reign == begun.reign && times.has_one_clock;
                if let Some((ended, _)) = ended.filter(|(at, _)| is_of_reign(at)) {
                    settled[begun.reign] = settled[begun.reign].min(ended.at);
                }
            }
            (Act::Keep { value }, ended) => {
                // It is due when what was there was, which is of no length here.
                of.sets.push(Write { value, ..write });
                // E4. Elsewhere it may stay: what was there may have been persisted.
                let surely = matches!(ended, Some((_, Saw::Kept { was_gone: true })));
                of.persists.push(Write { value, surely, ..write });
            }
            (Act::Persist, Some((_, Saw::Persisted(false)))) => {}
            (Act::Persist, ended) => {
                of.persists.push(write);
                of.reads.extend(ended.map(|(ended, saw)| Read { begun, ended, saw, at_leader }));
            }
            (Act::Get | Act::Seek { .. } | Act::Ttl | Act::Watch, ended) => {
                of.reads.extend(ended.map(|(ended, saw)| Read { begun, ended, saw, at_leader }));
            }
        }
    }
    let mut n_gone = 0;
    for (key, of) in &keys {
        for read in &of.reads {
            let judged = match read.saw {
                Saw::Gone => of.gone(read, &settled),
                _ => of.present(read, times, &settled),
            };
            judged.map_err(|detail| format!("lease:{key}: {detail}, by {read:?}"))?;
            let was_set = |set: &Write| set.ended.is_some_and(|ended| ended < read.begun.at);
            n_gone += usize::from(matches!(read.saw, Saw::Gone) && of.sets.iter().any(was_set));
        }
    }
    Ok(n_gone)
}

/// E7. Returns the number of guarded transactions that were executed.
pub(super) fn check_guards(ops: &[Op], guards: &[Guard]) -> Result<usize, String> {
    let answered = |op: &Op| match op.end {
        End::Answered(at, saw) => Some((at.at, saw)),
        End::Unknown | End::Refused => None,
    };
    let mut n_executed = 0;
    for guard in guards {
        let (looked, written) = (&ops[guard.looked], &ops[guard.written]);
        let (Some((from, _)), Some(_)) = (answered(looked), answered(written)) else { continue };
        n_executed += 1;
        let changes = |op: &&Op| {
            let changed = match (op.act, answered(op)) {
                (Act::Set { .. } | Act::Exec { .. } | Act::Keep { .. }, Some((at, _))) => Some(at),
                (Act::Persist, Some((at, Saw::Persisted(true)))) => Some(at),
                _ => None,
            };
            let is_of_key = op.key == looked.key && op.begun.at > from;
            is_of_key && changed.is_some_and(|at| at < written.begun.at)
        };
        if let Some(change) = ops.iter().find(changes) {
            let key = looked.key;
            return Err(format!("lease:{key}: {written:?} is behind {change:?}, and not refused"));
        }
    }
    Ok(n_executed)
}

impl OfKey {
    fn gone(&self, read: &Read, settled: &[u64]) -> Result<(), String> {
        let (begun, ended) = (read.begun.at, read.ended.at);
        // E4
        let stays = |one: &&Write| one.surely && one.ended.is_some_and(|at| at <= begun);
        for persist in self.persists.iter().filter(stays) {
            // (What was set with KEEPTTL is both, by one request.)
            let mut others = self.sets.iter().filter(|set| set.value != persist.value);
            if !others.any(|set| set.may_lie(persist.begun.at, ended)) {
                return Err(format!("gone although {persist:?} made it stay"));
            }
        }
        // E5
        let reign = read.ended.reign;
        let before = |set: &&Write| set.ended.is_some_and(|at| at <= begun);
        for set in self.sets.iter().filter(before).filter(|set| set.begun.reign == reign) {
            let mut others = self.sets.iter().filter(|other| other.value != set.value);
            let is_last = !others.any(|other| other.may_lie(set.begun.at, ended));
            let least = set.ttl_ns / 100 * (100 - SLACK_PERCENT);
            let lived = ended - set.begun.at + ROUNDING_NS;
            if is_last && settled[reign] <= set.begun.at && lived < least {
                return Err(format!("gone too early after {set:?}"));
            }
        }
        Ok(())
    }

    fn present(&self, read: &Read, times: &Times, settled: &[u64]) -> Result<(), String> {
        let (begun, ended) = (read.begun.at, read.ended.at);
        let gone = |one: &&Read| matches!(one.saw, Saw::Gone) && one.ended.at < begun;
        let last_gone = self.reads.iter().filter(gone).map(|one| one.begun.at).max();
        // E1
        let is_set_since = |from: u64| self.sets.iter().any(|set| set.may_lie(from, ended));
        if let Some(from) = last_gone.filter(|from| !is_set_since(*from)) {
            return Err(format!("back although it was gone at {from} and not set since"));
        }
        match read.saw {
            Saw::Value(value) => self.shown(read, value, last_gone, (times, settled)),
            Saw::Left(None) => {
                // E3
                let before = |set: &&Write| set.ended.is_some_and(|at| at < begun);
                let floor = self.sets.iter().filter(before).map(|set| set.begun.at).max();
                let is_persisted = |one: &Write| one.may_lie(floor.unwrap_or(0), ended);
                let stays = self.persists.iter().any(is_persisted);
                if stays { Ok(()) } else { Err("it stays, and nobody persisted it".to_owned()) }
            }
            Saw::Left(Some(ms)) => {
                // What was replaced with its TTL counts no more.
                let replaces =
                    |set: &&Write| set.ttl_ns > 0 && set.ended.is_some_and(|set_at| set_at < begun);
                let floor = self.sets.iter().filter(replaces).map(|set| set.begun.at).max();
                let counts = |set: &&Write| set.may_lie(floor.unwrap_or(0), ended);
                let most = self.sets.iter().filter(counts);
                let most_ns = most.map(|set| set.ttl_ns).max().unwrap_or(0);
                // (In memory a PTTL may be a millisecond longer: see docs/operations.md.)
                let is_sound = ms * MS <= most_ns + MS;
                if is_sound { Ok(()) } else { Err(format!("no more than {most_ns} ns was given")) }
            }
            Saw::Set | Saw::Gone | Saw::Persisted(_) | Saw::Kept { .. } => Ok(()),
        }
    }

    fn shown(
        &self,
        read: &Read,
        value: u64,
        last_gone: Option<u64>,
        (times, settled): (&Times, &[u64]),
    ) -> Result<(), String> {
        let (begun, ended) = (read.begun.at, read.ended.at);
        let set = self.sets.iter().find(|set| set.value == value && set.begun.at <= ended);
        let set = set.ok_or("a value that nobody has set")?;
        let Some(set_at) = set.ended else { return Ok(()) };
        // E1
        if let Some(from) = last_gone.filter(|from| set_at < *from) {
            return Err(format!("{set:?} is back although it was gone at {from}"));
        }
        // E2
        let newer = |other: &&Write| {
            set_at < other.begun.at && other.ended.is_some_and(|other| other < begun)
        };
        if let Some(newer) = self.sets.iter().find(newer) {
            return Err(format!("{set:?} is shown, not {newer:?}"));
        }
        let stays = self.persists.iter().any(|one| one.may_lie(set.begun.at, ended));
        // E8
        let reign = read.begun.reign;
        let is_of_reign = set.begun.reign == reign && read.ended.reign == reign;
        let is_settled = is_of_reign && settled[reign] <= set.begun.at;
        let until = set_at + set.ttl_ns / 100 * (100 + LATER_PERCENT) + ROUNDING_NS;
        if read.at_leader && is_settled && !stays && begun > until {
            return Err(format!("{set:?} is shown late"));
        }
        // E6
        let Some(healed_at) = times.healed_at.filter(|_| !stays) else { return Ok(()) };
        let since = set_at.max(healed_at).max(times.reigns[read.begun.reign]);
        let most = set.ttl_ns / 100 * (100 + SLACK_PERCENT) + LATE_NS;
        if read.begun.reign == read.ended.reign && begun > since + most {
            return Err(format!("{set:?} is still there, and all is well since {healed_at}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(at_ms: u64) -> Moment {
        Moment { at: at_ms * MS, reign: 0 }
    }

    fn op(from_ms: u64, act: Act, saw: Saw) -> Op {
        let end = End::Answered(moment(from_ms + 1), saw);
        Op { key: 1, act, begun: moment(from_ms), end, at_leader: false }
    }

    fn set(at_ms: u64, value: u64, ttl_ms: u64) -> Op {
        op(at_ms, Act::Set { value, ttl_ms }, Saw::Set)
    }

    fn get(at_ms: u64, value: Option<u64>) -> Op {
        op(at_ms, Act::Get, value.map_or(Saw::Gone, Saw::Value))
    }

    fn judged(ops: &[Op]) -> Result<usize, String> {
        check(ops, &Times { reigns: vec![0], healed_at: Some(0), has_one_clock: true })
    }

    fn is_noticed(ops: &[Op], word: &str) {
        let detail = judged(ops).expect_err("a clause does not hold");
        assert!(detail.contains(word), "{detail}");
    }

    #[test]
    fn e7_a_transaction_behind_a_change_is_noticed() {
        let exec = op(300, Act::Exec { value: 2, ttl_ms: 50 }, Saw::Set);
        let judged = |between: Op| {
            let ops = [op(10, Act::Watch, Saw::Gone), between, exec];
            check_guards(&ops, &[Guard { looked: 0, written: 2 }])
        };
        assert!(judged(set(20, 1, 50)).is_err(), "it has expired again");
        assert_eq!(judged(set(10, 1, 50)), Ok(1), "it may have come before");
        assert_eq!(judged(set(300, 1, 50)), Ok(1), "or behind");
        assert_eq!(judged(Op { key: 2, ..set(20, 1, 50) }), Ok(1), "another key");
        assert!(judged(op(20, Act::Persist, Saw::Persisted(true))).is_err());
        assert_eq!(judged(op(20, Act::Persist, Saw::Persisted(false))), Ok(1));
        let refused = Op { end: End::Refused, ..exec };
        let ops = [op(10, Act::Watch, Saw::Gone), set(20, 1, 50), refused];
        assert_eq!(check_guards(&ops, &[Guard { looked: 0, written: 2 }]), Ok(0));
    }

    #[test]
    fn e1_a_key_that_comes_back_is_noticed_unless_it_was_set() {
        let ops = [set(0, 1, 50), get(10, Some(1)), get(60, None)];
        assert_eq!(judged(&ops), Ok(1));
        is_noticed(&[ops[0], ops[2], get(70, Some(1))], "back although");
        is_noticed(&[ops[0], ops[2], set(65, 2, 9), get(70, Some(1))], "is back although");
        is_noticed(&[ops[0], ops[2], op(70, Act::Ttl, Saw::Left(Some(1)))], "back although");
        assert_eq!(judged(&[ops[0], ops[2], set(65, 2, 9), get(70, Some(2))]), Ok(1));
        let late = Op { end: End::Unknown, ..set(5, 2, 50) };
        assert_eq!(judged(&[ops[0], late, ops[2], get(70, Some(2))]), Ok(1), "it came later");
        let refused = Op { end: End::Refused, ..late };
        is_noticed(&[ops[0], refused, ops[2], get(70, Some(2))], "back although");
    }

    #[test]
    fn e2_an_older_value_is_noticed() {
        is_noticed(&[set(0, 1, 500), set(5, 2, 500), get(10, Some(1))], "is shown, not");
        is_noticed(&[get(10, Some(1))], "nobody has set");
    }

    #[test]
    fn e3_e4_what_persists_stays_and_nothing_else_does() {
        let ttl = |at, left| op(at, Act::Ttl, Saw::Left(left));
        let persist = |at, done| op(at, Act::Persist, Saw::Persisted(done));
        is_noticed(&[set(0, 1, 50), ttl(5, None)], "nobody persisted");
        is_noticed(&[set(0, 1, 50), persist(2, true), set(4, 2, 50), ttl(6, None)], "nobody");
        is_noticed(&[set(0, 1, 50), persist(2, false), ttl(6, None)], "nobody");
        is_noticed(&[set(0, 1, 50), ttl(5, Some(52))], "was given");
        is_noticed(&[set(0, 1, 500), set(100, 2, 10), ttl(102, Some(400))], "was given");
        assert_eq!(judged(&[set(0, 1, 500), set(101, 2, 10), ttl(102, Some(400))]), Ok(0));
        assert_eq!(judged(&[set(0, 1, 50), persist(2, true), ttl(5, None)]), Ok(0));
        is_noticed(&[set(0, 1, 50), persist(2, true), get(900, None)], "made it stay");
    }

    #[test]
    fn e4_what_is_set_with_keepttl_stays_where_nothing_was() {
        let keep = |at, was_gone| op(at, Act::Keep { value: 2 }, Saw::Kept { was_gone });
        let ttl = |at, left| op(at, Act::Ttl, Saw::Left(left));
        let lease = set(0, 1, 50);
        is_noticed(&[lease, keep(60, true), get(70, None)], "made it stay");
        assert_eq!(judged(&[lease, keep(60, true), get(70, Some(2)), ttl(99, None)]), Ok(0));
        assert_eq!(judged(&[lease, keep(40, false), get(70, None)]), Ok(1), "it has expired");
        assert_eq!(judged(&[lease, keep(40, false), ttl(45, Some(5))]), Ok(0));
        assert_eq!(judged(&[lease, keep(60, true), set(65, 3, 5), get(80, None)]), Ok(1));
        let unknown = Op { end: End::Unknown, ..keep(60, true) };
        assert_eq!(judged(&[lease, unknown, get(70, None)]), Ok(1), "it may not have come");
        assert_eq!(judged(&[lease, unknown, get(70, Some(2)), ttl(99, None)]), Ok(0));
        is_noticed(&[lease, keep(60, true), get(70, Some(1))], "is shown, not");
        // What was kept says nothing of what is set later.
        let later = [lease, keep(10, false), set(1_000, 3, 50)];
        is_noticed(&[later[0], later[1], later[2], ttl(1_010, None)], "nobody");
        is_noticed(&[later[0], later[1], later[2], get(9_000, Some(3))], "still there");
        assert_eq!(judged(&[lease, keep(10, false), ttl(20, None)]), Ok(0), "as it was");
    }

    #[test]
    fn e5_a_key_that_goes_early_is_noticed_within_a_reign() {
        let settles = set(0, 9, 10);
        is_noticed(&[settles, set(20, 1, 500), get(400, None)], "too early");
        assert_eq!(judged(&[settles, set(20, 1, 500), get(470, None)]), Ok(1), "within the slack");
        let other = Op { key: 2, ..set(30, 2, 10) };
        is_noticed(&[settles, set(20, 1, 500), other, get(400, None)], "too early");
        assert_eq!(judged(&[set(20, 1, 500), get(400, None)]), Ok(1), "a reign begins with it");
        let times = Times { reigns: vec![0, 300 * MS], healed_at: None, has_one_clock: true };
        let (begun, at) = (Moment { at: 400 * MS, reign: 1 }, Moment { at: 401 * MS, reign: 1 });
        let next = Op { begun, end: End::Answered(at, Saw::Gone), ..get(400, None) };
        assert_eq!(check(&[settles, set(20, 1, 500), next], &times), Ok(1), "another leads");
    }

    #[test]
    fn e8_a_key_that_the_leader_shows_late_is_noticed() {
        let settles = set(0, 9, 10);
        let late = |at| Op { at_leader: true, ..get(at, Some(1)) };
        is_noticed(&[settles, set(20, 1, 100), late(150)], "shown late");
        assert_eq!(judged(&[settles, set(20, 1, 100), late(135)]), Ok(0), "within the slack");
        let other = get(150, Some(1));
        assert_eq!(judged(&[settles, set(20, 1, 100), other]), Ok(0), "of a follower");
        assert_eq!(judged(&[set(20, 1, 100), late(150)]), Ok(0), "a reign begins with it");
        let kept = op(30, Act::Persist, Saw::Persisted(true));
        assert_eq!(judged(&[settles, set(20, 1, 100), kept, late(150)]), Ok(0), "it stays");
    }

    #[test]
    fn e6_a_key_that_stays_is_noticed_when_all_is_well() {
        let ops = [set(0, 1, 50), get(2_400, Some(1))];
        is_noticed(&ops, "still there");
        let judged_with =
            |reigns, healed_at| check(&ops, &Times { reigns, healed_at, has_one_clock: true });
        assert_eq!(judged_with(vec![0], Some(1_000 * MS)), Ok(0), "it was not well for long");
        assert_eq!(judged_with(vec![1_000 * MS], Some(0)), Ok(0), "another leads");
        assert_eq!(judged_with(vec![0], None), Ok(0), "faults last");
        let persist = Op { end: End::Unknown, ..op(1, Act::Persist, Saw::Persisted(true)) };
        assert_eq!(judged(&[ops[0], persist, ops[1]]), Ok(0), "it may have been persisted");
    }

    /// Each member of a keyspace in partitions stamps by an estimate of its own.
    #[test]
    fn without_one_clock_a_key_may_go_early_and_does_not_come_back() {
        let times = Times { reigns: vec![0], healed_at: None, has_one_clock: false };
        let ops = [set(0, 1, 500), set(50, 2, 500), get(60, None)];
        assert!(judged(&ops).is_err() && check(&ops, &times).is_ok());
        let back = [ops[0], ops[1], ops[2], get(70, Some(2))];
        assert!(check(&back, &times).is_err());
    }
}
