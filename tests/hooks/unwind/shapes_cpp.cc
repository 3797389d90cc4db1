/* SPDX-License-Identifier: MIT */
/* shapes_cpp.cc - shapes that C++ adds: destructors and handlers during an exception, virtual calls, calls from std.
 */
#include <algorithm>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

typedef void check_fn(const char *what);
static check_fn *check;

#define KEEP __asm__ volatile("" ::: "memory")

struct witness {
    std::string name = "a name that does not fit into the string itself";
    ~witness()
    {
        check("destructor");
    }
};

static __attribute__((noinline)) void throws(int depth)
{
    witness w;
    if (depth == 0) {
        check("before the throw");
        throw std::runtime_error("from " + w.name);
    }
    throws(depth - 1);
    KEEP;
}

static __attribute__((noinline)) void catches(int depth)
{
    try {
        throws(depth);
    } catch (const std::logic_error &) {
        check("not this one");
    } catch (const std::exception &e) {
        check("handler");
        std::string again = e.what();
        try {
            witness w;
            throw;
        } catch (...) {
            check("inner handler");
        }
    }
    KEEP;
}

struct shape {
    virtual ~shape() = default;
    virtual int area(int n) = 0;
};
struct square : shape {
    int area(int n) override
    {
        check("virtual call");
        return n ? area(n - 1) + n : 0;
    }
};

struct alignas(64) wide {
    float f[64];
};
template <typename F> static int applies(F f, int n)
{
    wide w;
    for (int i = 0; i < 64; i++)
        w.f[i] = (float)(i * n);
    int r = f(n) + (int)w.f[n % 64];
    KEEP;
    return r;
}

extern "C" void run(check_fn *fn, int ticks)
{
    check = fn;
    for (int i = 0; i < 6; i++)
        catches(i);
    std::unique_ptr<shape> s = std::make_unique<square>();
    s->area(6);
    std::vector<int> v;
    for (int i = 0; i < 30; i++)
        v.push_back(i * 7919 % 101);
    std::sort(v.begin(), v.end(), [](int a, int b) {
        check("comparison");
        return a < b;
    });
    std::function<int(int)> f = [&](int n) {
        check("std::function");
        return n ? f(n - 1) + applies(f, n - 1) : 1;
    };
    f(4);
    applies(
        [](int n) {
            check("lambda");
            return n;
        },
        3);
    std::thread([] { catches(3); }).join();
    KEEP;
}
