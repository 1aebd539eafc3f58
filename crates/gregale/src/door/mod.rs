//! The key-value door: Redis clients on one side, the replica's desk on the other.
//!
//! `kv` knows RESP, commands and the state; the runtime knows leaders and logs. What is left here
//! are sockets, and carrying requests and answers between the two.
//!
//! - I1 by construction, a turn reads at most [`clients`]'s `READ_BYTES` from each client, and
//!   writes each client's replies with one system call.
//! - I2 replies leave in the order of the requests: `kv`'s connection sees to it.
//! - I3 an answer reaches the client that asked: a client's name is never used twice in a life.

mod channels;
mod clients;
mod info;
mod members;
mod offline;
mod partitioned;
mod service;
mod snapshots;
mod statuses;

use crate::channel::{ReplicaEnd, Report};
use crate::config::{Config, Start};
use crate::control::Board;
use crate::signals::Signals;
use base::{Instant, MemberSet, Slot};
use clients::Clients;
use console::{Failure, Outcome};
pub(crate) use kv::door::NO_SUCH_BACKUP;
use kv::door::State;
pub(crate) use members::{MAY_PASS, NOT_LEADER, UNKNOWN as CHANGE_UNKNOWN};
pub(crate) use offline::offline_state;
pub(crate) use partitioned::{PartitionedDoor, seats};
use proto::Role;
use runtime::{Interest, Parted, Poller, View};
use std::fmt::Display;
use std::io::Read;
use std::net::TcpListener;
use std::sync::Arc;

/// Keys of descriptors in the poller; those of clients are below.
const KEY_LISTENER: u64 = runtime::replica::SERVICE_KEYS - 1;
const KEY_SIGNALS: u64 = runtime::replica::SERVICE_KEYS - 2;
const KEY_CHANNEL: u64 = runtime::replica::SERVICE_KEYS - 3;
const KEY_STATUS: u64 = runtime::replica::SERVICE_KEYS - 4;

/// How the replica was told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// This process alone: others go on, and its next life does.
    HandOver,
    /// The whole cluster: nothing is kept.
    Remove,
    /// This incarnation takes part no more.
    Part(Parted),
}

/// What is said of a value that every member skips.
fn skipped(slot: Slot, error: &impl Display) -> String {
    format!("gregale: the value of slot {slot} is no batch and was skipped: {error}")
}

/// See the module's text.
pub(crate) struct Door {
    state: State,
    /// As of this turn.
    now: Instant,
    clients: Clients,
    board: Arc<Board>,
    signals: Option<Signals>,
    stop: Option<Stop>,
    /// The supervisor knows that this member serves.
    reported: bool,
    warned_lost: bool,
    /// The supervisor does not know that this incarnation votes, and may wait for that word.
    learns: bool,
    /// Who takes part, as far as is known.
    seated: MemberSet,
    /// Seats that this leader has told the supervisor are empty.
    told_vacant: MemberSet,
}

impl Door {
    /// Behind `listener`, which is bound.
    pub(crate) fn new(config: &Config, listener: TcpListener, board: Arc<Board>) -> Outcome<Door> {
        Ok(Door {
            state: State::new(config.maxmemory, runtime::unix_ms()),
            now: Instant::ZERO,
            clients: Clients::new(config, listener, &board)?,
            board,
            signals: None,
            stop: None,
            reported: false,
            warned_lost: false,
            // The vote may be there before it is looked for: while this process starts, or since
            // an earlier one that died before it said so.
            learns: config.start != Start::Bootstrap,
            seated: MemberSet::all(config.members.len()),
            told_vacant: MemberSet::EMPTY,
        })
    }

    /// Puts what it listens to into the loop's set.
    pub(crate) fn register(
        &mut self,
        poller: &Poller,
        signals: Signals,
        channel: Option<Arc<ReplicaEnd>>,
    ) -> Outcome<()> {
        let mut watch = || {
            poller.add(&signals.pipe, KEY_SIGNALS, Interest::Read)?;
            if let Some(channel) = &channel {
                poller.add(channel.as_fd(), KEY_CHANNEL, Interest::Read)?;
            }
            self.clients.register(poller)
        };
        watch().map_err(|error| Failure::os("watch a descriptor", error))?;
        self.signals = Some(signals);
        self.clients.channel = channel;
        Ok(())
    }

    /// From now on reads and writes are answered with this error.
    pub(crate) fn refuse_all(&mut self, why: &'static str) {
        self.clients.refuse_all(why);
    }

    /// Whether it was told to stop, and how.
    pub(crate) fn stop(&self) -> Option<Stop> {
        self.stop
    }

    /// Tells the supervisor, if there is one.
    fn tell(&self, report: &Report) {
        if let Some(channel) = &self.clients.channel {
            channel.report(report);
        }
    }

    /// Whether this member was ever able to answer clients in this life.
    pub(crate) fn has_served(&self) -> bool {
        self.reported
    }

    /// Who takes part, as far as is known; at first everybody who is listed.
    pub(crate) fn seated(&self) -> MemberSet {
        self.seated
    }

    fn on_signal(&mut self) {
        if let Some(signals) = &self.signals {
            // How many came does not matter.
            let _ = (&signals.pipe).read(&mut [0; 64]);
        }
        self.stop = Some(Stop::HandOver);
    }

    fn on_channel(&mut self) {
        if self.clients.channel.as_ref().is_some_and(|channel| channel.asks_to_stop()) {
            self.stop = Some(Stop::Remove);
        }
    }

    /// Tells the supervisor once that clients are answered, and says when they cannot be.
    fn report(&mut self, view: &View) {
        let serves = match view.role {
            Role::Leader => true,
            Role::Follower => view.trusted.is_some_and(|leader| view.heard.contains(leader)),
            Role::Candidate | Role::Learner => false,
        };
        // Before anybody is let in again because this member serves.
        self.report_seat(view);
        self.report_vacant(view);
        if serves && !self.reported {
            self.reported = true;
            self.tell(&Report::Serving);
        }
        if view.data_lost && !self.warned_lost {
            self.warned_lost = true;
            let member = view.me.member();
            eprintln!("gregale: member {member}: {}", info::DATA_LOST);
        }
    }
}

impl Door {
    /// Ends a process that takes part no more, and says when a new incarnation has its vote.
    fn report_seat(&mut self, view: &View) {
        if let Some(parted) = view.parted {
            self.stop = self.stop.or(Some(Stop::Part(parted)));
        }
        let Some(configuration) = &view.configuration else { return };
        let members = &configuration.members;
        self.seated = members.all();
        let sits = members.incarnation(view.me) == view.incarnation;
        let votes = sits && members.voters.contains(view.me);
        if !votes {
            self.learns = true;
        } else if self.learns && configuration.is_decided {
            self.learns = false;
            self.tell(&Report::Votes(view.incarnation.0));
        }
    }

    /// Tells which seats are empty. A member that was dead when it was removed cannot say so
    /// itself, and would come back as a new incarnation. Whoever leads tells it: others may know
    /// of a removal and not yet of what came after it.
    fn report_vacant(&mut self, view: &View) {
        let leads = view.role == Role::Leader;
        let Some(of) = view.configuration.filter(|of| leads && of.is_decided) else {
            if !leads {
                self.told_vacant = MemberSet::EMPTY;
            }
            return;
        };
        let vacant = MemberSet::all(view.members).difference(of.members.all());
        for rank in vacant.difference(self.told_vacant).iter() {
            let last = of.members.incarnation(rank).0;
            self.tell(&Report::Vacant(rank.member().0, last));
        }
        self.told_vacant = vacant;
    }
}
