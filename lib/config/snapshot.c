#include "config/snapshot.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "config/cores.h"
#include "config/snapshot_internal.h"

/* A configuration larger than this is a mistake. */
#define FILE_MAX (4u << 20)
#define WORKERS_MAX 256

static void release(struct wr_snapshot_owned *owned)
{
    for (size_t i = 0; i < owned->snapshot.listener_count; i++)
        wr_tls_server_release(owned->listeners[i].downstream.tls);
    for (size_t i = 0; i < owned->snapshot.cluster_count; i++)
        wr_tls_client_release(owned->clusters[i].tls);
    wr_arena_free(&owned->arena);
    free(owned);
}

/* Left to itself: only for what is worth the way to another thread, only on cores that workers leave, and no more than they can
 * keep busy. A number is an order: that many, and for all keys. */
static struct wr_signers_options signers_of(const struct wr_model *model, unsigned workers)
{
    if (model->signers == WR_COUNT_WORD(WR_SIGNERS_OFF))
        return (struct wr_signers_options){.threads = 0};
    if (model->signers != WR_COUNT_WORD(WR_SIGNERS_AUTO))
        return (struct wr_signers_options){.threads = (unsigned)model->signers, .all_keys = true};
    unsigned cores = wr_cores_available();
    unsigned spare = cores > workers ? cores - workers : 0;
    return (struct wr_signers_options){.threads = spare < workers ? spare : workers};
}

static uint64_t memory_limit_of(const struct wr_model *model)
{
    if (model->memory_limit != WR_COUNT_WORD(0))
        return model->memory_limit;
    uint64_t available = wr_memory_available();
    return available == UINT64_MAX ? UINT64_MAX : available / 10 * 9;
}

static void build_process(struct wr_snapshot_owned *owned, struct wr_errors *errors,
                          const struct wr_model *model)
{
    struct wr_snapshot *snapshot = &owned->snapshot;
    uint64_t workers;

    if (wr_str_eq(model->workers, WR_STR("auto")))
        snapshot->workers = wr_cores_available();
    else if (wr_str_parse_u63(model->workers, &workers) && workers >= 1 && workers <= WORKERS_MAX)
        snapshot->workers = (unsigned)workers;
    else
        wr_errors_add(errors, model->base.mark, "workers is \"%.*s\", expected auto or 1 to %d",
                      WR_STR_ARG(model->workers), WORKERS_MAX);
    snapshot->signers = signers_of(model, snapshot->workers);
    snapshot->buffer_shrink_after = model->buffer_shrink_after;
    snapshot->memory_limit = memory_limit_of(model);
    snapshot->drain_timeout = model->defaults.timeouts.drain;
    if (model->admin.base.given) {
        snapshot->admin_enabled = true;
        snapshot->admin_address = model->admin.bind;
        if (model->admin.bind.length > 0 && !wr_address_is_loopback(&model->admin.bind))
            wr_errors_add(errors, model->admin.base.mark,
                          "admin is open to other machines, expected a loopback address or unix:");
    }
    if (model->access_log.base.given)
        snapshot->access_log = model->access_log.to.p;
}

static enum wr_err build(struct wr_snapshot_owned *owned, struct wr_errors *errors,
                         const char *text, size_t n)
{
    struct wr_yaml_node *root;
    struct wr_model *model = wr_arena_alloc_zero(&owned->arena, sizeof(*model));
    enum wr_err err = wr_yaml_parse(&owned->arena, text, n, errors, &root);

    owned->model = model;
    if (err != WR_OK)
        return err;
    wr_model_read(&owned->arena, errors, root, model);
    build_process(owned, errors, model);
    wr_snapshot_build_clusters(owned, errors, model);
    wr_snapshot_build_listeners(owned, errors, model);
    return errors->count == 0 ? WR_OK : WR_ERR_INVALID;
}

enum wr_err wr_snapshot_parse(const char *name, const char *text, size_t n,
                              const struct wr_config_report *report, const struct wr_snapshot **out)
{
    struct wr_errors errors = {.report = report, .name = name};
    struct wr_snapshot_owned *owned = WR_NEW(struct wr_snapshot_owned);

    owned->snapshot.owned = owned;
    atomic_init(&owned->references, 1);
    wr_arena_init(&owned->arena);
    enum wr_err err = build(owned, &errors, text, n);
    wr_errors_tell(&errors);
    if (err != WR_OK) {
        release(owned);
        return err;
    }
    *out = &owned->snapshot;
    return WR_OK;
}

/* The whole of FILE, at most FILE_MAX bytes; NULL when it cannot be read or is larger. Owner: the caller. */
static char *read_all(FILE *file, size_t *n)
{
    char *text = wr_new_bytes(FILE_MAX + 1);

    *n = fread(text, 1, FILE_MAX + 1, file);
    if (ferror(file) || *n > FILE_MAX) {
        free(text);
        return NULL;
    }
    return text;
}

static const char *name_of(const char *path)
{
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

/* The text of PATH; NULL when it cannot be had, and that has been reported. Owner: the caller. */
static char *load_text(const char *path, const struct wr_config_report *report, size_t *n)
{
    bool from_stdin = strcmp(path, "-") == 0;
    struct wr_errors errors = {.report = report, .name = name_of(path)};
    FILE *file = from_stdin ? stdin : fopen(path, "re");
    char *text = NULL;

    if (!file) {
        wr_errors_add(&errors, (struct wr_mark){0, 0},
                      "cannot be opened: %s, expected a configuration file", strerror(errno));
    } else {
        text = read_all(file, n);
        if (!from_stdin)
            (void)fclose(file);
        if (!text)
            wr_errors_add(&errors, (struct wr_mark){0, 0},
                          "cannot be read, expected a file of at most %u MiB", FILE_MAX >> 20);
    }
    wr_errors_tell(&errors);
    return text;
}

enum wr_err wr_snapshot_load(const char *path, const struct wr_config_report *report,
                             const struct wr_snapshot **out)
{
    size_t n = 0;
    char *text = load_text(path, report, &n);

    if (!text)
        return WR_ERR_INVALID;
    enum wr_err err = wr_snapshot_parse(name_of(path), text, n, report, out);
    free(text);
    return err;
}

enum wr_err wr_snapshot_load_admin(const char *path, const struct wr_config_report *report,
                                   struct wr_address *out)
{
    size_t n = 0;
    char *text = load_text(path, report, &n);
    struct wr_errors errors = {.report = report, .name = name_of(path)};
    struct wr_arena arena;
    struct wr_yaml_node *root;
    struct wr_model model = {.workers = WR_STR_EMPTY};

    if (!text)
        return WR_ERR_INVALID;
    wr_arena_init(&arena);
    if (wr_yaml_parse(&arena, text, n, &errors, &root) == WR_OK)
        wr_model_read(&arena, &errors, root, &model);
    if (errors.count == 0 && !model.admin.base.given)
        wr_errors_add(&errors, (struct wr_mark){0, 0},
                      "has no admin server to ask, expected admin: 127.0.0.1:PORT or unix:/path");
    *out = model.admin.bind;
    wr_errors_tell(&errors);
    wr_arena_free(&arena);
    free(text);
    return errors.count == 0 ? WR_OK : WR_ERR_INVALID;
}

const struct wr_snapshot *wr_snapshot_retain(const struct wr_snapshot *snapshot)
{
    atomic_fetch_add_explicit(&snapshot->owned->references, 1, memory_order_relaxed);
    return snapshot;
}

void wr_snapshot_release(const struct wr_snapshot *snapshot)
{
    if (!snapshot)
        return;
    struct wr_snapshot_owned *owned = snapshot->owned;
    if (atomic_fetch_sub_explicit(&owned->references, 1, memory_order_acq_rel) == 1)
        release(owned);
}
