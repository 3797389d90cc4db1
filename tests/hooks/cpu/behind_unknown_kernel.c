/* SPDX-License-Identifier: MIT */
/* Behind the preload object: a kernel whose version does not tell how its CPU timers behave. */
#include <string.h>
#include <sys/utsname.h>

__attribute__((visibility("default"))) int uname(struct utsname *name)
{
    memset(name, 0, sizeof *name);
    strcpy(name->sysname, "Linux");
    strcpy(name->machine, "x86_64");
    strcpy(name->release, "4.19.0");
    return 0;
}
