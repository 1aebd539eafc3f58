//! Tests in which two handshakes talk to each other, a few bytes at a time, with one thing wrong.

use super::*;
use proptest::prelude::*;

fn local(me: usize) -> Local {
    Local {
        versions: Versions::OURS,
        me: Rank::at(me),
        members: 3,
        cluster: hello::cluster_fingerprint("a"),
        incarnation: Incarnation(1),
        life: 1,
        layout: 7,
        n_words: 64,
        secret: Secret::new(b"secret"),
    }
}

fn fresh(seed: u8) -> Fresh {
    Fresh { epoch: seed.into(), nonce: [seed; 32] }
}

/// The end on either side: `Ok` with the peer's HELLO.
type End = Result<Hello, Failure>;

/// Runs both to their end, `chunk` bytes at a time.
fn run(a: &Local, to: Rank, role: Role, b: &Local, chunk: usize) -> (Option<End>, Option<End>) {
    let mut one = Handshake::initiate(a, role, to, fresh(1));
    let mut two = Handshake::accept(fresh(2));
    let (mut end_one, mut end_two) = (None, None);
    for _ in 0..10_000 {
        let before = (one.output.len(), two.output.len());
        step(&mut one, &mut two, b, chunk, &mut end_two);
        step(&mut two, &mut one, a, chunk, &mut end_one);
        if before == (0, 0) && one.output.is_empty() && two.output.is_empty() {
            break;
        }
    }
    (end_one, end_two)
}

fn step(
    from: &mut Handshake,
    to: &mut Handshake,
    local: &Local,
    chunk: usize,
    end: &mut Option<End>,
) {
    let n = chunk.min(to.wanted()).min(from.output.len());
    if n == 0 {
        if to.wanted() == 0 {
            from.output.clear(); // The connection is closed, so no side reads it.
        }
        return;
    }
    let bytes: Vec<u8> = from.output.drain(..n).collect();
    match to.received(&bytes, local) {
        Ok(Step::Continue) => {}
        Ok(Step::Proven(peer)) => {
            to.welcome(local);
            *end = Some(Ok(peer));
        }
        Ok(Step::Welcomed(peer)) => *end = Some(Ok(peer)),
        Err(failure) => *end = Some(Err(failure)),
    }
}

#[test]
fn two_nodes_of_one_cluster_meet_whatever_the_chunks() {
    let (a, b) = (local(2), local(0));
    for chunk in 1..=120 {
        let (one, two) = run(&a, b.me, Role::Node, &b, chunk);
        assert_eq!(one.unwrap().unwrap().from, b.me);
        let peer = two.unwrap().unwrap();
        assert_eq!((peer.from, peer.role, peer.epoch), (a.me, Role::Node, 1));
    }
}

#[test]
fn a_sentinel_may_connect_to_everybody_but_its_own_node() {
    let (low, high) = (local(0), local(2));
    assert!(run(&low, high.me, Role::Sentinel, &high, 64).1.unwrap().is_ok());
    assert!(run(&high, low.me, Role::Sentinel, &low, 64).1.unwrap().is_ok());
    let own = run(&low, low.me, Role::Sentinel, &low, 64).1.unwrap();
    assert_eq!(own, Err(Failure::Ours(Refusal::Stranger(low.me.member()))));
}

/// Checks that the acceptor refuses with this, and that the initiator is told so.
fn refused(change: impl FnOnce(&mut Local)) -> Refusal {
    let (mut a, b) = (local(2), local(0));
    change(&mut a);
    let (one, two) = run(&a, b.me, Role::Node, &b, 100);
    let Some(Err(Failure::Ours(refusal))) = two else { panic!("not refused: {two:?}") };
    let told = Failure::Theirs { code: refusal.code(), text: refusal.to_string() };
    assert_eq!(one, Some(Err(told)));
    refusal
}

#[test]
fn each_difference_is_refused_by_name() {
    let (ours, Local { layout, n_words, .. }) = (local(0).cluster, local(0));
    assert_eq!(refused(|a| a.cluster += 1), Refusal::Cluster { ours, theirs: ours + 1 });
    let ours = Memory { layout, n_words };
    let theirs = Memory { layout: layout + 1, n_words };
    assert_eq!(refused(|a| a.layout += 1), Refusal::Layout { ours, theirs });
    let theirs = Memory { layout, n_words: n_words + 1 };
    assert_eq!(refused(|a| a.n_words += 1), Refusal::Layout { ours, theirs });
    assert_eq!(refused(|a| a.members = 5), Refusal::Members { ours: 3, theirs: 5 });
    assert_eq!(refused(|a| a.me = Rank::at(4)), Refusal::Stranger(Rank::at(4).member()));
    assert_eq!(refused(|a| a.me = Rank::at(0)), Refusal::Stranger(Rank::at(0).member()));
    assert_eq!(refused(|a| a.incarnation = Incarnation(0)), Refusal::Malformed);
    assert_eq!(refused(|a| a.secret = Secret::new(b"other")), Refusal::Secret);
    let theirs = Versions { oldest: 8, newest: 9 };
    let version = Refusal::Version { ours: Versions::OURS, theirs };
    assert_eq!(refused(|a| a.versions = theirs), version);
}

#[test]
fn only_the_higher_rank_connects() {
    let (_, two) = run(&local(0), Rank::at(2), Role::Node, &local(2), 100);
    assert_eq!(two, Some(Err(Failure::Ours(Refusal::Stranger(Rank::at(0).member())))));
}

#[test]
fn a_wrong_address_is_named_by_who_answers() {
    let (one, two) = run(&local(2), Rank::at(0), Role::Node, &local(1), 100);
    let wrong = Refusal::WrongNode { wanted: Rank::at(0).member(), found: Rank::at(1).member() };
    assert_eq!(two, Some(Err(Failure::Ours(wrong))));
    assert!(matches!(one, Some(Err(Failure::Theirs { code: 3, .. }))));
}

#[test]
fn neighbouring_versions_meet_in_the_older_one() {
    let (mut a, mut b) = (local(2), local(0));
    a.versions = Versions { oldest: 2, newest: 3 };
    b.versions = Versions { oldest: 1, newest: 2 };
    let (one, two) = run(&a, b.me, Role::Node, &b, 100);
    let spoken = |ours: &Local, peer: End| ours.versions.common(peer.unwrap().versions);
    assert_eq!(spoken(&a, one.unwrap()), Some(2));
    assert_eq!(spoken(&b, two.unwrap()), Some(2));
}

/// H6, the other direction: an impostor at the peer's address is not accepted either.
#[test]
fn nobody_gets_in_without_the_secret() {
    let (a, mut b) = (local(2), local(0));
    let mut one = Handshake::initiate(&a, Role::Node, b.me, fresh(1));
    let mut two = Handshake::accept(fresh(2));
    b.secret = Secret::new(b"guess");
    let hello = std::mem::take(&mut one.output);
    pass(&mut two, &hello, &b).unwrap();
    let challenge = std::mem::take(&mut two.output);
    pass(&mut one, &challenge, &a).unwrap();
    let mut forged = Vec::new();
    let proof = b.secret.prove(Side::Acceptor, &two.hello, &two.challenge);
    hello::put_proof(&mut forged, Kind::Welcome, proof);
    assert_eq!(pass(&mut one, &forged, &a), Err(Failure::Ours(Refusal::Secret)));
    // Nor is an impostor that reflects the initiator's own proof.
    let mut one = Handshake::initiate(&a, Role::Node, b.me, fresh(1));
    pass(&mut one, &challenge, &a).unwrap();
    let mut mirrored = one.output[hello.len()..].to_vec();
    mirrored[4] = 4; // PROOF becomes WELCOME
    assert_eq!(pass(&mut one, &mirrored, &a), Err(Failure::Ours(Refusal::Secret)));
}

fn pass(to: &mut Handshake, mut bytes: &[u8], local: &Local) -> Result<Step, Failure> {
    let mut last = Step::Continue;
    while !bytes.is_empty() && to.wanted() > 0 {
        let n = to.wanted().min(bytes.len());
        last = to.received(&bytes[..n], local)?;
        bytes = &bytes[n..];
    }
    Ok(last)
}

#[test]
fn garbage_is_refused_after_its_first_eight_bytes() {
    let mut two = Handshake::accept(fresh(2));
    assert_eq!(two.wanted(), hello::HEADER_BYTES);
    let answer = two.received(b"GET / HT", &local(0));
    assert_eq!(answer, Err(Failure::Ours(Refusal::Malformed)));
    assert_eq!(two.wanted(), 0, "H4");
}

proptest! {
    /// H1 and H4: arbitrary messages, in arbitrary pieces, to either side.
    #[test]
    fn smoke_messages_in_any_order(
        kinds in proptest::collection::vec((1..=6u8, 0..100u16), 1..6),
        acceptor: bool,
    ) {
        let local = local(0);
        let mut machine = if acceptor {
            Handshake::accept(fresh(2))
        } else {
            Handshake::initiate(&local, Role::Node, Rank::at(1), fresh(1))
        };
        for (kind, length) in kinds {
            let mut message = hello::MAGIC.to_vec();
            message.extend_from_slice(&[kind, 0]);
            message.extend_from_slice(&length.to_le_bytes());
            message.resize(hello::HEADER_BYTES + usize::from(length), 1);
            match pass(&mut machine, &message, &local) {
                Ok(step) => prop_assert_eq!(step, Step::Continue, "nothing here proves anything"),
                Err(_) => {
                    prop_assert_eq!(machine.wanted(), 0);
                    break;
                }
            }
        }
    }
}
