//! The fabric's report about peers that it cannot reach. Each is printed once, and is fatal for a
//! member that never served and is refused by so many peers that it never will. What a connection
//! without a proof says is printed, too, and is never fatal: it may be any program's.
//!
//! Without it, a member of another cluster, or with another secret, would wait for ever without a
//! visible cause.

use crate::config::Config;
use base::{MemberSet, NodeId, Rank, majority};
use fabric::tcp::LinkError;
use fabric::{HostFabric, shm, tcp};
use std::time::{Duration, Instant};

/// The interval between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The time for a peer's start, before its absence is reported.
const START_WITHIN: Duration = Duration::from_secs(3);

/// A peer that is not reached.
pub(super) struct Trouble {
    /// The peer.
    pub(super) id: u16,
    /// The cause and the remedy.
    pub(super) text: String,
    /// Whether one of the two refuses the other for good, so that waiting does not help.
    pub(super) is_refusal: bool,
    /// Whether their layouts differ, of which the settings that members share are a part.
    pub(super) is_of_layout: bool,
}

/// The links that are not as they should be.
fn troubles(fabric: &HostFabric) -> Vec<Trouble> {
    let on_shm = |link: shm::LinkReport| {
        let id = link.peer.member().0;
        Some(Trouble { id, text: link.trouble?, is_refusal: false, is_of_layout: false })
    };
    let on_tcp = |link: tcp::LinkStatus| of_tcp(link.rank.member().0, &link.last_error?);
    match fabric {
        HostFabric::Shm(fabric) => fabric.links().filter_map(on_shm).collect(),
        HostFabric::Tcp(fabric) => fabric.links().filter_map(on_tcp).collect(),
    }
}

/// What `error` says about the peer `id`.
fn of_tcp(id: u16, error: &LinkError) -> Option<Trouble> {
    if !matches!(
        error,
        LinkError::Refused(_) | LinkError::RefusedByPeer { .. } | LinkError::Unproven(_)
    ) {
        // A peer that is not there yet, or no longer: the heartbeats see that too.
        return None;
    }
    let is_refusal = error.is_lasting_refusal();
    Some(Trouble { id, text: error.to_string(), is_refusal, is_of_layout: error.is_of_layout() })
}

/// The regular look at the links.
pub(super) struct Lookout {
    members: usize,
    /// The settings that all members must have alike.
    shared: String,
    next_look: Instant,
    quiet_until: Instant,
    told: Vec<(u16, String)>,
}

impl Lookout {
    pub(super) fn new(config: &Config) -> Lookout {
        let (members, shared) = (config.members.len(), config.agreed());
        let now = Instant::now();
        let (next_look, quiet_until) = (now + LOOK_EVERY, now + START_WITHIN);
        Lookout { members, shared, next_look, quiet_until, told: Vec::new() }
    }

    /// Reports news about the peers that are `seated`. Returns the line to end with, if this
    /// member, which has never `served`, never can.
    pub(super) fn look(
        &mut self,
        fabric: &HostFabric,
        served: bool,
        seated: MemberSet,
    ) -> Option<String> {
        let now = Instant::now();
        if now < self.next_look {
            return None;
        }
        self.next_look = now + LOOK_EVERY;
        // An empty seat has no peer to miss.
        let sits = |trouble: &Trouble| {
            Rank::of_member(NodeId(trouble.id)).is_none_or(|rank| seated.contains(rank))
        };
        let mut troubles: Vec<Trouble> = troubles(fabric).into_iter().filter(sits).collect();
        for trouble in troubles.iter_mut().filter(|trouble| trouble.is_of_layout) {
            trouble.text += &format!(" (here: {})", self.shared);
        }
        let n_refusals = troubles.iter().filter(|trouble| trouble.is_refusal).count();
        // The remaining peers and this member are not a majority.
        let is_hopeless = self.members - n_refusals < majority(self.members);
        if let (false, true, Some(first)) = (served, is_hopeless, troubles.first()) {
            return Some(format!("member {} is not a peer: {}", first.id, first.text));
        }
        for Trouble { id, text, is_refusal, .. } in troubles {
            let is_new = is_refusal || now >= self.quiet_until;
            if is_new && !self.told.contains(&(id, text.clone())) {
                runtime::complain(format_args!("the link to member {id}: {text}"));
                self.told.retain(|(told, _)| *told != id);
                self.told.push((id, text));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabric::tcp::hello::Refusal;

    /// Two connections of a stranger ended a member that waited for its peers.
    #[test]
    fn a_claim_without_a_proof_is_said_and_makes_nothing_hopeless() {
        let refusal = Refusal::Cluster { ours: 1, theirs: 2 };
        let claimed = of_tcp(3, &LinkError::Unproven(refusal)).unwrap();
        assert!(!claimed.is_refusal && claimed.text.contains("claims to be"), "{}", claimed.text);
        let proven = of_tcp(3, &LinkError::Refused(refusal)).unwrap();
        assert!(proven.is_refusal);
        assert!(of_tcp(3, &LinkError::Closed).is_none());
    }

    /// The member of a host that was back within seconds ended itself: the others still held the
    /// connections of the life before.
    #[test]
    fn a_refusal_that_passes_makes_nothing_hopeless() {
        let overtaken = Refusal::Overtaken(NodeId(3));
        let by_peer = |code| LinkError::RefusedByPeer { code, text: overtaken.to_string() };
        let is_refusal = |error: &LinkError| of_tcp(1, error).expect("it is said").is_refusal;
        assert!(!is_refusal(&by_peer(overtaken.code())));
        assert!(!is_refusal(&LinkError::Refused(overtaken)));
        assert!(is_refusal(&by_peer(Refusal::Secret.code())));
    }
}
