/*
 * Runs a fuzz target over the files and folders given: the regression test of its corpus where libFuzzer is not
 * linked. A finding ends the program as it would under libFuzzer: by abort or by a sanitizer.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_path(const char *path, unsigned *count);

/* A buffer of exactly the file's size, so that a sanitizer sees a read past its end. */
static int replay_file(const char *path, size_t size, unsigned *count)
{
    FILE *file = fopen(path, "rbe");
    uint8_t *data = malloc(size ? size : 1);
    int bad = !file || !data || fread(data, 1, size, file) != size;

    if (bad) {
        perror(path);
    } else {
        (void)LLVMFuzzerTestOneInput(data, size);
        (*count)++;
    }
    free(data);
    if (file)
        (void)fclose(file);
    return bad;
}

static int replay_folder(const char *path, unsigned *count)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    char child[4096];
    int bad = 0;

    if (!dir) {
        perror(path);
        return 1;
    }
    while ((entry = readdir(dir))) {
        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(child, sizeof(child), "%s/%s", path, entry->d_name);
        bad |= replay_path(child, count);
    }
    (void)closedir(dir);
    return bad;
}

static int replay_path(const char *path, unsigned *count)
{
    struct stat st;

    if (stat(path, &st) != 0) {
        perror(path);
        return 1;
    }
    if (S_ISDIR(st.st_mode))
        return replay_folder(path, count);
    return replay_file(path, (size_t)st.st_size, count);
}

int main(int argc, char **argv)
{
    unsigned count = 0;
    int bad = 0;

    for (int i = 1; i < argc; i++)
        bad |= replay_path(argv[i], &count);
    printf("replayed %u inputs\n", count);
    return bad || count == 0;
}
