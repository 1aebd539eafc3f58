//! A process whose replicas come back from what it saved.

use super::*;

/// Messages of one process's commands, in one order.
fn messages(n: usize, rng: &mut Rng) -> Vec<Parcel> {
    let mut sender: Process = Process::new(1, n, Order::Linearizable, 0);
    let mut parcels = Vec::new();
    for asker in 0..rng.range(40, 120) {
        let command = plain(&random_command(rng));
        // Each message is from a client of its own, so that none waits for another.
        sender.sender.submit(asker, asker, &command, Instant::ZERO);
        let mut sent = Vec::new();
        sender.sender.send(NOW + asker, |to, batch| {
            sent.push((to, Arc::<[u8]>::from(batch)));
            true
        });
        for (to, payload) in sent {
            let at = parcels.len() as u64 + 1;
            let place = Place { at, name: Name { sender: 9, sequence: at } };
            parcels.push((place, to, payload));
            // A lane has one message under way, so it is answered before the next.
            for partition in to.iter() {
                sender.inbox[partition].push_back(parcels[parcels.len() - 1].clone());
            }
            sender.deliver_all();
        }
    }
    parcels
}

fn queue(process: &mut Process, parcels: &[Parcel], from: &[usize]) {
    for (at, parcel) in parcels.iter().enumerate() {
        for partition in parcel.1.iter().filter(|partition| from[*partition] <= at) {
            process.inbox[partition].push_back(parcel.clone());
        }
    }
}

#[test]
fn q1_a_process_comes_back() {
    let mut n_waiting = 0;
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let n = rng.range(2, 5) as usize;
        let order = if rng.chance(1, 2) { Order::Linearizable } else { Order::Signals };
        let parcels = messages(n, &mut rng);
        let mut first = Process::new(0, n, order, 0);
        queue(&mut first, &parcels, &vec![0; n]);
        for _ in 0..rng.below(2 * parcels.len() as u64) {
            first.deliver(rng.below(n as u64) as usize);
        }
        n_waiting += first.executor.waiting();
        let saved: Vec<Vec<u8>> = (0..n)
            .map(|partition| {
                let mut out = Vec::new();
                first.executor.save(partition, &mut out);
                out
            })
            .collect();
        // Messages that were delivered before are not delivered again.
        let left: Vec<usize> = (0..n).map(|at| first.inbox[at].len()).collect();
        let mut second = Process::new(0, n, order, 0);
        queue(&mut second, &parcels, &vec![0; n]);
        for (partition, left) in left.iter().enumerate() {
            let n_done = second.inbox[partition].len() - left;
            second.inbox[partition].drain(..n_done);
            second.executor.restore(partition, &saved[partition]).unwrap();
            // Some later messages come before the other partitions are back.
            for _ in 0..rng.below(4) {
                second.deliver(partition);
            }
        }
        first.deliver_all();
        second.deliver_all();
        assert_eq!((first.executor.waiting(), second.executor.waiting()), (0, 0), "seed {seed}");
        for partition in 0..n {
            let digests = [&first, &second].map(|process| process.executor.digest(partition));
            assert_eq!(digests[0], digests[1], "Q1: seed {seed}, partition {partition}");
        }
    }
    assert!(n_waiting > 50, "nothing waited for another partition when it was saved");
}

/// All states of one process at one moment replace any state of another process.
#[test]
fn q2_a_process_takes_anothers_states() {
    let mut n_waiting = 0;
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let n = rng.range(2, 5) as usize;
        let order = if rng.chance(1, 2) { Order::Linearizable } else { Order::Signals };
        let parcels = messages(n, &mut rng);
        let mut giver = Process::new(0, n, order, 0);
        queue(&mut giver, &parcels, &vec![0; n]);
        // The taker has delivered less, in every partition, and waits for other commands.
        // In half of the seeds the commands are its own: the giver may have executed pieces of one.
        let mut taker = Process::new(1 + seed as usize % 2, n, order, 0);
        queue(&mut taker, &parcels, &vec![0; n]);
        for partition in 0..n {
            let n_given = rng.below(giver.inbox[partition].len() as u64 + 1);
            let n_taken = rng.below(n_given + 1);
            for _ in 0..n_given {
                giver.deliver(partition);
            }
            for _ in 0..n_taken {
                taker.deliver(partition);
            }
        }
        n_waiting += taker.executor.waiting();
        taker.executor.begin_again();
        for partition in 0..n {
            let mut saved = Vec::new();
            giver.executor.save(partition, &mut saved);
            taker.executor.restore(partition, &saved).unwrap();
            taker.inbox[partition] = giver.inbox[partition].clone();
        }
        giver.deliver_all();
        taker.deliver_all();
        assert_eq!((giver.executor.waiting(), taker.executor.waiting()), (0, 0), "seed {seed}");
        for partition in 0..n {
            let digests = [&giver, &taker].map(|process| process.executor.digest(partition));
            assert_eq!(digests[0], digests[1], "Q2: seed {seed}, partition {partition}");
        }
    }
    assert!(n_waiting > 50, "the takers waited for nothing");
}

#[test]
fn what_is_cut_off_is_refused() {
    let mut alone = Alone::new(2, Order::Linearizable, 0);
    alone.say("SET k0 1");
    let mut saved = Vec::new();
    alone.process.executor.save(0, &mut saved);
    for end in 0..saved.len() {
        let mut fresh = Process::new(0, 2, Order::Linearizable, 0);
        assert!(fresh.executor.restore(0, &saved[..end]).is_err(), "{end} bytes");
    }
}
