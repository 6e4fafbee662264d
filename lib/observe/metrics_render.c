/* Prometheus text exposition format 0.0.4. A family is a row of metrics.def; a group is the blocks of one scope and label,
 * shown as one. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/compiler.h"
#include "base/mem.h"
#include "observe/metrics.h"
#include "observe/metrics_table.h"

struct text {
    char *p;
    size_t n;
    size_t room; /* bytes at p */
};

struct group {
    const struct wr_metrics_block *const *blocks;
    size_t count;
};

/* The name of the label that tells the blocks of a scope apart. */
static const char *const scope_keys[] = {
    [WR_SCOPE_WORKER] = NULL,
    [WR_SCOPE_LISTENER] = "listener",
    [WR_SCOPE_CLUSTER] = "cluster",
};

static const char *const kind_names[] = {
    [WR_METRIC_COUNTER] = "counter",
    [WR_METRIC_GAUGE] = "gauge",
    [WR_METRIC_GAUGE_MOST] = "gauge",
    [WR_METRIC_HISTOGRAM] = "histogram",
};

static void put_bytes(struct text *text, const char *bytes, size_t n)
{
    if (n > text->room - text->n) {
        text->room = text->room * 2 + n;
        text->p = wr_resize(text->p, text->room);
    }
    memcpy(text->p + text->n, bytes, n);
    text->n += n;
}

static void put(struct text *text, const char *terminated)
{
    put_bytes(text, terminated, strlen(terminated));
}

static void put_counter(struct text *text, uint64_t value)
{
    char digits[24];
    int n = snprintf(digits, sizeof(digits), "%" PRIu64, value);
    put_bytes(text, digits, (size_t)n);
}

/* Signed, so that a gauge that was taken down once too often shows as what it is. */
static void put_gauge(struct text *text, uint64_t value)
{
    char digits[24];
    int n = snprintf(digits, sizeof(digits), "%" PRId64, (int64_t)value);
    put_bytes(text, digits, (size_t)n);
}

/* Microseconds as seconds, without trailing zeros. */
static void put_seconds(struct text *text, uint64_t usec)
{
    char digits[40];
    int n =
        snprintf(digits, sizeof(digits), "%" PRIu64 ".%06" PRIu64, usec / 1000000, usec % 1000000);
    while (digits[n - 1] == '0')
        n--;
    if (digits[n - 1] == '.')
        n--;
    put_bytes(text, digits, (size_t)n);
}

static void put_label_value(struct text *text, const char *value)
{
    for (const char *p = value; *p != '\0'; p++) {
        if (*p == '\n')
            put(text, "\\n");
        else if (*p == '\\' || *p == '"')
            put_bytes(text, (char[]){'\\', *p}, 2);
        else
            put_bytes(text, p, 1);
    }
}

/* `name{listener="x"` and what follows it: KEY and VALUE may be NULL for no further label. Ends with the space before the
 * number. */
static void put_series(struct text *text, const struct wr_metric_row *row, const char *suffix,
                       const struct group *group, const char *key, const char *value)
{
    const char *scope_key = scope_keys[row->scope];
    put(text, row->name);
    put(text, suffix);
    if (scope_key != NULL || key != NULL)
        put(text, "{");
    if (scope_key != NULL) {
        put(text, scope_key);
        put(text, "=\"");
        put_label_value(text, group->blocks[0]->label);
        put(text, key != NULL ? "\"," : "\"");
    }
    if (key != NULL) {
        put(text, key);
        put(text, "=\"");
        put_label_value(text, value);
        put(text, "\"");
    }
    put(text, scope_key != NULL || key != NULL ? "} " : " ");
}

static uint64_t value_in(const struct wr_metrics_block *block, size_t offset)
{
    return wr_metric_get((const _Atomic uint64_t *)(const void *)((const char *)block + offset));
}

static uint64_t sum(const struct group *group, size_t offset)
{
    uint64_t total = 0;
    for (size_t i = 0; i < group->count; i++)
        total += value_in(group->blocks[i], offset);
    return total;
}

static uint64_t most(const struct group *group, size_t offset)
{
    uint64_t most = 0;
    for (size_t i = 0; i < group->count; i++) {
        uint64_t value = value_in(group->blocks[i], offset);
        most = value > most ? value : most;
    }
    return most;
}

static void render_values(struct text *text, const struct wr_metric_row *row,
                          const struct group *group)
{
    for (unsigned i = 0; i < row->count; i++) {
        const char *value = row->label_key != NULL ? row->label_of(i) : NULL;
        size_t offset = row->offset + i * sizeof(uint64_t);
        put_series(text, row, "", group, row->label_key, value);
        if (row->kind == WR_METRIC_GAUGE)
            put_gauge(text, sum(group, offset));
        else if (row->kind == WR_METRIC_GAUGE_MOST)
            put_gauge(text, most(group, offset));
        else
            put_counter(text, sum(group, offset));
        put(text, "\n");
    }
}

/* The count is that of the buckets just shown, so that the family agrees with itself while others go on counting. */
static void render_histogram(struct text *text, const struct wr_metric_row *row,
                             const struct group *group)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < WR_HISTOGRAM_BUCKETS; i++) {
        char bound[40];
        struct text le = {bound, 0, sizeof(bound)};
        if (i == WR_HISTOGRAM_BUCKETS - 1)
            put(&le, "+Inf");
        else
            put_seconds(&le, wr_histogram_bounds[i]);
        put_bytes(&le, "", 1);

        total +=
            sum(group, row->offset + offsetof(struct wr_histogram, buckets) + i * sizeof(uint64_t));
        put_series(text, row, "_bucket", group, "le", bound);
        put_counter(text, total);
        put(text, "\n");
    }
    put_series(text, row, "_sum", group, NULL, NULL);
    put_seconds(text, sum(group, row->offset + offsetof(struct wr_histogram, sum_usec)));
    put(text, "\n");
    put_series(text, row, "_count", group, NULL, NULL);
    put_counter(text, total);
    put(text, "\n");
}

static const char *label_of(const struct wr_metrics_block *block)
{
    return block->label != NULL ? block->label : "";
}

static int compare_blocks(const void *left, const void *right)
{
    const struct wr_metrics_block *a = *(const struct wr_metrics_block *const *)left;
    const struct wr_metrics_block *b = *(const struct wr_metrics_block *const *)right;
    if (a->scope != b->scope)
        return a->scope < b->scope ? -1 : 1;
    return strcmp(label_of(a), label_of(b));
}

static void render_family(struct text *text, const struct wr_metric_row *row,
                          const struct group *groups, size_t count)
{
    bool headed = false;
    for (size_t i = 0; i < count; i++) {
        if (groups[i].blocks[0]->scope != row->scope)
            continue;
        if (!headed) {
            const char *parts[] = {"# HELP ",   row->name, " ", row->help,
                                   "\n# TYPE ", row->name, " ", kind_names[row->kind],
                                   "\n"};
            for (size_t part = 0; part < WR_COUNT_OF(parts); part++)
                put(text, parts[part]);
            headed = true;
        }
        if (row->kind == WR_METRIC_HISTOGRAM)
            render_histogram(text, row, &groups[i]);
        else
            render_values(text, row, &groups[i]);
    }
}

/* BLOCKS is sorted; returns how many groups it makes. */
static size_t make_groups(const struct wr_metrics_block *const *blocks, size_t count,
                          struct group *groups)
{
    size_t made = 0;
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || compare_blocks(&blocks[i - 1], &blocks[i]) != 0)
            groups[made++] = (struct group){&blocks[i], 0};
        groups[made - 1].count++;
    }
    return made;
}

char *wr_metrics_render(struct wr_metrics_registry *registry, size_t *length)
{
    /* Blocks are never taken away, so the lock is needed only to read the list. */
    pthread_mutex_lock(&registry->lock);
    size_t count = 0;
    const struct wr_metrics_block **blocks = wr_new_zero(registry->count, sizeof(*blocks));
    for (struct wr_list *link = registry->blocks.next; link != &registry->blocks; link = link->next)
        blocks[count++] = WR_CONTAINER_OF(link, struct wr_metrics_block, link);
    pthread_mutex_unlock(&registry->lock);

    qsort(blocks, count, sizeof(*blocks), compare_blocks);
    struct group *groups = wr_new_zero(count, sizeof(*groups));
    size_t group_count = make_groups(blocks, count, groups);

    struct text text = {wr_new_bytes(16384), 0, 16384};
    for (size_t i = 0; i < wr_metric_row_count; i++)
        render_family(&text, &wr_metric_rows[i], groups, group_count);
    *length = text.n;
    put_bytes(&text, "", 1);
    free(groups);
    free(blocks);
    return text.p;
}
