//! The messages of the handshake: bytes to types and back, versions, proofs and refusals; pure.
//!
//! Little endian. A message is a header of 8 bytes and a body:
//!
//! ```text
//! byte  0        4      5      6        8
//!       | magic  | kind | zero | length | body ...
//!       | "grgl" | u8   | u8   | u16    | `length` bytes
//!
//! kind            body
//! 1 HELLO         oldest u16 | newest u16 | role u8 | from u8 | to u8 | members u8
//! 2 CHALLENGE     cluster u64 | incarnation u64 | life u64 | layout u64
//!   (the same)    n_words u32 | zero u32 | epoch u64 | nonce 32 bytes
//! 3 PROOF         HMAC-SHA256 of the secret over "initiator", HELLO and CHALLENGE: 32 bytes
//! 4 WELCOME       HMAC-SHA256 of the secret over "acceptor", HELLO and CHALLENGE: 32 bytes
//! 5 REFUSED       code u8 | one line of text
//! ```
//!
//! The header, the two version fields and REFUSED stay as they are in every version, so that a node
//! can always state why it refuses. A HELLO may be longer than this version knows: the rest is
//! ignored, but covered by the proofs.
//!
//! Invariants
//! - H1 Nothing here panics on foreign bytes. Tested by `smoke_*` and the fuzz target `tcp_wire`.
//! - H2 A proof covers every byte of HELLO and CHALLENGE: both nonces (so it cannot be replayed),
//!   both identities (so it cannot be relayed to another pair), both version ranges (so that no
//!   attacker in between can force an older one). The two sides prove different words, so that a
//!   proof cannot be reflected. Tested by `a_proof_covers_everything`.
//! - H3 A peer's text about itself is printed only as far as it is printable. Tested by
//!   `refusals_are_printed_safely`.

use base::{Incarnation, Rank};
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

/// The number of bytes of every message's header.
pub const HEADER_BYTES: usize = 8;

/// The longest body that is read: no version has a longer one.
pub const BODY_BYTES_MAX: usize = 512;

/// The first bytes of every message.
pub const MAGIC: [u8; 4] = *b"grgl";

const HELLO_BYTES: usize = 88;
const REFUSAL_TEXT_BYTES_MAX: usize = 200;

/// The versions of frames and verbs that a node speaks, both ends included.
///
/// A release speaks its own version and the previous one, so that members can be upgraded one by
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The oldest version.
    pub oldest: u16,
    /// The newest version.
    pub newest: u16,
}

impl Versions {
    /// The versions of this release. Version 1 is the first: there is no earlier one.
    pub const OURS: Versions = Versions { oldest: 1, newest: 1 };

    /// The newest version that both sides speak.
    pub const fn common(self, other: Versions) -> Option<u16> {
        let newest = if self.newest < other.newest { self.newest } else { other.newest };
        let oldest = if self.oldest > other.oldest { self.oldest } else { other.oldest };
        if oldest <= newest { Some(newest) } else { None }
    }
}

impl core::fmt::Display for Versions {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} to {}", self.oldest, self.newest)
    }
}

/// The role in which a process connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The node itself, for verbs and messages.
    Node,
    /// The sentinel beside the node, only for the report of its death.
    Sentinel,
}

/// The properties that one side declares in HELLO or CHALLENGE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The versions that it speaks.
    pub versions: Versions,
    /// Its role.
    pub role: Role,
    /// Its rank.
    pub from: Rank,
    /// The rank to which it wants to connect.
    pub to: Rank,
    /// The number of members of its cluster.
    pub members: u8,
    /// The fingerprint of its cluster's name.
    pub cluster: u64,
    /// The incarnation of its node.
    pub incarnation: Incarnation,
    /// The life of its process; later lives have higher numbers.
    pub life: u64,
    /// The fingerprint of its region's layout.
    pub layout: u64,
    /// The number of words of its region.
    pub n_words: u32,
    /// The order of the connections that one node opens: a later one has a higher epoch.
    pub epoch: u64,
    /// A nonce, fresh for each connection.
    pub nonce: [u8; 32],
}

/// The kinds of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The initiator introduces itself.
    Hello,
    /// The acceptor introduces itself.
    Challenge,
    /// The initiator proves that it knows the secret.
    Proof,
    /// The acceptor proves the same: the link is there.
    Welcome,
    /// One side refuses and states why.
    Refused,
}

/// The reason why a node does not admit another. The text names the cause and the remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The two have no version in common.
    #[error("one side speaks versions {ours}, the other {theirs}: upgrade the older node first")]
    Version {
        /// The versions of the refusing side.
        ours: Versions,
        /// The versions of the refused side.
        theirs: Versions,
    },
    /// The cluster is another one.
    #[error(
        "the cluster names differ (fingerprints {ours:016x} and {theirs:016x}): check the peer \
         addresses and the name of the cluster"
    )]
    Cluster {
        /// The fingerprint of the refusing side.
        ours: u64,
        /// The fingerprint of the refused side.
        theirs: u64,
    },
    /// The node is not the one that the peer looked for.
    #[error("node {found} answers where node {wanted} is expected: check the peer addresses")]
    WrongNode {
        /// The node that the peer looked for.
        wanted: base::NodeId,
        /// The node that is here.
        found: base::NodeId,
    },
    /// The node is one from which no connection is expected.
    #[error("node {0} has no business here: check the node ids and the peer addresses")]
    Stranger(base::NodeId),
    /// The number of members differs.
    #[error("one side counts {ours} members, the other {theirs}: configure the same members")]
    Members {
        /// The number of the refusing side.
        ours: u8,
        /// The number of the refused side.
        theirs: u8,
    },
    /// The layout of the region differs.
    #[error(
        "the memory layouts differ ({ours} and {theirs}): give all members the same protocol, \
         sizes and settings"
    )]
    Layout {
        /// The memory of the refusing side.
        ours: Memory,
        /// The memory of the refused side.
        theirs: Memory,
    },
    /// The secret differs.
    #[error("the cluster secrets differ: give all members the same secret file")]
    Secret,
    /// The life of the node has been replaced.
    #[error("incarnation {theirs} of node {node} was replaced by {known}: stop the old process")]
    Replaced {
        /// The node.
        node: base::NodeId,
        /// The incarnation of the refused side.
        theirs: u64,
        /// The highest incarnation known.
        known: u64,
    },
    /// The connection was overtaken by a later one of the same node.
    #[error("a later connection of node {0} is up: nothing to mend if it stays")]
    Overtaken(base::NodeId),
    /// The handshake is malformed.
    #[error("the handshake is malformed: what connects here is no gregale node")]
    Malformed,
}

impl Refusal {
    /// The number of [`Refusal::Layout`].
    pub const LAYOUT: u8 = 6;

    /// The number of [`Refusal::Overtaken`].
    pub const OVERTAKEN: u8 = 9;

    /// The number on the wire.
    pub const fn code(&self) -> u8 {
        match self {
            Refusal::Version { .. } => 1,
            Refusal::Cluster { .. } => 2,
            Refusal::WrongNode { .. } => 3,
            Refusal::Stranger(_) => 4,
            Refusal::Members { .. } => 5,
            Refusal::Layout { .. } => Refusal::LAYOUT,
            Refusal::Secret => 7,
            Refusal::Replaced { .. } => 8,
            Refusal::Overtaken(_) => Refusal::OVERTAKEN,
            Refusal::Malformed => 10,
        }
    }
}

/// What the peers of one cluster have alike: the layout of their regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The fingerprint of the layout.
    pub layout: u64,
    /// The number of words.
    pub n_words: u32,
}

impl core::fmt::Display for Memory {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:016x} of {} words", self.layout, self.n_words)
    }
}

/// The shared secret, which makes proofs.
#[derive(Clone)]
pub struct Secret(Hmac<Sha256>);

/// The side that proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The side that connected.
    Initiator,
    /// The side that accepted.
    Acceptor,
    /// An operator's command, outside of the fabric: the first message is
    /// the member's challenge, of one length, and the second one the order.
    Operator,
}

impl Secret {
    /// The secret with these bytes, of any length.
    pub fn new(secret: &[u8]) -> Secret {
        Secret(Hmac::new_from_slice(secret).expect("HMAC takes keys of every length"))
    }

    /// The proof of `side` for this pair of messages.
    pub fn prove(&self, side: Side, hello: &[u8], challenge: &[u8]) -> [u8; 32] {
        self.mac(side, hello, challenge).finalize().into_bytes().into()
    }

    /// Whether `proof` is the proof of `side` (in constant time).
    pub fn verify(&self, side: Side, hello: &[u8], challenge: &[u8], proof: &[u8]) -> bool {
        self.mac(side, hello, challenge).verify_slice(proof).is_ok()
    }

    fn mac(&self, side: Side, hello: &[u8], challenge: &[u8]) -> Hmac<Sha256> {
        let word: &[u8] = match side {
            Side::Initiator => b"gregale initiator\n",
            Side::Acceptor => b"gregale acceptor\n",
            Side::Operator => b"gregale operator\n",
        };
        // Both messages start with their length, so no two pairs give the same bytes.
        let mut mac = self.0.clone();
        [word, hello, challenge].iter().for_each(|part| mac.update(part));
        mac
    }
}

impl core::fmt::Debug for Secret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Secret")
    }
}

/// The fingerprint of a cluster's name: it distinguishes clusters; the secret keeps strangers out.
pub fn cluster_fingerprint(name: &str) -> u64 {
    let hash: [u8; 32] = Sha256::digest(name).into();
    let (first, _) = hash.split_first_chunk().expect("32 bytes hold 8");
    u64::from_le_bytes(*first)
}

/// The kind and the body length that a header announces.
///
/// # Errors
/// [`Refusal::Malformed`]: no message of any version begins with these bytes.
pub fn decode_header(header: &[u8; HEADER_BYTES]) -> Result<(Kind, usize), Refusal> {
    let [m0, m1, m2, m3, kind, zero, l0, l1] = *header;
    let length = usize::from(u16::from_le_bytes([l0, l1]));
    if [m0, m1, m2, m3] != MAGIC || zero != 0 || length > BODY_BYTES_MAX {
        return Err(Refusal::Malformed);
    }
    let kind = match kind {
        1 => Kind::Hello,
        2 => Kind::Challenge,
        3 => Kind::Proof,
        4 => Kind::Welcome,
        5 => Kind::Refused,
        _ => return Err(Refusal::Malformed),
    };
    Ok((kind, length))
}

fn put_header(out: &mut Vec<u8>, kind: Kind, body_bytes: usize) {
    let kind = match kind {
        Kind::Hello => 1,
        Kind::Challenge => 2,
        Kind::Proof => 3,
        Kind::Welcome => 4,
        Kind::Refused => 5,
    };
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[kind, 0]);
    out.extend_from_slice(&(body_bytes as u16).to_le_bytes());
}

impl Hello {
    /// Decodes the body of a HELLO or CHALLENGE; its versions are compared with `ours` first.
    ///
    /// # Errors
    /// [`Refusal::Version`] or [`Refusal::Malformed`].
    pub fn decode(body: &[u8], ours: Versions) -> Result<Hello, Refusal> {
        let mut rest = body;
        let versions = Versions {
            oldest: take(&mut rest, u16::from_le_bytes)?,
            newest: take(&mut rest, u16::from_le_bytes)?,
        };
        if ours.common(versions).is_none() {
            return Err(Refusal::Version { ours, theirs: versions });
        }
        let [role, from, to, members] = take(&mut rest, |bytes: [u8; 4]| bytes)?;
        let role = match role {
            0 => Role::Node,
            1 => Role::Sentinel,
            _ => return Err(Refusal::Malformed),
        };
        let rank = |position: u8| Rank::on_fabric(position.into()).ok_or(Refusal::Malformed);
        let (from, to) = (rank(from)?, rank(to)?);
        let cluster = take(&mut rest, u64::from_le_bytes)?;
        let incarnation = Incarnation(take(&mut rest, u64::from_le_bytes)?);
        let life = take(&mut rest, u64::from_le_bytes)?;
        let layout = take(&mut rest, u64::from_le_bytes)?;
        let n_words = take(&mut rest, u32::from_le_bytes)?;
        let _zero = take(&mut rest, u32::from_le_bytes)?;
        let epoch = take(&mut rest, u64::from_le_bytes)?;
        let nonce = take(&mut rest, |bytes: [u8; 32]| bytes)?;
        if incarnation.0 == 0 {
            return Err(Refusal::Malformed);
        }
        Ok(Hello {
            versions,
            role,
            from,
            to,
            members,
            cluster,
            incarnation,
            life,
            layout,
            n_words,
            epoch,
            nonce,
        })
    }

    /// Appends the HELLO as a message of `kind`.
    pub fn put(&self, out: &mut Vec<u8>, kind: Kind) {
        put_header(out, kind, HELLO_BYTES);
        let start = out.len();
        out.extend_from_slice(&self.versions.oldest.to_le_bytes());
        out.extend_from_slice(&self.versions.newest.to_le_bytes());
        let role = match self.role {
            Role::Node => 0,
            Role::Sentinel => 1,
        };
        out.extend_from_slice(&[
            role,
            self.from.index() as u8,
            self.to.index() as u8,
            self.members,
        ]);
        for word in [self.cluster, self.incarnation.0, self.life, self.layout] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&u64::from(self.n_words).to_le_bytes());
        out.extend_from_slice(&self.epoch.to_le_bytes());
        out.extend_from_slice(&self.nonce);
        assert_eq!(out.len() - start, HELLO_BYTES, "the layout above and this code agree");
    }
}

/// Appends a PROOF or a WELCOME.
pub fn put_proof(out: &mut Vec<u8>, kind: Kind, proof: [u8; 32]) {
    put_header(out, kind, proof.len());
    out.extend_from_slice(&proof);
}

/// Appends a REFUSED.
pub fn put_refused(out: &mut Vec<u8>, refusal: &Refusal) {
    let text = refusal.to_string();
    let text = &text.as_bytes()[..text.len().min(REFUSAL_TEXT_BYTES_MAX)];
    put_header(out, Kind::Refused, 1 + text.len());
    out.push(refusal.code());
    out.extend_from_slice(text);
}

/// Decodes the body of a REFUSED: its code, and its text as far as it can be printed (H3).
///
/// # Errors
/// [`Refusal::Malformed`] if it is empty.
pub fn decode_refused(body: &[u8]) -> Result<(u8, String), Refusal> {
    let (&code, text) = body.split_first().ok_or(Refusal::Malformed)?;
    let printable = |byte: &u8| if (b' '..=b'~').contains(byte) { *byte as char } else { '?' };
    Ok((code, text.iter().take(REFUSAL_TEXT_BYTES_MAX).map(printable).collect()))
}

fn take<const N: usize, T>(
    rest: &mut &[u8],
    from: impl FnOnce([u8; N]) -> T,
) -> Result<T, Refusal> {
    let (array, after) = rest.split_first_chunk().ok_or(Refusal::Malformed)?;
    *rest = after;
    Ok(from(*array))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hello() -> Hello {
        Hello {
            versions: Versions { oldest: 1, newest: 2 },
            role: Role::Sentinel,
            from: Rank::at(2),
            to: Rank::at(1),
            members: 3,
            cluster: 0x0102_0304_0506_0708,
            incarnation: Incarnation(9),
            life: 10,
            layout: 11,
            n_words: 12,
            epoch: 13,
            nonce: [14; 32],
        }
    }

    fn message(hello: Hello, kind: Kind) -> Vec<u8> {
        let mut out = Vec::new();
        hello.put(&mut out, kind);
        out
    }

    /// A released version reads these bytes: the first twelve never change.
    #[test]
    fn golden_bytes() {
        let bytes = message(hello(), Kind::Hello);
        let mut golden = b"grgl\x01\0\x58\0\x01\0\x02\0\x01\x02\x01\x03".to_vec();
        golden.extend_from_slice(&[8, 7, 6, 5, 4, 3, 2, 1]);
        for word in 9..=13u64 {
            golden.extend_from_slice(&word.to_le_bytes());
        }
        golden.extend_from_slice(&[14; 32]);
        assert_eq!(bytes, golden);
        let mut out = Vec::new();
        put_refused(&mut out, &Refusal::Secret);
        assert!(out.starts_with(b"grgl\x05\0\x42\0\x07the cluster secrets differ"));
        // The fingerprint is on the wire too: SHA-256 of the name, first 8 bytes.
        assert_eq!(
            cluster_fingerprint("abc"),
            u64::from_le_bytes(*b"\xba\x78\x16\xbf\x8f\x01\xcf\xea")
        );
    }

    #[test]
    fn what_is_encoded_is_decoded_and_more_is_ignored() {
        let bytes = message(hello(), Kind::Challenge);
        let (header, body) = bytes.split_first_chunk().unwrap();
        assert_eq!(decode_header(header), Ok((Kind::Challenge, body.len())));
        assert_eq!(Hello::decode(body, Versions::OURS), Ok(hello()));
        let longer = [body, &[1, 2, 3]].concat();
        assert_eq!(Hello::decode(&longer, Versions::OURS), Ok(hello()));
    }

    #[test]
    fn the_newest_common_version_is_spoken() {
        let range = |oldest, newest| Versions { oldest, newest };
        assert_eq!(range(1, 2).common(range(2, 3)), Some(2));
        assert_eq!(range(2, 3).common(range(1, 2)), Some(2));
        assert_eq!(range(1, 2).common(range(1, 2)), Some(2));
        assert_eq!(range(1, 2).common(range(3, 4)), None);
        assert_eq!(range(3, 4).common(range(1, 2)), None);
        assert_eq!(range(2, 1).common(range(1, 2)), None, "an empty range speaks nothing");
    }

    /// A peer with another version is told so even if the rest of its HELLO is unreadable.
    #[test]
    fn another_version_is_refused_by_its_first_four_bytes() {
        let theirs = Versions { oldest: 7, newest: 8 };
        assert_eq!(
            Hello::decode(&[7, 0, 8, 0], Versions::OURS),
            Err(Refusal::Version { ours: Versions::OURS, theirs })
        );
    }

    /// H2: whichever bit of either message is changed, and whichever side proves.
    #[test]
    fn a_proof_covers_everything() {
        let secret = Secret::new(b"a secret");
        let (mut one, mut two) = (message(hello(), Kind::Hello), message(hello(), Kind::Challenge));
        let proof = secret.prove(Side::Initiator, &one, &two);
        assert!(secret.verify(Side::Initiator, &one, &two, &proof));
        assert!(!secret.verify(Side::Acceptor, &one, &two, &proof), "reflected");
        assert!(!secret.verify(Side::Initiator, &two, &one, &proof), "swapped");
        assert!(!secret.verify(Side::Initiator, &one, &two, &proof[..31]), "cut");
        assert!(!Secret::new(b"b secret").verify(Side::Initiator, &one, &two, &proof));
        for at in 0..one.len() {
            one[at] ^= 1;
            assert!(!secret.verify(Side::Initiator, &one, &two, &proof), "HELLO byte {at}");
            one[at] ^= 1;
            two[at] ^= 1;
            assert!(!secret.verify(Side::Initiator, &one, &two, &proof), "CHALLENGE byte {at}");
            two[at] ^= 1;
        }
    }

    /// H3.
    #[test]
    fn refusals_are_printed_safely() {
        assert_eq!(decode_refused(b"\x02a\x1b[2Jb\xff"), Ok((2, "a?[2Jb?".to_owned())));
        assert_eq!(decode_refused(b""), Err(Refusal::Malformed));
        assert_eq!(decode_refused(&[b'x'; 400]).unwrap().1.len(), REFUSAL_TEXT_BYTES_MAX);
    }

    #[test]
    fn every_refusal_fits_on_the_wire() {
        let node = base::NodeId(u16::MAX);
        let memory = Memory { layout: u64::MAX, n_words: u32::MAX };
        let all = [
            Refusal::Version {
                ours: Versions { oldest: u16::MAX, newest: u16::MAX },
                theirs: Versions { oldest: u16::MAX, newest: u16::MAX },
            },
            Refusal::Cluster { ours: u64::MAX, theirs: u64::MAX },
            Refusal::WrongNode { wanted: node, found: node },
            Refusal::Stranger(node),
            Refusal::Members { ours: 255, theirs: 255 },
            Refusal::Layout { ours: memory, theirs: memory },
            Refusal::Secret,
            Refusal::Replaced { node, theirs: u64::MAX, known: u64::MAX },
            Refusal::Overtaken(node),
            Refusal::Malformed,
        ];
        for (at, refusal) in all.iter().enumerate() {
            assert_eq!(usize::from(refusal.code()), at + 1);
            let mut out = Vec::new();
            put_refused(&mut out, refusal);
            let (code, text) = decode_refused(&out[HEADER_BYTES..]).unwrap();
            assert_eq!((code, text), (refusal.code(), refusal.to_string()), "not cut");
        }
    }

    proptest! {
        /// H1.
        #[test]
        fn smoke_noise(
            header: [u8; HEADER_BYTES],
            body in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let _ = decode_header(&header);
            let _ = Hello::decode(&body, Versions::OURS);
            let _ = decode_refused(&body);
        }
    }
}
