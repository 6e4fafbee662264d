/* A YAML document as a tree of nodes with their places; the only file behind it that knows libyaml is yaml.c.
 * Anchors and merge keys are resolved, duplicate keys refused, ${NAME} and ${NAME:-default} expanded in values ("$$" is "$"). */
#ifndef WR_CONFIG_YAML_H
#define WR_CONFIG_YAML_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/compiler.h"
#include "base/err.h"
#include "base/str.h"
#include "config/report.h"

enum wr_yaml_kind { WR_YAML_SCALAR, WR_YAML_SEQUENCE, WR_YAML_MAPPING };

struct wr_yaml_node {
    enum wr_yaml_kind kind;
    struct wr_mark mark;
    struct wr_str text;          /* SCALAR; terminated as well */
    bool plain;                  /* SCALAR without quotes */
    size_t count;                /* SEQUENCE, MAPPING */
    struct wr_yaml_node **keys;  /* MAPPING, scalars */
    struct wr_yaml_node **items; /* SEQUENCE, or the values of a MAPPING */
};

/* The root of the one document in TEXT; all memory is ARENA's. INVALID after an error that leaves no tree; others are noted, and
 * the tree goes without what was wrong. */
WR_MUST_USE enum wr_err wr_yaml_parse(struct wr_arena *arena, const char *text, size_t n,
                                      struct wr_errors *errors, struct wr_yaml_node **root);

/* "a mapping", "a list", "a value": for messages. */
const char *wr_yaml_kind_name(enum wr_yaml_kind kind);

#endif
