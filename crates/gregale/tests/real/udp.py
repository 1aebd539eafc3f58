# A server that is told by UDP what to count, and forgets nothing: each request has a name, by which
# it is known when it comes again.
#
#     add NAME N   adds N to the sum, once for each NAME, and is answered with NAME and the sum
#     sum          is answered with the sum, and the number of names
import select
import socket
import sys

answers, total = {}, 0
hears = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
hears.bind(("127.0.0.1", int(sys.argv[1])))
hears.setblocking(False)
while True:
    select.select([hears], [], [])
    request, client = hears.recvfrom(65535)
    words = request.split()
    if words[0] == b"add":
        if words[1] not in answers:
            total += int(words[2])
            answers[words[1]] = b"%s %d" % (words[1], total)
        hears.sendto(answers[words[1]], client)
    else:
        hears.sendto(b"sum %d of %d" % (total, len(answers)), client)
