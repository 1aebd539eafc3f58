//! Keys that expire, in a quarter of the runs: the clients' requests about them and what they saw,
//! for the judge (`expiry`).
//!
//! - L1 no request about such a key is in the history of the other keys, and what is drawn here
//!   changes nothing that is drawn elsewhere. By `Leases::draw`, with a generator of its own.
//! - L2 once faults have ended, keys of even numbers are read and not set: one that lives on where
//!   it should have gone is seen.

use super::bursts::Bursts;
use super::expiry::{self, Act, End, Guard, Moment, Op, Saw, Times};
use super::idle::Reign;
use super::record::Stamps;
use super::resp::{self, Value};
use crate::plan::MS;
use base::Rng;

/// See the module's text.
#[derive(Debug)]
pub(super) struct Leases {
    rng: Rng,
    is_on: bool,
    n_keys: u64,
    /// The mean time between two requests.
    every_ns: u64,
    /// The unit of the times for which keys are set, in milliseconds.
    unit_ms: u64,
    next_at: u64,
    n_values: u64,
    bursts: Bursts,
    ops: Vec<Op>,
    /// The transactions behind a WATCH.
    guards: Vec<Guard>,
    times: Times,
    stamps: Stamps,
    /// The member, its life and its ballot, of the present reign.
    leader: Option<(usize, u32, u64)>,
}

impl Leases {
    /// L1. `can_be`: whether keys of such a cluster expire; `has_one_clock`: see [`Times`].
    pub(super) fn draw(seed: u64, can_be: bool, has_one_clock: bool) -> Leases {
        let mut rng = Rng::new(seed ^ 0x006c_6561_7365_7321);
        Leases {
            is_on: can_be && rng.chance(1, 4),
            n_keys: rng.range(1, 6),
            every_ns: MS << rng.range(1, 5),
            unit_ms: 1,
            rng,
            next_at: 0,
            n_values: 0,
            bursts: Bursts::draw(seed),
            ops: Vec::new(),
            guards: Vec::new(),
            times: Times { reigns: vec![0], healed_at: None, has_one_clock },
            stamps: Stamps::default(),
            leader: None,
        }
    }

    /// In a run of a day keys expire after minutes and hours.
    pub(super) fn stretch(&mut self) {
        self.is_on = true;
        self.bursts.leave_out();
        self.unit_ms = [1_000, 20_000, 60_000][self.rng.below(3) as usize];
    }

    /// The present reign.
    pub(super) fn reign(&self) -> Reign {
        let Times { reigns, healed_at, .. } = &self.times;
        Reign {
            number: reigns.len() - 1,
            since: reigns.last().copied().unwrap_or(0),
            healed_at: *healed_at,
        }
    }

    // ---- what the world sees ----

    /// A member takes itself for the leader.
    pub(super) fn see_leader(&mut self, node: usize, life: u32, ballot: u64, now: u64) {
        let leader = Some((node, life, ballot));
        if self.times.has_one_clock && self.leader != leader {
            self.leader = leader;
            self.begin_reign(now);
        }
    }

    /// Bounds of time do not hold across `now`.
    pub(super) fn begin_reign(&mut self, now: u64) {
        if self.is_on {
            self.times.reigns.push(now);
        }
    }

    /// All faults have ended.
    pub(super) fn heal(&mut self, now: u64) {
        self.times.healed_at = Some(now);
    }

    fn moment(&mut self, now: u64) -> Moment {
        Moment { at: self.stamps.stamp(now), reign: self.times.reigns.len() - 1 }
    }

    // ---- requests ----

    /// The next requests, if it is time for some: mostly one.
    pub(super) fn think(&mut self, now: u64) -> Vec<(u64, Act)> {
        if !self.is_on {
            return Vec::new();
        }
        if self.times.healed_at.is_none() {
            let Leases { bursts, n_values, unit_ms, .. } = self;
            let acts = bursts.think(now, *unit_ms, || {
                *n_values += 1;
                *n_values
            });
            if !acts.is_empty() {
                return acts;
            }
        }
        if now < self.next_at {
            return Vec::new();
        }
        self.next_at = now + self.rng.below(2 * self.every_ns);
        let key = self.rng.below(self.n_keys);
        // L2
        let is_quiet = self.times.healed_at.is_some() && key.is_multiple_of(2);
        let act = match self.rng.below(if is_quiet { 6 } else { 12 }) {
            0..2 => Act::Get,
            2 | 3 => Act::Seek {
                beside: self.rng.below(self.n_keys),
                in_transaction: self.rng.chance(1, 2),
            },
            4 | 5 => Act::Ttl,
            6 => Act::Persist,
            7 => Act::Watch,
            8 => {
                self.n_values += 1;
                Act::Keep { value: self.n_values }
            }
            _ => {
                self.n_values += 1;
                Act::Set { value: self.n_values, ttl_ms: self.unit_ms * self.rng.range(10, 500) }
            }
        };
        vec![(key, act)]
    }

    /// The transaction behind a WATCH.
    pub(super) fn exec(&mut self) -> Act {
        self.n_values += 1;
        Act::Exec { value: self.n_values, ttl_ms: self.unit_ms * self.rng.range(10, 500) }
    }

    /// How long a client waits behind a WATCH: often until the key has expired.
    pub(super) fn pause(&mut self, now: u64) -> u64 {
        self.bursts.pause(now).unwrap_or_else(|| {
            let most = self.unit_ms * (MS << self.rng.below(10));
            self.rng.below(most)
        })
    }

    /// A read of each key; of a burst, of those that stay.
    pub(super) fn look(&self) -> impl Iterator<Item = (u64, Act)> + use<> {
        let n_keys = if self.is_on { self.n_keys } else { 0 };
        let keys = (0..n_keys).chain(self.bursts.kept().iter().copied());
        keys.map(|key| (key, Act::Get)).collect::<Vec<_>>().into_iter()
    }

    /// Appends the bytes of a request. Returns how many words it is answered with first.
    pub(super) fn put(key: u64, act: Act, out: &mut Vec<u8>) -> usize {
        let key = format!("lease:{key}");
        let mut say = |words: &[&str]| {
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            resp::request(&words, out);
        };
        match act {
            Act::Set { value, ttl_ms } => {
                say(&["SET", &key, &value.to_string(), "PX", &ttl_ms.to_string()]);
            }
            Act::Get => say(&["GET", &key]),
            Act::Seek { beside, in_transaction } => {
                let beside = format!("lease:{beside}");
                if !in_transaction {
                    say(&["MGET", &beside, &key]);
                    return 0;
                }
                say(&["MULTI"]);
                say(&["GET", &beside]);
                say(&["GET", &key]);
                say(&["EXEC"]);
                return 3;
            }
            Act::Ttl => say(&["PTTL", &key]),
            Act::Persist => say(&["PERSIST", &key]),
            Act::Watch => {
                say(&["WATCH", &key]);
                say(&["GET", &key]);
                return 1;
            }
            Act::Keep { value } => {
                say(&["MULTI"]);
                say(&["GET", &key]);
                say(&["SET", &key, &value.to_string(), "KEEPTTL"]);
                say(&["EXEC"]);
                return 3;
            }
            Act::Exec { value, ttl_ms } => {
                say(&["MULTI"]);
                say(&["GET", &key]);
                say(&["SET", &key, &value.to_string(), "PX", &ttl_ms.to_string()]);
                say(&["EXEC"]);
                return 3;
            }
        }
        0
    }

    /// Notes that the transaction of one number is guarded by the look of another.
    pub(super) fn guard(&mut self, looked: usize, written: usize) {
        self.guards.push(Guard { looked, written });
    }

    /// Notes that a client sends it to a member; returns its number.
    pub(super) fn begin(&mut self, key: u64, act: Act, now: u64, node: Option<usize>) -> usize {
        let begun = self.moment(now);
        let at_leader = node.is_some() && node == self.leader.map(|(leader, ..)| leader);
        self.ops.push(Op { key, act, begun, end: End::Unknown, at_leader });
        self.ops.len() - 1
    }

    /// Notes that it was refused.
    pub(super) fn refused(&mut self, number: usize) {
        self.ops[number].end = End::Refused;
    }

    /// Notes its answer.
    ///
    /// # Errors
    /// A reply that no door may give.
    pub(super) fn answered(&mut self, number: usize, value: Value, now: u64) -> Result<(), String> {
        // (What came of the other key is not noted.)
        let value = match (self.ops[number].act, value) {
            (Act::Seek { .. }, Value::List(Some(mut list))) if list.len() == 2 => {
                list.pop().expect("there are two")
            }
            (_, value) => value,
        };
        let saw = match (self.ops[number].act, value) {
            (Act::Set { .. }, Value::Text(word)) if word == "OK" => Saw::Set,
            (Act::Keep { .. }, Value::List(Some(list))) => kept(&list)?,
            (Act::Exec { .. }, Value::List(None)) => {
                self.refused(number);
                return Ok(());
            }
            (Act::Exec { .. }, Value::List(Some(list))) => self.executed(number, &list)?,
            (Act::Get | Act::Seek { .. } | Act::Watch, Value::Bytes(None))
            | (Act::Ttl, Value::Number(-2)) => Saw::Gone,
            (Act::Get | Act::Seek { .. } | Act::Watch, Value::Bytes(Some(bytes))) => {
                Saw::Value(parsed(&bytes)?)
            }
            (Act::Ttl, Value::Number(-1)) => Saw::Left(None),
            (Act::Ttl, Value::Number(left)) if left >= 0 => Saw::Left(Some(left.unsigned_abs())),
            (Act::Persist, Value::Number(n @ (0 | 1))) => Saw::Persisted(n == 1),
            (act, value) => return Err(format!("{value:?} is no answer to {act:?}")),
        };
        self.ops[number].end = End::Answered(self.moment(now), saw);
        Ok(())
    }

    /// E7: what a guarded transaction found.
    fn executed(&self, number: usize, list: &[Value]) -> Result<Saw, String> {
        let [Value::Bytes(found), Value::Text(word)] = list else {
            return Err(format!("{list:?} is no answer to a transaction on a lease"));
        };
        let found = found.as_deref().map(parsed).transpose()?;
        let guard = self.guards.iter().rfind(|guard| guard.written == number);
        let looked = guard.map(|guard| self.ops[guard.looked].end);
        let seen = match looked {
            Some(End::Answered(_, Saw::Value(value))) => Some(value),
            Some(End::Answered(_, Saw::Gone)) => None,
            // The read was refused: it is not known what there was.
            _ => found,
        };
        if seen != found || word != "OK" {
            return Err(format!("a transaction found {found:?} where {seen:?} was watched"));
        }
        Ok(Saw::Set)
    }

    /// See [`expiry::check`]. Returns the number of keys that were seen gone, and of guarded
    /// transactions that were executed.
    pub(super) fn check(&self) -> Result<(usize, usize), String> {
        let n_executed = expiry::check_guards(&self.ops, &self.guards)?;
        Ok((expiry::check(&self.ops, &self.times)?, n_executed))
    }
}

/// What a transaction with a KEEPTTL found.
fn kept(list: &[Value]) -> Result<Saw, String> {
    match list {
        [Value::Bytes(found), Value::Text(word)] if word == "OK" => {
            Ok(Saw::Kept { was_gone: found.is_none() })
        }
        _ => Err(format!("{list:?} is no answer to a transaction with a KEEPTTL")),
    }
}

fn parsed(bytes: &[u8]) -> Result<u64, String> {
    let value = String::from_utf8_lossy(bytes).parse();
    value.map_err(|_| format!("{bytes:?} is no value of a lease"))
}
