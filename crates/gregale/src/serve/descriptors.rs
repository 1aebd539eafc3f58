//! The process's limit of descriptors, which bounds its clients: one that has no descriptor left
//! cannot begin the next file of its log.

use crate::config::Config;
use rustix::process::{Resource, getrlimit, setrlimit};

/// The descriptors that are not for clients: files, links to the others, the control port.
const RESERVED: u64 = 128;

/// Raises the limit as far as this process may (the soft limit is often 1024 where the hard one is
/// far higher), and has `config` admit no more clients than it allows.
pub(super) fn bound_clients(config: &mut Config) {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If this fails, the limit is what it was.
    let _ = setrlimit(Resource::Nofile, limit);
    let Some(limit) = getrlimit(Resource::Nofile).current else { return };
    // A program's client has one to the copy, too.
    let n_each = if config.program.is_some() { 2 } else { 1 };
    let n = clients_by(limit, n_each);
    if n < config.maxclients {
        runtime::complain(format_args!(
            "member {}: maxclients is {n} and not {}, since this process may have {limit} \
             descriptors: raise that limit (ulimit -Hn), or lower maxclients",
            config.member, config.maxclients
        ));
        config.maxclients = n;
    }
}

/// The clients of `n_each` descriptors for which a limit has room.
fn clients_by(limit: u64, n_each: u64) -> u32 {
    let n = limit.saturating_sub(RESERVED) / n_each;
    u32::try_from(n).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Idle clients took the descriptor of a durable member's next segment.
    #[test]
    fn clients_leave_descriptors_for_files() {
        assert_eq!(clients_by(1024, 1), 896);
        assert_eq!(clients_by(1024, 2), 448);
        assert_eq!(clients_by(20, 1), 1);
        assert_eq!(clients_by(u64::MAX, 1), u32::MAX);
    }
}
