#include "config/schema.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/time.h"
#include "config/values.h"
#include "io/socket.h"

#define EXPECTATION 256

/* ---- what a field wants, for messages ---- */

static void word_list(const char *const *words, char *out, size_t size)
{
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; words[i] && at < size; i++) {
        int n = snprintf(out + at, size - at, "%s%s", i ? " | " : "", words[i]);
        at += n > 0 ? (size_t)n : 0;
    }
}

static const char *expectation(const struct wr_schema_field *field, char out[EXPECTATION])
{
    static const char *const texts[] = {
        [WR_KIND_DURATION] = "a duration like 250ms, 15s, 5m or 1h",
        [WR_KIND_SIZE] = "a size like 512, 64KiB or 1MiB",
        [WR_KIND_COUNT] = "a whole number",
        [WR_KIND_PERCENT] = "a percentage like 20%",
        [WR_KIND_BOOL] = "true or false",
        [WR_KIND_STRING] = "text",
        [WR_KIND_STRING_LIST] = "a list of texts",
        [WR_KIND_ADDRESS] = "an address like 127.0.0.1:8443, [::1]:8443 or unix:/path",
        [WR_KIND_CIDR_LIST] = "a list of addresses or blocks like 10.0.0.0/8",
        [WR_KIND_MAP] = "a mapping",
        [WR_KIND_MAP_LIST] = "a list of mappings",
    };
    if (field->kind == WR_KIND_ENUM || field->kind == WR_KIND_ENUM_SET) {
        char words[EXPECTATION - 32];
        word_list(field->words, words, sizeof(words));
        (void)snprintf(out, EXPECTATION, "%s%s",
                       field->kind == WR_KIND_ENUM_SET ? "a list of " : "", words);
    } else if (field->words) {
        char words[EXPECTATION - 32];
        word_list(field->words, words, sizeof(words));
        (void)snprintf(out, EXPECTATION, "%s or %s", texts[field->kind], words);
    } else {
        (void)snprintf(out, EXPECTATION, "%s%s%s", texts[field->kind],
                       (field->flags & WR_SCHEMA_INFINITY) ? " or infinity" : "",
                       field->map && field->map->may_be_off ? " or off" : "");
    }
    return out;
}

static void bad_value(struct wr_schema_reader *reader, const struct wr_schema_field *field,
                      struct wr_mark mark, struct wr_str text)
{
    char expected[EXPECTATION];
    wr_errors_add(reader->errors, mark, "%s is \"%.*s\", expected %s", field->key, WR_STR_ARG(text),
                  expectation(field, expected));
}

static void bad_kind(struct wr_schema_reader *reader, const struct wr_schema_field *field,
                     const struct wr_yaml_node *node)
{
    char expected[EXPECTATION];
    wr_errors_add(reader->errors, node->mark, "%s is %s, expected %s", field->key,
                  wr_yaml_kind_name(node->kind), expectation(field, expected));
}

/* ---- scalars ---- */

static bool find_word(const char *const *words, struct wr_str text, unsigned *index)
{
    for (unsigned i = 0; words[i]; i++) {
        if (wr_str_eq(wr_str_from(words[i]), text)) {
            *index = i;
            return true;
        }
    }
    return false;
}

static bool read_number(struct wr_schema_reader *reader, const struct wr_schema_field *field,
                        struct wr_str text, struct wr_mark mark, uint64_t *out)
{
    static bool (*const parsers[])(struct wr_str, uint64_t *) = {
        [WR_KIND_DURATION] = wr_value_duration,
        [WR_KIND_SIZE] = wr_value_size,
        [WR_KIND_COUNT] = wr_value_count,
        [WR_KIND_PERCENT] = wr_value_percent,
    };
    uint64_t value;
    unsigned word;

    if (field->words && find_word(field->words, text, &word)) {
        *out = WR_COUNT_WORD(word);
        return true;
    }
    if (!parsers[field->kind](text, &value) ||
        (value == UINT64_MAX && !(field->flags & WR_SCHEMA_INFINITY))) {
        bad_value(reader, field, mark, text);
        return false;
    }
    if (value != UINT64_MAX && (value < field->min || (field->max > 0 && value > field->max))) {
        uint64_t unit = field->kind == WR_KIND_DURATION ? WR_MSEC : 1;
        const char *name = field->kind == WR_KIND_DURATION ? "ms" : "";
        char upper[64] = "";
        if (field->max > 0)
            (void)snprintf(upper, sizeof(upper), " to %llu%s",
                           (unsigned long long)(field->max / unit), name);
        wr_errors_add(reader->errors, mark, "%s is %.*s, out of range, expected %llu%s%s",
                      field->key, WR_STR_ARG(text), (unsigned long long)(field->min / unit), name,
                      field->max > 0 ? upper : " or more");
        return false;
    }
    *out = value;
    return true;
}

static void *member(void *object, const struct wr_schema_field *field)
{
    return (char *)object + field->offset;
}

/* Of an element of a list, or of a value alone. */
static void read_scalar(struct wr_schema_reader *reader, const struct wr_schema_field *field,
                        struct wr_str text, struct wr_mark mark, void *object)
{
    unsigned index;

    switch (field->kind) {
    case WR_KIND_DURATION:
    case WR_KIND_SIZE:
    case WR_KIND_COUNT:
    case WR_KIND_PERCENT:
        (void)read_number(reader, field, text, mark, member(object, field));
        return;
    case WR_KIND_BOOL:
        if (!wr_value_bool(text, member(object, field)))
            bad_value(reader, field, mark, text);
        return;
    case WR_KIND_ENUM:
        if (find_word(field->words, text, &index))
            *(int *)member(object, field) = (int)index;
        else
            bad_value(reader, field, mark, text);
        return;
    case WR_KIND_ENUM_SET:
        if (find_word(field->words, text, &index))
            *(unsigned *)member(object, field) |= 1u << index;
        else
            bad_value(reader, field, mark, text);
        return;
    case WR_KIND_STRING:
        if (text.n == 0 && (field->flags & WR_SCHEMA_NOT_EMPTY))
            bad_value(reader, field, mark, text);
        *(struct wr_str *)member(object, field) = text;
        return;
    case WR_KIND_ADDRESS:
        if (wr_address_parse(text, member(object, field)) != WR_OK)
            bad_value(reader, field, mark, text);
        return;
    case WR_KIND_STRING_LIST:
    case WR_KIND_CIDR_LIST:
    case WR_KIND_MAP:
    case WR_KIND_MAP_LIST:
        break;
    }
    WR_ASSERT(false && "a kind that is no scalar");
}

/* ---- lists ---- */

static size_t element_size(const struct wr_schema_field *field)
{
    switch (field->kind) {
    case WR_KIND_STRING_LIST:
        return sizeof(struct wr_str);
    case WR_KIND_CIDR_LIST:
        return sizeof(struct wr_cidr);
    default:
        return field->map->size;
    }
}

static void read_element(struct wr_schema_reader *reader, const struct wr_schema_field *field,
                         const struct wr_yaml_node *node, void *element)
{
    if (field->kind == WR_KIND_MAP_LIST) {
        wr_schema_defaults(reader, field->map, element);
        wr_schema_read(reader, field->map, node, element);
        return;
    }
    if (node->kind != WR_YAML_SCALAR) {
        bad_kind(reader, field, node);
        return;
    }
    if (field->kind == WR_KIND_STRING_LIST)
        *(struct wr_str *)element = node->text;
    else if (wr_cidr_parse(node->text, element) != WR_OK)
        bad_value(reader, field, node->mark, node->text);
}

static void read_list(struct wr_schema_reader *reader, const struct wr_schema_field *field,
                      const struct wr_yaml_node *node, void *object)
{
    struct wr_model_list *list = member(object, field);

    if (field->kind == WR_KIND_ENUM_SET) {
        *(unsigned *)member(object, field) = 0;
        for (size_t i = 0; i < node->count; i++) {
            if (node->items[i]->kind == WR_YAML_SCALAR)
                read_scalar(reader, field, node->items[i]->text, node->items[i]->mark, object);
            else
                bad_kind(reader, field, node->items[i]);
        }
        return;
    }
    size_t size = element_size(field);
    list->items = wr_arena_alloc_zero(reader->arena, (node->count + 1) * size);
    list->count = node->count;
    for (size_t i = 0; i < node->count; i++)
        read_element(reader, field, node->items[i], (char *)list->items + i * size);
}

/* ---- maps ---- */

static bool is_list(enum wr_schema_kind kind)
{
    return kind == WR_KIND_ENUM_SET || kind == WR_KIND_STRING_LIST || kind == WR_KIND_CIDR_LIST ||
           kind == WR_KIND_MAP_LIST;
}

static void read_field(struct wr_schema_reader *reader, const struct wr_schema_field *field,
                       const struct wr_yaml_node *node, void *object)
{
    bool empty = node->kind != WR_YAML_MAPPING &&
                 (node->kind == WR_YAML_SEQUENCE ? node->count == 0 : node->text.n == 0);

    if (field->kind == WR_KIND_MAP) {
        wr_schema_read(reader, field->map, node, member(object, field));
    } else if (is_list(field->kind)) {
        if (node->kind != WR_YAML_SEQUENCE)
            bad_kind(reader, field, node);
        else if (empty && (field->flags & WR_SCHEMA_NOT_EMPTY))
            wr_errors_add(reader->errors, node->mark, "%s is empty, expected at least one",
                          field->key);
        else
            read_list(reader, field, node, object);
    } else if (node->kind != WR_YAML_SCALAR) {
        bad_kind(reader, field, node);
    } else {
        read_scalar(reader, field, node->text, node->mark, object);
    }
}

static const struct wr_schema_field *find_field(const struct wr_schema_map *map, struct wr_str key)
{
    for (size_t i = 0; i < map->count; i++)
        if (wr_str_eq(wr_str_from(map->fields[i].key), key))
            return &map->fields[i];
    return NULL;
}

static void unknown_key(struct wr_schema_reader *reader, const struct wr_schema_map *map,
                        const struct wr_yaml_node *key)
{
    const unsigned far = 4;
    const char *nearest = NULL;
    unsigned best = far;

    for (size_t i = 0; i < map->count; i++) {
        unsigned d = wr_value_distance(key->text, wr_str_from(map->fields[i].key), far);
        if (d < best) {
            best = d;
            nearest = map->fields[i].key;
        }
    }
    if (nearest) {
        wr_errors_add(reader->errors, key->mark, "unknown key \"%.*s\" in %s, expected \"%s\"?",
                      WR_STR_ARG(key->text), map->name, nearest);
        return;
    }
    char known[512];
    size_t at = 0;
    known[0] = '\0';
    for (size_t i = 0; i < map->count && at < sizeof(known); i++) {
        int n = snprintf(known + at, sizeof(known) - at, "%s%s", i ? ", " : "", map->fields[i].key);
        at += n > 0 ? (size_t)n : 0;
    }
    wr_errors_add(reader->errors, key->mark, "unknown key \"%.*s\" in %s, expected one of %s",
                  WR_STR_ARG(key->text), map->name, known);
}

void wr_schema_template(struct wr_schema_reader *reader, const struct wr_schema_map *map,
                        const void *object)
{
    WR_ASSERT(reader->template_count < WR_SCHEMA_TEMPLATES);
    reader->templates[reader->template_count].map = map;
    reader->templates[reader->template_count].object = object;
    reader->template_count++;
}

void wr_schema_defaults(struct wr_schema_reader *reader, const struct wr_schema_map *map,
                        void *object)
{
    for (size_t i = 0; i < reader->template_count; i++) {
        if (reader->templates[i].map == map) {
            memcpy(object, reader->templates[i].object, map->size);
            return;
        }
    }
    memset(object, 0, map->size);
    for (size_t i = 0; i < map->count; i++) {
        const struct wr_schema_field *field = &map->fields[i];
        if (field->kind == WR_KIND_MAP)
            wr_schema_defaults(reader, field->map, member(object, field));
        else if (field->kind == WR_KIND_STRING)
            *(struct wr_str *)member(object, field) =
                field->fallback ? wr_str_from(field->fallback) : WR_STR_EMPTY;
        else if (field->fallback && field->kind == WR_KIND_ENUM_SET) {
            struct wr_str rest = wr_str_from(field->fallback);
            struct wr_str word;
            while (wr_str_next_element(&rest, &word))
                read_scalar(reader, field, word, (struct wr_mark){0, 0}, object);
        } else if (field->fallback)
            read_scalar(reader, field, wr_str_from(field->fallback), (struct wr_mark){0, 0},
                        object);
    }
}

/* A scalar where a mapping belongs: `off`, or the shorthand. */
static void read_shorthand(struct wr_schema_reader *reader, const struct wr_schema_map *map,
                           const struct wr_yaml_node *node, void *object)
{
    struct wr_model_base *base = object;
    const struct wr_schema_field *field =
        map->shorthand ? find_field(map, wr_str_from(map->shorthand)) : NULL;

    if (map->may_be_off && node->kind == WR_YAML_SCALAR && node->plain &&
        wr_str_eq(node->text, WR_STR("off"))) {
        base->given = false;
    } else if (node->kind == WR_YAML_SCALAR && field) {
        base->given = true;
        read_field(reader, field, node, object);
    } else {
        wr_errors_add(reader->errors, node->mark, "%s is %s, expected a mapping%s%s", map->name,
                      wr_yaml_kind_name(node->kind), map->shorthand ? " or a value" : "",
                      map->may_be_off ? " or off" : "");
    }
}

void wr_schema_read(struct wr_schema_reader *reader, const struct wr_schema_map *map,
                    const struct wr_yaml_node *node, void *object)
{
    struct wr_model_base *base = object;

    base->mark = node->mark;
    if (node->kind != WR_YAML_MAPPING) {
        read_shorthand(reader, map, node, object);
        return;
    }
    base->given = true;
    for (size_t i = 0; i < node->count; i++)
        if (!find_field(map, node->keys[i]->text))
            unknown_key(reader, map, node->keys[i]);
    for (size_t f = 0; f < map->count; f++) {
        const struct wr_schema_field *field = &map->fields[f];
        bool found = false;
        for (size_t i = 0; i < node->count && !found; i++) {
            if (!wr_str_eq(node->keys[i]->text, wr_str_from(field->key)))
                continue;
            read_field(reader, field, node->items[i], object);
            found = true;
        }
        if (!found && (field->flags & WR_SCHEMA_REQUIRED)) {
            char expected[EXPECTATION];
            wr_errors_add(reader->errors, node->mark, "%s has no \"%s\", expected %s", map->name,
                          field->key, expectation(field, expected));
        }
    }
}
