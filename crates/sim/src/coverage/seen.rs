//! Which worlds can reach which marks.

use super::Mark;

impl Mark {
    /// Whether only groups with views reach it.
    pub const fn is_of_groups(self) -> bool {
        matches!(
            self,
            Mark::MemberLeft
                | Mark::MemberExcluded
                | Mark::MinorityStopped
                | Mark::StateTaken
                | Mark::ProposerStruck
                | Mark::InstallerStruck
                | Mark::NineMembers
                | Mark::GroupEnded
                | Mark::GroupSurvived
                | Mark::UnorderedSurvived
                | Mark::ShardsSurvived
                | Mark::MixedSurvived
                | Mark::FrontierRose
                | Mark::LookedAhead
                | Mark::LeasedRead
                | Mark::MemberMoved
                | Mark::ShardBegunAnew
                | Mark::SubgroupInadequate
                | Mark::MessageUnsent
        ) || self.is_of_durable_groups()
            || self.is_of_objects()
            || self.is_of_large_messages()
    }

    /// Whether only groups with messages that go beside their rings reach it.
    pub const fn is_of_large_messages(self) -> bool {
        matches!(
            self,
            Mark::MessageLanded
                | Mark::MessagePacked
                | Mark::ParcelLost
                | Mark::BlockRelayed
                | Mark::BlockSentAgain
                | Mark::RelayDied
        )
    }

    /// Whether only groups with objects reach it.
    pub const fn is_of_objects(self) -> bool {
        matches!(
            self,
            Mark::ObjectCalled
                | Mark::ObjectCalledThere
                | Mark::AllReplied
                | Mark::PeerCalled
                | Mark::ObjectQueried
                | Mark::ObjectUncalled
                | Mark::ObjectCallUnknown
        )
    }

    /// Whether only durable groups reach it.
    pub const fn is_of_durable_groups(self) -> bool {
        matches!(
            self,
            Mark::DurableSurvived
                | Mark::MemoryBeganAgain
                | Mark::GroupWentDark
                | Mark::LogReplayed
        )
    }

    /// Whether groups reach it, of which a world sees the network and the processes.
    pub const fn can_be_seen_in_groups(self) -> bool {
        self.is_of_groups()
            || matches!(
                self,
                Mark::TornVerb
                    | Mark::LinkBroke
                    | Mark::BackBeforeHeard
                    | Mark::Crashed
                    | Mark::Restarted
                    | Mark::Paused
                    | Mark::ClockJumped
                    | Mark::FalseHint
                    | Mark::Partitioned
                    | Mark::OneLate
                    | Mark::LastWords
                    | Mark::LostInSilence
            )
    }

    /// Whether only whole members reach it.
    pub const fn is_of_clusters(self) -> bool {
        matches!(
            self,
            Mark::CommandForwarded
                | Mark::CopyPutDown
                | Mark::StallPutDown
                | Mark::CheckpointCounted
                | Mark::CheckpointBegun
                | Mark::CopyRenewed
                | Mark::TimerEnded
                | Mark::ReadForwarded
                | Mark::ReadBeside
                | Mark::PassedOn
                | Mark::StateReceived
                | Mark::TransactionExecuted
                | Mark::WatchedKeyTouched
                | Mark::KeySeenGone
                | Mark::CallRepeated
                | Mark::LeaseGuarded
                | Mark::CallEchoed
                | Mark::ScriptByName
                | Mark::AllFlushed
                | Mark::InputEnded
                | Mark::LeaderOutOfSight
                | Mark::LostInSilence
                | Mark::SessionExpired
                | Mark::WaitAnswered
                | Mark::ToldByAllDisks
                | Mark::LeaderDeposed
                | Mark::PartedEnded
                | Mark::SnapshotWritten
                | Mark::SnapshotUnheard
        )
    }

    /// Whether it is noticed where members are whole: there a world sees the network and the disks,
    /// and of a member only its own reports.
    pub const fn can_be_seen_in_clusters(self) -> bool {
        self.is_of_clusters()
            || matches!(
                self,
                Mark::TornVerb
                    | Mark::LinkBroke
                    | Mark::BackBeforeHeard
                    | Mark::Crashed
                    | Mark::Restarted
                    | Mark::LeaderCrashed
                    | Mark::Paused
                    | Mark::LeaderChangedUnderLoad
                    | Mark::OutcomeUnknown
                    | Mark::ClockJumped
                    | Mark::FalseHint
                    | Mark::Partitioned
                    | Mark::PowerCut
                    | Mark::PowerCutAll
                    | Mark::DiskStalled
                    | Mark::DiskFull
                    | Mark::RoomAgain
                    | Mark::SyncFailed
                    | Mark::DamageFound
                    | Mark::SnapshotFailed
                    | Mark::DiedHalfway
                    | Mark::OneLate
                    | Mark::LastWords
                    | Mark::PowerCutBeforeSync
                    | Mark::BackAndGone
                    | Mark::SuccessorStruck
                    | Mark::WallClockSet
                    | Mark::LeaderDeaf
                    | Mark::MemberAdded
                    | Mark::MemberRemoved
                    | Mark::MemberReplaced
                    | Mark::OldDiskBack
            )
    }
}
