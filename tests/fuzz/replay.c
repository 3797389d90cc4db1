/* SPDX-License-Identifier: MIT */
/*
 * Replaces a fuzzing engine: passes each of the given files, and each file of the given directories, to the target
 * once.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return 0;
    static uint8_t data[1 << 22];
    size_t size = fread(data, 1, sizeof data, f);
    fclose(f);
    uint8_t *exact = malloc(size ? size : 1); /* so that ASan sees a read beyond it */
    for (size_t i = 0; i < size; i++)
        exact[i] = data[i];
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    return 1;
}

int main(int argc, char **argv)
{
    int n = 0;
    for (int i = 1; i < argc; i++) {
        DIR *dir = opendir(argv[i]);
        if (!dir)
            n += replay(argv[i]);
        for (struct dirent *entry; dir && (entry = readdir(dir));) {
            char path[4096];
            snprintf(path, sizeof path, "%s/%s", argv[i], entry->d_name);
            if (entry->d_name[0] != '.')
                n += replay(path);
        }
        if (dir)
            closedir(dir);
    }
    printf("%d inputs\n", n);
    return n == 0;
}
