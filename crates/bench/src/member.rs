//! What the benchmarks add to a production member: nothing but an observer of its fabric.
//!
//! A member under measurement is a [`runtime::Replica`], the loop and the engine that ship, over a
//! [`Tap`] on the fabric that ships. Its state counts ([`crate::counter`]), and its only client
//! lives in its door (`worker::client`).

use crate::clock::shared_ns;
use base::verb::Relay;
use base::{Event, Inbox, MAX_MEMBERS, MemberSet, Rank};
use fabric::{Capabilities, Fabric, HostFabric};
use rustix::fd::BorrowedFd;
use serde::{Deserialize, Serialize};

/// The way in which a loop waits for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wait {
    /// The loop looks repeatedly.
    Spin,
    /// The loop sleeps until it is woken.
    Sleep,
}

impl Wait {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Wait::Spin => "spin",
            Wait::Sleep => "sleep",
        }
    }
}

/// What a fabric brought and was told, with times of the shared clock; 0: not (yet).
#[derive(Clone, Copy, Debug)]
pub struct News {
    /// The peers with a link.
    pub links: MemberSet,
    /// Whether this member leads.
    pub leads: bool,
    /// The time at which it last came to lead.
    pub leading_at: u64,
    /// The time at which the fabric first reported the death of each member.
    pub failed_at: [u64; MAX_MEMBERS],
}

/// A fabric, and an observer of it.
#[derive(Debug)]
pub struct Tap {
    fabric: HostFabric,
    me: Rank,
    news: News,
}

impl Tap {
    /// An observer of the fabric of `me`.
    pub fn new(fabric: HostFabric, me: Rank) -> Tap {
        let (links, failed_at) = (MemberSet::EMPTY, [0; MAX_MEMBERS]);
        Tap { fabric, me, news: News { links, leads: false, leading_at: 0, failed_at } }
    }

    /// The events so far.
    pub fn news(&self) -> &News {
        &self.news
    }
}

impl News {
    fn note(&mut self, me: Rank, event: &Event<'_>) {
        match event {
            Event::LinkUp(rank) if *rank != me => {
                self.links.insert(*rank);
            }
            Event::LinkDown(rank) => {
                self.links.remove(*rank);
            }
            Event::ProcessFailed(rank) => {
                let at = &mut self.failed_at[rank.index()];
                if *at == 0 {
                    *at = shared_ns();
                }
            }
            Event::LinkUp(_) | Event::Completed { .. } | Event::Message { .. } => {}
        }
    }
}

impl Relay for Tap {
    type Port = HostFabric;

    fn port(&self) -> &HostFabric {
        &self.fabric
    }

    fn port_mut(&mut self) -> &mut HostFabric {
        &mut self.fabric
    }
}

impl Fabric for Tap {
    fn capabilities(&self) -> Capabilities {
        self.fabric.capabilities()
    }

    fn flush(&mut self) {
        self.fabric.flush();
    }

    fn poll(&mut self, inbox: &mut Inbox) {
        let before = inbox.len();
        self.fabric.poll(inbox);
        (before..inbox.len()).for_each(|at| self.news.note(self.me, &inbox.event(at)));
    }

    fn wait_fd(&self) -> BorrowedFd<'_> {
        self.fabric.wait_fd()
    }

    fn prepare_sleep(&mut self) {
        self.fabric.prepare_sleep();
    }

    fn awake(&mut self) {
        self.fabric.awake();
    }

    fn lead(&mut self, leads: bool) {
        self.news.leads = leads;
        if leads {
            self.news.leading_at = shared_ns();
        }
        self.fabric.lead(leads);
    }

    fn is_alert(&mut self) -> bool {
        self.fabric.is_alert()
    }
}
