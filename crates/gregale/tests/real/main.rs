//! The real binary, real sockets, real signals: behaviour that the simulator cannot show.
//!
//! Every test has a cluster of its own, with its own ports and its own directory on tmpfs, and
//! checks that nothing of it is left.

/// Each claim holds over each fabric.
macro_rules! over_both_fabrics {
    ($($claim:ident)*) => {
        mod over_shm {
            $(#[test] fn $claim() { super::$claim(&["--fabric", "shm"]); })*
        }
        mod over_tcp {
            $(#[test] fn $claim() { super::$claim(&["--fabric", "tcp"]); })*
        }
    };
}

mod support;

mod bank;
mod clients;
mod commands;
mod configured;
mod copies;
mod cuts;
mod databases;
mod disk;
mod doctor;
mod every_disk;
mod failover;
mod late;
mod mariadb;
mod members;
mod memories;
mod midway;
mod operators;
mod ops;
mod pipelines;
mod postgres;
mod race;
mod recover;
mod refusals;
mod registers;
mod replicate;
mod saved;
mod seats;
mod serve;
mod sessions;
mod slow_readers;
mod strict;
mod time;
mod timers;
mod trial;
mod udp;
mod unmodified;
mod volume;
