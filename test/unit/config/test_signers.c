/* The key `signers`: a word or a number, and what auto makes of workers and cores. */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "config/cores.h"
#include "config/snapshot.h"

#define REST "listeners:\n  - bind: 127.0.0.1:0\n    routes: [{respond: {status: 200}}]\n"

static char said[512];

static void on_error(void *arg, const char *text)
{
    (void)arg;
    (void)snprintf(said, sizeof(said), "%s", text);
}

static const struct wr_snapshot *parse(const char *head)
{
    const struct wr_config_report report = {.error = on_error};
    const struct wr_snapshot *snapshot = NULL;
    char text[512];
    int n = snprintf(text, sizeof(text), "%s%s", head, REST);

    said[0] = '\0';
    (void)!wr_snapshot_parse("t.yaml", text, (size_t)n, &report, &snapshot);
    return snapshot;
}

static void expect(const char *head, unsigned threads, bool all_keys)
{
    const struct wr_snapshot *snapshot = parse(head);
    cr_assert_not_null(snapshot, "%s", said);
    cr_expect_eq(snapshot->signers.threads, threads, "%s: %u", head, snapshot->signers.threads);
    cr_expect_eq(snapshot->signers.all_keys, all_keys, "%s", head);
    wr_snapshot_release(snapshot);
}

static void expect_refused(const char *head, const char *text)
{
    cr_expect_null(parse(head));
    cr_expect_not_null(strstr(said, text), "%s: %s", head, said);
}

Test(signers, words_and_numbers)
{
    expect("signers: off\n", 0, false);
    expect("signers: 1\nworkers: 1\n", 1, true);
    expect("signers: 256\n", 256, true);
    expect_refused("signers: 0\n", "t.yaml:1:10: signers is 0, out of range, expected 1 to 256");
    expect_refused("workers: 1\nsigners: 257\n", "t.yaml:2:10: signers is 257, out of range");
    expect_refused("signers: many\n",
                   "t.yaml:1:10: signers is \"many\", expected a whole number or auto | off");
    expect_refused("signers: infinity\n", "signers is \"infinity\", expected");
    expect_refused("signers: 18446744073709551613\n", "signers is \"18446744073709551613\"");
    expect_refused("signers: [1]\n", "signers is a list, expected");
}

Test(signers, auto_takes_what_workers_leave)
{
    unsigned cores = wr_cores_available();
    char head[64];

    expect("workers: auto\n", 0, false);
    expect("workers: 256\n", 0, false);
    for (unsigned workers = 1; workers <= cores + 1; workers++) {
        unsigned spare = cores > workers ? cores - workers : 0;
        (void)snprintf(head, sizeof(head), "workers: %u\nsigners: auto\n", workers);
        expect(head, spare < workers ? spare : workers, false);
    }
}

Test(signers, auto_has_none_on_one_core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)sched_getcpu(), &set);
    cr_assert_eq(sched_setaffinity(0, sizeof(set), &set), 0);
    expect("workers: 1\n", 0, false);
}
