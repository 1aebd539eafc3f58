/* A server at the Unix socket argv[1] that does, once it was asked for the first time, what argv[2]
   names: each is something that a replicated program may not do, or that differs between copies. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long call(long number, long a, long b, long c)
{
    register long r10 __asm__("r10") = 0;
    register long r8 __asm__("r8") = 0;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return result;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t given = PTHREAD_COND_INITIALIZER;
static int n_given, n_taken = -1;

static void *work(void *none)
{
    pthread_mutex_lock(&lock);
    for (;;) {
        n_taken = n_given;
        while (n_given == n_taken)
            pthread_cond_wait(&given, &lock);
    }
    return none;
}

static void act(const char *what)
{
    char bytes[16];
    struct timespec now;
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons(9)};
    inet_pton(AF_INET, "192.0.2.1", &peer.sin_addr);
    if (!strcmp(what, "ring"))
        call(SYS_io_uring_setup, 1, 0, 0);
    if (!strcmp(what, "udp"))
        socket(AF_INET, SOCK_DGRAM, 0);
    if (!strcmp(what, "outbound"))
        connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&peer, sizeof peer);
    if (!strcmp(what, "chance"))
        call(SYS_getrandom, (long)bytes, sizeof bytes, 0);
    if (!strcmp(what, "wrapper"))
        syscall(SYS_getrandom, bytes, sizeof bytes, 0);
    if (!strcmp(what, "clock"))
        call(SYS_clock_gettime, CLOCK_REALTIME, (long)&now, 0);
    if (!strcmp(what, "wait"))
        call(SYS_poll, 0, 0, 1);
    if (!strcmp(what, "timer"))
        timerfd_create(CLOCK_MONOTONIC, 0);
    if (!strcmp(what, "file"))
        open("/etc/gregale-trial", O_WRONLY | O_CREAT, 0600);
    if (!strcmp(what, "shared"))
        open("/var/tmp/gregale-trial", O_WRONLY | O_CREAT, 0600);
    if (!strcmp(what, "hand-off")) {
        pthread_mutex_lock(&lock);
        while (n_taken != n_given) { /* until it waits */
            pthread_mutex_unlock(&lock);
            sched_yield();
            pthread_mutex_lock(&lock);
        }
        n_given++;
        pthread_cond_broadcast(&given);
        pthread_mutex_unlock(&lock);
    }
    if (!strcmp(what, "child") && fork() == 0)
        _exit(0);
    if (!strcmp(what, "end"))
        _exit(3);
}

int main(int n_words, char **words)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    const char *what = n_words > 2 ? words[2] : "nothing";
    char bytes[64];
    int clients[16], n = 0, acted = 0;
    pthread_t thread;
    if (!strcmp(what, "deaf"))
        return 4;
    strncpy(at.sun_path, words[1], sizeof at.sun_path - 1);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 8))
        return 1;
    if (!strcmp(what, "hand-off"))
        pthread_create(&thread, 0, work, 0);
    for (;;) {
        fd_set ready;
        int most = listener;
        FD_ZERO(&ready);
        FD_SET(listener, &ready);
        for (int i = 0; i < n; i++) {
            FD_SET(clients[i], &ready);
            most = clients[i] > most ? clients[i] : most;
        }
        if (select(most + 1, &ready, 0, 0, 0) < 0)
            return 2;
        for (int i = 0; i < n; i++) {
            if (!FD_ISSET(clients[i], &ready))
                continue;
            long length = read(clients[i], bytes, sizeof bytes);
            if (length <= 0) {
                close(clients[i]);
                clients[i--] = clients[--n];
                continue;
            }
            if (!acted++ || !strcmp(what, "hand-off"))
                act(what);
            write(clients[i], bytes, length);
        }
        if (FD_ISSET(listener, &ready) && n < 16)
            clients[n++] = accept(listener, 0, 0);
    }
}
