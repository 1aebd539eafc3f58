/* A library that draws, and reads the clock, when it is begun: before the preloaded one is. */
#include <sys/random.h>
#include <time.h>

unsigned long drawn;
struct timespec began;

__attribute__((constructor)) static void begin(void) {
    if (getrandom(&drawn, sizeof drawn, 0) < 0)
        drawn = 0;
    clock_gettime(CLOCK_REALTIME, &began);
}
