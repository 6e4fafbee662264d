#include "config/cores.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/compiler.h"

#define UNLIMITED (1LL << 60) /* what version 1 says then is about 2^63 */

/* Cores that a quota of QUOTA microseconds each PERIOD is worth, rounded up. */
static unsigned quota_cores(long long quota, long long period)
{
    if (quota <= 0 || period <= 0)
        return 0;
    return (unsigned)((quota + period - 1) / period);
}

/* The first COUNT numbers in the file, those that are not there (and "max") 0. False: no file. */
static bool read_numbers(const char *path, long long *numbers, size_t count)
{
    char line[64] = "";
    FILE *file = fopen(path, "re");

    if (!file)
        return false;
    if (!fgets(line, sizeof(line), file))
        line[0] = '\0';
    (void)fclose(file);
    char *at = line;
    for (size_t i = 0; i < count; i++)
        numbers[i] = strtoll(at, &at, 10);
    return true;
}

/* 0: no quota, or none that can be read. */
static unsigned cgroup_cores(void)
{
    long long both[2] = {0, 0};

    if (read_numbers("/sys/fs/cgroup/cpu.max", both, 2))
        return quota_cores(both[0], both[1]);
    if (read_numbers("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", &both[0], 1) &&
        read_numbers("/sys/fs/cgroup/cpu/cpu.cfs_period_us", &both[1], 1))
        return quota_cores(both[0], both[1]);
    return 0;
}

uint64_t wr_memory_available(void)
{
    static const char *const paths[] = {"/sys/fs/cgroup/memory.max",
                                        "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    for (size_t i = 0; i < WR_COUNT_OF(paths); i++) {
        long long bytes = 0;
        if (read_numbers(paths[i], &bytes, 1) && bytes > 0 && bytes < UNLIMITED)
            return (uint64_t)bytes;
    }
    return UINT64_MAX;
}

unsigned wr_cores_available(void)
{
    cpu_set_t set;
    unsigned cores = 1;

    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        cores = (unsigned)CPU_COUNT(&set);
    else if (sysconf(_SC_NPROCESSORS_ONLN) > 0)
        cores = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    unsigned quota = cgroup_cores();
    if (quota > 0 && quota < cores)
        cores = quota;
    return cores > 0 ? cores : 1;
}
