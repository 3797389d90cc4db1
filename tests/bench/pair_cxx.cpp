// SPDX-License-Identifier: MIT
// pair_cxx PAIRS LIVE - operator new and delete of 32 bytes, PAIRS times, a random one of LIVE blocks each time; prints
// the median of nine batches, in nanoseconds a pair.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

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
        const auto start = std::chrono::steady_clock::now();
        for (long i = 0; i < pairs / 9; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            void *&block = blocks[(random >> 33) % blocks.size()];
            ::operator delete(block);
            block = ::operator new(32);
            asm volatile("" : "+r"(block)::"memory");
        }
        const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
        ns.push_back(spent.count() / static_cast<double>(pairs / 9));
    }
    std::nth_element(ns.begin(), ns.begin() + 4, ns.end());
    std::printf("%.3f\n", ns[4]);
    return 0;
}
