#include "config/cores.h"

#include <sched.h>
#include <stdio.h>
#include <unistd.h>

/* Cores that a quota of QUOTA microseconds each PERIOD is worth, rounded up. */
static unsigned quota_cores(long long quota, long long period)
{
    if (quota <= 0 || period <= 0)
        return 0;
    return (unsigned)((quota + period - 1) / period);
}

/* 0: no quota, or none that can be read. */
static unsigned cgroup_cores(void)
{
    long long quota = 0;
    long long period = 0;
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");

    if (file) {
        if (fscanf(file, "%lld %lld", &quota, &period) != 2)
            quota = 0; /* "max" */
        (void)fclose(file);
        return quota_cores(quota, period);
    }
    file = fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "re");
    if (file) {
        if (fscanf(file, "%lld", &quota) != 1)
            quota = 0;
        (void)fclose(file);
    }
    file = fopen("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "re");
    if (file) {
        if (fscanf(file, "%lld", &period) != 1)
            period = 0;
        (void)fclose(file);
    }
    return quota_cores(quota, period);
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
