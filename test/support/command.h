/* Real programs, run by a test through the shell. */
#ifndef TEST_SUPPORT_COMMAND_H
#define TEST_SUPPORT_COMMAND_H

/* Runs what FORMAT makes with at most SECONDS to live; *OUTPUT is what it wrote to either stream (owner: the caller). Returns
 * its exit status (124: time was over). */
int command_run(int seconds, char **output, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
