/* The declarative table of the configuration: one row a key says its name, kind, place in the model, default, range and
 * meaning. Parsing, defaults, inheritance and messages all come from it. */
#ifndef WR_CONFIG_SCHEMA_H
#define WR_CONFIG_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "config/yaml.h"

enum wr_schema_kind {
    WR_KIND_DURATION,    /* uint64_t, microseconds */
    WR_KIND_SIZE,        /* uint64_t, bytes */
    WR_KIND_COUNT,       /* uint64_t, UINT64_MAX = infinity */
    WR_KIND_PERCENT,     /* uint64_t */
    WR_KIND_BOOL,        /* bool */
    WR_KIND_ENUM,        /* int, index into `words` */
    WR_KIND_ENUM_SET,    /* unsigned, bits by index into `words` */
    WR_KIND_STRING,      /* struct wr_str, terminated as well */
    WR_KIND_STRING_LIST, /* struct wr_model_list of struct wr_str */
    WR_KIND_ADDRESS,     /* struct wr_address */
    WR_KIND_CIDR_LIST,   /* struct wr_model_list of struct wr_cidr */
    WR_KIND_MAP,         /* the struct of `map`, in place */
    WR_KIND_MAP_LIST,    /* struct wr_model_list of the structs of `map` */
};

/* A list in the model: ITEMS points to COUNT objects in the arena. */
struct wr_model_list {
    void *items;
    size_t count;
};

/* What every struct that a map fills begins with. */
struct wr_model_base {
    struct wr_mark mark; /* of the mapping, or of what stands for it */
    bool given;          /* written by the person, and not `off` */
};

#define WR_SCHEMA_REQUIRED 1u
#define WR_SCHEMA_INFINITY 2u /* `infinity` is allowed */
#define WR_SCHEMA_NOT_EMPTY 4u
#define WR_SCHEMA_OPTIONAL 8u /* a mapping: to leave it out is not to give it all its defaults */

/* What a count is for which the word INDEX was written. */
#define WR_COUNT_WORD(index) (UINT64_MAX - 1 - (index))

struct wr_schema_map;

struct wr_schema_field {
    const char *key;
    enum wr_schema_kind kind;
    unsigned flags;
    size_t offset;
    const char *fallback; /* default as a person would write it; NULL: zero */
    uint64_t min;
    uint64_t max;             /* 0: no limit */
    const char *const *words; /* of an enum; of a count: what may stand for the number */
    const struct wr_schema_map *map;
    const char *help;
};

struct wr_schema_map {
    const char *name; /* for messages: "a listener" */
    const struct wr_schema_field *fields;
    size_t count;
    size_t size;           /* of the struct */
    const char *shorthand; /* a scalar in place of the mapping sets this key; NULL: not allowed */
    bool may_be_off;       /* the word `off` in place of the mapping leaves it out */
};

#define WR_SCHEMA_TEMPLATES 4

/* Reads nodes into the model. TEMPLATES: objects that maps of that kind start from instead of the table's defaults. */
struct wr_schema_reader {
    struct wr_arena *arena;
    struct wr_errors *errors;
    struct {
        const struct wr_schema_map *map;
        const void *object;
    } templates[WR_SCHEMA_TEMPLATES];
    size_t template_count;
};

/* OBJECT gets the table's defaults (or its template). */
void wr_schema_defaults(struct wr_schema_reader *reader, const struct wr_schema_map *map,
                        void *object);
/* NODE over what OBJECT holds; errors are noted and what could not be read keeps its default. */
void wr_schema_read(struct wr_schema_reader *reader, const struct wr_schema_map *map,
                    const struct wr_yaml_node *node, void *object);
/* From now on objects of MAP start as OBJECT is. */
void wr_schema_template(struct wr_schema_reader *reader, const struct wr_schema_map *map,
                        const void *object);

#endif
