/* A library that draws, reads the clock, and for one of the tests starts a thread when it is begun:
   before the preloaded one is. */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

unsigned long drawn;
struct timespec began;

static sem_t is_there;

static void *stays(void *none) {
    sem_post(&is_there);
    for (;;)
        pause();
    return none;
}

/* The C library hands the program's words to these, too. */
__attribute__((constructor)) static void begin(int n, char **words) {
    pthread_t thread;
    if (n > 1 && strcmp(words[1], "starts") == 0) {
        sem_init(&is_there, 0, 0);
        if (pthread_create(&thread, NULL, stays, NULL) == 0)
            sem_wait(&is_there);
    }
    if (getrandom(&drawn, sizeof drawn, 0) < 0)
        drawn = 0;
    clock_gettime(CLOCK_REALTIME, &began);
}
