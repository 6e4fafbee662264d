/* A whole configuration as weir runs it: immutable, reference counted, made from YAML by the one schema table.
 * A bad file makes no snapshot and says file:line:column, all errors in one pass. */
#ifndef WR_CONFIG_SNAPSHOT_H
#define WR_CONFIG_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/compiler.h"
#include "base/err.h"
#include "downstream/downstream.h"
#include "io/socket.h"
#include "transport/signer.h"
#include "upstream/cluster.h"

struct wr_snapshot_listener {
    struct wr_address address;
    int backlog;
    struct wr_downstream_options downstream;
};

struct wr_snapshot_owned;

struct wr_snapshot {
    struct wr_snapshot_owned *owned; /* memory and TLS contexts; inside of this layer */
    unsigned workers;                /* at least 1 */
    struct wr_signers_options signers;
    bool admin_enabled;
    struct wr_address admin_address; /* loopback or unix */
    const char *access_log;          /* "stdout", "stderr", a path; NULL: none */
    uint64_t drain_timeout;          /* microseconds */
    uint64_t buffer_shrink_after;    /* microseconds */
    uint64_t memory_limit;           /* bytes of the process; UINT64_MAX: none */
    const struct wr_snapshot_listener *listeners;
    size_t listener_count;
    const struct wr_cluster_options *clusters;
    size_t cluster_count;
};

/* Where configuration errors go, one call an error: "weir.yaml:3:7: what is wrong, what was expected". */
struct wr_config_report {
    void (*error)(void *arg, const char *text);
    void *arg;
};

/* Reads PATH ("-": standard input). INVALID after at least one report. Owner: the caller, by wr_snapshot_release(). */
WR_MUST_USE enum wr_err wr_snapshot_load(const char *path, const struct wr_config_report *report,
                                         const struct wr_snapshot **out);
/* The same from TEXT of N bytes; NAME stands for the file in reports, relative paths are taken from the working directory. */
WR_MUST_USE enum wr_err wr_snapshot_parse(const char *name, const char *text, size_t n,
                                          const struct wr_config_report *report,
                                          const struct wr_snapshot **out);
/* Where PATH says the admin server is. Nothing else is looked at: no certificates, no names to resolve. */
WR_MUST_USE enum wr_err wr_snapshot_load_admin(const char *path,
                                               const struct wr_config_report *report,
                                               struct wr_address *out);
/* As YAML that means the same, defaults and environment in it. */
void wr_snapshot_dump(const struct wr_snapshot *snapshot, FILE *out);
const struct wr_snapshot *wr_snapshot_retain(const struct wr_snapshot *snapshot);
void wr_snapshot_release(const struct wr_snapshot *snapshot); /* any thread; NULL is fine */

#endif
