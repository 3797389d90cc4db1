/* SPDX-License-Identifier: MIT */
/*
 * Does one thing again and again, for so many milliseconds, while threads use CPU time; or uses signals itself. Prints
 * how often it did it. Ends with status 0 unless something went otherwise than it does without a profiler.
 *
 *     victim_storm_cpu MODE MILLISECONDS [LIBRARY]
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile uint64_t sink;
static int64_t end_ns;
static char **arguments;

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void spin(int n)
{
    for (int i = 0; i < n; i++)
        sink = sink * 6364136223846793005u + 1;
}

static void check(int ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    _exit(1);
}

static void *burns(void *unused)
{
    while (now_ns() < end_ns)
        spin(100000);
    return unused;
}

static void *burns_until_cancelled(void *asynchronous)
{
    int old;
    if (asynchronous)
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
    for (;;) {
        spin(50000);
        if (!asynchronous)
            pthread_testcancel();
    }
    return NULL;
}

static void *waits_until_cancelled(void *unused)
{
    for (;;) {
        spin(20000);
        usleep(100);
    }
    return unused;
}

/* A handler of cancellation runs, with the signals of before. */
static _Atomic long n_cleaned;
static void cleans(void *unused)
{
    sigset_t now;
    (void)unused;
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    check(!sigismember(&now, SIGUSR1) && !sigismember(&now, SIGTERM), "signals are blocked after a cancellation");
    n_cleaned++;
}

static void *cleaned(void *asynchronous)
{
    pthread_cleanup_push(cleans, NULL);
    burns_until_cancelled(asynchronous);
    pthread_cleanup_pop(0);
    return NULL;
}

static long cancel(void)
{
    long n = 0, n_with = 0;
    for (; now_ns() < end_ns; n++) {
        pthread_t thread;
        void *result;
        int kind = (int)(n % 3);
        check(!pthread_create(&thread, NULL, kind == 2 ? waits_until_cancelled : cleaned, kind == 1 ? &thread : NULL),
              "pthread_create");
        n_with += kind != 2;
        usleep((useconds_t)(n % 7) * 500);
        check(!pthread_cancel(thread), "pthread_cancel");
        check(!pthread_join(thread, &result) && result == PTHREAD_CANCELED, "pthread_join");
    }
    check(n_cleaned <= n_with, "handlers of cancellation");
    return n;
}

static long forks(void)
{
    long n = 0;
    for (; now_ns() < end_ns; n++) {
        pid_t child = fork();
        int status;
        check(child >= 0, "fork");
        if (!child) {
            spin(3000000);
            _exit(7);
        }
        check(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7, "child");
    }
    return n;
}

/* Becomes itself again and again. The third argument counts. */
static long executes(void)
{
    char count[32], left[32];
    long n = arguments[3] ? atol(arguments[3]) : 0;
    int64_t left_ms = (end_ns - now_ns()) / 1000000;
    spin(2000000);
    if (left_ms <= 0)
        return n;
    snprintf(count, sizeof count, "%ld", n + 1);
    snprintf(left, sizeof left, "%ld", (long)left_ms);
    execl(arguments[0], arguments[0], "exec", left, count, NULL);
    check(0, "execl");
    return 0;
}

static long spawns(void)
{
    long n = 0;
    for (; now_ns() < end_ns; n++)
        check(system("exit 3") == 3 << 8, "system");
    return n;
}

static long opens(void)
{
    long n = 0;
    for (; now_ns() < end_ns; n++) {
        void *library = dlopen(arguments[3], RTLD_NOW);
        check(library != NULL, "dlopen");
        spin(20000);
        check(!dlclose(library), "dlclose");
    }
    return n;
}

static long sets_ids(void)
{
    long n = 0;
    for (; now_ns() < end_ns; n++)
        check(!setuid(getuid()) && !setgid(getgid()), "setuid");
    return n;
}

/* All slots of RLIMIT_SIGPENDING but `left` are used up by others; then the program's own signals still arrive. */
static _Atomic long n_queued;
static void on_queued(int sig, siginfo_t *info, void *context)
{
    (void)sig, (void)context;
    n_queued += info->si_value.sival_int;
}

static long queues(void)
{
    struct sigaction action = {.sa_sigaction = on_queued, .sa_flags = SA_SIGINFO};
    sigset_t one;
    union sigval value = {.sival_int = 1};
    pthread_t threads[40];
    long n = 0;
    sigemptyset(&one);
    sigaddset(&one, SIGRTMIN + 3);
    sigaction(SIGRTMIN + 3, &action, NULL);
    pthread_sigmask(SIG_BLOCK, &one, NULL);
    for (int i = 0; i < 40; i++)
        check(!pthread_create(&threads[i], NULL, burns, NULL), "pthread_create");
    usleep(100000);
    for (int i = 0; i < 8; i++, n++)
        check(!sigqueue(getpid(), SIGRTMIN + 3, value), "sigqueue");
    for (int i = 0; i < 40; i++) /* these block nothing, but they have the mask of their creator */
        pthread_join(threads[i], NULL);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    check(n_queued == n, "signals that were queued");
    return n;
}

/* What all processes of the user hold, queued signals and timers. */
static rlim_t n_pending(void)
{
    char line[256];
    unsigned long n = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        sscanf(line, "SigQ: %lu", &n);
    if (status)
        fclose(status);
    return n;
}

/* The limit is lowered while timers exist: then the program has more of it than they. */
static long lowers(void)
{
    rlim_t others = n_pending();
    struct rlimit limit = {others + 60, others + 60};
    union sigval value = {.sival_int = 1};
    struct sigaction action = {.sa_sigaction = on_queued, .sa_flags = SA_SIGINFO};
    pthread_t threads[40];
    sigset_t one;
    sigaction(SIGRTMIN + 3, &action, NULL);
    sigemptyset(&one);
    sigaddset(&one, SIGRTMIN + 3);
    for (int i = 0; i < 40; i++)
        check(!pthread_create(&threads[i], NULL, burns, NULL), "pthread_create");
    usleep(200000);
    check(!setrlimit(RLIMIT_SIGPENDING, &limit), "setrlimit");
    usleep(2500000); /* the profiler looks every second at the latest */
    pthread_sigmask(SIG_BLOCK, &one, NULL);
    long n = 0;
    while (n < 30 && !sigqueue(getpid(), SIGRTMIN + 3, value))
        n++;
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    for (int i = 0; i < 40; i++)
        pthread_join(threads[i], NULL);
    check(n == 30, "signals that could be queued");
    return n;
}

/* The program's own profiling timer. */
static _Atomic long n_prof;
static void on_prof(int sig)
{
    (void)sig;
    n_prof++;
}

static long profiles(void)
{
    struct sigaction action = {.sa_handler = on_prof, .sa_flags = SA_RESTART}, before;
    struct itimerval each = {{0, 10000}, {0, 10000}}, none = {0};
    check(!sigaction(SIGPROF, NULL, &before) && before.sa_handler == SIG_DFL, "SIGPROF is not at its default");
    check(!sigaction(SIGPROF, &action, &before) && before.sa_handler == SIG_DFL, "SIGPROF was not at its default");
    check(!setitimer(ITIMER_PROF, &each, NULL), "setitimer");
    burns(NULL);
    struct itimerval left;
    check(!getitimer(ITIMER_PROF, &left) && left.it_interval.tv_usec == 10000, "getitimer");
    setitimer(ITIMER_PROF, &none, NULL);
    check(!sigaction(SIGPROF, NULL, &before) && before.sa_handler == on_prof, "the handler of SIGPROF");
    return n_prof;
}

/* Waits for any signal: only its own may come. */
static long waits(void)
{
    sigset_t all, pending;
    long n = 0;
    siginfo_t info;
    struct timespec brief = {0, 1000000};
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    check(!pthread_create(&thread, NULL, burns, NULL), "pthread_create");
    int fd = signalfd(-1, &all, SFD_NONBLOCK);
    while (now_ns() < end_ns) {
        struct signalfd_siginfo read_info;
        spin(1000000);
        errno = 0;
        int sig = sigtimedwait(&all, &info, &brief);
        check(sig < 0 && errno == EAGAIN, "a signal that nobody sent");
        check(read(fd, &read_info, sizeof read_info) < 0 && errno == EAGAIN, "a signal on the descriptor");
        check(!sigpending(&pending), "sigpending");
        for (int i = 1; i < 32; i++)
            check(!sigismember(&pending, i), "a pending signal");
        check(!pthread_kill(pthread_self(), SIGUSR1), "pthread_kill");
        check(sigwait(&all, &sig) == 0 && sig == SIGUSR1, "sigwait");
        n++;
    }
    pthread_join(thread, NULL);
    return n;
}

static const struct {
    const char *name;
    long (*run)(void);
    int n_burning;
} modes[] = {{"cancel", cancel, 2},    {"fork", forks, 2},     {"exec", executes, 2},   {"system", spawns, 1},
             {"dlopen", opens, 2},     {"setid", sets_ids, 3}, {"sigqueue", queues, 0}, {"lowered", lowers, 0},
             {"sigprof", profiles, 0}, {"sigwait", waits, 0}};

int main(int argc, char **argv)
{
    arguments = argv;
    if (argc < 3)
        return 2;
    end_ns = now_ns() + atol(argv[2]) * INT64_C(1000000);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(argv[1], modes[i].name)) {
            pthread_t threads[4];
            for (int k = 0; k < modes[i].n_burning; k++)
                check(!pthread_create(&threads[k], NULL, burns, NULL), "pthread_create");
            printf("%ld\n", modes[i].run());
            for (int k = 0; k < modes[i].n_burning; k++)
                pthread_join(threads[k], NULL);
            return 0;
        }
    return 2;
}
