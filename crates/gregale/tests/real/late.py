# A server that listens, and sleeps before it looks at its connections. It then accepts all of them,
# and takes up the last one first.
#
#     note NAME   adds the name to a list
#     list        changes nothing
#
# Both are answered with the list.
import select
import socket
import sys
import time

listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen(100)
listener.setblocking(False)
time.sleep(0.6)
connections, names = [], []
while True:
    ready, _, _ = select.select([listener] + connections, [], [])
    if listener in ready:
        try:
            while True:
                connections.append(listener.accept()[0])
        except BlockingIOError:
            continue
    for connection in reversed(connections):
        if connection in ready:
            words = connection.recv(100).split()
            if words[:1] == [b"note"]:
                names.append(words[1])
            if words:
                connection.sendall(b" ".join(names) + b"\n")
            else:
                connections.remove(connection)
                connection.close()
