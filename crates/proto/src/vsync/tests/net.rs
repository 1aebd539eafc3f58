//! Several machines over memory, and what becomes of them together.

use super::super::bugs::{Bug, Plantings};
use super::super::view::Knock;
use super::super::view::tests::process;
use super::super::wire::Message;
use super::super::{
    Candidates, Config, End, Machine, Mode, Output, Refused, ShardId, Start, Subgroup, Timing,
};
use super::{Rows, SHAPE};
use crate::disk::DiskEvent;
use crate::planted::{Planted, Sound};
use crate::stage::disk::TestDisk;
use alloc::vec;
use alloc::vec::Vec;
use base::verb::Unsupported;
use base::{At, Event, Instant, Parcel, Port, Rank, SeatSet, Token};

/// What a process posted, and to which seat.
enum Post {
    Write(Rank, At, Vec<u64>),
    Message(Rank, Vec<u8>),
}

impl Post {
    const fn to(&self) -> Rank {
        match self {
            Post::Write(to, ..) | Post::Message(to, _) => *to,
        }
    }
}

/// The memory of a seat, and what its process posted.
struct Ground {
    words: Vec<u64>,
    posted: Vec<Post>,
}

impl Port for Ground {
    fn load(&self, at: At) -> u64 {
        self.words[at.0 as usize]
    }
    fn load_into(&self, at: At, words: &mut [u64]) {
        let at = at.0 as usize;
        words.copy_from_slice(&self.words[at..at + words.len()]);
    }
    fn store(&mut self, at: At, word: u64) {
        self.words[at.0 as usize] = word;
    }
    fn write(&mut self, to: Rank, at: At, words: &[u64], _: Option<Token>) {
        self.posted.push(Post::Write(to, at, words.to_vec()));
    }
    fn read(&mut self, _: Rank, _: At, _: usize, _: Token) {}
    fn cas(&mut self, _: Rank, _: At, _: u64, _: u64, _: Option<Token>) {}
    fn fetch_add(&mut self, _: Rank, _: At, _: u64, _: Option<Token>) {}
    fn send(&mut self, to: Rank, message: &[u8]) -> bool {
        self.posted.push(Post::Message(to, message.to_vec()));
        true
    }
    fn wake(&mut self, _: Rank) {}
    fn permit_writer(&mut self, _: At, _: Option<Rank>) -> Result<(), Unsupported> {
        Ok(())
    }
    fn put_parcel(&mut self, _: Rank, _: At, _: &Parcel) {}
    fn take_parcel(&mut self, _: Rank, _: At) -> Option<Parcel> {
        None
    }
}

/// The parameters of a process.
pub(super) fn config(me: usize, start: Start) -> Config {
    Config {
        me: process(me, 1),
        start,
        shape: SHAPE,
        timing: Timing::default(),
        n_adequate: 1,
        keeps_state: true,
        lease: None,
        group: 0,
        keep_bytes: 0,
        layout: Vec::new(),
    }
}

/// Processes on the first of eight seats. What they post takes effect at once.
pub(super) struct Net<P> {
    planted: P,
    /// By seat: none where none has begun, or where it has died.
    pub(super) machines: Vec<Option<Machine<P>>>,
    grounds: Vec<Ground>,
    /// By seat, in a durable group. Each turn hears of one sync, before it asks for others.
    pub(super) disks: Vec<TestDisk>,
    /// By seat: what its process was told.
    pub(super) told: Vec<Vec<Output>>,
    now: Instant,
    /// A process that is stopped, and that nothing reaches.
    asleep: Option<Rank>,
    /// Whether applications give no states.
    pub(super) is_stingy: bool,
}

impl<P: Plantings> Net<P> {
    /// The founders of a group, in its first view.
    fn founded(n: usize, n_adequate: usize, planted: P) -> Net<P> {
        Net::founded_as(n, planted, |seat, start| Config { n_adequate, ..config(seat, start) })
    }

    /// The same with other parameters.
    pub(super) fn founded_as(
        n: usize,
        planted: P,
        config: impl Fn(usize, Start) -> Config,
    ) -> Net<P> {
        let shape = config(0, Start::Join).shape;
        let n_words = super::super::region(&shape).n_words as usize;
        let ground = || Ground { words: vec![0; n_words], posted: Vec::new() };
        let mut net = Net {
            planted,
            machines: (0..8).map(|_| None).collect(),
            grounds: (0..8).map(|_| ground()).collect(),
            disks: vec![TestDisk::default(); 8],
            told: (0..8).map(|_| Vec::new()).collect(),
            now: Instant(1),
            asleep: None,
            is_stingy: false,
        };
        let founders: Vec<Knock> = (0..n).map(|seat| process(seat, 1)).collect();
        for seat in 0..n {
            net.begin(seat, config(seat, Start::Found(founders.clone())));
        }
        net.run(50);
        net
    }

    pub(super) fn begin(&mut self, seat: usize, config: Config) {
        let (planted, now) = (self.planted, self.now);
        self.machines[seat] = Some(if config.shape.mode == Mode::Durable {
            let disk = &mut self.disks[seat];
            Machine::on(config, disk, planted, now).expect("a log of this group")
        } else {
            Machine::with(config, planted, now)
        });
    }

    pub(super) fn machine(&mut self, seat: usize) -> &mut Machine<P> {
        self.machines[seat].as_mut().expect("a process that lives")
    }

    fn multicast(&mut self, seat: usize, message: u8) {
        self.multicast_in(ShardId::default(), seat, message);
    }

    pub(super) fn multicast_in(&mut self, shard: ShardId, seat: usize, message: u8) {
        let taken = self.machine(seat).multicast(shard, [message][..].into());
        assert_eq!(taken, Ok(()), "{message}");
    }

    /// One turn of the process on a seat: what it posts.
    fn turn(&mut self, seat: usize) -> Vec<Post> {
        let Some(machine) = &mut self.machines[seat] else { return Vec::new() };
        let (mut out, disk) = (Vec::new(), &mut self.disks[seat]);
        disk.end_sync().into_iter().for_each(|flush| machine.on_disk(DiskEvent::Synced(flush)));
        machine.poll(self.now, &mut self.grounds[seat], &mut out);
        for one in &out {
            if let Output::GiveState { to, shard, at } = one
                && !self.is_stingy
            {
                machine.give(*to, *shard, *at, b"state".to_vec());
            }
        }
        machine.write(disk);
        self.told[seat].extend(out);
        core::mem::take(&mut self.grounds[seat].posted)
    }

    /// What the process on a seat posted takes effect.
    fn land(&mut self, from: usize, posted: Vec<Post>) {
        for post in posted {
            match post {
                Post::Write(to, at, words) => {
                    let there = &mut self.grounds[to.index()].words[at.0 as usize..];
                    there[..words.len()].copy_from_slice(&words);
                }
                Post::Message(to, bytes) => {
                    let message = Event::Message { from: Rank::at(from), bytes: &bytes };
                    self.tell(to.index(), message);
                }
            }
        }
    }

    fn tell(&mut self, seat: usize, event: Event<'_>) {
        if let Some(machine) = &mut self.machines[seat] {
            machine.on_event(event, self.now, &mut self.grounds[seat]);
        }
    }

    /// Lets so many milliseconds pass, with a turn of each process in each.
    pub(super) fn run(&mut self, n_ms: u64) {
        for _ in 0..n_ms {
            self.now = Instant(self.now.0 + 1_000_000);
            let asleep = self.asleep;
            for seat in (0..8).filter(|seat| asleep != Some(Rank::at(*seat))) {
                let mut posted = self.turn(seat);
                posted.retain(|post| asleep != Some(post.to()));
                self.land(seat, posted);
            }
        }
    }

    /// The same until `is_so`.
    pub(super) fn run_until(&mut self, mut is_so: impl FnMut(&mut Self) -> bool) {
        for _ in 0..5000 {
            if is_so(self) {
                return;
            }
            self.run(1);
        }
        panic!("it is not so after 5 s");
    }

    pub(super) fn n_members(&mut self, seat: usize) -> usize {
        self.machine(seat).view().map_or(0, |view| view.members.len())
    }

    /// The reason why the process on a seat is no longer in the group.
    fn ended(&self, seat: usize) -> Option<End> {
        let ended = |one: &Output| if let Output::Ended(end) = one { Some(*end) } else { None };
        self.told[seat].iter().find_map(ended)
    }

    /// What was delivered on a seat: the number of the view, and the message.
    fn delivered(&self, seat: usize) -> Vec<(u64, u8)> {
        let delivered = |one: &Output| {
            let Output::Deliver(one) = one else { return None };
            Some((one.at.view.0, one.message[0]))
        };
        self.told[seat].iter().filter_map(delivered).collect()
    }
}

/// What a process that was stopped delivers, and how it ends, which the others had removed and have
/// let in again, by a knock that was late, if so many of the first one's WRITEs have landed there
/// since the link came back.
fn left_behind<P: Plantings>(n_landed: usize, planted: P) -> (Vec<(u64, u8)>, Option<End>) {
    let mut net = Net::founded(4, 1, planted);
    net.machine(3).hold(true);
    (0..4).for_each(|message| net.multicast(0, message));
    net.run(20);
    net.asleep = Some(Rank::at(3));
    net.run(1000);
    assert_eq!((net.n_members(0), net.delivered(3)), (3, vec![]));
    let knock = Message::Knock(process(3, 1)).encoded();
    net.tell(0, Event::Message { from: Rank::at(3), bytes: &knock });
    net.run(5);
    assert_eq!(net.n_members(0), 4);
    net.multicast(0, 9);
    net.run(5);
    net.tell(0, Event::LinkUp(Rank::at(3)));
    let mut posted = net.turn(0);
    posted.retain(|post| post.to() == Rank::at(3));
    posted.truncate(n_landed);
    net.land(0, posted);
    net.machine(3).hold(false);
    net.turn(3);
    (net.delivered(3), net.ended(3))
}

#[test]
fn v17_a_place_is_claimed_before_a_message_is_written_there_again() {
    for n_landed in 1..8 {
        let behind = left_behind(n_landed, Sound);
        assert_eq!(behind, (vec![], Some(End::Excluded)), "{n_landed} WRITEs");
    }
    let (delivered, _) = left_behind(1, Planted(Bug::ClaimedOnce));
    assert_eq!(delivered[0], (1, 9), "a message of the third view");
}

/// The views in which the first of two members delivers eight messages, half of which were cut off
/// or wait when the third one dies, of a group that wants three.
fn views_of_deliveries<P: Plantings>(planted: P) -> Vec<u64> {
    let mut net = Net::founded(3, 3, planted);
    net.machines[2] = None;
    (0..8).for_each(|message| {
        net.multicast(0, message);
        net.run(1);
    });
    net.run(2000);
    assert_eq!(net.n_members(0), 2);
    let small = |one: &&Output| matches!(one, Output::Inadequate { n_members: 2 });
    assert_eq!(net.told[0].iter().filter(small).count(), 1);
    let before = net.delivered(0).len();
    net.begin(3, Config { n_adequate: 3, ..config(3, Start::Join) });
    net.run(2000);
    assert!(before < 8 || planted.has(Bug::SendsInadequate), "{before}");
    net.delivered(0).into_iter().map(|(view, _)| view).collect()
}

#[test]
fn v16_what_waits_and_what_was_cut_off_is_sent_when_a_view_has_enough_members() {
    // (The first one stands before the first turn of the dead one.)
    assert_eq!(views_of_deliveries(Sound), [1, 3, 3, 3, 3, 3, 3, 3]);
    assert!(views_of_deliveries(Planted(Bug::SendsInadequate)).contains(&2));
}

#[test]
fn v9_a_group_of_two_or_more_survives_the_death_of_all_its_newcomers() {
    for n in 2..5 {
        let mut net = Net::founded(n, 1, Sound);
        for seat in n..8 {
            net.begin(seat, config(seat, Start::Join));
        }
        while net.n_members(0) == n {
            net.run(1);
        }
        assert_eq!(net.n_members(0), 2 * n - 1);
        net.machines[n..].fill_with(|| None);
        net.run(2000);
        for seat in 0..n {
            assert_eq!((net.ended(seat), net.n_members(seat)), (None, n), "{seat} of {n}");
        }
    }
}

/// Two of three members leave while two newcomers wait for the state, and the third one dies.
#[test]
fn v9_no_failure_that_a_view_tolerates_loses_the_state_behind_leavers() {
    let mut net = Net::founded(3, 1, Sound);
    net.is_stingy = true;
    (3..5).for_each(|seat| net.begin(seat, config(seat, Start::Join)));
    net.run(50);
    (0..2).for_each(|seat| net.machine(seat).leave());
    net.run(100);
    assert_eq!((net.n_members(2), net.ended(0)), (5, None), "2 alone would have the state");
    net.machines[2] = None;
    net.is_stingy = false;
    net.run(2000);
    assert_eq!([net.ended(0), net.ended(1)], [Some(End::Left); 2]);
    assert_eq!([net.ended(3), net.ended(4)], [None; 2]);
    assert_eq!([net.n_members(3), net.n_members(4)], [2; 2]);
}

/// The application's word that a member has failed, at each moment around a change of the view.
#[test]
fn a_suspicion_that_is_reported_as_a_view_ends_is_used_in_the_next() {
    for n_ms in 180..240 {
        let mut net = Net::founded(5, 1, Sound);
        net.machines[4] = None;
        net.run(n_ms);
        net.machine(1).suspect(Rank::at(3));
        net.run(300);
        let view = net.machine(1).view().expect("it stays");
        assert_eq!((view.members.len(), net.ended(3)), (3, Some(End::Excluded)), "{n_ms} ms");
    }
}

/// The seats at which a member claims its place, when the link to the last of four comes up behind
/// the first turn of a view, in which it has told its row if it was wedged.
fn claims_behind(is_wedged: bool) -> Vec<Rank> {
    let n_words = super::super::region(&SHAPE).n_words as usize;
    let mut ground = Ground { words: vec![0; n_words], posted: Vec::new() };
    let mut current = Rows::of(4).read_by(1, Sound);
    if !is_wedged {
        current.claim(SeatSet::EMPTY, &mut ground);
    }
    current.push(SeatSet::EMPTY, &mut ground);
    ground.posted.clear();
    current.claim([Rank::at(3)].into_iter().collect(), &mut ground);
    ground.posted.iter().map(Post::to).collect()
}

/// A claim takes the name from a row that was told, and nothing gives it back there: a
/// member that has seen the row would suspect its owner.
#[test]
fn v17_a_row_that_was_told_is_claimed_where_the_link_is_back_alone() {
    assert_eq!(claims_behind(false), [Rank::at(3)]);
    assert_eq!(claims_behind(true), [Rank::at(3)]);
}

/// The parameters of a process of a group in which the members on these seats multicast.
fn of_senders(senders: &[usize]) -> impl Fn(usize, Start) -> Config {
    let senders = Candidates::Seats(senders.iter().map(|seat| Rank::at(*seat)).collect());
    let layout = vec![Subgroup { senders, ..Subgroup::whole() }];
    move |seat, start| Config { layout: layout.clone(), ..config(seat, start) }
}

/// The messages that the first of three members has delivered, of two, when each other one has had
/// one turn.
fn delivered_at_once(senders: &[usize]) -> usize {
    let mut net = Net::founded_as(3, Sound, of_senders(senders));
    (0..2).for_each(|message| net.multicast(0, message));
    for seat in [0, 1, 2, 0] {
        let posted = net.turn(seat);
        net.land(seat, posted);
    }
    net.delivered(0).len()
}

#[test]
fn l6_no_turn_waits_for_a_member_that_is_no_sender() {
    assert_eq!(delivered_at_once(&[0]), 2);
    assert_eq!(delivered_at_once(&[0, 1, 2]), 1, "the second one waits for turns of the others");
    assert_eq!(delivered_at_once(&[0, 2]), 1);
}

#[test]
fn l6_a_member_that_is_no_sender_is_refused() {
    let mut net = Net::founded_as(3, Sound, of_senders(&[0, 2]));
    let refused = net.machine(1).multicast(ShardId::default(), [7][..].into());
    assert_eq!(refused, Err(Refused::NoSender));
    net.multicast(2, 8);
    net.run(20);
    assert_eq!(net.delivered(1), [(1, 8)]);
    let mut bad = Net::founded_as(3, Planted(Bug::SilentSends), of_senders(&[0, 2]));
    bad.multicast(1, 7);
    bad.run(100);
    assert_eq!(bad.ended(0), Some(End::Damaged(Rank::at(1))), "its messages have no turn");
}

#[test]
fn l6_a_shard_without_senders_waits_for_one_and_keeps_its_members() {
    let config = of_senders(&[0]);
    let mut net = Net::founded_as(3, Sound, &config);
    net.multicast(0, 1);
    net.run(20);
    net.machines[0] = None;
    net.run(2000);
    assert_eq!((net.n_members(1), net.delivered(1)), (2, vec![(1, 1)]));
    net.begin(0, Config { me: process(0, 2), ..config(0, Start::Join) });
    net.run(2000);
    assert_eq!(net.n_members(1), 3);
    net.multicast(0, 2);
    net.run(20);
    assert_eq!(net.delivered(1), [(1, 1), (3, 2)]);
}
