//! The two sides of a handshake, as machines without a socket.
//!
//! ```text
//! initiator                              acceptor
//!    | HELLO (rank, cluster, layout, nonce) |
//!    |------------------------------------->|  checks all but the secret
//!    | CHALLENGE (the same about itself)    |
//!    |<-------------------------------------|
//!    | PROOF                                |
//!    |------------------------------------->|  checks the secret; closes the connection that this
//!    | WELCOME                              |  one replaces; only then answers
//!    |<-------------------------------------|
//! ```
//!
//! The initiator proves first: it chose its peer, the acceptor could not.
//!
//! Invariants
//! - H4 A side answers REFUSED at most once, and nothing after it. By construction: the phase is
//!   `Over`, and no arm leaves it.
//! - H5 A handshake takes no byte that belongs to the link after it: [`Handshake::wanted`] never
//!   asks beyond the end of the message that is due. By construction, so that no byte has to be
//!   handed over.
//! - H6 No peer is [`Step::Proven`] or [`Step::Welcomed`] without a proof of the secret over this
//!   very exchange. Tested by `nobody_gets_in_without_the_secret`.

use super::hello::{self, Hello, Kind, Memory, Refusal, Role, Secret, Side, Versions};
use crate::Setup;
use base::{Incarnation, Rank};

/// The properties that this node declares, and demands of others.
#[derive(Clone, Debug)]
pub(super) struct Local {
    pub(super) versions: Versions,
    pub(super) me: Rank,
    pub(super) members: usize,
    pub(super) cluster: u64,
    pub(super) incarnation: Incarnation,
    pub(super) life: u64,
    pub(super) layout: u64,
    pub(super) n_words: u32,
    pub(super) secret: Secret,
}

/// The values that distinguish one connection from another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fresh {
    pub(super) epoch: u64,
    pub(super) nonce: [u8; 32],
}

/// The result of received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// No decision yet; there may be output.
    Continue,
    /// The acceptor's peer has proved itself: call [`Handshake::welcome`] or [`Handshake::refuse`].
    Proven(Hello),
    /// The initiator is admitted: the link is up.
    Welcomed(Hello),
}

/// The reason why a handshake failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// This node refuses; the output holds the reason for the peer.
    Ours(Refusal),
    /// The peer refuses.
    Theirs { code: u8, text: String },
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    AwaitHello,
    AwaitChallenge { to: Rank },
    AwaitProof { peer: Hello },
    AwaitWelcome { peer: Hello },
    Deciding,
    Over,
}

/// One handshake.
#[derive(Debug)]
pub(super) struct Handshake {
    phase: Phase,
    /// The rank and role that the peer claims (acceptor), or should have (initiator): for the
    /// record only.
    claims: Option<(Rank, Role)>,
    fresh: Fresh,
    hello: Vec<u8>,
    challenge: Vec<u8>,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Handshake {
    /// The handshake of the side that connects, to `to`, as `role`.
    pub(super) fn initiate(local: &Local, role: Role, to: Rank, fresh: Fresh) -> Handshake {
        let mut handshake = Handshake::new(Phase::AwaitChallenge { to }, fresh);
        handshake.claims = Some((to, Role::Node));
        local.introduce(role, to, fresh).put(&mut handshake.hello, Kind::Hello);
        handshake.output.clone_from(&handshake.hello);
        handshake
    }

    /// The handshake of the side that accepts.
    pub(super) fn accept(fresh: Fresh) -> Handshake {
        Handshake::new(Phase::AwaitHello, fresh)
    }

    fn new(phase: Phase, fresh: Fresh) -> Handshake {
        let empty = Vec::new;
        let (hello, challenge, input, output) = (empty(), empty(), empty(), empty());
        Handshake { phase, claims: None, fresh, hello, challenge, input, output }
    }

    /// The most bytes to read next (H5). Zero once the handshake is over.
    pub(super) fn wanted(&self) -> usize {
        match self.phase {
            Phase::Deciding | Phase::Over => return 0,
            Phase::AwaitHello | Phase::AwaitChallenge { .. } => {}
            Phase::AwaitProof { .. } | Phase::AwaitWelcome { .. } => {}
        }
        let due = match self.input.first_chunk() {
            None => hello::HEADER_BYTES,
            // A bad header was refused when it came in, so this one decodes.
            Some(header) => hello::decode_header(header)
                .map_or(hello::HEADER_BYTES, |(_, length)| hello::HEADER_BYTES + length),
        };
        due - self.input.len()
    }

    /// The bytes to send.
    pub(super) fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// The rank and role that the peer claims (acceptor), or should have (initiator). They prove
    /// nothing.
    pub(super) fn claims(&self) -> Option<(Rank, Role)> {
        self.claims
    }

    /// Takes bytes that arrived, not more than were wanted.
    pub(super) fn received(&mut self, bytes: &[u8], local: &Local) -> Result<Step, Failure> {
        assert!(bytes.len() <= self.wanted(), "H5: the caller reads what is wanted");
        self.input.extend_from_slice(bytes);
        let Some((header, body)) = self.input.split_first_chunk() else {
            return Ok(Step::Continue);
        };
        let (kind, length) = match hello::decode_header(header) {
            Ok(announced) => announced,
            Err(refusal) => {
                // Another program connects here: it would not understand an answer.
                self.phase = Phase::Over;
                return Err(Failure::Ours(refusal));
            }
        };
        if body.len() < length {
            return Ok(Step::Continue);
        }
        let message = core::mem::take(&mut self.input);
        match self.on_message(kind, &message, local) {
            Ok(step) => Ok(step),
            Err(Failure::Ours(refusal)) => Err(self.refuse(refusal)),
            Err(theirs @ Failure::Theirs { .. }) => {
                self.phase = Phase::Over;
                Err(theirs)
            }
        }
    }

    fn on_message(&mut self, kind: Kind, message: &[u8], local: &Local) -> Result<Step, Failure> {
        let body = &message[hello::HEADER_BYTES..];
        let malformed = Err(Failure::Ours(Refusal::Malformed));
        match (self.phase, kind) {
            (Phase::AwaitHello, Kind::Hello) => {
                let peer = Hello::decode(body, local.versions).map_err(Failure::Ours)?;
                self.claims = Some((peer.from, peer.role));
                local.admit(&peer).map_err(Failure::Ours)?;
                self.hello = message.to_vec();
                local
                    .introduce(Role::Node, peer.from, self.fresh)
                    .put(&mut self.challenge, Kind::Challenge);
                self.output.extend_from_slice(&self.challenge);
                self.phase = Phase::AwaitProof { peer };
                Ok(Step::Continue)
            }
            (Phase::AwaitChallenge { to }, Kind::Challenge) => {
                let peer = Hello::decode(body, local.versions).map_err(Failure::Ours)?;
                local.recognise(&peer, to).map_err(Failure::Ours)?;
                self.challenge = message.to_vec();
                let proof = local.secret.prove(Side::Initiator, &self.hello, &self.challenge);
                hello::put_proof(&mut self.output, Kind::Proof, proof);
                self.phase = Phase::AwaitWelcome { peer };
                Ok(Step::Continue)
            }
            (Phase::AwaitProof { peer }, Kind::Proof) => {
                if !local.secret.verify(Side::Initiator, &self.hello, &self.challenge, body) {
                    return Err(Failure::Ours(Refusal::Secret));
                }
                self.phase = Phase::Deciding;
                Ok(Step::Proven(peer))
            }
            (Phase::AwaitWelcome { peer }, Kind::Welcome) => {
                if !local.secret.verify(Side::Acceptor, &self.hello, &self.challenge, body) {
                    return Err(Failure::Ours(Refusal::Secret));
                }
                self.phase = Phase::Over;
                Ok(Step::Welcomed(peer))
            }
            (Phase::AwaitProof { .. } | Phase::AwaitChallenge { .. }, Kind::Refused)
            | (Phase::AwaitWelcome { .. }, Kind::Refused) => {
                let (code, text) = hello::decode_refused(body).map_err(Failure::Ours)?;
                Err(Failure::Theirs { code, text })
            }
            (Phase::AwaitHello, Kind::Challenge | Kind::Proof | Kind::Welcome | Kind::Refused) => {
                malformed
            }
            (Phase::AwaitChallenge { .. }, Kind::Hello | Kind::Proof | Kind::Welcome) => malformed,
            (Phase::AwaitProof { .. }, Kind::Hello | Kind::Challenge | Kind::Welcome) => malformed,
            (Phase::AwaitWelcome { .. }, Kind::Hello | Kind::Challenge | Kind::Proof) => malformed,
            (Phase::Deciding | Phase::Over, _) => unreachable!("H5: nothing is wanted any more"),
        }
    }

    /// Admits the proven peer: the output becomes WELCOME, which must reach the peer before
    /// anything else on this connection, and after the bytes of the previous one are dropped (L1).
    pub(super) fn welcome(&mut self, local: &Local) {
        assert!(matches!(self.phase, Phase::Deciding), "H6: only who has proved itself is welcome");
        let proof = local.secret.prove(Side::Acceptor, &self.hello, &self.challenge);
        hello::put_proof(&mut self.output, Kind::Welcome, proof);
        self.phase = Phase::Over;
    }

    /// Ends the handshake and tells the peer why.
    pub(super) fn refuse(&mut self, refusal: Refusal) -> Failure {
        assert!(!matches!(self.phase, Phase::Over), "H4");
        hello::put_refused(&mut self.output, &refusal);
        self.phase = Phase::Over;
        Failure::Ours(refusal)
    }
}

impl Local {
    /// The properties in `setup`, in this life of the region's owner.
    pub(super) fn of(setup: &Setup, life: u64) -> Local {
        Local {
            versions: Versions::OURS,
            me: setup.me,
            members: setup.members,
            cluster: hello::cluster_fingerprint(&setup.cluster),
            incarnation: setup.incarnation,
            life,
            layout: setup.agreement(),
            n_words: setup.n_words,
            secret: Secret::new(&setup.secret),
        }
    }

    fn introduce(&self, role: Role, to: Rank, fresh: Fresh) -> Hello {
        Hello {
            versions: self.versions,
            role,
            from: self.me,
            to,
            members: self.members as u8,
            cluster: self.cluster,
            incarnation: self.incarnation,
            life: self.life,
            layout: self.layout,
            n_words: self.n_words,
            epoch: fresh.epoch,
            nonce: fresh.nonce,
        }
    }

    /// Whether the connecting peer may be admitted (apart from the secret, and from what only the
    /// links know).
    fn admit(&self, peer: &Hello) -> Result<(), Refusal> {
        self.agree(peer)?;
        let (found, stranger) = (self.me.member(), Refusal::Stranger(peer.from.member()));
        if peer.to != self.me {
            return Err(Refusal::WrongNode { wanted: peer.to.member(), found });
        }
        // One connection per pair: the higher rank connects. Sentinels connect to all others.
        let expected = match peer.role {
            Role::Node => peer.from > self.me,
            Role::Sentinel => peer.from != self.me,
        };
        if expected { Ok(()) } else { Err(stranger) }
    }

    /// Whether the answering peer is the one to which this node connected.
    fn recognise(&self, peer: &Hello, to: Rank) -> Result<(), Refusal> {
        self.agree(peer)?;
        if peer.from != to {
            let (wanted, found) = (to.member(), peer.from.member());
            return Err(Refusal::WrongNode { wanted, found });
        }
        let right = peer.to == self.me && peer.role == Role::Node;
        if right { Ok(()) } else { Err(Refusal::Malformed) }
    }

    fn agree(&self, peer: &Hello) -> Result<(), Refusal> {
        if peer.cluster != self.cluster {
            return Err(Refusal::Cluster { ours: self.cluster, theirs: peer.cluster });
        }
        if usize::from(peer.members) != self.members {
            return Err(Refusal::Members { ours: self.members as u8, theirs: peer.members });
        }
        if peer.from.index() >= self.members || peer.from == self.me {
            return Err(Refusal::Stranger(peer.from.member()));
        }
        let theirs = Memory { layout: peer.layout, n_words: peer.n_words };
        let ours = Memory { layout: self.layout, n_words: self.n_words };
        if theirs != ours {
            return Err(Refusal::Layout { ours, theirs });
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
