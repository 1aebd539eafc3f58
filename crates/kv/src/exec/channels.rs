//! PUBLISH: a message travels through the log to every member, and is not part of the state.

use super::Call;
use super::scan::is_short;
use crate::reply::Reply;
use crate::store::Store;

/// The number of clients that a message reaches is not a function of the log: the member that was
/// asked counts its own (`crate::connection`).
pub(crate) fn publish(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    if !is_short("channel", call.args[1], reply) {
        return;
    }
    store.published_mut().push(call.args[1], call.args[2]);
    reply.integer(0);
}
