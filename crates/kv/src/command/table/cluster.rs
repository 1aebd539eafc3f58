//! The commands by which clients find the members, in Redis 7.0's words.

use super::super::{CommandSpec, flag, spec};

/// The commands by which clients find the members, in Redis 7.0's words.
pub(super) static CLUSTER: [CommandSpec; 6] = [
    spec("asking", 1, flag::FAST)
        .doc("cluster", "3.0.0", "O(1)", "Sent by cluster clients after an -ASK redirect")
        .categories(&["@fast", "@connection"]),
    spec("cluster", -2, 0)
        .doc("cluster", "3.0.0", "Depends on subcommand.", "A container for cluster commands")
        .categories(&["@slow"])
        .subcommands(&[
            spec("cluster|addslots", -3, flag::ADMIN | flag::STALE | flag::NO_ASYNC_LOADING)
                .doc("cluster", "3.0.0", "O(N) where N is the total number of hash slot arguments", "Assign new hash slots to receiving node")
                .categories(&["@admin", "@slow", "@dangerous"]),
            spec("cluster|addslotsrange", -4, flag::ADMIN | flag::STALE | flag::NO_ASYNC_LOADING)
                .doc("cluster", "7.0.0", "O(N) where N is the total number of the slots between the start slot and end slot arguments.", "Assign new hash slots to receiving node")
                .categories(&["@admin", "@slow", "@dangerous"]),
            spec("cluster|bumpepoch", 2, flag::ADMIN | flag::STALE | flag::NO_ASYNC_LOADING)
                .doc("cluster", "3.0.0", "O(1)", "Advance the cluster config epoch")
                .categories(&["@admin", "@slow", "@dangerous"])
                .tips(&["nondeterministic_output"]),
            spec("cluster|count-failure-reports", 3, flag::ADMIN | flag::STALE)
                .doc("cluster", "3.0.0", "O(N) where N is the number of failure reports", "Return the number of failure reports active for a given node")
                .categories(&["@admin", "@slow", "@dangerous"])
                .tips(&["nondeterministic_output"]),
            spec("cluster|countkeysinslot", 3, flag::STALE)
                .doc("cluster", "3.0.0", "O(1)", "Return the number of local keys in the specified hash slot")
                .categories(&["@slow"]),
            spec("cluster|delslots", -3, flag::ADMIN | flag::STALE | flag::NO_ASYNC_LOADING)
                .doc("cluster", "3.0.0", "O(N) where N is the total number of hash slot arguments", "Set hash slots as unbound in receiving node")
                .categories(&["@admin", "@slow", "@dangerous"]),
            spec("cluster|delslotsrange", -4, flag::ADMIN | flag::STALE | flag::NO_ASYNC_LOADING)
                .doc("cluster", "7.0.0", "O(N) where N is the total number of the slots between the start slot and end slot arguments.", "Set hash slots as unbound in receiving node")
                .categories(&["@admin", "@slow", "@dangerous"]),
            spec("cluster|failover", -2, flag::ADMIN | flag::STALE | flag::NO_ASYNC_LOADING)
                .doc("cluster", "3.0.0", "O(1)", "Forces a replica to perform a manual failover of its master.")
                .categories(&["@admin", "@slow", "@dangerous"]),
            spec("cluster|flushslots", 2, flag::ADMIN | flag::STALE | flag::NO_ASYNC_LOADING)
                .doc("cluster", "3.0.0", "O(1)", "Delete a node's own slots information")
                .categories(&["@admin", "@slow", "@dangerous"]),
            spec("cluster|forget", 3, flag::ADMIN | flag::STALE | flag::NO_ASYNC_LOADING)
                .doc("cluster", "3.0.0", "O(1)", "Remove a node from the nodes table")
                .categories(&["@admin", "@slow", "@dangerous"]),
            spec("cluster|getkeysinslot", 4, flag::STALE)
                .doc("cluster", "3.0.0", "O(log(N)) where N is the number of requested keys", "Return local key names in the specified hash slot")
                .categories(&["@slow"])
                .tips(&["nondeterministic_output"]),
            spec("cluster|help", 2, flag::LOADING | flag::STALE)
                .doc("cluster", "5.0.0", "O(1)", "Show helpful text about the different subcommands")
                .categories(&["@slow"]),
            spec("cluster|info", 2, flag::STALE)
                .doc("cluster", "3.0.0", "O(1)", "Provides info about Redis Cluster node state")
                .categories(&["@slow"])
                .tips(&["nondeterministic_output"]),
            spec("cluster|keyslot", 3, flag::STALE)
                .doc("cluster", "3.0.0", "O(N) where N is the number of bytes in the key", "Returns the hash slot of the specified key")
                .categories(&["@slow"]),
            spec("cluster|links", 2, flag::STALE)
                .doc("cluster", "7.0.0", "O(N) where N is the total number of Cluster nodes", "Returns a list of all TCP links to and from peer nodes in cluster")
                .categories(&["@slow"])
                .tips(&["nondeterministic_output"]),
            spec("cluster|meet", -4, flag::ADMIN | flag::STALE | flag::NO_ASYNC_LOADING)
                .doc("cluster", "3.0.0", "O(1)", "Force a node cluster to handshake with another node")
                .categories(&["@admin", "@slow", "@dangerous"]),
            spec("cluster|myid", 2, flag::STALE)
                .doc("cluster", "3.0.0", "O(1)", "Return the node id")
                .categories(&["@slow"]),
            spec("cluster|nodes", 2, flag::STALE)
                .doc("cluster", "3.0.0", "O(N) where N is the total number of Cluster nodes", "Get Cluster config for the node")
                .categories(&["@slow"])
                .tips(&["nondeterministic_output"]),
            spec("cluster|replicas", 3, flag::ADMIN | flag::STALE)
                .doc("cluster", "5.0.0", "O(1)", "List replica nodes of the specified master node")
                .categories(&["@admin", "@slow", "@dangerous"])
                .tips(&["nondeterministic_output"]),
            spec("cluster|replicate", 3, flag::ADMIN | flag::STALE | flag::NO_ASYNC_LOADING)
                .doc("cluster", "3.0.0", "O(1)", "Reconfigure a node as a replica of the specified master node")
                .categories(&["@admin", "@slow", "@dangerous"]),
            spec("cluster|reset", -2, flag::ADMIN | flag::NOSCRIPT | flag::STALE)
                .doc("cluster", "3.0.0", "O(N) where N is the number of known nodes. The command may execute a FLUSHALL as a side effect.", "Reset a Redis Cluster node")
                .categories(&["@admin", "@slow", "@dangerous"]),
            spec("cluster|saveconfig", 2, flag::ADMIN | flag::STALE | flag::NO_ASYNC_LOADING)
                .doc("cluster", "3.0.0", "O(1)", "Forces the node to save cluster state on disk")
                .categories(&["@admin", "@slow", "@dangerous"]),
            spec("cluster|set-config-epoch", 3, flag::ADMIN | flag::STALE | flag::NO_ASYNC_LOADING)
                .doc("cluster", "3.0.0", "O(1)", "Set the configuration epoch in a new node")
                .categories(&["@admin", "@slow", "@dangerous"]),
            spec("cluster|setslot", -4, flag::ADMIN | flag::STALE | flag::NO_ASYNC_LOADING)
                .doc("cluster", "3.0.0", "O(1)", "Bind a hash slot to a specific node")
                .categories(&["@admin", "@slow", "@dangerous"]),
            spec("cluster|shards", 2, flag::STALE)
                .doc("cluster", "7.0.0", "O(N) where N is the total number of cluster nodes", "Get array of cluster slots to node mappings")
                .categories(&["@slow"])
                .tips(&["nondeterministic_output"]),
            spec("cluster|slaves", 3, flag::ADMIN | flag::STALE)
                .doc("cluster", "3.0.0", "O(1)", "List replica nodes of the specified master node")
                .categories(&["@admin", "@slow", "@dangerous"])
                .tips(&["nondeterministic_output"]),
            spec("cluster|slots", 2, flag::STALE)
                .doc("cluster", "3.0.0", "O(N) where N is the total number of Cluster nodes", "Get array of Cluster slot to node mappings")
                .categories(&["@slow"])
                .tips(&["nondeterministic_output"]),
        ]),
    spec("readonly", 1, flag::LOADING | flag::STALE | flag::FAST)
        .doc("cluster", "3.0.0", "O(1)", "Enables read queries for a connection to a cluster replica node")
        .categories(&["@fast", "@connection"]),
    spec("readwrite", 1, flag::LOADING | flag::STALE | flag::FAST)
        .doc("cluster", "3.0.0", "O(1)", "Disables read queries for a connection to a cluster replica node")
        .categories(&["@fast", "@connection"]),
    spec("role", 1, flag::NOSCRIPT | flag::LOADING | flag::STALE | flag::FAST)
        .doc("server", "2.8.12", "O(1)", "Return the role of the instance in the context of replication")
        .categories(&["@admin", "@fast", "@dangerous"]),
    // Redis itself has these in its sentinels only.
    spec("sentinel", -2, flag::NOSCRIPT | flag::LOADING | flag::STALE)
        .doc("sentinel", "2.8.4", "Depends on subcommand", "Finds the member to write to")
        .categories(&["@slow"]),
];
