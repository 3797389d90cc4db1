/* SPDX-License-Identifier: MIT */
/* profile/directory.c - expands the key `out`. No stdio: a crash handler may need it. */
#include "profile/directory.h"

#include "base/process.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>
#include <sys/utsname.h>

int dp_profile_directory_expand(const char *out, const char *program, int pid, char *dir, size_t n_bytes)
{
    struct utsname host;
    if (uname(&host))
        strcpy(host.nodename, "unknown");
    char fit[sizeof host.nodename];
    dp_process_fit_name(fit, sizeof fit, host.nodename);
    size_t n = 0;
    dir[0] = '\0';
    for (const char *p = out; *p; p++) {
        char *at = dir + n;
        size_t room = n_bytes - n;
        if (*p != '%' || !p[1])
            n += dp_text_format(at, room, "%s", ((char[]){*p, '\0'}));
        else if (*++p == 'e')
            n += dp_text_format(at, room, "%s", program);
        else if (*p == 'p')
            n += dp_text_format(at, room, "%d", pid);
        else if (*p == 'h')
            n += dp_text_format(at, room, "%s", fit);
        else
            n += dp_text_format(at, room, "%s", ((char[]){*p, '\0'}));
        if (n + 1 >= n_bytes)
            return -ENAMETOOLONG;
    }
    return 0;
}
