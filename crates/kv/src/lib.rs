//! The key-value door: RESP, Redis commands, and the replicated state machine behind them.
#![forbid(unsafe_code)]
