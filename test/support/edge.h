/* weir with one TLS listener, "edge", that answers itself: what tests of the gate stand on, and how they count. */
#ifndef TEST_SUPPORT_EDGE_H
#define TEST_SUPPORT_EDGE_H

#include <stdbool.h>
#include <stddef.h>

#include "support/weir.h"

/* Parts of the configuration, in flow style without braces; NULL: nothing. */
struct edge_options {
    unsigned workers;      /* 0: 1 */
    const char *admission; /* NULL: as by default, but no wait of a slow build is too long */
    const char *requests;
    const char *timeouts;
    const char *limits;
    const char *tls;       /* besides the certificate of the folder */
    bool own_certificates; /* TLS has them */
    const char *routes;    /* before the one to an own answer: "{match: ..}, {..}" */
    const char *more;      /* further lines of the file */
    unsigned descriptors;  /* what weir may open; 0: what the test may */
};

struct weir *edge_start(const struct edge_options *options); /* OPTIONS may be NULL */
/* Between these, weir_start() runs weir with at most DESCRIPTORS; DIR gets a script that does so. */
void edge_limit_descriptors(const char *dir, unsigned descriptors);
void edge_unlimit_descriptors(void);

/* A new client gets its answer. */
bool edge_serves(const struct weir *weir);

/* ---- counting ---- */

/* The sum of all samples that begin with PREFIX in TEXT, the body of /metrics. */
double edge_sum(const char *text, const char *prefix);
double edge_refused(const struct weir *weir, const char *reason);
/* Waits until REASON has been counted N times, and expects that no other reason has been counted at all. */
void edge_expect_refused(const struct weir *weir, const char *reason, unsigned n);
/* Waits until exactly ACCEPTED are counted; then accepted = refused + closed + open, with OPEN of them still there. */
void edge_expect_balance(const struct weir *weir, unsigned accepted, unsigned open);
/* Lines of access.log that have TEXT in them; the second waits until there are N and expects no more than that. */
unsigned edge_log_lines(const struct weir *weir, const char *text);
void edge_expect_log_lines(const struct weir *weir, const char *text, unsigned n);

/* The most resident memory it has had so far, in bytes. */
size_t edge_rss_peak(const struct weir *weir);

/* ---- time ---- */

/* Sanitizers or WEIR_TEST_SLOW: memory and speed say nothing. */
bool edge_is_slow(void);
/* MS, or more in a slow build. */
int edge_ms(int ms);
long edge_now_ms(void);
void edge_nap(int ms);

#endif
