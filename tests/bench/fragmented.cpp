// SPDX-License-Identifier: MIT
// fragmented SHAPE - makes and frees memory in a way that leaves much of it with malloc, prints the resident bytes,
// then obeys lines on standard input: `trim` gives back what the allocator can give back, by malloc_trim(0) or by
// jemalloc's decay at once, and prints the resident bytes again; the end of input ends the program.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

// jemalloc's, if the program runs with it.
extern "C" int mallctl(const char *name, void *old_value, size_t *n_old, void *value, size_t n_value)
    __attribute__((weak));

static char *make_block(size_t n_bytes)
{
    char *block = static_cast<char *>(malloc(n_bytes));
    memset(block, 1, n_bytes);
    return block;
}

// Frees all but one of `keep_one_of`, at random.
static void free_most(std::vector<char *> &blocks, unsigned keep_one_of, std::mt19937 &random)
{
    for (char *block : blocks) {
        if (random() % keep_one_of)
            free(block);
    }
    blocks.clear();
}

// Sixteen threads with an arena each, which free most of what they made and wait.
static void many_arenas()
{
    static pthread_barrier_t barrier;

    pthread_barrier_init(&barrier, nullptr, 17);
    for (unsigned i = 0; i < 16; i++) {
        std::thread([i] {
            std::mt19937 random(i);
            std::vector<char *> blocks;
            for (int n = 0; n < 15000; n++)
                blocks.push_back(make_block(16 + random() % 1000));
            free_most(blocks, 200, random);
            pthread_barrier_wait(&barrier);
            pause();
        }).detach();
    }
    pthread_barrier_wait(&barrier);
}

// Small blocks that stay between large ones that are freed.
static void large_and_small()
{
    std::mt19937 random(1);
    std::vector<char *> large;

    for (int i = 0; i < 3000; i++) {
        large.push_back(make_block(20000 + random() % 40000));
        make_block(64);
    }
    free_most(large, 10000, random);
}

// Blocks with mappings of their own: the first that is freed raises the limit, and the later ones come from the heap.
static void large_blocks()
{
    std::mt19937 random(2);
    std::vector<char *> blocks;

    free(make_block(8 << 20));
    for (int i = 0; i < 300; i++) {
        blocks.push_back(make_block(150000 + random() % 400000));
        if (i % 50 == 0)
            make_block(5000);
    }
    free_most(blocks, 40, random);
}

// One block at the end of the heap keeps all below.
static void pinned_top()
{
    std::mt19937 random(3);
    std::vector<char *> blocks;

    for (int i = 0; i < 100000; i++)
        blocks.push_back(make_block(900));
    make_block(900);
    free_most(blocks, 1000000, random);
}

// Containers of strings from which nine of ten elements go.
static void containers()
{
    static std::map<unsigned, std::string> tree;
    static std::unordered_map<unsigned, std::vector<std::string>> table;
    std::mt19937 random(4);

    for (unsigned i = 0; i < 150000; i++) {
        tree[random()] = std::string(20 + random() % 200, 'x');
        if (i % 8 == 0)
            table[i].assign(1 + random() % 8, std::string(100, 'y'));
    }
    for (auto it = tree.begin(); it != tree.end();)
        it = random() % 10 ? tree.erase(it) : std::next(it);
    for (auto it = table.begin(); it != table.end();)
        it = random() % 10 ? table.erase(it) : std::next(it);
}

static void print_resident()
{
    char line[256];
    FILE *file = fopen("/proc/self/status", "r");

    while (file && fgets(line, sizeof(line), file)) {
        long long kilobytes;
        if (sscanf(line, "RssAnon: %lld", &kilobytes) == 1)
            printf("%lld\n", kilobytes * 1024);
    }
    fclose(file);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const std::map<std::string, void (*)()> shapes = {{"many_arenas", many_arenas},
                                                      {"large_and_small", large_and_small},
                                                      {"large_blocks", large_blocks},
                                                      {"pinned_top", pinned_top},
                                                      {"containers", containers}};
    auto shape = shapes.find(argc > 1 ? argv[1] : "");
    char line[16];

    if (shape == shapes.end())
        return 2;
    shape->second();
    print_resident();
    while (fgets(line, sizeof(line), stdin)) {
        bool trims = strcmp(line, "trim\n") == 0;
        if (trims && mallctl != nullptr)
            mallctl("arena.4096.purge", nullptr, nullptr, nullptr, 0);
        else if (trims)
            malloc_trim(0);
        print_resident();
    }
    return 0;
}
