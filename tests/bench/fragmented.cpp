// SPDX-License-Identifier: MIT
// fragmented SHAPE - makes and frees memory in a way that leaves much of it with malloc, prints the resident bytes,
// then obeys lines on standard input: `trim` gives back what the allocator can give back, by malloc_trim(0) or by
// jemalloc's decay at once, and prints the resident bytes again; the end of input ends the program.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
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

// An import reads rows, of which an index keeps few, and frees the rest.
static void import_peak()
{
    struct row {
        std::string key, text;
        std::vector<int> cells;
    };
    static std::unordered_map<std::string, std::string> index;
    std::vector<std::unique_ptr<row>> rows;
    std::mt19937 random(5);

    for (int i = 0; i < 150000; i++) {
        rows.push_back(std::make_unique<row>());
        rows.back()->key = std::string(20, 'k') + std::to_string(random());
        rows.back()->text = std::string(100 + random() % 600, 't');
        rows.back()->cells.resize(10 + random() % 50, 7);
        if (i % 150 == 0)
            index[rows.back()->key] = rows.back()->text;
    }
}

// Twelve threads answer requests, of which a cache keeps something now and then; then all are idle.
static void workers()
{
    static pthread_barrier_t barrier;
    static std::mutex lock;
    static std::map<unsigned, std::string> cache;

    pthread_barrier_init(&barrier, nullptr, 13);
    for (unsigned i = 0; i < 12; i++) {
        std::thread([i] {
            std::mt19937 random(i);
            for (int request = 0; request < 30; request++) {
                std::vector<std::string> parts;
                for (int n = 0; n < 9000; n++) {
                    parts.emplace_back(64 + random() % 1500, 'o');
                    if (random() % 3000 == 0) {
                        std::lock_guard<std::mutex> guard(lock);
                        cache[random()] = std::string(200, 'c');
                    }
                }
            }
            pthread_barrier_wait(&barrier);
            pause();
        }).detach();
    }
    pthread_barrier_wait(&barrier);
}

// Sessions come in three tides, after each of which one of twelve stays.
static void tides()
{
    struct session {
        std::vector<char> in, out;
        std::map<std::string, std::string> variables;
    };
    static std::list<std::unique_ptr<session>> sessions;
    std::mt19937 random(6);

    for (int tide = 0; tide < 3; tide++) {
        for (int i = 0; i < 9000 + tide * 1500; i++) {
            sessions.push_back(std::make_unique<session>());
            sessions.back()->in.resize(2048 + random() % 6000, 1);
            sessions.back()->out.resize(1024 + random() % 9000, 2);
            for (int n = 0; n < 8; n++)
                sessions.back()->variables["variable" + std::to_string(n)] = std::string(40 + random() % 100, 'v');
            if (i % 40 == 0)
                sessions.pop_front();
        }
        sessions.remove_if([&](const std::unique_ptr<session> &) { return random() % 12 != 0; });
    }
}

// Images of 40 kB to 3 MB pass through a queue, and their thumbnails stay.
static void images()
{
    static std::vector<std::vector<char>> thumbnails;
    std::deque<std::vector<char>> queue;
    std::mt19937 random(7);

    for (int i = 0; i < 1500; i++) {
        queue.emplace_back(random() % 3 ? 150000 + random() % 3000000 : 40000 + random() % 60000, 1);
        if (i % 5 == 0)
            thumbnails.emplace_back(2000 + random() % 9000, 2);
        if (queue.size() > 90)
            queue.erase(queue.begin() + random() % queue.size());
    }
}

// A parser frees tokens and trees, and keeps symbols that lie between them.
static void parser()
{
    static std::vector<std::string> symbols;
    std::list<std::vector<std::unique_ptr<std::string>>> trees;
    std::mt19937 random(8);

    for (int file = 0; file < 60; file++) {
        std::vector<std::string> tokens;
        trees.emplace_back();
        for (int i = 0; i < 16000; i++) {
            tokens.emplace_back(20 + random() % 60, 'a');
            trees.back().push_back(std::make_unique<std::string>(40 + random() % 120, 'n'));
            if (random() % 60 == 0)
                symbols.emplace_back(24 + random() % 40, 's');
        }
        if (trees.size() > 20)
            trees.pop_front();
    }
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
                                                      {"containers", containers},
                                                      {"import_peak", import_peak},
                                                      {"workers", workers},
                                                      {"tides", tides},
                                                      {"images", images},
                                                      {"parser", parser}};
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
