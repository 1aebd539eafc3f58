//! One-sided memory over TCP.

mod handshake;
pub mod hello;
pub mod wire;
