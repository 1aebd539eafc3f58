/* A program for the tests of the preloaded library: what it does, its argument says. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

/* What a library has drawn and read at its beginning (library.c). */
extern unsigned long drawn;
extern struct timespec began;

static pthread_mutex_t mutex;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_cond_t idle = PTHREAD_COND_INITIALIZER;
static sem_t is_there;
static int is_held = -1, result = -1, work;
static pid_t id;

static void release(void *none) {
    (void)none;
    is_held = pthread_mutex_unlock(&mutex); /* 0 if this thread has it */
}

static void *sleeps(void *none) {
    id = gettid();
    sem_post(&is_there);
    for (;;)
        sleep(3600);
    return none;
}

static void *waits(void *none) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 3600;
    id = gettid();
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(release, NULL);
    sem_post(&is_there);
    while (!work && result != ETIMEDOUT)
        result = pthread_cond_timedwait(&condition, &mutex, &until);
    pthread_cleanup_pop(1);
    return none;
}

static void *idles(void *none) {
    pthread_mutex_lock(&mutex);
    sem_post(&is_there);
    for (;;)
        pthread_cond_wait(&idle, &mutex);
    return none;
}

static void *signals(void *none) {
    pthread_mutex_lock(&mutex);
    work = 1;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
    return none;
}

static void *passes(void *none) {
    pthread_mutex_lock(&mutex);
    sem_post(&is_there);
    while (!work)
        pthread_cond_wait(&idle, &mutex);
    pthread_mutex_unlock(&mutex);
    return none;
}

/* The same, with the threads of C11. */
static mtx_t mutex_c11;
static cnd_t condition_c11, idle_c11;

static int waits_c11(void *none) {
    struct timespec until, moment = {0, 0};
    (void)none;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 3600;
    mtx_lock(&mutex_c11);
    sem_post(&is_there);
    while (!work && result != thrd_timedout)
        result = cnd_timedwait(&condition_c11, &mutex_c11, &until);
    mtx_unlock(&mutex_c11);
    return thrd_sleep(&moment, NULL) == 0 ? 7 : 8;
}

static int idles_c11(void *none) {
    (void)none;
    mtx_lock(&mutex_c11);
    sem_post(&is_there);
    for (;;)
        cnd_wait(&idle_c11, &mutex_c11);
    return 0;
}

static int c11(void) {
    thrd_t waiting, idle_one;
    int end = 0;
    mtx_init(&mutex_c11, mtx_plain);
    cnd_init(&condition_c11);
    cnd_init(&idle_c11);
    if (thrd_create(&idle_one, idles_c11, NULL) != thrd_success
        || thrd_create(&waiting, waits_c11, NULL) != thrd_success)
        puts("no thread");
    sem_wait(&is_there);
    sem_wait(&is_there);
    mtx_lock(&mutex_c11);
    work = 1;
    cnd_signal(&condition_c11);
    mtx_unlock(&mutex_c11);
    thrd_join(waiting, &end);
    printf("%d, %d\n", end, result);
    return 0;
}

/* Returns when the kernel says that the thread sleeps. */
static void is_asleep(void) {
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", id);
    while (state != 'S') {
        FILE *stat = fopen(path, "r");
        if (!stat || fscanf(stat, "%*d (%*[^)]) %c", &state) != 1)
            puts("no state");
        fclose(stat);
    }
}

static pthread_t started(void *(*what)(void *)) {
    pthread_t thread;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    if (pthread_create(&thread, &small, what, NULL) != 0)
        puts("no thread");
    return thread;
}

int main(int n, char **words) {
    const char *what = n > 1 ? words[1] : "";
    void *end = NULL;
    pthread_mutexattr_t checks;
    pthread_mutexattr_init(&checks);
    pthread_mutexattr_settype(&checks, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&mutex, &checks);
    sem_init(&is_there, 0, 0);
    if (strcmp(what, "begins") == 0) {
        printf("%lu %ld\n", drawn, (long)began.tv_sec);
        return 0;
    }
    if (strcmp(what, "starts") == 0) {
        started(idles);
        sem_wait(&is_there);
        puts("started");
        return 0;
    }
    if (strcmp(what, "c11") == 0)
        return c11();
    if (strcmp(what, "passes") == 0) {
        static pthread_t passing[500];
        for (int i = 0; i < 500; i++) {
            passing[i] = started(passes);
            sem_wait(&is_there);
        }
        pthread_mutex_lock(&mutex);
        work = 1;
        pthread_cond_broadcast(&idle);
        pthread_mutex_unlock(&mutex);
        for (int i = 0; i < 500; i++)
            pthread_join(passing[i], NULL);
        puts("passed");
        fflush(stdout);
        sigset_t all, none; /* a signal that comes as it waits ends it there */
        sigfillset(&all);
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &all, NULL);
        kill(getpid(), SIGALRM);
        sigsuspend(&none);
    }
    pthread_t thread = started(strcmp(what, "sleeps") == 0 ? sleeps : waits);
    sem_wait(&is_there);
    if (strcmp(what, "signals") == 0) {
        for (int i = 0; i < 500; i++) {
            started(idles);
            sem_wait(&is_there);
        }
        started(signals);
    } else {
        is_asleep();
        pthread_cancel(thread);
    }
    pthread_join(thread, &end);
    printf("%s, %d, %d\n", end == PTHREAD_CANCELED ? "cancelled" : "over", is_held, result);
    return 0;
}
