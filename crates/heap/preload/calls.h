/* System calls without the C library: each of its functions would have to be looked up first, which takes as long as the call, and
 * would write to the program's errno. Failures come back as negative numbers.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline long call6(long number, long a, long b, long c, long d, long e, long f) {
#ifdef __x86_64__
    register long fourth __asm__("r10") = d, fifth __asm__("r8") = e, sixth __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "rcx", "r11", "memory");
    return result;
#else
    int error = errno;
    long result = syscall(number, a, b, c, d, e, f);
    if (result == -1) result = -errno;
    errno = error;
    return result;
#endif
}

static inline bool is_error(long result) { return result < 0 && result > -4096; }

/* The same, with a failure told as the C library does. */
static long plain_call(long number, long a, long b, long c, long d, long e, long f) {
    long result = call6(number, a, b, c, d, e, f);
    if (!__builtin_expect(is_error(result), 0)) return result;
    errno = (int)-result;
    return -1;
}

#define CALL0(number) call6(number, 0, 0, 0, 0, 0, 0)
#define CALL2(number, a, b) call6(number, (long)(a), (long)(b), 0, 0, 0, 0)
#define CALL3(number, a, b, c) call6(number, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define CALL4(number, a, b, c, d) call6(number, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)

static inline uint64_t nanoseconds(const struct timespec *time) {
    return (uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_nsec;
}

/* As `now_ns`, but by the kernel: where it is asked once, that is faster than to look up who knows. Only at the start: later a filter
 * may forbid it. */
static uint64_t kernel_ns(void) {
    struct timespec time = {0};
    CALL2(SYS_clock_gettime, CLOCK_MONOTONIC, &time);
    return nanoseconds(&time);
}

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return nanoseconds(&time);
}
