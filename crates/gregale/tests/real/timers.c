// A server that waits for time in each of its ways, and says how long that took and when it was over.
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static int is_set, quiet[2];

static long long now(clockid_t clock) {
    struct timespec of;
    clock_gettime(clock, &of);
    return of.tv_sec * 1000000000LL + of.tv_nsec;
}

static struct timespec after(long long ns) {
    long long at = now(CLOCK_REALTIME) + ns;
    return (struct timespec){at / 1000000000, at % 1000000000};
}

// Sets the condition after a while.
static void *sets(void *unused) {
    (void)unused;
    usleep(15000);
    pthread_mutex_lock(&mutex);
    is_set = 1;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

static int waits(char how) {
    struct timespec until = after(20000000), span = {0, 20000000};
    struct timeval left = {0, 20000};
    struct pollfd fd = {quiet[0], POLLIN, 0};
    struct epoll_event event = {.events = EPOLLIN};
    pthread_t thread;
    fd_set set;
    int result = 0, epoll;
    switch (how) {
    case 'u': return usleep(20000);
    case 'n': return nanosleep(&span, NULL);
    case 'a': return clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL);
    case 'p': return poll(&fd, 1, 20);
    case 'P': return poll(NULL, 0, 20);
    case 's':
        FD_ZERO(&set);
        FD_SET(quiet[0], &set);
        return select(quiet[0] + 1, &set, NULL, NULL, &left);
    case 'e':
        epoll = epoll_create1(0);
        epoll_ctl(epoll, EPOLL_CTL_ADD, quiet[0], &event);
        result = epoll_wait(epoll, &event, 1, 20);
        close(epoll);
        return result;
    case 'm': return sem_timedwait(&semaphore, &until);
    case 't':
        pthread_mutex_lock(&mutex);
        result = pthread_cond_timedwait(&never, &mutex, &until);
        pthread_mutex_unlock(&mutex);
        return result;
    case 'c':
        until = after(60000000000LL);
        is_set = 0;
        pthread_create(&thread, NULL, sets, NULL);
        pthread_mutex_lock(&mutex);
        while (!is_set && result == 0) result = pthread_cond_timedwait(&condition, &mutex, &until);
        pthread_mutex_unlock(&mutex);
        pthread_join(thread, NULL);
        return result;
    case 'b':
        for (long long end = now(CLOCK_MONOTONIC) + 20000000; now(CLOCK_MONOTONIC) < end;) {}
        return 0;
    default: return 0;
    }
}

int main(int n, char **words) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct pollfd fds[64];
    int n_fds = 1;
    if (n < 2 || pipe(quiet) != 0) return 1;
    strncpy(at.sun_path, words[1], sizeof at.sun_path - 1);
    sem_init(&semaphore, 0, 0);
    signal(SIGPIPE, SIG_IGN);
    fds[0] = (struct pollfd){socket(AF_UNIX, SOCK_STREAM, 0), POLLIN, 0};
    if (bind(fds[0].fd, (struct sockaddr *)&at, sizeof at) != 0 || listen(fds[0].fd, 64) != 0) return 1;
    for (;;) {
        poll(fds, n_fds, 1000);
        for (int i = 1; i < n_fds; i++) {
            char how, line[100];
            if (!fds[i].revents) continue;
            if (read(fds[i].fd, &how, 1) != 1) {
                close(fds[i].fd);
                fds[i--] = fds[--n_fds];
                continue;
            }
            if (how == '\n') continue;
            long long from = now(CLOCK_MONOTONIC);
            int result = waits(how);
            struct timeval of;
            gettimeofday(&of, NULL);
            int len = snprintf(line, sizeof line, "%d %lld %lld.%06ld %ld\r\n", result,
                               (now(CLOCK_MONOTONIC) - from) / 1000, (long long)of.tv_sec,
                               (long)of.tv_usec, (long)time(NULL));
            // A client that has left is noticed when it is read.
            if (write(fds[i].fd, line, len) != len) continue;
        }
        if (fds[0].revents && n_fds < 64) fds[n_fds++] = (struct pollfd){accept(fds[0].fd, NULL, NULL), POLLIN, 0};
    }
}
