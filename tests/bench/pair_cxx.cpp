// SPDX-License-Identifier: MIT
// pair_cxx PAIRS LIVE - operator new and delete of 32 bytes, PAIRS times, a random one of LIVE blocks each time; prints
// the median of nine batches, in nanoseconds of processor time a pair.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <new>
#include <vector>

static double now_ns()
{
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); // does not count the time of other programs
    return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    const long pairs = std::atol(argv[1]);
    std::vector<void *> blocks(std::max(1L, std::atol(argv[2])));
    std::vector<double> ns;
    std::uint64_t random = 1;
    for (void *&block : blocks)
        block = ::operator new(32);
    for (int batch = 0; batch < 9; batch++) {
        const double start = now_ns();
        for (long i = 0; i < pairs / 9; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            void *&block = blocks[(random >> 33) % blocks.size()];
            ::operator delete(block);
            block = ::operator new(32);
            asm volatile("" : "+r"(block)::"memory");
        }
        ns.push_back((now_ns() - start) / static_cast<double>(pairs / 9));
    }
    std::nth_element(ns.begin(), ns.begin() + 4, ns.end());
    std::printf("%.3f\n", ns[4]);
    return 0;
}
