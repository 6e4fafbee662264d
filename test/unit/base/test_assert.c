#include <criterion/criterion.h>

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"

Test(assert, a_broken_invariant_is_named_and_ends_the_process)
{
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        WR_ASSERT(1 + 1 == 3);
        _exit(0);
    }
    close(ends[1]);
    char text[512] = "";
    ssize_t n = read(ends[0], text, sizeof(text) - 1);
    close(ends[0]);
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    cr_assert_gt(n, 0);
    cr_assert_not_null(strstr(text, "1 + 1 == 3"));
    cr_assert_not_null(strstr(text, "test_assert.c:"));
}

Test(assert, is_evaluated_once)
{
    int times = 0;
    WR_ASSERT(++times == 1);
    cr_assert_eq(times, 1);
}
