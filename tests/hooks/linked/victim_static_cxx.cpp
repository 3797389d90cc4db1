/* SPDX-License-Identifier: MIT */
/* victim_static_cxx CONF - linked fully static: new and delete, and a request that throws out of a hook. */
#include <deltaprof/deltaprof.h>

#include <new>
#include <string>
#include <thread>
#include <vector>

__attribute__((noinline)) char *make_array(std::size_t n)
{
    return new char[n];
}

__attribute__((noinline)) std::string make_string(std::size_t n)
{
    return std::string(n, 'x');
}

static int work()
{
    std::vector<char *> kept(1000);
    for (int i = 0; i < 1000; i++) {
        try {
            make_array(std::size_t(1) << 46);
            return 2;
        } catch (const std::bad_alloc &) {
        }
        kept[i] = make_array(100);
        if (make_string(1000).size() != 1000)
            return 3;
    }
    for (int i = 0; i < 500; i++)
        delete[] kept[i];
    return 0;
}

/* A thread that begins after the start is counted from its first block on. */
int main(int, char **argv)
{
    if (deltaprof_start(argv[1]))
        return 1;
    int result = 4;
    std::thread([&result] { result = work(); }).join();
    return result;
}
