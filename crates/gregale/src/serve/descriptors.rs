//! The process's limit of descriptors, which bounds its clients: one that has no descriptor left
//! cannot begin the next file of its log.

use crate::config::{Attach, Config, Program};
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
    let n = match &config.program {
        None => clients_by(limit, RESERVED, 1),
        Some(program) => {
            // A client of any member has a leg to each copy. Where the members' limits differ, the
            // least one has to be set.
            let n_each = config.members.len() as u64 + 1;
            clients_by(limit, RESERVED + of_threads(program), n_each)
        }
    };
    if n < config.maxclients {
        runtime::complain(format_args!(
            "member {}: maxclients is {n} and not {}, since this process may have {limit} \
             descriptors: raise that limit (ulimit -Hn), or lower maxclients",
            config.member, config.maxclients
        ));
        config.maxclients = n;
    }
}

/// The descriptors by which the threads of a copy are looked at.
fn of_threads(program: &Program) -> u64 {
    match program.attach() {
        Attach::Preload => u64::from(waits::N_SLOTS),
        Attach::Proxy => 0,
    }
}

/// The clients of `n_each` descriptors for which a limit has room, beside so many others.
fn clients_by(limit: u64, n_others: u64, n_each: u64) -> u32 {
    let n = limit.saturating_sub(n_others) / n_each;
    u32::try_from(n).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Idle clients took the descriptor of a durable member's next segment.
    #[test]
    fn clients_leave_descriptors_for_files() {
        assert_eq!(clients_by(1024, RESERVED, 1), 896);
        assert_eq!(clients_by(1024, RESERVED, 4), 224, "each has a leg to three copies");
        assert_eq!(clients_by(20, RESERVED, 1), 1);
        assert_eq!(clients_by(u64::MAX, RESERVED, 1), u32::MAX);
    }

    #[test]
    fn the_threads_of_a_copy_take_descriptors_where_it_loads_the_library() {
        let of =
            |attach| of_threads(&Program { attach: Some(attach), ..Program::of("x {socket}") });
        assert_eq!([Attach::Preload, Attach::Proxy].map(of), [480, 0]);
    }
}
