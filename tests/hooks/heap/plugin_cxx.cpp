// SPDX-License-Identifier: MIT
// plugin_cxx.cpp - a C++ library for a C program to open: destructors, exceptions, new and delete in every form.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <time.h>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default"), noinline))

static int n_destroyed;

struct noisy {
    std::string text = "a string that does not fit into the small buffer";
    ~noisy()
    {
        n_destroyed++;
    }
};

static void wait_forever()
{
    noisy here;
    for (;;) {
        timespec t{0, 1000000};
        nanosleep(&t, nullptr); // a cancellation point
    }
}

static void *exits(void *)
{
    noisy here;
    std::vector<noisy> more(3);
    pthread_exit(nullptr);
}

static void *waits(void *)
{
    noisy here;
    wait_forever();
    return nullptr;
}

EXPORT int plugin_destructors_run()
{
    pthread_t thread;
    n_destroyed = 0;
    pthread_create(&thread, nullptr, exits, nullptr);
    pthread_join(thread, nullptr);
    int exited = n_destroyed;
    pthread_create(&thread, nullptr, waits, nullptr);
    timespec t{0, 20000000};
    nanosleep(&t, nullptr);
    pthread_cancel(thread);
    pthread_join(thread, nullptr);
    return exited * 10 + n_destroyed - exited; // 4 and 2
}

static size_t volatile huge = SIZE_MAX / 2 - 100, half_of_that = (size_t)1 << 62;

// One line a form; addresses are not printed.
EXPORT void plugin_news()
{
    struct alignas(128) wide {
        char bytes[300];
    };
    // Through the operators themselves, so that the compiler elides nothing.
    void *p = ::operator new(100);
    ::operator delete(p);
    p = ::operator new[](100);
    ::operator delete[](p);
    p = ::operator new(100, std::nothrow);
    ::operator delete(p, std::nothrow);
    p = ::operator new[](100, std::nothrow);
    ::operator delete[](p, std::nothrow);
    p = ::operator new(300, std::align_val_t(128));
    std::printf("aligned: %d\n", (int)((uintptr_t)p % 128));
    ::operator delete(p, std::align_val_t(128));
    p = ::operator new[](300, std::align_val_t(128));
    ::operator delete[](p, std::align_val_t(128));
    p = ::operator new(300, std::align_val_t(128), std::nothrow);
    ::operator delete(p, std::align_val_t(128), std::nothrow);
    p = ::operator new[](300, std::align_val_t(128), std::nothrow);
    ::operator delete[](p, std::align_val_t(128), std::nothrow);
    p = ::operator new(64);
    ::operator delete(p, 64);
    p = ::operator new[](64);
    ::operator delete[](p, 64);
    p = ::operator new(300, std::align_val_t(128));
    ::operator delete(p, 300, std::align_val_t(128));
    p = ::operator new[](300, std::align_val_t(128));
    ::operator delete[](p, 300, std::align_val_t(128));
    ::operator delete(nullptr);
    auto *w = new wide[3];
    std::printf("array aligned: %d\n", (int)((uintptr_t)w % 128));
    delete[] w;
    std::printf("nothrow: %d %d\n", ::operator new(huge, std::nothrow) == nullptr,
                ::operator new[](huge, std::nothrow) == nullptr);
}

static int n_handled;

static void give_up()
{
    if (++n_handled == 3)
        std::set_new_handler(nullptr);
}

// Exceptions through operator new, and through frames that hold blocks of their own.
EXPORT int plugin_throws(int n)
{
    int n_caught = 0;
    for (int i = 0; i < n; i++) {
        try {
            noisy here;
            ::operator delete(i % 2 ? ::operator new(huge) : ::operator new[](huge));
        } catch (std::bad_alloc const &) {
            n_caught++;
        }
        try {
            throw std::runtime_error("a message that takes memory of its own");
        } catch (std::runtime_error const &) {
            n_caught++;
        }
    }
    n_handled = 0;
    std::set_new_handler(give_up);
    try {
        ::operator delete(::operator new(huge));
    } catch (std::bad_alloc const &) {
        n_caught += n_handled;
    }
    try {
        ::operator delete(::operator new(half_of_that));
    } catch (std::bad_alloc const &) {
        n_caught++;
    }
    return n_caught;
}

EXPORT void *plugin_new(size_t n)
{
    void *p = ::operator new(n);
    __asm__ volatile("" ::"r"(p) : "memory");
    return p;
}

EXPORT void *plugin_new_array(size_t n)
{
    char *p = new char[n];
    __asm__ volatile("" ::"r"(p) : "memory");
    return p;
}

EXPORT void plugin_delete(void *p)
{
    ::operator delete(p);
}
