/* SPDX-License-Identifier: MIT */
/*
 * victim_waste KIND - makes memory of which it knows what is resident, zeros and pinned, and prints it as `NAME VALUE`;
 * then waits until standard input ends, and prints by how much malloc_trim(0), or jemalloc's decay at once, lowers
 * RssAnon.
 *
 *     blocks     blocks of which parts were written: see make_blocks
 *     sparse     200,000 blocks of 200 bytes, nine of ten freed at random
 *     comb       64,000 blocks of 3,000 bytes, of which every 64th stays
 *     titled     the same, after its environment was overwritten, as by a title
 *     dense      60,000 blocks of 1,000 bytes, none of which is freed
 *     many       a block of 32 MB and 1,000 of 16 KB, all zeros, and 120,000 of 48 bytes
 *     private    one of 60 MB; the process then changes its user, or is not dumpable: it may not read its pagemap
 *     idle       three times 16 blocks of 1 MB: never used again, only read, and written all the time
 *     top        blocks freed at the end of the heap
 *     small      400,000 blocks of 80 bytes, of which every 500th stays: the others go to a fastbin
 *     mixed      blocks of 16 bytes to 60 KB, freed by halves, twice
 *     threads    four threads that free most of what they made in their arenas
 *     joined     one thread that does so in an arena of three heaps, whose mappings the kernel joins
 */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { PAGE = 4096, THREADS = 4 };

static unsigned state = 1;

static unsigned next_random(void)
{
    state = state * 1103515245u + 12345u;
    return state >> 8;
}

__attribute__((noinline)) void *make_pins(size_t n)
{
    void *p = malloc(n);
    __asm__ volatile("" : "+r"(p));
    return p;
}

__attribute__((noinline)) void *make_garbage(size_t n)
{
    void *p = malloc(n);
    __asm__ volatile("" : "+r"(p));
    return p;
}

#define MAKE(name)                                 \
    __attribute__((noinline)) void *name(size_t n) \
    {                                              \
        void *p = malloc(n);                       \
        __asm__ volatile("" : "+r"(p));            \
        return p;                                  \
    }
MAKE(make_written)
MAKE(make_absent)
MAKE(make_half)
MAKE(make_zeros)
MAKE(make_records)
MAKE(make_only_read)

/* The bytes of whole zero lines: of 64 bytes, or less at the ends of the block. */
static size_t count_zeros(const char *block, size_t n_bytes)
{
    size_t n_zeros = 0;
    uintptr_t start = (uintptr_t)block, end = start + n_bytes;
    for (uintptr_t at = start, next; at < end; at = next) {
        int is_zero = 1;
        next = at / 64 * 64 + 64 < end ? at / 64 * 64 + 64 : end;
        for (uintptr_t i = at; i < next; i++)
            is_zero &= block[i - start] == 0;
        n_zeros += is_zero ? next - at : 0;
    }
    return n_zeros;
}

__attribute__((noinline)) char *map_region(size_t n)
{
    char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    __asm__ volatile("" : "+r"(p));
    return p;
}

/* Big blocks have mappings of their own, and begin 16 bytes behind the begin of a page, which has their header. */
static void make_blocks(void)
{
    enum { BIG = 1 << 20, N = 16, RECORD = 1000, N_RECORDS = 1000, REGION = 8 << 20 };
    size_t n_zeros = 0;
    for (int i = 0; i < N; i++) {
        memset(make_written(BIG), 1, BIG);
        make_absent(BIG);
        memset(make_half(BIG), 1, BIG / 2);
        memset(make_zeros(BIG), 0, BIG);
        volatile char *read_only = make_only_read(BIG);
        for (size_t at = 0; at < BIG; at += PAGE)
            (void)read_only[at];
    }
    for (int i = 0; i < N_RECORDS; i++) {
        char *record = make_records(RECORD);
        memset(record, 0, RECORD);
        memset(record + i % RECORD, 1, RECORD - i % RECORD < 40 ? RECORD - i % RECORD : 40);
        n_zeros += count_zeros(record, RECORD);
    }
    memset(map_region(REGION), 1, REGION / 4);
    printf("big %d\nblocks %d\nrecord %d\nrecords %d\nzeros %zu\nregion %d\n", BIG, N, RECORD, N_RECORDS, n_zeros,
           REGION);
}

static void free_most(size_t n, size_t n_bytes, unsigned keep_one_of, int at_random)
{
    void **blocks = malloc(n * sizeof *blocks);
    for (size_t i = 0; i < n; i++) {
        int stays = at_random ? next_random() % keep_one_of == 0 : i % keep_one_of == 0;
        blocks[i] = stays ? make_pins(n_bytes) : make_garbage(n_bytes);
        memset(blocks[i], 1, n_bytes);
        if (stays)
            blocks[i] = NULL;
    }
    for (size_t i = 0; i < n; i++)
        free(blocks[i]);
    free(blocks);
}

static void make_mixed(void)
{
    enum { N = 4000 };
    void **blocks = calloc(N, sizeof *blocks);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < N; i++)
            if (!blocks[i]) {
                size_t n = next_random() % 4 ? 16 + next_random() % 2000 : 16 + next_random() % 60000;
                blocks[i] = make_garbage(n);
                memset(blocks[i], 1, n);
            }
        for (size_t i = 0; i < N; i++)
            if (next_random() % 2) {
                free(blocks[i]);
                blocks[i] = NULL;
            }
    }
}

static void make_titled(void)
{
    for (char **at = environ; *at; at++)
        memset(*at, ' ', strlen(*at));
    free_most(64000, 3000, 64, 0);
}

static void make_dense(void)
{
    for (int i = 0; i < 60000; i++)
        memset(make_pins(1000), 1, 1000);
}

static void make_many(void)
{
    enum { BIG = 32 << 20, MIDDLE = 16 << 10 };
    memset(make_zeros(BIG), 0, BIG);
    for (int i = 0; i < 120000; i++) {
        memset(make_records(48), 1, 48);
        if (i % 120 == 0)
            memset(make_half(MIDDLE), 0, MIDDLE);
    }
}

static void make_private(void)
{
    enum { BIG = 60 << 20 };
    memset(make_written(BIG), 1, BIG);
    if (!geteuid() && (setgid(65534) || setuid(65534)))
        exit(3);
    prctl(PR_SET_DUMPABLE, 0);
}

static void make_top(void)
{
    free_most(20000, 1000, 20001, 0);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    free_most(40000, 1000, 40001, 0);
}

static char *written[16], *read_only[16];

/* Writes a byte of each page of some blocks, and reads one of each page of others. */
static void *use_blocks(void *unused)
{
    enum { BIG = 1 << 20 };
    for (;; usleep(1000))
        for (int i = 0; i < 16; i++)
            for (size_t at = 0; at < BIG; at += PAGE) {
                *(volatile char *)(written[i] + at) = 2;
                (void)*(volatile char *)(read_only[i] + at);
            }
    return unused;
}

/* Without huge pages, of which blocks of several functions could have parts. */
static void make_idle(void)
{
    enum { BIG = 1 << 20 };
    pthread_t thread;
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    for (int i = 0; i < 16; i++) {
        memset(make_zeros(BIG), 0, BIG);
        memset(written[i] = make_written(BIG), 1, BIG);
        memset(read_only[i] = make_only_read(BIG), 1, BIG);
    }
    pthread_create(&thread, NULL, use_blocks, NULL);
    printf("big %d\n", 16 * BIG);
}

static void *work(void *barrier)
{
    free_most(20000, 600, 40, 0);
    pthread_barrier_wait(barrier);
    pthread_barrier_wait(barrier);
    return NULL;
}

static void *work_much(void *barrier)
{
    free_most(150000, 1000, 40, 0);
    pthread_barrier_wait(barrier);
    pthread_barrier_wait(barrier);
    return NULL;
}

/* jemalloc's, if the program runs with it. */
extern int mallctl(const char *name, void *old, size_t *n_old, void *new, size_t n_new) __attribute__((weak));

/* Returns to the kernel what the allocator can return. */
static void give_back(void)
{
    if (mallctl)
        mallctl("arena.4096.purge", NULL, NULL, NULL, 0);
    else
        malloc_trim(0);
}

static long long anonymous_bytes(void)
{
    char line[256];
    long long kilobytes = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        sscanf(line, "RssAnon: %lld", &kilobytes);
    if (f)
        fclose(f);
    return kilobytes * 1024;
}

static void wait_for_end_of_input(void)
{
    char byte;
    fflush(stdout);
    while (read(0, &byte, 1) > 0)
        ;
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "";
    pthread_barrier_t barrier;
    pthread_t threads[THREADS];
    int is_joined = !strcmp(kind, "joined"), n_threads = is_joined ? 1 : !strcmp(kind, "threads") ? THREADS : 0;
    setvbuf(stdout, NULL, _IOLBF, 1024);
    if (!strcmp(kind, "blocks"))
        make_blocks();
    else if (!strcmp(kind, "sparse"))
        free_most(200000, 200, 10, 1);
    else if (!strcmp(kind, "comb"))
        free_most(64000, 3000, 64, 0);
    else if (!strcmp(kind, "dense"))
        make_dense();
    else if (!strcmp(kind, "many"))
        make_many();
    else if (!strcmp(kind, "private"))
        make_private();
    else if (!strcmp(kind, "titled"))
        make_titled();
    else if (!strcmp(kind, "mixed"))
        make_mixed();
    else if (!strcmp(kind, "small"))
        free_most(400000, 80, 500, 0);
    else if (!strcmp(kind, "top"))
        make_top();
    else if (!strcmp(kind, "idle"))
        make_idle();
    else if (!n_threads)
        return 2;
    pthread_barrier_init(&barrier, NULL, (unsigned)n_threads + 1);
    for (int i = 0; i < n_threads; i++)
        pthread_create(&threads[i], NULL, is_joined ? work_much : work, &barrier);
    if (n_threads)
        pthread_barrier_wait(&barrier);
    puts("ready 1");
    wait_for_end_of_input();
    if (strcmp(kind, "blocks")) {
        long long before = anonymous_bytes();
        give_back();
        printf("trimmed %lld\n", before - anonymous_bytes());
    }
    if (n_threads)
        pthread_barrier_wait(&barrier);
    for (int i = 0; i < n_threads; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
