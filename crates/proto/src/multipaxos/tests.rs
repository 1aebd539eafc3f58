//! Schedules that seeds meet rarely, step by step. (Time, faults and everything else: the
//! simulator.)

mod group;
mod leases;
mod slots;
