/* The real binary, run by a test: WEIR_BIN names it. */
#ifndef TEST_SUPPORT_WEIR_H
#define TEST_SUPPORT_WEIR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct weir;

/* Starts `weir run` with the configuration that FORMAT and its arguments make, in a folder of its own that holds cert.pem and
 * key.pem (for localhost and 127.0.0.1); paths in the configuration are relative to it. The admin server must be configured
 * (`admin: 127.0.0.1:0`). Waits until it is ready; fails the test when it does not come up. */
struct weir *weir_start(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The port that the listener NAME ("admin": the admin server) is bound to. */
int weir_port(const struct weir *weir, const char *name);
pid_t weir_pid(const struct weir *weir);
const char *weir_dir(const struct weir *weir);
/* Sends SIGNAL (0: none), waits for the end (at most WAIT_MS, then kills and fails the test), returns the exit status. */
int weir_wait(struct weir *weir, int signal, int wait_ms);
/* Ends it if it still runs: SIGTERM must then end it with 0 within 20 s. Prints its log when that fails. Frees. */
void weir_stop(struct weir *weir);

/* What it wrote to standard error so far, and the text of a file in its folder ("access.log"). Owner: the caller. */
char *weir_log(const struct weir *weir);
char *weir_file(const struct weir *weir, const char *name);

/* GET on the admin server; the body, or NULL when the status is not 200. Owner: the caller. */
char *weir_admin_get(const struct weir *weir, const char *path);
/* The value of the one sample line that begins with SAMPLE, e.g.
 * "weir_connections_refused_total{listener=\"edge\",reason=\"not_tls\"}"; 0 when there is none. */
double weir_metric(const struct weir *weir, const char *sample);
/* Waits until the sample has VALUE; false after WAIT_MS. */
bool weir_metric_becomes(const struct weir *weir, const char *sample, double value, int wait_ms);
/* Waits until the file NAME in its folder has TEXT in it. */
bool weir_file_has(const struct weir *weir, const char *name, const char *text, int wait_ms);
/* Resident memory in bytes. */
size_t weir_rss(const struct weir *weir);
/* User and system CPU time so far, in milliseconds. */
unsigned long weir_cpu_ms(const struct weir *weir);

/* 1, or more under a slow build (WEIR_TEST_SLOW): what a test multiplies its timeouts with. */
int weir_slowness(void);

#endif
