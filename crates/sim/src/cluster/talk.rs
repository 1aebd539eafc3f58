//! The clients' requests, and the record of what they saw.

use super::calls::{Calls, Say};
use super::client::Client;
use super::expiry::Act;
use super::leases::Leases;
use super::own::{self, Owns};
use super::record::Record;
use super::scripts::{self, Script, Scripts};
use super::several::{self, Several};
use super::times::{self, Times};
use super::waits::Waits;
use super::wipes::{Wipe, Wipes};
use base::Rng;
use check::{Action, Command};

/// The way in which the last reply of an operation is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    /// As the reply to its one command.
    One,
    /// As the reply to a command that shows by a number whether it had an effect.
    Flag,
    /// As a transaction's replies.
    List,
    /// The same, of a connection that watches no key.
    Unguarded,
    /// As those of a transaction that sets a watched key: whether it did.
    Compared,
    /// As those of a transaction that sets another key than the watched one: whether it did.
    Beside,
    /// As the one reply to so many writes.
    Same(usize),
    /// As a list with a reply for each read.
    Each,
    /// As the transaction of a flush.
    Wiped,
}

/// The request of a client.
#[derive(Debug)]
pub(super) enum Ask {
    /// WATCH and GET of a key; the next request depends on the answer.
    Watch(Vec<u8>),
    /// One command, or a transaction.
    Do { words: Vec<Vec<Vec<u8>>>, commands: Vec<Command>, last: Last },
    /// One command that does something to each key by itself.
    Apart(several::Act),
    /// A request about a key that expires.
    Lease(u64, Act),
    /// One about the connection's own key.
    Own(own::Act),
    /// One in a session.
    Say(Say),
    /// One for the time.
    Time(times::Act),
    /// A WAIT.
    Wait([String; 3]),
    /// Loads a script.
    Load(Script),
}

/// The workload of a run, and the record of it.
#[derive(Debug)]
pub(super) struct Talk {
    rng: Rng,
    pub(super) recorder: Record,
    pub(super) leases: Leases,
    pub(super) owns: Owns,
    pub(super) calls: Calls,
    pub(super) waits: Waits,
    pub(super) several: Several,
    pub(super) scripts: Scripts,
    pub(super) wipes: Wipes,
    pub(super) times: Times,
    /// Whether all commands have one order. If not, clients only read and write registers.
    orders_all: bool,
    /// The number of transactions that have set another key than the watched one.
    n_beside: u32,
    n_keys: u64,
    /// The share of operations that are reads, in eighths.
    reads: u64,
    /// The number of values, which are numbered so that each read shows the write that it saw.
    n_values: u64,
    /// The number of values of tens of kilobytes that are still to be written: a state takes
    /// several pieces.
    n_ballast: u64,
    n_ballast_written: u64,
    /// The number of times that a client still asks for much at once and reads late.
    n_feasts: u64,
    /// The length of some values: such that they do not fit into one batch.
    long_bytes: usize,
}

fn word(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

impl Ask {
    fn one(words: Vec<Vec<u8>>, key: Vec<u8>, action: Action, last: Last) -> Ask {
        Ask::Do { words: vec![words], commands: vec![Command::new(key, action)], last }
    }

    pub(super) fn get(key: Vec<u8>) -> Ask {
        Ask::one(vec![word("GET"), key.clone()], key, Action::Get, Last::One)
    }

    pub(super) fn set(key: Vec<u8>, value: Vec<u8>) -> Ask {
        let words = vec![word("SET"), key.clone(), value.clone()];
        Ask::one(words, key, Action::Set(value), Last::One)
    }

    pub(super) fn append(client: &mut Client) -> Ask {
        let (key, token) = (client.list(), client.next_token());
        let words = vec![word("APPEND"), key.clone(), token.clone()];
        Ask::one(words, key, Action::Append(token), Last::One)
    }

    fn add(key: &str, amount: i64) -> (Vec<Vec<u8>>, Command) {
        let words = vec![word("INCRBY"), word(key), word(&amount.to_string())];
        (words, Command::new(key, Action::Incr(amount)))
    }

    fn transaction(parts: Vec<(Vec<Vec<u8>>, Command)>) -> Ask {
        let (words, commands) = parts.into_iter().unzip();
        Ask::Do { words, commands, last: Last::List }
    }

    /// A command of several keys.
    pub(super) fn several(act: several::Act) -> Ask {
        if act.is_apart {
            return Ask::Apart(act);
        }
        let several::Act { words, commands, is_read, .. } = act;
        let last = if is_read { Last::Each } else { Last::Same(commands.len()) };
        Ask::Do { words: vec![words], commands, last }
    }

    /// A request about a script.
    fn script(request: scripts::Request) -> Ask {
        match request {
            scripts::Request::Load(script) => Ask::Load(script),
            scripts::Request::Call { words, commands, is_list } => {
                let last = if is_list { Last::Each } else { Last::One };
                Ask::Do { words: vec![words], commands, last }
            }
        }
    }

    /// The transaction after a WATCH.
    pub(super) fn compare(key: Vec<u8>, expect: Option<Vec<u8>>, value: Vec<u8>) -> Ask {
        let words = vec![word("SET"), key.clone(), value.clone()];
        Ask::one(words, key, Action::Cas { expect, value }, Last::Compared)
    }

    /// The same, where another key than the watched one is set.
    fn set_beside(key: Vec<u8>, seen: Vec<u8>, other: Vec<u8>, value: Vec<u8>) -> Ask {
        let words = vec![vec![word("SET"), other.clone(), value.clone()]];
        let is_there = Action::Cas { expect: Some(seen.clone()), value: seen };
        let set = Command::new(other, Action::Set(value));
        Ask::Do { words, commands: vec![Command::new(key, is_there), set], last: Last::Beside }
    }
}

/// The most transactions of a run that set another key than the watched one: the judge sees none of
/// these keys by itself.
const N_BESIDE_MAX: u32 = 4;

/// The keys that clients share in every run.
fn keys_of_all(n_keys: u64, n_ballast: u64) -> impl Iterator<Item = Vec<u8>> {
    let numbered = |n| [format!("register:{n}"), format!("counter:{n}")];
    let accounts = ["account:a".to_owned(), "account:b".to_owned()];
    let ballast = (0..n_ballast).map(|n| format!("ballast:{n}"));
    let shared = (0..n_keys).flat_map(numbered).chain(accounts).chain(ballast);
    shared.map(String::into_bytes)
}

impl Talk {
    pub(super) fn new(
        rng: Rng,
        (leases, owns, calls, waits): (Leases, Owns, Calls, Waits),
        (several, scripts, wipes, times): (Several, Scripts, Wipes, Times),
        orders_all: bool,
        (n_keys, n_ballast): (u64, u64),
        reads: u64,
        long_bytes: usize,
    ) -> Talk {
        let recorder = Record::default();
        let (n_values, n_ballast_written, n_feasts) = (0, 0, 2);
        Talk {
            rng,
            recorder,
            leases,
            owns,
            calls,
            waits,
            several,
            scripts,
            wipes,
            times,
            orders_all,
            n_beside: 0,
            n_keys,
            reads,
            n_values,
            n_ballast,
            n_ballast_written,
            n_feasts,
            long_bytes,
        }
    }

    /// A value that no client has written yet.
    /// The transaction after a WATCH of `key`. The first ones of a run whose key was there set
    /// another one: in partitions the two may be apart.
    pub(super) fn compare(&mut self, key: Vec<u8>, seen: Option<Vec<u8>>) -> Ask {
        let value = self.value();
        let beside = if key == b"register:0" { "register:1" } else { "register:0" };
        match seen {
            Some(seen) if self.orders_all && self.n_beside < N_BESIDE_MAX => {
                self.n_beside += 1;
                Ask::set_beside(key, seen, beside.into(), value)
            }
            seen => Ask::compare(key, seen, value),
        }
    }

    pub(super) fn value(&mut self) -> Vec<u8> {
        self.n_values += 1;
        let mut value = self.n_values.to_string().into_bytes();
        if self.rng.chance(1, 16) {
            value.resize(self.long_bytes, b'.');
        }
        value
    }

    /// A value of tens of kilobytes, as long as more are to be written.
    pub(super) fn next_ballast(&mut self) -> Option<Ask> {
        if self.n_ballast_written == self.n_ballast {
            return None;
        }
        let key = format!("ballast:{}", self.n_ballast_written).into_bytes();
        self.n_ballast_written += 1;
        let mut value = vec![0; 48 << 10];
        value.fill_with(|| b'a' + self.rng.below(26) as u8);
        Some(Ask::set(key, value))
    }

    /// So many reads of long values that their answers do not fit into what a member keeps for a
    /// connection, now and then.
    pub(super) fn feast(&mut self) -> Option<Vec<Ask>> {
        if self.n_ballast_written == 0 || self.n_feasts == 0 || !self.rng.chance(1, 32) {
            return None;
        }
        self.n_feasts -= 1;
        let n = 16 + self.rng.below(24);
        let mut key = || format!("ballast:{}", self.rng.below(self.n_ballast_written));
        Some((0..n).map(|_| Ask::get(key().into_bytes())).collect())
    }

    fn register(&mut self) -> Vec<u8> {
        format!("register:{}", self.rng.below(self.n_keys)).into_bytes()
    }

    fn counter(&mut self) -> Vec<u8> {
        format!("counter:{}", self.rng.below(self.n_keys)).into_bytes()
    }

    /// The next requests of a client that waits for no answer, beside those of [`Talk::think`].
    pub(super) fn aside(&mut self, client: &mut Client, now: u64) -> Vec<Ask> {
        let lease = self.leases.think(now).into_iter().map(|(key, act)| Ask::Lease(key, act));
        let own = self.owns.think(&client.own).into_iter().map(Ask::Own);
        let says = self.calls.think(client.id, &mut client.caller).into_iter().map(Ask::Say);
        let n_values = &mut self.n_values;
        let script = self.scripts.think(|| {
            *n_values += 1;
            n_values.to_string().into_bytes()
        });
        lease.chain(own).chain(says).chain(script.map(Ask::script)).collect()
    }

    /// The keys that all of so many clients share.
    pub(super) fn shared_keys(&self, n_clients: usize) -> Vec<Vec<u8>> {
        let shared = keys_of_all(self.n_keys, self.n_ballast).chain(self.several.keys());
        shared.chain(self.calls.lists(n_clients)).collect()
    }

    /// The next requests of `client`: often one, sometimes several at once.
    pub(super) fn think(&mut self, client: &mut Client) -> Vec<Ask> {
        if self.wipes.is_on {
            let Talk { wipes, n_keys, n_ballast, .. } = self;
            let wipe = wipes.think(|| keys_of_all(*n_keys, *n_ballast).collect());
            let wipe =
                wipe.map(|Wipe { words, commands }| Ask::Do { words, commands, last: Last::Wiped });
            return vec![wipe.unwrap_or_else(|| self.one_of_wiped(client))];
        }
        if self.orders_all && self.rng.chance(1, 24) {
            client.burst_left = 8 << self.rng.below(4);
        }
        let n = [1, 1, 1, 2, 4, 16][self.rng.below(6) as usize];
        let mut asks = Vec::new();
        for _ in 0..n {
            let ask =
                if self.rng.chance(self.reads, 8) { self.read() } else { self.change(client) };
            let ends = matches!(ask, Ask::Watch(_));
            asks.push(ask);
            if ends {
                break; // what follows depends on the answer
            }
        }
        asks
    }

    /// A request about a key that flushes concern, too.
    fn one_of_wiped(&mut self, client: &mut Client) -> Ask {
        if self.rng.chance(self.reads, 8) { self.read() } else { self.change(client) }
    }

    fn read(&mut self) -> Ask {
        if !self.orders_all {
            return Ask::get(self.register());
        }
        match self.rng.below(4) {
            0 => Ask::get(self.counter()),
            1 => {
                let get =
                    |key: &str| (vec![word("GET"), word(key)], Command::new(key, Action::Get));
                Ask::transaction(vec![get("account:a"), get("account:b")])
            }
            _ => Ask::get(self.register()),
        }
    }

    fn change(&mut self, client: &mut Client) -> Ask {
        if !self.orders_all {
            let (key, value) = (self.register(), self.value());
            return Ask::set(key, value);
        }
        match self.rng.below(10) {
            0 | 1 => {
                let (key, value) = (self.register(), self.value());
                Ask::set(key, value)
            }
            2 | 3 => {
                let key = self.counter();
                let amount = 1 + self.rng.below(9) as i64;
                let words = vec![word("INCRBY"), key.clone(), word(&amount.to_string())];
                Ask::one(words, key, Action::Incr(amount), Last::One)
            }
            4 => {
                let (key, value) = (self.register(), self.value());
                let words = vec![word("GETSET"), key.clone(), value.clone()];
                Ask::one(words, key, Action::Swap(value), Last::One)
            }
            5 => {
                let key = self.register();
                Ask::one(vec![word("DEL"), key.clone()], key, Action::Delete, Last::Flag)
            }
            6 => {
                let amount = 1 + self.rng.below(9) as i64;
                Ask::transaction(vec![
                    Ask::add("account:a", amount),
                    Ask::add("account:b", -amount),
                ])
            }
            7 => Ask::Watch(self.register()),
            _ if self.wipes.is_on => self.read(),
            _ => Ask::append(client),
        }
    }
}
