//! What a member knows of the others: their cards, asked for at their control ports, or else what
//! it sees itself.
//!
//! - K1 a card counts for the member whose it is, and for no other. Control ports are bound to
//!   loopback, and members of several hosts may have ports alike: what answers at another host's
//!   address is a member of this one.

use super::{CARD_WITHIN, Card};
use crate::config::{Config, Member};
use crate::connect;
use base::{NodeId, Rank};
use runtime::View;
use std::net::SocketAddr;
use std::thread::{Scope, ScopedJoinHandle};

/// The cards of all members but member `own`, in their order; none of a member that is down.
/// `view` is what this member sees, if it sees anything.
pub(super) fn of_others(config: &Config, own: u16, view: Option<&View>) -> Vec<Option<Card>> {
    std::thread::scope(|scope| {
        let others = config.members.iter();
        let asked: Vec<_> = others
            .map(|member| (member.id != own).then(|| ask(scope, move || fetch(config, member))))
            .collect();
        let members = config.members.iter().zip(asked);
        members
            .map(|(member, asked)| {
                let is_elsewhere = is_elsewhere(config.own(), member);
                let seen = || view.filter(|_| is_elsewhere).and_then(|view| seen(view, member.id));
                asked.and_then(|asked| asked.card().or_else(seen))
            })
            .collect()
    })
}

/// A member that is asked for its card, beside the others or, where the system gives no thread for
/// that, at once.
enum Asked<'scope> {
    Beside(ScopedJoinHandle<'scope, Option<Card>>),
    Done(Option<Box<Card>>),
}

impl Asked<'_> {
    fn card(self) -> Option<Card> {
        match self {
            // A thread that panicked has no card to show.
            Asked::Beside(thread) => thread.join().ok().flatten(),
            Asked::Done(card) => card.map(|card| *card),
        }
    }
}

fn ask<'scope>(
    scope: &'scope Scope<'scope, '_>,
    fetch: impl Fn() -> Option<Card> + Copy + Send + 'scope,
) -> Asked<'scope> {
    let beside = std::thread::Builder::new().spawn_scoped(scope, fetch);
    beside.map_or_else(|_| Asked::Done(fetch().map(Box::new)), Asked::Beside)
}

/// The card of another member, if it shows its own in time (K1).
fn fetch(config: &Config, member: &Member) -> Option<Card> {
    let bytes = connect::fetch(member.control, "/card", CARD_WITHIN).ok()?;
    let card: Card = serde_json::from_slice(&bytes).ok()?;
    // (Members of earlier versions do not say the cluster.)
    let is_of_cluster = card.cluster.is_empty() || card.cluster == config.cluster;
    (card.id == member.id && is_of_cluster).then_some(card)
}

/// Whether `member` is on another host than `own`: its control port cannot be reached then.
fn is_elsewhere(own: &Member, member: &Member) -> bool {
    let host = |fabric: SocketAddr| (!fabric.ip().is_loopback()).then(|| fabric.ip());
    own.fabric.map(host) != member.fabric.map(host)
}

/// What this member sees of member `id` over the fabric: whether it lives, what it is trusted to be
/// and has executed, and no more.
fn seen(view: &View, id: u16) -> Option<Card> {
    let rank = Rank::of_member(NodeId(id)).filter(|rank| view.heard.contains(*rank))?;
    let role = if view.trusted == Some(rank) { "leader" } else { "follower" };
    let applied = view.applied_by[rank.index()].0;
    Some(Card { id, role: role.into(), committed: applied, applied, ..Card::default() })
}

#[cfg(test)]
mod tests {
    use super::super::{Board, serve};
    use super::*;
    use base::Prefix;
    use kv::door::Figures;
    use runtime::Stats;
    use std::net::TcpListener;

    /// Three members at one control port, as on three hosts; the third is dead. The first sees the
    /// second lead.
    fn roles_seen_by_the_first(hosts: [&str; 3]) -> Vec<(String, u32)> {
        let control = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = control.local_addr().unwrap().port();
        let mut text = "cluster = \"x\"\nmember = 1\nstart = \"bootstrap\"\nfabric = \"tcp\"\n\
            directory = \"/x\"\nsecret_file = \"/x/secret\"\n"
            .to_owned();
        for (host, id) in hosts.iter().zip(1..) {
            text += &format!(
                "[[members]]\nid = {id}\nclient = \"{host}:7000\"\ncontrol = \"127.0.0.1:{port}\"\n\
                 fabric = \"{host}:710{id}\"\n"
            );
        }
        let config: Config = toml::from_str(&text).unwrap();
        let board = Board::new(&config, 1);
        serve(&board, control).unwrap();
        let [me, second] = [1, 2].map(|id| Rank::of_member(NodeId(id)).unwrap());
        let mut view = View::new(me, 3);
        view.heard = [me, second].into_iter().collect();
        view.trusted = Some(second);
        view.applied_by[second.index()] = Prefix(7);
        board.leave(&view, &Stats::new(), Figures::default());
        let members = board.cluster().members;
        assert!(members[2].pid == 0 && !members[2].data_lost);
        members.into_iter().map(|member| (member.role, member.pid)).collect()
    }

    /// All three were shown with the role, process and disk of the first.
    #[test]
    fn k1_another_members_card_is_not_taken() {
        let roles = roles_seen_by_the_first(["127.0.0.1"; 3]);
        let own = ("learner".to_owned(), std::process::id());
        assert_eq!(roles, [own, ("down".into(), 0), ("down".into(), 0)]);
    }

    #[test]
    fn members_of_other_hosts_are_what_this_one_sees_of_them() {
        let roles = roles_seen_by_the_first(["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
        let own = ("learner".to_owned(), std::process::id());
        assert_eq!(roles, [own, ("leader".into(), 0), ("down".into(), 0)]);
    }
}
