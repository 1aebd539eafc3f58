//! A member's process and its supervisor: orders to stop, orders of operators, reports of seats.

use super::{KEY_CHANNEL, KEY_ORDERS, KEY_SIGNALS};
use crate::channel::{ReplicaEnd, Report};
use crate::config::{Config, Start};
use crate::control::Board;
use crate::orders::{Hatch, Supervisor};
use crate::signals::Signals;
use base::MemberSet;
use console::Outcome;
use kv::text;
use proto::Role;
use runtime::{Interest, Orders, Parted, Poller, View};
use std::io::{self, Read};
use std::sync::Arc;

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

/// A door whose process is told to stop, and reports what it knows of the members.
pub(crate) trait Supervised {
    /// Adds the door's descriptors to the loop's set.
    fn register(
        &mut self,
        poller: &Poller,
        signals: Signals,
        channel: Option<Arc<ReplicaEnd>>,
    ) -> Outcome<()>;

    /// The state of its supervision.
    fn supervision(&self) -> &Supervision;

    /// The reason why the process has to end, though its replica could continue.
    fn failure(&self) -> Option<&str> {
        None
    }
}

/// The supervision of the module's text.
pub(crate) struct Supervision {
    signals: Option<Signals>,
    /// The channel to the supervisor, if there is one.
    channel: Option<Arc<ReplicaEnd>>,
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
    /// The orders that come over the control port.
    hatch: Hatch,
}

impl Supervision {
    /// Before the first turn.
    pub(crate) fn new(config: &Config, board: &Board) -> Outcome<Supervision> {
        Ok(Supervision {
            signals: None,
            channel: None,
            stop: None,
            reported: false,
            warned_lost: false,
            // The incarnation may have its vote before this process looks: it got it during the
            // start, or an earlier process died before it reported it.
            learns: config.start != Start::Bootstrap,
            seated: MemberSet::all(config.members.len()),
            told_vacant: MemberSet::EMPTY,
            hatch: Hatch::open(&board.office)?,
        })
    }

    /// Watches for signals and the supervisor's word.
    pub(crate) fn register(
        &mut self,
        poller: &Poller,
        signals: Signals,
        channel: Option<Arc<ReplicaEnd>>,
    ) -> io::Result<()> {
        poller.add(&signals.pipe, KEY_SIGNALS, Interest::Read)?;
        self.hatch.register(poller, KEY_ORDERS)?;
        if let Some(channel) = &channel {
            poller.add(channel.as_fd(), KEY_CHANNEL, Interest::Read)?;
        }
        (self.signals, self.channel) = (Some(signals), channel);
        Ok(())
    }

    /// The order to stop, if there was one.
    pub(crate) fn stop(&self) -> Option<Stop> {
        self.stop
    }

    /// Whether this member was ever able to answer clients in this life.
    pub(crate) fn has_served(&self) -> bool {
        self.reported
    }

    /// The membership, as far as it is known; at first all listed members.
    pub(crate) fn seated(&self) -> MemberSet {
        self.seated
    }

    /// Reports to the supervisor, if there is one.
    fn tell(&self, report: &Report) {
        if let Some(channel) = &self.channel {
            channel.report(report);
        }
    }

    /// Operators have sent orders.
    pub(crate) fn on_orders(&mut self, orders: &mut Orders) {
        self.hatch.on_bell();
        let is_watched = self.channel.is_some();
        let supervisor = if is_watched { Supervisor::Watches } else { Supervisor::None };
        self.hatch.take_in(orders, supervisor);
    }

    /// Tells the supervisor what was ordered of it, and answers the orders that have ended.
    pub(crate) fn end_orders(&mut self, orders: &mut Orders) {
        while let Some(rank) = orders.take_renewal() {
            self.tell(&Report::Renew(rank.member().0));
        }
        self.hatch.give_out(orders);
    }

    pub(crate) fn on_signal(&mut self) {
        if let Some(signals) = &self.signals {
            // The number of signals does not matter.
            let _ = (&signals.pipe).read(&mut [0; 64]);
        }
        self.stop = Some(Stop::HandOver);
    }

    pub(crate) fn on_channel(&mut self) {
        if self.channel.as_ref().is_some_and(|channel| channel.asks_to_stop()) {
            self.stop = Some(Stop::Remove);
        }
    }

    /// Reports to the supervisor once that clients are answered, and logs when they cannot be.
    pub(crate) fn report(&mut self, serves: bool, view: &View) {
        if serves && !self.reported {
            self.reported = true;
            self.tell(&Report::Serving);
        }
        if view.data_lost && !self.warned_lost {
            self.warned_lost = true;
            let member = view.me.member();
            runtime::complain(format_args!("member {member}: {}", text::DATA_LOST));
        }
    }

    /// Reports what is known of the seats.
    pub(crate) fn report_seats(&mut self, view: &View) {
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
