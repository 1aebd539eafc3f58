//! The process side of the key-value door: sockets, signals, the supervisor, figures.
//!
//! `kv::door` serves clients and holds the replicated state; the runtime knows leaders and logs.
//! This module is the process around them, and passes calls from one to the other.

mod info;
mod offline;
mod partitioned;
mod process;
mod service;
mod snapshots;
mod sockets;
mod statuses;

use crate::channel::{ReplicaEnd, Report};
use crate::config::{Config, Start};
use crate::control::Board;
use crate::signals::Signals;
use base::MemberSet;
use console::{Failure, Outcome};
use kv::door::RespDoor;
pub(crate) use kv::door::State;
pub(crate) use kv::door::{MAY_PASS, NO_SUCH_BACKUP, NOT_LEADER, UNKNOWN as CHANGE_UNKNOWN};
use kv::text;
pub(crate) use offline::offline_state;
pub(crate) use partitioned::{PartitionedDoor, seats};
use process::Process;
use proto::Role;
use runtime::{Interest, Parted, Poller, View};
use sockets::Sockets;
use std::io::Read;
use std::net::TcpListener;
use std::sync::Arc;

/// The keys of descriptors in the poller; those of clients are below.
const KEY_LISTENER: u64 = runtime::replica::SOCKET_KEYS - 1;
const KEY_SIGNALS: u64 = runtime::replica::SOCKET_KEYS - 2;
const KEY_CHANNEL: u64 = runtime::replica::SOCKET_KEYS - 3;
const KEY_STATUS: u64 = runtime::replica::SOCKET_KEYS - 4;

/// The way in which the replica was told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// This process alone stops: the others continue, and so does its next life.
    HandOver,
    /// The whole cluster stops: nothing is kept.
    Remove,
    /// This incarnation is no longer a member.
    Part(Parted),
}

/// The state that the doors of `config`'s cluster serve.
pub(crate) fn state_of(config: &Config) -> State {
    State::new(config.maxmemory, runtime::unix_ms())
}

/// The service of one replica; see the module's text.
pub(crate) struct Door {
    door: RespDoor<Process, Sockets>,
    board: Arc<Board>,
    signals: Option<Signals>,
    stop: Option<Stop>,
    /// Whether the supervisor knows that this member serves.
    reported: bool,
    warned_lost: bool,
    /// Whether the supervisor may still wait for the report that this incarnation votes.
    learns: bool,
    /// The membership, as far as it is known.
    seated: MemberSet,
    /// The empty seats that this leader has reported to the supervisor.
    told_vacant: MemberSet,
}

impl Door {
    /// A service behind `listener`, which is bound.
    pub(crate) fn new(config: &Config, listener: TcpListener, board: Arc<Board>) -> Outcome<Door> {
        let outside = Process::new(config, &board, None)?;
        Ok(Door {
            door: RespDoor::new(process::door_config(config), outside, Sockets::new(listener)?),
            board,
            signals: None,
            stop: None,
            reported: false,
            warned_lost: false,
            // The incarnation may have its vote before this process looks: it got it during the
            // start, or an earlier process died before it reported it.
            learns: config.start != Start::Bootstrap,
            seated: MemberSet::all(config.members.len()),
            told_vacant: MemberSet::EMPTY,
        })
    }

    /// Adds its descriptors to the loop's set.
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
            self.door.clients.outside.register(poller)?;
            self.door.streams.register(poller)
        };
        watch().map_err(|error| Failure::os("watch a descriptor", error))?;
        self.signals = Some(signals);
        self.door.clients.outside.channel = channel;
        Ok(())
    }

    /// Answers reads and writes with this error from now on.
    pub(crate) fn refuse_all(&mut self, why: &'static str) {
        self.door.clients.refuse_all(why);
    }

    /// The order to stop, if there was one.
    pub(crate) fn stop(&self) -> Option<Stop> {
        self.stop
    }

    /// Reports to the supervisor, if there is one.
    fn tell(&self, report: &Report) {
        self.door.clients.outside.tell(report);
    }

    /// Whether this member was ever able to answer clients in this life.
    pub(crate) fn has_served(&self) -> bool {
        self.reported
    }

    /// The membership, as far as it is known; at first all listed members.
    pub(crate) fn seated(&self) -> MemberSet {
        self.seated
    }

    fn on_signal(&mut self) {
        if let Some(signals) = &self.signals {
            // The number of signals does not matter.
            let _ = (&signals.pipe).read(&mut [0; 64]);
        }
        self.stop = Some(Stop::HandOver);
    }

    fn on_channel(&mut self) {
        let channel = &self.door.clients.outside.channel;
        if channel.as_ref().is_some_and(|channel| channel.asks_to_stop()) {
            self.stop = Some(Stop::Remove);
        }
    }

    /// Reports to the supervisor once that clients are answered, and logs when they cannot be.
    fn report(&mut self, view: &View) {
        if self.door.has_served() && !self.reported {
            self.reported = true;
            self.tell(&Report::Serving);
        }
        if view.data_lost && !self.warned_lost {
            self.warned_lost = true;
            let member = view.me.member();
            eprintln!("gregale: member {member}: {}", text::DATA_LOST);
        }
    }
}

impl Door {
    /// Reports what is known of the seats.
    fn report_seats(&mut self, view: &View) {
        self.report_seat(view);
        self.report_vacant(view);
    }

    /// Ends a process that is no longer a member, and reports when a new incarnation has its vote.
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

    /// Reports empty seats. A member that was dead when it was removed cannot report that itself,
    /// and would come back as a new incarnation. Only the leader reports: others may know of a
    /// removal and not yet of later changes.
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
