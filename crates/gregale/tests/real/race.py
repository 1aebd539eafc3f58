# A server with a race: a thread for each connection, and one word that all of them replace. What
# it answers depends on which thread comes first.
#
#     swap WORK NAME   after some work, puts the name in place of the word
#     look             changes nothing
#
# Both are answered with the word before.
import socket
import sys
import threading

word = b"none\n"


def serve(connection):
    global word
    stream = connection.makefile("rwb")
    for line in stream:
        words = line.split()
        before = word
        if words[0] == b"swap":
            for _ in range(int(words[1])):
                pass
            before, word = word, words[2] + b"\n"
        stream.write(before)
        stream.flush()
    connection.close()


listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen(100)
while True:
    threading.Thread(target=serve, args=[listener.accept()[0]], daemon=True).start()
