// SPDX-License-Identifier: MIT
// victim_new - calls operator new and delete in every plain form. With -DREPLACES the program defines some of them
// itself, and the other forms in the C++ library call those. Prints how often the program's operators were called, and
// how a request that fails ends.
#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

static long n_new, n_delete, n_handled;

#ifdef REPLACES
void *operator new(std::size_t n)
{
    n_new++;
    void *ptr = std::malloc(n + 16); // only the delete below knows of the 16 bytes
    if (!ptr)
        throw std::bad_alloc();
    return static_cast<char *>(ptr) + 16;
}
void operator delete(void *ptr) noexcept
{
    n_delete++;
    if (ptr)
        std::free(static_cast<char *>(ptr) - 16);
}
void operator delete(void *ptr, std::size_t) noexcept
{
    ::operator delete(ptr);
}
#endif

static void handler()
{
    if (++n_handled % 3 == 0)
        std::set_new_handler(nullptr);
}

extern "C" __attribute__((noinline)) void *make(unsigned i)
{
    std::size_t n = i * 7919 % 3000;
    switch (i % 4) {
    case 0:
        return ::operator new(n);
    case 1:
        return ::operator new[](n);
    case 2:
        return ::operator new(n, std::nothrow);
    default:
        return ::operator new[](n, std::nothrow);
    }
}

static void drop(void *ptr, unsigned i)
{
    switch (i % 4) {
    case 0:
        return i % 8 ? ::operator delete(ptr) : ::operator delete(ptr, i * 7919 % 3000);
    case 1:
        return i % 8 == 1 ? ::operator delete[](ptr) : ::operator delete[](ptr, i * 7919 % 3000);
    case 2:
        return ::operator delete(ptr, std::nothrow);
    default:
        return ::operator delete[](ptr, std::nothrow);
    }
}

int main()
{
    std::vector<void *> blocks(5000);
    for (unsigned i = 0; i < 100000; i++) {
        unsigned at = i * 2654435761u % 5000 / 4 * 4 + i % 4;
        if (blocks[at])
            drop(blocks[at], at);
        blocks[at] = make(at);
        if (!blocks[at] || reinterpret_cast<std::size_t>(blocks[at]) % 16)
            return 9;
        *static_cast<volatile char *>(blocks[at]) = 1;
    }
    for (unsigned i = 0; i < blocks.size(); i++)
        if (blocks[i])
            drop(blocks[i], i);
    ::operator delete(nullptr);
    volatile std::size_t half = ~std::size_t(0) / 2;
    for (int turn = 0; turn < 2; turn++) {
        std::set_new_handler(handler);
        try {
            ::operator delete(::operator new(half));
        } catch (const std::bad_alloc &) {
            std::printf("bad_alloc after %ld calls of the handler\n", n_handled);
        }
        std::printf("without exceptions: %s\n", ::operator new[](half, std::nothrow) ? "a block" : "null");
    }
    std::printf("own new %ld, own delete %ld\n", n_new, n_delete);
    return 0;
}
