/* How the tables are written: a macro for each kind of row. Rows are initializers, so the arguments cannot stand in parentheses. */
#ifndef WR_CONFIG_TABLES_ROWS_H
#define WR_CONFIG_TABLES_ROWS_H

#include "base/compiler.h"
#include "config/model.h"

/* NOLINTBEGIN(bugprone-macro-parentheses) */
#define AT(type, member) offsetof(struct wr_model_##type, member)
#define MAP_OF(type, say, short_key, off)                                                 \
    {                                                                                     \
        .name = say, .fields = type##_fields, .count = WR_COUNT_OF(type##_fields),        \
        .size = sizeof(struct wr_model_##type), .shorthand = short_key, .may_be_off = off \
    }

#define DURATION(type, k, standard, least, text)                                          \
    {                                                                                     \
        .key = #k, .kind = WR_KIND_DURATION, .offset = AT(type, k), .fallback = standard, \
        .flags = WR_SCHEMA_INFINITY, .min = least, .help = text                           \
    }
#define NUMBER(type, k, of, standard, flag, least, most, text)                             \
    {                                                                                      \
        .key = #k, .kind = of, .offset = AT(type, k), .fallback = standard, .flags = flag, \
        .min = least, .max = most, .help = text                                            \
    }
#define PLAIN(type, k, of, standard, flag, text)                                           \
    {                                                                                      \
        .key = #k, .kind = of, .offset = AT(type, k), .fallback = standard, .flags = flag, \
        .help = text                                                                       \
    }
#define WORDS(type, k, of, list, standard, text)                                           \
    {                                                                                      \
        .key = #k, .kind = of, .offset = AT(type, k), .fallback = standard, .words = list, \
        .help = text                                                                       \
    }
#define NESTED(type, k, of, table, flag, text)                                                     \
    {                                                                                              \
        .key = #k, .kind = of, .offset = AT(type, k), .flags = flag, .map = &(table), .help = text \
    }

/* NOLINTEND(bugprone-macro-parentheses) */

extern const struct wr_schema_map wr_schema_listener_http2;
extern const struct wr_schema_map wr_schema_cluster_http2;

#endif
