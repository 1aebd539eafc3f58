//! The checked properties, one file each.
//!
//! Each file states the property, why a report is never a false alarm, and is tested on made-up
//! histories: a check that cannot fail checks nothing.

pub(crate) mod agreement;
pub(crate) mod configurations;
pub(crate) mod copies;
pub(crate) mod digest;
pub(crate) mod held;
pub(crate) mod introduced;
pub(crate) mod linearizable;
pub(crate) mod order;
pub(crate) mod real_time;
pub(crate) mod single_writer;
pub(crate) mod state_time;
pub(crate) mod validity;
