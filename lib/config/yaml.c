#include "config/yaml.h"

#include <stdlib.h>
#include <yaml.h>

#include "base/mem.h"

#define DEPTH_MAX 32

struct reader {
    yaml_document_t document;
    struct wr_arena *arena;
    struct wr_errors *errors;
    struct wr_yaml_node **made; /* by libyaml's node index, from 1 */
    bool *open;                 /* being converted: an alias to it would be a circle */
    int node_count;
};

const char *wr_yaml_kind_name(enum wr_yaml_kind kind)
{
    static const char *const names[] = {"a value", "a list", "a mapping"};
    return names[kind];
}

static struct wr_mark mark_of(yaml_mark_t mark)
{
    return (struct wr_mark){(unsigned)mark.line + 1, (unsigned)mark.column + 1};
}

/* ---- ${NAME} ---- */

static bool is_name_char(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

/* What ${INSIDE} stands for; an error is noted and "" returned when it stands for nothing. */
static struct wr_str variable_value(struct reader *reader, struct wr_str inside,
                                    struct wr_mark mark)
{
    size_t n = 0;
    while (n < inside.n && is_name_char(inside.p[n]))
        n++;
    struct wr_str rest = wr_str(inside.p + n, inside.n - n);
    bool has_default = wr_str_starts(rest, WR_STR(":-"));
    if (n == 0 || (rest.n > 0 && !has_default)) {
        wr_errors_add(reader->errors, mark,
                      "\"${%.*s}\" is not a variable, expected ${NAME} or ${NAME:-default}",
                      WR_STR_ARG(inside));
        return WR_STR_EMPTY;
    }
    const char *value = getenv(wr_arena_copy(reader->arena, wr_str(inside.p, n)).p);
    if (has_default && (!value || !*value))
        return wr_str(rest.p + 2, rest.n - 2);
    if (value)
        return wr_str_from(value);
    wr_errors_add(reader->errors, mark,
                  "environment variable %.*s is not set, expected a value or ${%.*s:-default}",
                  (int)n, inside.p, (int)n, inside.p);
    return WR_STR_EMPTY;
}

static struct wr_str join(struct wr_arena *arena, struct wr_str a, struct wr_str b)
{
    char *p = wr_arena_alloc(arena, a.n + b.n + 1);
    if (a.n > 0)
        memcpy(p, a.p, a.n);
    if (b.n > 0)
        memcpy(p + a.n, b.p, b.n);
    p[a.n + b.n] = '\0';
    return wr_str(p, a.n + b.n);
}

static struct wr_str expand(struct reader *reader, struct wr_str text, struct wr_mark mark)
{
    struct wr_str out = wr_arena_copy(reader->arena, WR_STR_EMPTY);
    size_t from = 0;
    size_t at = 0;

    while (at < text.n) {
        if (text.p[at] != '$' || at + 1 >= text.n ||
            (text.p[at + 1] != '{' && text.p[at + 1] != '$')) {
            at++;
            continue;
        }
        out = join(reader->arena, out, wr_str(text.p + from, at - from));
        if (text.p[at + 1] == '$') {
            out = join(reader->arena, out, WR_STR("$"));
            at += 2;
        } else {
            const char *end = memchr(text.p + at, '}', text.n - at);
            if (!end) {
                wr_errors_add(reader->errors, mark, "\"${\" without \"}\", expected ${NAME}");
                return out;
            }
            struct wr_str inside = wr_str(text.p + at + 2, (size_t)(end - text.p) - at - 2);
            out = join(reader->arena, out, variable_value(reader, inside, mark));
            at = (size_t)(end - text.p) + 1;
        }
        from = at;
    }
    return join(reader->arena, out, wr_str(text.p + from, text.n - from));
}

/* ---- nodes ---- */

static struct wr_yaml_node *convert(struct reader *reader, int index, unsigned depth);

static void convert_scalar(struct reader *reader, const yaml_node_t *from, struct wr_yaml_node *to)
{
    to->kind = WR_YAML_SCALAR;
    to->plain = from->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    struct wr_str raw = wr_str((const char *)from->data.scalar.value, from->data.scalar.length);
    if (memchr(raw.p, '\0', raw.n)) {
        wr_errors_add(reader->errors, to->mark, "NUL byte in a value, expected text");
        raw = WR_STR_EMPTY;
    }
    to->text = wr_arena_copy(reader->arena, raw);
    if (memchr(raw.p, '$', raw.n))
        to->text = expand(reader, raw, to->mark);
}

static bool convert_sequence(struct reader *reader, const yaml_node_t *from,
                             struct wr_yaml_node *to, unsigned depth)
{
    size_t count = (size_t)(from->data.sequence.items.top - from->data.sequence.items.start);

    to->kind = WR_YAML_SEQUENCE;
    to->items = wr_arena_alloc_zero(reader->arena, (count + 1) * sizeof(*to->items));
    for (size_t i = 0; i < count; i++) {
        to->items[i] = convert(reader, from->data.sequence.items.start[i], depth + 1);
        if (!to->items[i])
            return false;
    }
    to->count = count;
    return true;
}

static size_t find_key(const struct wr_yaml_node *mapping, struct wr_str key)
{
    for (size_t i = 0; i < mapping->count; i++)
        if (wr_str_eq(mapping->keys[i]->text, key))
            return i;
    return mapping->count;
}

static void add_pair(struct reader *reader, struct wr_yaml_node *mapping, struct wr_yaml_node *key,
                     struct wr_yaml_node *item)
{
    size_t n = mapping->count;
    if ((n & (n - 1)) == 0) { /* grows at powers of two */
        size_t capacity = n == 0 ? 1 : n * 2;
        struct wr_yaml_node **keys =
            wr_arena_alloc(reader->arena, capacity * sizeof(struct wr_yaml_node *));
        struct wr_yaml_node **items =
            wr_arena_alloc(reader->arena, capacity * sizeof(struct wr_yaml_node *));
        if (n > 0) {
            memcpy(keys, mapping->keys, n * sizeof(struct wr_yaml_node *));
            memcpy(items, mapping->items, n * sizeof(struct wr_yaml_node *));
        }
        mapping->keys = keys;
        mapping->items = items;
    }
    mapping->keys[n] = key;
    mapping->items[n] = item;
    mapping->count = n + 1;
}

/* The pairs of FROM whose keys INTO lacks (the merge key of YAML 1.1). */
static bool merge(struct reader *reader, struct wr_yaml_node *into, const struct wr_yaml_node *from)
{
    if (from->kind == WR_YAML_SEQUENCE) {
        for (size_t i = 0; i < from->count; i++)
            if (from->items[i]->kind != WR_YAML_MAPPING || !merge(reader, into, from->items[i]))
                return false;
        return true;
    }
    if (from->kind != WR_YAML_MAPPING)
        return false;
    for (size_t i = 0; i < from->count; i++)
        if (find_key(into, from->keys[i]->text) == into->count)
            add_pair(reader, into, from->keys[i], from->items[i]);
    return true;
}

static bool is_merge_key(const struct wr_yaml_node *key)
{
    return key->plain && wr_str_eq(key->text, WR_STR("<<"));
}

static bool convert_mapping(struct reader *reader, const yaml_node_t *from, struct wr_yaml_node *to,
                            unsigned depth)
{
    const yaml_node_pair_t *top = from->data.mapping.pairs.top;
    struct wr_yaml_node *merged = NULL;

    to->kind = WR_YAML_MAPPING;
    for (const yaml_node_pair_t *pair = from->data.mapping.pairs.start; pair < top; pair++) {
        struct wr_yaml_node *key = convert(reader, pair->key, depth + 1);
        struct wr_yaml_node *item = key ? convert(reader, pair->value, depth + 1) : NULL;
        if (!item)
            return false;
        if (key->kind != WR_YAML_SCALAR) {
            wr_errors_add(reader->errors, key->mark, "%s as a key, expected a name",
                          wr_yaml_kind_name(key->kind));
            continue;
        }
        if (is_merge_key(key)) {
            merged = item;
            continue;
        }
        size_t known = find_key(to, key->text);
        if (known < to->count)
            wr_errors_add(reader->errors, key->mark,
                          "\"%.*s\" is given twice, first on line %u, expected once",
                          WR_STR_ARG(key->text), to->keys[known]->mark.line);
        else
            add_pair(reader, to, key, item);
    }
    if (merged && !merge(reader, to, merged))
        wr_errors_add(reader->errors, merged->mark,
                      "\"<<\" merges %s, expected a mapping or a list of mappings",
                      wr_yaml_kind_name(merged->kind));
    return true;
}

/* NULL after an error that makes the rest senseless. */
static struct wr_yaml_node *convert(struct reader *reader, int index, unsigned depth)
{
    const yaml_node_t *from = yaml_document_get_node(&reader->document, index);
    struct wr_mark mark = mark_of(from->start_mark);

    if (reader->made[index])
        return reader->made[index];
    if (reader->open[index] || depth > DEPTH_MAX) {
        wr_errors_add(reader->errors, mark,
                      reader->open[index] ? "an anchor stands inside itself, expected no circle"
                                          : "nested too deeply, expected at most 32 levels");
        return NULL;
    }
    struct wr_yaml_node *to = wr_arena_alloc_zero(reader->arena, sizeof(*to));
    bool fine = true;
    to->mark = mark;
    reader->open[index] = true;
    if (from->type == YAML_SCALAR_NODE)
        convert_scalar(reader, from, to);
    else if (from->type == YAML_SEQUENCE_NODE)
        fine = convert_sequence(reader, from, to, depth);
    else
        fine = convert_mapping(reader, from, to, depth);
    reader->open[index] = false;
    if (fine)
        reader->made[index] = to;
    return fine ? to : NULL;
}

static enum wr_err syntax_error(const yaml_parser_t *parser, struct wr_errors *errors)
{
    wr_errors_add(errors, mark_of(parser->problem_mark), "not YAML: %s%s%s, expected valid YAML",
                  parser->problem ? parser->problem : "unreadable", parser->context ? " " : "",
                  parser->context ? parser->context : "");
    return WR_ERR_INVALID;
}

static enum wr_err convert_document(struct reader *reader, struct wr_yaml_node **root)
{
    reader->node_count = (int)(reader->document.nodes.top - reader->document.nodes.start);
    if (reader->node_count == 0) {
        wr_errors_add(reader->errors, (struct wr_mark){1, 1},
                      "nothing in the file, expected at least listeners");
        return WR_ERR_INVALID;
    }
    size_t slots = (size_t)reader->node_count + 1;
    reader->made = wr_arena_alloc_zero(reader->arena, slots * sizeof(*reader->made));
    reader->open = wr_arena_alloc_zero(reader->arena, slots * sizeof(*reader->open));
    *root = convert(reader, 1, 0);
    return *root != NULL ? WR_OK : WR_ERR_INVALID;
}

enum wr_err wr_yaml_parse(struct wr_arena *arena, const char *text, size_t n,
                          struct wr_errors *errors, struct wr_yaml_node **root)
{
    struct reader reader = {.arena = arena, .errors = errors};
    yaml_parser_t parser;
    yaml_document_t second;
    enum wr_err err;

    if (!yaml_parser_initialize(&parser))
        return WR_ERR_NO_MEMORY;
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, n);
    if (!yaml_parser_load(&parser, &reader.document)) {
        err = syntax_error(&parser, errors);
        yaml_parser_delete(&parser);
        return err;
    }
    err = convert_document(&reader, root);
    yaml_document_delete(&reader.document);
    if (err == WR_OK && !yaml_parser_load(&parser, &second)) {
        err = syntax_error(&parser, errors);
    } else if (err == WR_OK) {
        yaml_node_t *more = yaml_document_get_root_node(&second);
        if (more) {
            wr_errors_add(errors, mark_of(more->start_mark),
                          "a second document in the file, expected one");
            err = WR_ERR_INVALID;
        }
        yaml_document_delete(&second);
    }
    yaml_parser_delete(&parser);
    return err;
}
