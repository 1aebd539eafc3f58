//! `Sometimes` properties: proof that a sweep reaches the interesting cases.
//!
//! A sweep that never recycles a slot says nothing about recycling. Each mark is counted over all
//! seeds; one that stays at zero is reported as missing.

mod seen;

/// An interesting case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mark {
    /// A WRITE landed, or a READ was sampled, in two parts with time between.
    TornVerb,
    /// A CAS found another word than it expected.
    FailedCas,
    /// The same, and its poster took itself for the leader: a stale leader was fenced.
    FailedCasOfLeader,
    /// A connection broke.
    LinkBroke,
    /// A link that broke was back before its poster had handled the break.
    BackBeforeHeard,
    /// A process died.
    Crashed,
    /// A process was started again.
    Restarted,
    /// A leader died.
    LeaderCrashed,
    /// A process was stopped and woke up later.
    Paused,
    /// A stopped process woke up, took itself for the leader, and another had taken over.
    StaleLeaderWoke,
    /// Two nodes took themselves for the leader at the same time.
    TwoLeaders,
    /// Another node became leader while operations were outstanding.
    LeaderChangedUnderLoad,
    /// A value was first delivered by another node than its proposer, which was dead.
    AdoptedFromDead,
    /// A value was first delivered by another node than its proposer, which lived.
    AdoptedFromLiving,
    /// A slot of the ring was used again.
    SlotRecycled,
    /// A state was installed.
    StateInstalled,
    /// A member that was asked for a state was itself waiting for one.
    GiverLagsItself,
    /// A machine reached a prefix by itself for which it had requested a state.
    CaughtUpMeanwhile,
    /// A node read slots from others' rings and delivered them.
    CaughtUpByRead,
    /// A follower answered a read.
    FollowerRead,
    /// A leader answered a read.
    LeaderRead,
    /// A read's check could not be made.
    ReadRefused,
    /// The window was full.
    WindowFull,
    /// A command was in the log twice and was executed once.
    Deduplicated,
    /// A client never learned the outcome of its operation.
    OutcomeUnknown,
    /// A node that does not lead was asked, and said so.
    NotLeader,
    /// A message between machines: the fall-back of a slot word too narrow for its ballot.
    MachineMessage,
    /// A clock jumped.
    ClockJumped,
    /// A live process was reported as failed.
    FalseHint,
    /// The group was partitioned.
    Partitioned,
    /// Several commands shared a slot.
    Batched,
    /// The power failed for a node.
    PowerCut,
    /// The power failed for all members at once.
    PowerCutAll,
    /// A disk stood still.
    DiskStalled,
    /// A disk was full.
    DiskFull,
    /// It had room again, and said so.
    RoomAgain,
    /// A sync failed, and a process died of it.
    SyncFailed,
    /// A process found its disk damaged, and did not start.
    DamageFound,
    /// A state was written to disk.
    SnapshotTaken,
    /// A snapshot failed, for want of room or for an error; nothing of it is left.
    SnapshotFailed,
    /// A new member votes.
    MemberAdded,
    /// Members changed while no client asked for anything.
    ChangedInSilence,
    /// A member was removed.
    MemberRemoved,
    /// Another disk is a voter on a member's seat.
    MemberReplaced,
    /// A disk that was replaced came back for a while.
    OldDiskBack,
    /// A member whose disk was damaged was replaced, or removed.
    DamagedReplaced,
    /// A new disk was damaged before it was a voter, and another one took its place.
    NewDiskDamaged,
    /// The power failed for all members while the operator had a goal.
    PowerCutAllAmidChange,
    /// A disk stood still while the operator had a goal.
    DiskStalledAmidChange,
    /// A disk was full while the operator had a goal.
    DiskFullAmidChange,
    /// A sync failed while the operator had a goal.
    SyncFailedAmidChange,
    /// More was reported as held by every disk while the operator had a goal.
    HeldAmidChange,
    /// At the end every voter was well, and every disk had to hold the committed prefix.
    AllHadToHold,
    /// A process died between two effects of one call.
    DiedHalfway,
    /// Another process acted between two effects of one call.
    OthersBetween,
    /// The power failed after a message had left and before its sync had ended.
    PowerCutBeforeSync,
    /// Exactly one verb or message was late by a second.
    OneLate,
    /// A process ended as soon as it had been heard.
    LastWords,
    /// A link that had just come back was struck.
    BackAndGone,
    /// A leader was struck as it took over.
    SuccessorStruck,
    /// A follower that had just come back was the only one that its leader reached.
    StrangerRelied,
    /// A wall clock was set, or drifted.
    WallClockSet,
    /// A leader heard everything late, and the others suspected it.
    LeaderDeaf,
    /// A member began again because its copy had answered otherwise than a majority's.
    CopyPutDown,
    /// A member began again because its copy had taken up nothing, and others had gone past it.
    StallPutDown,
    /// A checkpoint of a copy counted.
    CheckpointCounted,
    /// A copy began with a checkpoint.
    CheckpointBegun,
    /// A copy was killed at a halt, and began again with its files.
    CopyRenewed,
    /// A timer of a copy has ended by the log's time.
    TimerEnded,
    /// A member's engine sent a command to the leader.
    CommandForwarded,
    /// The same, of a read.
    ReadForwarded,
    /// A copy was fed a read beside the log.
    ReadBeside,
    /// Frames passed around a cut, through a third member.
    PassedOn,
    /// A member was sent a state, in pieces.
    StateReceived,
    /// A state was written to disk in pieces.
    SnapshotWritten,
    /// A process died when its snapshot had its name, and had not heard of that.
    SnapshotUnheard,
    /// All commands of a transaction were executed.
    TransactionExecuted,
    /// A transaction was not executed, since a watched key had changed.
    WatchedKeyTouched,
    /// A client saw that a key is gone which had been set with an expiry.
    KeySeenGone,
    /// A call of a session was answered after it had been sent more than once.
    CallRepeated,
    /// A transaction behind a WATCH of a key that expires was executed.
    LeaseGuarded,
    /// A client was answered a call of another one's session.
    CallEchoed,
    /// A script was called by the name that it was given when it was loaded.
    ScriptByName,
    /// A client emptied the store.
    AllFlushed,
    /// A client sent nothing more, and was answered what it had asked for.
    InputEnded,
    /// A follower and its leader were cut off from each other, while all else was well.
    LeaderOutOfSight,
    /// A member died while no client asked for anything any longer.
    DiedInSilence,
    /// A turn was stopped when it had been told the time.
    ToldLate,
    /// Links broke while no client asked for anything any longer.
    LostInSilence,
    /// A session that was idle for long has expired.
    SessionExpired,
    /// A client was told how many members hold its writes.
    WaitAnswered,
    /// A client was told of a write because it was on every voter's disk.
    ToldByAllDisks,
    /// A leader died during requests while everything else was well.
    LeaderDeposed,
    /// A process learned that it is no longer a member, and ended.
    PartedEnded,
    /// A member of a group left it, as it had asked to.
    MemberLeft,
    /// A member of a group found that the others had excluded it.
    MemberExcluded,
    /// A member of a group could not reach a majority of its view, and stopped.
    MinorityStopped,
    /// A newcomer to a group took the application's state.
    StateTaken,
    /// A leader died right after it had proposed the end of a view.
    ProposerStruck,
    /// A member died right after it had installed a view.
    InstallerStruck,
    /// A view had nine members or more.
    NineMembers,
    /// A group ended, since more than a minority of a view had failed.
    GroupEnded,
    /// A group that faults had struck was whole at the end.
    GroupSurvived,
    /// The same, of a group in which each sender's messages alone have an order.
    UnorderedSurvived,
    /// A group with subgroups was whole at the end.
    ShardsSurvived,
    /// The same, and a subgroup of it has no order.
    MixedSurvived,
    /// A durable group was whole at the end.
    DurableSurvived,
    /// The same, and a shard of it that is in memory alone had begun again.
    MemoryBeganAgain,
    /// All processes of a durable group lost their power at once.
    GroupWentDark,
    /// A process of a durable group began with what its log held.
    LogReplayed,
    /// A member learned that the order of its shard is final up to a later time.
    FrontierRose,
    /// A process held messages in order, and had not delivered them.
    LookedAhead,
    /// A read was answered by a lease.
    LeasedRead,
    /// A member was moved from one shard to another.
    MemberMoved,
    /// A shard lost all its members with the state, and began again.
    ShardBegunAnew,
    /// A subgroup lacked members.
    SubgroupInadequate,
    /// A message could not be sent any longer, as its sender was no longer in the shard.
    MessageUnsent,
    /// A message was written once, for all members to read where it lay.
    MessageLanded,
    /// A message went in a parcel, and not through rings.
    MessagePacked,
    /// A link broke that had brought a parcel which its receiver had not taken.
    ParcelLost,
    /// A member sent on a block of another one's message.
    BlockRelayed,
    /// A link broke that had brought blocks, or was to bring them, and they were sent again.
    BlockSentAgain,
    /// A process died by way of which others were to get blocks.
    RelayDied,
    /// A call of an object was executed in the shard of its caller.
    ObjectCalled,
    /// A call of an object was executed in another shard than its caller's.
    ObjectCalledThere,
    /// Three members or more replied to one call.
    AllReplied,
    /// A p2p call was executed.
    PeerCalled,
    /// A query of an object was answered as of a time.
    ObjectQueried,
    /// A call of an object ended as not executed, which its process had taken.
    ObjectUncalled,
    /// A call of an object ended as unknown.
    ObjectCallUnknown,
}

impl Mark {
    /// All marks.
    pub const ALL: [Mark; 130] = [
        Mark::TornVerb,
        Mark::FailedCas,
        Mark::FailedCasOfLeader,
        Mark::LinkBroke,
        Mark::BackBeforeHeard,
        Mark::Crashed,
        Mark::Restarted,
        Mark::LeaderCrashed,
        Mark::Paused,
        Mark::StaleLeaderWoke,
        Mark::TwoLeaders,
        Mark::LeaderChangedUnderLoad,
        Mark::AdoptedFromDead,
        Mark::AdoptedFromLiving,
        Mark::SlotRecycled,
        Mark::StateInstalled,
        Mark::GiverLagsItself,
        Mark::CaughtUpMeanwhile,
        Mark::CaughtUpByRead,
        Mark::FollowerRead,
        Mark::LeaderRead,
        Mark::ReadRefused,
        Mark::WindowFull,
        Mark::Deduplicated,
        Mark::OutcomeUnknown,
        Mark::NotLeader,
        Mark::MachineMessage,
        Mark::ClockJumped,
        Mark::FalseHint,
        Mark::Partitioned,
        Mark::Batched,
        Mark::PowerCut,
        Mark::PowerCutAll,
        Mark::DiskStalled,
        Mark::DiskFull,
        Mark::RoomAgain,
        Mark::SyncFailed,
        Mark::DamageFound,
        Mark::SnapshotTaken,
        Mark::SnapshotFailed,
        Mark::MemberAdded,
        Mark::ChangedInSilence,
        Mark::MemberRemoved,
        Mark::MemberReplaced,
        Mark::OldDiskBack,
        Mark::DamagedReplaced,
        Mark::NewDiskDamaged,
        Mark::PowerCutAllAmidChange,
        Mark::DiskStalledAmidChange,
        Mark::DiskFullAmidChange,
        Mark::SyncFailedAmidChange,
        Mark::HeldAmidChange,
        Mark::AllHadToHold,
        Mark::DiedHalfway,
        Mark::OthersBetween,
        Mark::PowerCutBeforeSync,
        Mark::OneLate,
        Mark::LastWords,
        Mark::BackAndGone,
        Mark::SuccessorStruck,
        Mark::StrangerRelied,
        Mark::WallClockSet,
        Mark::LeaderDeaf,
        Mark::CopyPutDown,
        Mark::StallPutDown,
        Mark::CheckpointCounted,
        Mark::CheckpointBegun,
        Mark::CopyRenewed,
        Mark::TimerEnded,
        Mark::CommandForwarded,
        Mark::ReadForwarded,
        Mark::ReadBeside,
        Mark::PassedOn,
        Mark::StateReceived,
        Mark::SnapshotWritten,
        Mark::SnapshotUnheard,
        Mark::TransactionExecuted,
        Mark::WatchedKeyTouched,
        Mark::KeySeenGone,
        Mark::CallRepeated,
        Mark::LeaseGuarded,
        Mark::CallEchoed,
        Mark::ScriptByName,
        Mark::AllFlushed,
        Mark::InputEnded,
        Mark::LeaderOutOfSight,
        Mark::DiedInSilence,
        Mark::ToldLate,
        Mark::LostInSilence,
        Mark::SessionExpired,
        Mark::WaitAnswered,
        Mark::ToldByAllDisks,
        Mark::LeaderDeposed,
        Mark::PartedEnded,
        Mark::MemberLeft,
        Mark::MemberExcluded,
        Mark::MinorityStopped,
        Mark::StateTaken,
        Mark::ProposerStruck,
        Mark::InstallerStruck,
        Mark::NineMembers,
        Mark::GroupEnded,
        Mark::GroupSurvived,
        Mark::UnorderedSurvived,
        Mark::ShardsSurvived,
        Mark::MixedSurvived,
        Mark::DurableSurvived,
        Mark::MemoryBeganAgain,
        Mark::GroupWentDark,
        Mark::LogReplayed,
        Mark::FrontierRose,
        Mark::LookedAhead,
        Mark::LeasedRead,
        Mark::MemberMoved,
        Mark::ShardBegunAnew,
        Mark::SubgroupInadequate,
        Mark::MessageUnsent,
        Mark::MessageLanded,
        Mark::MessagePacked,
        Mark::ParcelLost,
        Mark::BlockRelayed,
        Mark::BlockSentAgain,
        Mark::RelayDied,
        Mark::ObjectCalled,
        Mark::ObjectCalledThere,
        Mark::AllReplied,
        Mark::PeerCalled,
        Mark::ObjectQueried,
        Mark::ObjectUncalled,
        Mark::ObjectCallUnknown,
    ];

    /// Whether only protocols that decide by compare-and-swap, or catch up by reading others'
    /// rings, can reach it.
    pub const fn needs_cas(self) -> bool {
        matches!(self, Mark::FailedCas | Mark::FailedCasOfLeader | Mark::CaughtUpByRead)
    }

    /// Whether it requires changes of members.
    pub const fn needs_operator(self) -> bool {
        matches!(
            self,
            Mark::GiverLagsItself
                | Mark::CaughtUpMeanwhile
                | Mark::MemberAdded
                | Mark::ChangedInSilence
                | Mark::MemberRemoved
                | Mark::MemberReplaced
                | Mark::OldDiskBack
                | Mark::DamagedReplaced
                | Mark::NewDiskDamaged
                | Mark::PowerCutAllAmidChange
                | Mark::DiskStalledAmidChange
                | Mark::DiskFullAmidChange
                | Mark::SyncFailedAmidChange
                | Mark::HeldAmidChange
        )
    }

    /// Whether it requires runs of a day.
    pub const fn needs_long(self) -> bool {
        matches!(self, Mark::WallClockSet)
    }

    /// Whether only protocols whose snapshots are files can reach it.
    pub const fn needs_files(self) -> bool {
        matches!(self, Mark::SnapshotFailed)
    }

    /// Whether only protocols with a disk can reach it.
    pub const fn needs_disk(self) -> bool {
        matches!(
            self,
            Mark::PowerCut
                | Mark::PowerCutAll
                | Mark::DiskStalled
                | Mark::DiskFull
                | Mark::RoomAgain
                | Mark::SyncFailed
                | Mark::DamageFound
                | Mark::SnapshotTaken
                | Mark::SnapshotFailed
                | Mark::OldDiskBack
                | Mark::DamagedReplaced
                | Mark::NewDiskDamaged
                | Mark::PowerCutAllAmidChange
                | Mark::DiskStalledAmidChange
                | Mark::DiskFullAmidChange
                | Mark::SyncFailedAmidChange
                | Mark::HeldAmidChange
                | Mark::AllHadToHold
                | Mark::PowerCutBeforeSync
                | Mark::SnapshotWritten
                | Mark::SnapshotUnheard
                | Mark::ToldByAllDisks
        )
    }
}

/// The number of times that each case was reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage([u64; Mark::ALL.len()]);

impl Default for Coverage {
    fn default() -> Coverage {
        Coverage([0; Mark::ALL.len()])
    }
}

impl Coverage {
    #[inline]
    pub(crate) fn hit(&mut self, mark: Mark) {
        self.0[mark as usize] += 1;
    }

    /// The number of times that `mark` was reached.
    pub fn count(&self, mark: Mark) -> u64 {
        self.0[mark as usize]
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Coverage) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, n)| *sum += n);
    }

    /// The marks that were never reached.
    pub fn missing(&self) -> impl Iterator<Item = Mark> + '_ {
        self.never().filter(|mark| !mark.is_of_clusters() && !mark.is_of_groups())
    }

    /// The same, for clusters.
    pub fn missing_in_clusters(&self) -> impl Iterator<Item = Mark> + '_ {
        self.never().filter(|mark| mark.can_be_seen_in_clusters())
    }

    /// The same, for groups.
    pub fn missing_in_groups(&self) -> impl Iterator<Item = Mark> + '_ {
        self.never().filter(|mark| mark.can_be_seen_in_groups())
    }

    fn never(&self) -> impl Iterator<Item = Mark> + '_ {
        Mark::ALL.into_iter().filter(|mark| self.count(*mark) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mark_is_listed_at_its_own_place() {
        let is_at_its_place = |(index, mark): (usize, &Mark)| *mark as usize == index;
        assert!(Mark::ALL.iter().enumerate().all(is_at_its_place));
        let mut coverage = Coverage::default();
        assert_eq!(coverage.never().count(), Mark::ALL.len());
        coverage.hit(Mark::Batched);
        assert!(coverage.missing().all(|mark| mark != Mark::Batched));
        assert!(coverage.missing().all(|mark| !mark.is_of_clusters()));
        assert!(coverage.missing_in_clusters().any(|mark| mark == Mark::PassedOn));
    }
}
