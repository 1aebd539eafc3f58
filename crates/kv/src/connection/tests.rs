//! Tests of the memory that a connection keeps, which cannot be seen from outside.

use super::*;

fn connection() -> Connection {
    let (address, local_address) = ("127.0.0.1:50000".to_owned(), "127.0.0.1:7000".to_owned());
    let identity = Identity { id: 1, address, local_address };
    Connection::new(Config::default().into(), identity, Instant::ZERO)
}

/// An answer of up to 16 MiB was kept beside its copy in the output until the next request, which
/// an idle client never sends.
#[test]
fn c3_no_long_answer_is_kept_behind_its_copy() {
    let mut connection = connection();
    let text = vec![b'x'; 2 * BUFFER_BYTES_KEPT];
    let mut request = format!("*2\r\n$4\r\nECHO\r\n${}\r\n", text.len()).into_bytes();
    request.extend_from_slice(&text);
    request.extend_from_slice(b"\r\n");
    connection.feed(&request, Instant::ZERO);
    assert!(connection.next_request().is_none());
    assert!(connection.output().len() > text.len());
    assert!(connection.door.reply.capacity() <= BUFFER_BYTES_KEPT);
    // The same of an answer that the owner makes.
    connection.feed(b"INFO\r\n", Instant::ZERO);
    let Some(Request::Info { id, .. }) = connection.next_request() else { panic!("INFO") };
    assert!(connection.door.answer_with(id, |reply| reply.bulk(&text)));
    assert!(connection.output().len() > 2 * text.len());
    assert!(connection.door.reply.capacity() <= BUFFER_BYTES_KEPT);
}
