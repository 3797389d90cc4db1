/* SPDX-License-Identifier: MIT */
/* elsewhere.c - a library with a function that libc has, too. */
#include <unistd.h>

__attribute__((visibility("default"))) int daemon(int nochdir, int noclose)
{
    return nochdir + noclose;
}
