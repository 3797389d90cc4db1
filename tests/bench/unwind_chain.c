/* SPDX-License-Identifier: MIT */
/*
 * unwind_chain.c - a hundred different functions that call each other, so that stacks of up to a hundred frames have a
 * different return address in each frame. Built without frame pointers, and once more with them (CHAIN names the
 * entry).
 */
typedef void leaf_fn(void *ctx);
static leaf_fn *leaf;
static void *leaf_ctx;

#define F(n, next)                                               \
    static __attribute__((noinline)) long f##n(int left, long a) \
    {                                                            \
        volatile char room[16 + n % 7 * 24];                     \
        room[0] = (char)a;                                       \
        long r;                                                  \
        if (left <= 1) {                                         \
            leaf(leaf_ctx);                                      \
            r = 1;                                               \
        } else {                                                 \
            r = next(left - 1, a + n);                           \
        }                                                        \
        return r + a + room[0];                                  \
    }
static long f0(int left, long a);
/* clang-format off */
#define TEN(t, before) \
    F(t##9, before)    \
    F(t##8, f##t##9)   \
    F(t##7, f##t##8)   \
    F(t##6, f##t##7)   \
    F(t##5, f##t##6) F(t##4, f##t##5) F(t##3, f##t##4) F(t##2, f##t##3) F(t##1, f##t##2) F(t##0, f##t##1)
TEN(9, f0)
TEN(8, f90)
TEN(7, f80)
TEN(6, f70)
TEN(5, f60) TEN(4, f50) TEN(3, f40) TEN(2, f30) TEN(1, f20) F(9, f10) F(8, f9) F(7, f8) F(6, f7) F(5, f6) F(4, f5)
    F(3, f4) F(2, f3) F(1, f2) F(0, f1)

/* Calls fn(ctx) with depth functions of this file on the stack; shift moves them all, by 16 bytes each. */
void CHAIN(int depth, int shift, leaf_fn *fn, void *ctx)
{
    volatile char *moved = __builtin_alloca(shift * 16 + 16);
    moved[0] = 1;
    leaf = fn;
    leaf_ctx = ctx;
    f0(depth, depth);
    moved[0] = 2;
}
