//! The real programs that the tests drive: which there are, how they come, what needs them.
//!
//! - N1 With everything there, no test is left out: a filter comes from a missing program alone.
//!   By construction: [`skips`].
//! - N2 A test that is left out is named here, and each name here is a test's. Tested.
//! - N3 A test that speaks to a program through the usual words is named here, so that it is left
//!   out where the program is missing, and does not fail. Tested, as far as words tell.

use crate::run::{retry, works};

use anyhow::{Result, bail};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// A program, or a part of one that comes in a package of its own.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    /// Debian's.
    package: &'static str,
    sign: Sign,
    /// The tests that drive it, by their functions' names. (A benchmark drives it where there is
    /// none.)
    pub(crate) tests: &'static [&'static str],
}

/// The evidence that a program is there.
#[derive(Debug)]
enum Sign {
    /// A file of its name in `PATH`.
    InPath,
    File(&'static str),
    /// A file of this name below a directory for each version.
    Versioned(&'static str, &'static str),
    /// Debian's python can do this; another python may come first in `PATH`.
    Python(&'static [&'static str]),
}

/// Every program.
pub(crate) const PROGRAMS: [Program; 26] = [
    Program {
        name: "memcached",
        package: "memcached",
        sign: Sign::InPath,
        tests: &[
            "a_program_with_several_loops_is_not_fed_by_the_turn",
            "a_trial_of_memcached_shows_what_it_does",
            "memcached_whose_reads_run_beside_the_log_is_linearizable_over_shm",
            "memcached_with_threads_has_every_acknowledged_write_at_every_copy",
            "memcacheds_values_expire_by_the_logs_time",
            "the_doctor_knows_memcached",
        ],
    },
    Program {
        name: "beanstalkd",
        package: "beanstalkd",
        sign: Sign::InPath,
        tests: &[
            "a_copy_is_confined_where_the_host_allows_it",
            "a_delayed_job_is_ready_when_the_logs_time_has_come",
            "a_program_that_loads_no_library_is_replicated_by_its_silence",
            "a_trial_of_beanstalkd_shows_what_it_does",
            "beanstalkd_begins_with_its_files",
            "beanstalkd_by_the_turn_keeps_every_acknowledged_job",
            "beanstalkd_keeps_every_acknowledged_job",
            "the_doctor_knows_beanstalkd",
        ],
    },
    Program {
        name: "mariadbd",
        package: "mariadb-server",
        // Not in every user's `PATH`.
        sign: Sign::File("/usr/sbin/mariadbd"),
        tests: &WITH_MARIADB,
    },
    Program {
        name: "mariadb",
        package: "mariadb-client",
        sign: Sign::InPath,
        tests: &WITH_MARIADB,
    },
    Program {
        name: "postgres",
        package: "postgresql",
        sign: Sign::Versioned("/usr/lib/postgresql", "bin/postgres"),
        tests: &[
            "postgresql_applies_each_acknowledged_transfer_once_while_leaders_die",
            "postgresql_begins_with_its_files",
            "postgresql_by_the_logs_time_is_the_same_at_every_copy_while_leaders_die",
            "postgresql_lets_a_client_in_at_one_copy_where_each_draws_its_own_nonce",
            "the_doctor_knows_postgresql",
        ],
    },
    Program {
        name: "redis-server",
        package: "redis-server",
        sign: Sign::InPath,
        tests: &[
            "a_blocked_client_is_answered_when_another_one_pushes",
            "a_copy_of_redis_that_reads_another_file_than_its_checkpoint_serves_no_client",
            "a_copy_that_answers_otherwise_is_dropped_and_begins_again",
            "no_client_sees_what_one_copy_has_wrong",
            "answers_are_right_while_leaders_die_and_a_copy_differs",
            "a_copy_that_dies_takes_its_member_along_and_both_come_back",
            "a_copy_that_takes_up_nothing_is_named_and_replaced",
            "a_member_that_comes_back_begins_with_the_checkpoint_on_disk",
            "a_member_that_comes_back_in_memory_is_in_step_behind_checkpoints",
            "a_program_that_ends_at_once_is_named_with_its_last_words",
            "a_program_without_known_replies_is_replicated_by_its_silence",
            "a_scan_returns_what_redis_holds",
            "a_trial_of_redis_shows_what_it_does",
            "c6_a_password_is_asked_for_as_redis_does",
            "client_info_has_the_fields_of_redis",
            "conversations_go_as_with_redis",
            "copies_without_a_majority_are_named_and_serve_on",
            "every_command_is_described_as_redis_describes_it",
            "every_command_line_is_answered_as_redis_does",
            "every_member_takes_any_request_and_the_copies_agree",
            "increments_are_executed_once_while_members_die",
            "malformed_bytes_are_answered_as_redis_does",
            "members_are_changed_by_those_who_know_the_secret_alone",
            "members_in_memory_change_while_clients_write",
            "members_on_disk_change_while_clients_write",
            "no_copy_is_left_when_the_cluster_ends",
            "over_the_memory_limit_writes_are_refused_as_redis_refuses_them",
            "payloads_go_to_and_from_redis",
            "random_commands_are_answered_as_redis_does",
            "redis_by_the_turn_does_the_same_at_every_copy",
            "redis_by_the_turn_and_its_replies_does_the_same_at_every_copy",
            "redis_sees_the_same_time_again_after_a_restart_of_all",
            "redis_sees_the_same_time_at_every_copy_while_members_die",
            "redis_that_logs_its_writes_is_not_saved_by_save",
            "redis_whose_reads_run_beside_the_log_is_linearizable_over_shm",
            "redis_whose_reads_run_beside_the_log_is_linearizable_over_tcp_on_disk",
            "replicated_redis_over_shm_is_linearizable_while_members_and_copies_die_and_hang",
            "replicated_redis_over_tcp_on_disk_is_linearizable_while_members_and_copies_die_and_hang",
            "the_doctor_knows_redis",
            "the_leader_dies_and_a_survivors_client_goes_on",
            "what_cannot_be_replicated_is_refused_and_nothing_is_begun",
            "what_is_sent_at_once_is_answered_as_redis_does",
            "what_redis_draws_is_the_same_at_every_copy",
            "what_was_acknowledged_is_there_after_all_have_been_killed",
        ],
    },
    Program {
        name: "redis-cli",
        package: "redis-tools",
        sign: Sign::InPath,
        tests: &[
            "a_blocked_client_is_answered_when_another_one_pushes",
            "a_client_over_its_output_limit_is_closed",
            "a_cluster_grows_into_its_empty_seats",
            "a_cluster_that_was_stopped_goes_on_where_it_was",
            "a_cluster_whose_file_cannot_be_written_goes_on_and_writes_it_later",
            "a_copy_of_redis_that_reads_another_file_than_its_checkpoint_serves_no_client",
            "a_copy_that_answers_otherwise_is_dropped_and_begins_again",
            "a_copy_that_dies_takes_its_member_along_and_both_come_back",
            "a_copy_that_takes_up_nothing_is_named_and_replaced",
            "a_day_of_overwrites_takes_no_more_space_than_an_hour",
            "a_dead_member_is_replaced_by_one_command",
            "a_disk_that_holds_less_is_refused_while_a_better_one_is_left",
            "a_follower_that_hangs_blocks_writes_alone",
            "a_founder_whose_file_still_says_bootstrap_continues",
            "a_full_disk_loses_nothing_and_its_member_comes_back_when_there_is_room",
            "a_leader_that_hangs_blocks_writes_alone_over_tcp_too",
            "a_living_member_is_replaced_by_one_command",
            "a_lock_taken_after_a_quiet_time_is_held_for_its_time",
            "a_member_is_restarted_where_the_ends_of_children_are_ignored",
            "a_member_moves_to_another_address_and_stays_who_it_is",
            "a_member_that_comes_back_begins_with_the_checkpoint_on_disk",
            "a_member_that_comes_back_in_memory_is_in_step_behind_checkpoints",
            "a_member_that_dies_while_it_saves_its_state_loses_nothing",
            "a_member_that_is_replaced_and_removed_may_be_added_at_once",
            "a_member_that_was_away_knows_how_old_a_lock_is",
            "a_member_that_was_dead_when_it_was_removed_stays_out",
            "a_new_disk_joins_in_the_place_of_a_dead_member_without_a_supervisor",
            "a_program_without_known_replies_is_replicated_by_its_silence",
            "a_removed_member_ends_and_is_added_again",
            "a_removed_member_stays_out_over_a_restart_of_all",
            "a_replacement_survives_the_death_of_the_leader",
            "a_replacement_survives_the_death_of_the_newcomer",
            "a_wall_clock_that_is_set_takes_no_key_early_and_keeps_none",
            "a_wiped_disk_comes_back_by_itself_while_the_cluster_runs_and_after_a_restart",
            "after_a_killed_cluster_in_memory_the_next_one_says_that_it_begins_empty",
            "an_old_incarnation_is_told_that_it_was_replaced_and_ends",
            "answers_are_right_while_leaders_die_and_a_copy_differs",
            "clients_that_do_not_read_cost_a_member_little",
            "clients_that_do_not_read_cost_a_member_of_partitions_little",
            "copies_without_a_majority_are_named_and_serve_on",
            "each_disk_alone_holds_every_acknowledged_write",
            "every_member_takes_any_request_and_the_copies_agree",
            "increments_are_executed_once_while_members_die",
            "members_in_memory_change_while_clients_write",
            "members_of_the_store_are_changed_over_control_ports_too",
            "members_on_disk_change_while_clients_write",
            "no_client_sees_what_one_copy_has_wrong",
            "no_copy_is_left_when_the_cluster_ends",
            "no_disk_is_shown_where_there_is_none",
            "on_disk_over_shm_clients_see_one_order_while_all_members_die_at_once",
            "one_client_too_many_is_told_so",
            "redis_by_the_turn_and_its_replies_does_the_same_at_every_copy",
            "redis_by_the_turn_does_the_same_at_every_copy",
            "redis_cli_works_at_every_member",
            "redis_s_own_tests_pass_in_memory",
            "redis_s_own_tests_pass_on_disk",
            "redis_sees_the_same_time_again_after_a_restart_of_all",
            "redis_sees_the_same_time_at_every_copy_while_members_die",
            "replicated_redis_over_shm_is_linearizable_while_members_and_copies_die_and_hang",
            "replicated_redis_over_tcp_on_disk_is_linearizable_while_members_and_copies_die_and_hang",
            "the_disk_is_in_status_info_and_metrics",
            "the_leader_dies_and_a_survivors_client_goes_on",
            "two_replacements_at_once_leave_a_majority",
            "what_is_left_of_a_lost_majority_goes_on_and_the_others_come_back",
            "what_partitions_do_not_offer_is_refused_by_name",
            "what_redis_draws_is_the_same_at_every_copy",
            "what_was_acknowledged_is_there_after_all_have_been_killed",
            "what_would_stop_the_cluster_is_refused_with_the_reason",
            "where_a_majority_of_disks_is_lost_nothing_is_started_and_recover_is_named",
            "writes_that_wait_for_a_dead_member_go_on_when_it_is_removed",
        ],
    },
    Program {
        name: "redis-benchmark",
        package: "redis-tools",
        sign: Sign::InPath,
        tests: &["redis_benchmark_runs_at_every_member"],
    },
    Program {
        name: "nginx",
        // With WebDAV.
        package: "nginx-core",
        sign: Sign::File("/usr/sbin/nginx"),
        tests: &["nginx_has_every_acknowledged_file_at_every_copy"],
    },
    Program {
        name: "slapd",
        package: "slapd",
        sign: Sign::File("/usr/sbin/slapd"),
        tests: &["slapd_has_the_same_entries_ids_and_stamps_at_every_copy"],
    },
    Program {
        name: "ldapadd",
        package: "ldap-utils",
        sign: Sign::InPath,
        tests: &["slapd_has_the_same_entries_ids_and_stamps_at_every_copy"],
    },
    Program {
        name: "mosquitto",
        package: "mosquitto",
        sign: Sign::File("/usr/sbin/mosquitto"),
        tests: &["mosquitto_keeps_every_acknowledged_message_at_every_copy"],
    },
    Program {
        name: "mosquitto_pub",
        package: "mosquitto-clients",
        sign: Sign::InPath,
        tests: &["mosquitto_keeps_every_acknowledged_message_at_every_copy"],
    },
    Program {
        name: "clamd",
        package: "clamav-daemon",
        sign: Sign::File("/usr/sbin/clamd"),
        tests: &["clamd_says_the_same_of_each_stream_at_every_copy"],
    },
    Program {
        name: "nats-server",
        package: "nats-server",
        sign: Sign::File("/usr/sbin/nats-server"),
        tests: &["a_subscriber_of_nats_hears_each_acknowledged_message_once"],
    },
    Program {
        name: "python3",
        package: "python3",
        sign: Sign::InPath,
        tests: &[
            "a_copy_begins_again_though_the_file_of_this_program_was_replaced",
            "a_library_that_is_loaded_for_a_part_of_the_program_draws_by_the_kernel",
            "a_program_by_udp_counts_each_request_once_while_members_die",
            "a_program_that_sleeps_before_it_accepts_is_fed_one_connection_after_the_other",
            "a_race_parts_copies_in_a_relaxed_order_and_the_minority_begins_again",
            "a_race_parts_no_copies_that_are_fed_one_connection_after_the_other",
        ],
    },
    Program { name: "etcd", package: "etcd-server", sign: Sign::InPath, tests: &[] },
    Program { name: "etcdctl", package: "etcd-client", sign: Sign::InPath, tests: &[] },
    Program {
        name: "ip",
        package: "iproute2",
        sign: Sign::InPath,
        tests: &["two_hosts_lose_each_other_with_their_cable_and_find_each_other_again"],
    },
    Program {
        name: "libfaketime",
        package: "faketime",
        sign: Sign::File("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"),
        tests: &[
            "a_wall_clock_that_is_set_takes_no_key_early_and_keeps_none",
            "on_disk_over_shm_clients_see_one_order_while_all_members_die_at_once",
        ],
    },
    Program { name: "tclsh", package: "tcl", sign: Sign::InPath, tests: &WITH_SUITE },
    Program { name: "node", package: "nodejs", sign: Sign::InPath, tests: &WITH_NODE },
    Program { name: "npm", package: "npm", sign: Sign::InPath, tests: &WITH_NODE },
    Program {
        name: "redis-py",
        package: "python3-redis",
        sign: Sign::Python(&["-c", "import redis"]),
        tests: &["redis_py_works_unchanged"],
    },
    Program {
        name: "pip",
        package: "python3-pip",
        sign: Sign::Python(&["-m", "pip", "--version"]),
        tests: &[
            "a_message_reaches_subscribers_at_every_member",
            "flask_limiter_limits_over_all_members",
            "redis_py_finds_the_leader_as_sentinels_do_and_survives_its_kill",
            "redis_py_in_cluster_mode_survives_a_kill",
            "redlock_py_holds_a_lock_after_a_quiet_minute",
            "redlock_py_takes_a_lock_and_releases_it",
        ],
    },
    Program {
        name: "go",
        package: "golang-go",
        sign: Sign::InPath,
        // The second judge of every history, and a client library.
        tests: &[
            "a_disk_that_lies_about_its_syncs_is_found_out",
            "after_more_than_fifty_power_cuts_everything_acknowledged_is_there",
            "after_power_cuts_everything_acknowledged_is_there_in_one_order",
            "after_power_cuts_of_one_disk_everything_acknowledged_is_there_in_one_order",
            "both_judges_agree",
            "by_held_back_replies_transactions_are_serializable_while_leaders_die",
            "by_signals_members_come_back_from_their_disks",
            "by_signals_transactions_are_serializable_while_leaders_die",
            "go_redis_in_cluster_mode_survives_a_kill",
            "memcached_whose_reads_run_beside_the_log_is_linearizable_over_shm",
            "on_disk_over_shm_clients_see_one_order_while_all_members_die_at_once",
            "on_disk_over_tcp_clients_see_one_order_while_all_members_die_at_once",
            "over_shm_clients_see_one_order_while_members_die_and_hang",
            "over_shm_members_come_back_from_their_disks",
            "over_shm_transactions_are_serializable_while_leaders_die",
            "over_tcp_clients_see_one_order_while_members_die_and_hang",
            "over_tcp_members_come_back_from_their_disks",
            "over_tcp_transactions_are_serializable_while_leaders_die",
            "redis_whose_reads_run_beside_the_log_is_linearizable_over_shm",
            "redis_whose_reads_run_beside_the_log_is_linearizable_over_tcp_on_disk",
            "registers_over_shm_are_linearizable_while_members_die_and_hang",
            "registers_over_tcp_are_linearizable_while_members_die_and_hang",
            "replicated_redis_over_shm_is_linearizable_while_members_and_copies_die_and_hang",
            "replicated_redis_over_tcp_on_disk_is_linearizable_while_members_and_copies_die_and_hang",
        ],
    },
];

const WITH_NODE: [&str; 3] = [
    "ioredis_in_cluster_mode_survives_a_kill",
    "ioredis_with_a_database_is_served_from_it",
    "node_redis_in_cluster_mode_survives_a_kill",
];

const WITH_SUITE: [&str; 2] =
    ["redis_s_own_tests_pass_in_memory", "redis_s_own_tests_pass_on_disk"];

const WITH_MARIADB: [&str; 5] = [
    "mariadb_applies_each_acknowledged_transfer_once_while_leaders_die",
    "mariadb_begins_with_its_files",
    "mariadb_by_the_logs_time_notes_the_same_times_while_leaders_die",
    "mariadb_lets_a_client_in_at_one_copy_where_each_draws_its_own_challenge",
    "the_doctor_knows_mariadb",
];

impl Program {
    fn is_there(&self) -> bool {
        match self.sign {
            Sign::InPath => is_in_path(self.name),
            Sign::File(file) => Path::new(file).exists(),
            Sign::Versioned(below, file) => {
                let mut versions = std::fs::read_dir(below).into_iter().flatten().flatten();
                versions.any(|version| version.path().join(file).is_file())
            }
            Sign::Python(args) => works(Command::new("/usr/bin/python3").args(args)),
        }
    }
}

/// Whether a program of this name would be found.
pub(crate) fn is_in_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// The programs that are not there.
pub(crate) fn missing() -> Vec<&'static Program> {
    PROGRAMS.iter().filter(|program| !program.is_there()).collect()
}

/// The names of the tests that need one of `missing` (N1), each once.
pub(crate) fn skips(missing: &[&Program]) -> Vec<&'static str> {
    let mut names: Vec<_> = missing.iter().flat_map(|program| program.tests).copied().collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The missing programs, and the tests that are left out for that.
pub(crate) fn told(missing: &[&Program]) -> String {
    let mut text = String::new();
    for Program { name, package, tests, .. } in missing {
        text += &format!("missing: {name} (apt-get install {package})\n");
        for test in *tests {
            text += &format!("  skipped: {test} needs {name}\n");
        }
    }
    text
}

/// Installs what is missing, where that may be done without a question.
///
/// # Errors
/// This is no Debian, we are not root, or the packages do not come.
pub(crate) fn install(missing: &[&Program]) -> Result<()> {
    let mut packages: Vec<&str> = missing.iter().map(|program| program.package).collect();
    packages.dedup();
    if !works(Command::new("apt-get").arg("--version")) {
        bail!("there is no apt-get: install what {} are on Debian", packages.join(" "));
    }
    let root = Root::new()?;
    println!("installing {}", packages.join(" "));
    let _quiet = NoServices::new(&root)?;
    retry(&mut root.run(&["apt-get", "update", "-qq"]))?;
    let install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends"];
    let mut install = root.run(&[&install[..], &packages].concat());
    retry(install.stdout(Stdio::null()))
}

/// The right to install programs.
struct Root {
    is_root: bool,
}

impl Root {
    fn new() -> Result<Root> {
        let id = Command::new("id").arg("-u").output();
        let is_root = id.is_ok_and(|id| id.stdout == b"0\n");
        if !is_root && !works(Command::new("sudo").args(["-n", "true"])) {
            bail!("only root may install, and sudo asks for a password or is not there");
        }
        Ok(Root { is_root })
    }

    fn run(&self, words: &[&str]) -> Command {
        let mut whole = if self.is_root { vec!["env"] } else { vec!["sudo", "-n", "env"] };
        whole.push("DEBIAN_FRONTEND=noninteractive");
        whole.extend(words);
        let mut command = Command::new(whole[0]);
        command.args(&whole[1..]).stdin(Stdio::null());
        command
    }
}

/// While it is there, no package starts a service. Tests start servers of their own; Debian's would
/// only take memory and the usual port.
struct NoServices<'a> {
    root: &'a Root,
    is_ours: bool,
}

const POLICY: &str = "/usr/sbin/policy-rc.d";

impl<'a> NoServices<'a> {
    fn new(root: &'a Root) -> Result<NoServices<'a>> {
        let is_ours = !Path::new(POLICY).exists();
        if is_ours {
            let mut tee = root.run(&["tee", POLICY]);
            let mut tee = tee.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
            if let Some(mut input) = tee.stdin.take() {
                input.write_all(b"#!/bin/sh\nexit 101\n")?;
            }
            tee.wait()?;
            root.run(&["chmod", "+x", POLICY]).status()?;
        }
        Ok(NoServices { root, is_ours })
    }
}

impl Drop for NoServices<'_> {
    fn drop(&mut self) {
        if self.is_ours {
            // What is left of it would only keep later packages from starting theirs.
            let _left = self.root.run(&["rm", "-f", POLICY]).status();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;

    /// Every Rust file below `crates`, with its path.
    fn sources() -> Vec<(String, String)> {
        let mut folders = vec![crate::root().join("crates")];
        let mut texts = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("readable") {
                let path = entry.expect("readable").path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|end| end == "rs") {
                    let text = fs::read_to_string(&path).expect("readable");
                    texts.push((path.display().to_string(), text));
                }
            }
        }
        texts
    }

    /// The name behind `fn`, and what follows up to the next test.
    fn tests_of(text: &str) -> impl Iterator<Item = (&str, &str)> {
        text.split("#[test]\n").skip(1).filter_map(|rest| {
            let name = rest.split_once("fn ")?.1.split_once('(')?.0;
            Some((name, rest))
        })
    }

    #[test]
    fn n1_where_everything_is_there_nothing_is_left_out() {
        assert!(skips(&[]).is_empty() && told(&[]).is_empty());
        let all: Vec<&Program> = PROGRAMS.iter().collect();
        let told = told(&all);
        for name in skips(&all) {
            assert!(told.contains(&format!("skipped: {name} needs ")), "{name} is told");
        }
    }

    #[test]
    fn n2_each_name_is_that_of_a_test_and_each_program_has_a_package() {
        let sources = sources();
        let known: BTreeSet<&str> =
            sources.iter().flat_map(|(_, text)| tests_of(text)).map(|(name, _)| name).collect();
        assert!(known.len() > 500, "the tests were found: {}", known.len());
        for program in &PROGRAMS {
            assert!(!program.package.is_empty(), "{program:?}");
            for name in program.tests {
                // (A macro writes `#[test]` for claims that hold over two fabrics.)
                let is_claim = sources.iter().any(|(_, text)| {
                    text.contains("over_both_fabrics!") && text.contains(&format!("fn {name}("))
                });
                assert!(known.contains(name) || is_claim, "there is no test {name}");
                // The filter is a part of a name: no other test may be caught in it.
                let caught = known.iter().find(|test| *test != name && test.contains(name));
                assert_eq!(caught, None, "left out with {name}");
            }
        }
    }

    #[test]
    fn n3_a_test_that_speaks_to_a_program_is_named() {
        // With the end of the file's path, where the word alone does not tell the program.
        const WORDS: [(&str, &str, &str); 12] = [
            ("beanstalkd", "", "beanstalkd -l unix"),
            ("go", "", "judge_a_program("),
            ("go", "", "judge_registers("),
            ("libfaketime", "", "FakeClock::new("),
            ("mariadb", "/mariadb.rs", "genesis()"),
            ("mariadbd", "/mariadb.rs", "genesis()"),
            ("npm", "", " = npm("),
            ("postgres", "/postgres.rs", "genesis()"),
            ("python3", "", "python3 {dir}"),
            ("redis-benchmark", "", "new(\"redis-benchmark\")"),
            ("redis-cli", "", ".cli("),
            ("redis-server", "", "= Server::start()"),
        ];
        let sources = sources();
        for (program, file, word) in WORDS {
            let named = PROGRAMS.iter().find(|one| one.name == program).expect("in the table");
            let mut n_found = 0;
            for (_, text) in sources.iter().filter(|(path, _)| path.ends_with(file)) {
                for (name, text) in tests_of(text).filter(|(_, text)| text.contains(word)) {
                    let own = text.split("\n}\n").next().unwrap_or_default();
                    if own.contains(word) {
                        n_found += 1;
                        assert!(
                            named.tests.contains(&name),
                            "{name} needs {program}: name it in xtask/src/programs.rs"
                        );
                    }
                }
            }
            assert!(n_found > 0, "no test says `{word}`: look for what it says now");
        }
    }
}
