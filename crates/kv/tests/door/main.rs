//! The door: connections that are driven without a network, against a real redis-server where the
//! semantics are the same, and against themselves where order and bounds are at stake.

mod bounds;
mod channels;
mod driver;
mod order;
#[path = "../oracle/redis.rs"]
mod redis;
mod scripts;
mod sessions;
