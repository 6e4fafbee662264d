/* The table as a JSON Schema: what an editor needs to complete keys and to underline mistakes. What no single key can know, and
 * the exact ranges of durations and sizes, only `weir check` tells. */
#include <string.h>

#include "base/assert.h"
#include "config/model.h"
#include "config/reference.h"

/* ${NAME} may stand for any value. */
#define ENVIRONMENT "\\\\$\\\\{[^}]+\\\\}"
#define DURATION_PATTERN "^(0|[0-9]+(us|ms|s|m|h|d)|.*" ENVIRONMENT ".*)$"
#define SIZE_PATTERN "^([0-9]+(B|KiB|MiB|GiB|TiB)?|.*" ENVIRONMENT ".*)$"
#define PERCENT_PATTERN "^([0-9]+%?|.*" ENVIRONMENT ".*)$"
#define STEP 2

struct writer {
    FILE *out;
    int indent;
};

static void line(const struct writer *writer)
{
    (void)fprintf(writer->out, "\n%*s", writer->indent, "");
}

static void open_object(struct writer *writer)
{
    (void)fputc('{', writer->out);
    writer->indent += STEP;
}

static void close_object(struct writer *writer)
{
    writer->indent -= STEP;
    line(writer);
    (void)fputc('}', writer->out);
}

/* The texts of the table are ASCII; quotes and backslashes are all there is to escape. */
static void write_text(const struct writer *writer, const char *text)
{
    (void)fputc('"', writer->out);
    for (const char *p = text; *p != '\0'; p++) {
        WR_ASSERT(*p >= ' ' && *p <= '~');
        if (*p == '"' || *p == '\\')
            (void)fputc('\\', writer->out);
        (void)fputc(*p, writer->out);
    }
    (void)fputc('"', writer->out);
}

static void write_words(const struct writer *writer, const char *const *words)
{
    (void)fputs("{\"enum\": [", writer->out);
    for (size_t i = 0; words[i] != NULL; i++) {
        (void)fputs(i > 0 ? ", " : "", writer->out);
        write_text(writer, words[i]);
        /* What a reader of YAML 1.1 makes of the word. */
        if (strcmp(words[i], "off") == 0)
            (void)fputs(", false", writer->out);
    }
    (void)fputs("]}", writer->out);
}

static void write_count(const struct writer *writer, const struct wr_schema_field *field)
{
    (void)fprintf(writer->out, "{\"type\": \"integer\", \"minimum\": %llu",
                  (unsigned long long)field->min);
    if (field->max > 0)
        (void)fprintf(writer->out, ", \"maximum\": %llu", (unsigned long long)field->max);
    (void)fputs("}, {\"type\": \"string\", \"pattern\": \"" ENVIRONMENT "\"}", writer->out);
}

static void write_number(const struct writer *writer, const struct wr_schema_field *field)
{
    (void)fputs("\"anyOf\": [", writer->out);
    if (field->kind == WR_KIND_COUNT)
        write_count(writer, field);
    else if (field->kind == WR_KIND_DURATION)
        (void)fputs("{\"type\": \"string\", \"pattern\": \"" DURATION_PATTERN "\"}, {\"const\": 0}",
                    writer->out);
    else if (field->kind == WR_KIND_SIZE)
        (void)fputs("{\"type\": \"string\", \"pattern\": \"" SIZE_PATTERN
                    "\"}, {\"type\": \"integer\", \"minimum\": 0}",
                    writer->out);
    else
        (void)fputs("{\"type\": \"string\", \"pattern\": \"" PERCENT_PATTERN
                    "\"}, {\"type\": \"integer\", \"minimum\": 0, \"maximum\": 100}",
                    writer->out);
    if (field->words != NULL) {
        (void)fputs(", ", writer->out);
        write_words(writer, field->words);
    }
    if (field->flags & WR_SCHEMA_INFINITY)
        (void)fputs(", {\"const\": \"infinity\"}", writer->out);
    (void)fputc(']', writer->out);
}

static void write_map(struct writer *writer, const struct wr_schema_map *map);
static void write_value(struct writer *writer, const struct wr_schema_field *field);

static const struct wr_schema_field *shorthand_of(const struct wr_schema_map *map)
{
    for (size_t i = 0; map->shorthand != NULL && i < map->count; i++)
        if (strcmp(map->fields[i].key, map->shorthand) == 0)
            return &map->fields[i];
    return NULL;
}

/* A mapping, or what may stand in its place. */
static void write_map_or_less(struct writer *writer, const struct wr_schema_map *map)
{
    const struct wr_schema_field *shorthand = shorthand_of(map);
    if (shorthand == NULL && !map->may_be_off) {
        write_map(writer, map);
        return;
    }
    (void)fputs("\"anyOf\": [{", writer->out);
    write_map(writer, map);
    if (shorthand != NULL) {
        (void)fputs("}, {", writer->out);
        write_value(writer, shorthand);
    }
    /* YAML 1.1 editors read a plain `off` as false. */
    if (map->may_be_off)
        (void)fputs("}, {\"enum\": [\"off\", false]", writer->out);
    (void)fputs("}]", writer->out);
}

static void write_list(struct writer *writer, const struct wr_schema_field *field)
{
    (void)fputs("\"type\": \"array\"", writer->out);
    if (field->flags & WR_SCHEMA_NOT_EMPTY)
        (void)fputs(", \"minItems\": 1", writer->out);
    (void)fputs(", \"items\": ", writer->out);
    if (field->kind == WR_KIND_ENUM_SET) {
        write_words(writer, field->words);
    } else if (field->kind == WR_KIND_MAP_LIST) {
        (void)fputc('{', writer->out);
        write_map_or_less(writer, field->map);
        (void)fputc('}', writer->out);
    } else {
        (void)fputs("{\"type\": \"string\"}", writer->out);
    }
}

/* The members that say what the value may be. */
static void write_value(struct writer *writer, const struct wr_schema_field *field)
{
    switch (field->kind) {
    case WR_KIND_DURATION:
    case WR_KIND_SIZE:
    case WR_KIND_COUNT:
    case WR_KIND_PERCENT:
        write_number(writer, field);
        return;
    case WR_KIND_BOOL:
        (void)fputs("\"enum\": [true, false, \"on\", \"off\", \"yes\", \"no\"]", writer->out);
        return;
    case WR_KIND_ENUM:
        (void)fputs("\"anyOf\": [", writer->out);
        write_words(writer, field->words);
        (void)fputs(", {\"type\": \"string\", \"pattern\": \"" ENVIRONMENT "\"}]", writer->out);
        return;
    case WR_KIND_STRING:
        (void)fputs("\"type\": [\"string\", \"number\", \"boolean\"]", writer->out);
        return;
    case WR_KIND_ADDRESS:
        (void)fputs("\"type\": \"string\"", writer->out);
        return;
    case WR_KIND_MAP:
        write_map_or_less(writer, field->map);
        return;
    case WR_KIND_ENUM_SET:
    case WR_KIND_STRING_LIST:
    case WR_KIND_CIDR_LIST:
    case WR_KIND_MAP_LIST:
        write_list(writer, field);
        return;
    }
    WR_ASSERT(false && "a kind of value");
}

static void write_property(struct writer *writer, const struct wr_schema_field *field)
{
    line(writer);
    write_text(writer, field->key);
    (void)fputs(": ", writer->out);
    open_object(writer);
    line(writer);
    (void)fputs("\"description\": ", writer->out);
    write_text(writer, field->help);
    if (field->fallback != NULL && field->kind != WR_KIND_ENUM_SET) {
        (void)fputs(", \"default\": ", writer->out);
        write_text(writer, field->fallback);
    }
    (void)fputc(',', writer->out);
    line(writer);
    write_value(writer, field);
    close_object(writer);
}

static void write_required(const struct writer *writer, const struct wr_schema_map *map)
{
    const char *before = ", \"required\": [";
    for (size_t i = 0; i < map->count; i++) {
        if ((map->fields[i].flags & WR_SCHEMA_REQUIRED) == 0)
            continue;
        (void)fputs(before, writer->out);
        write_text(writer, map->fields[i].key);
        before = ", ";
    }
    if (before[2] == '\0')
        (void)fputc(']', writer->out);
}

static void write_map(struct writer *writer, const struct wr_schema_map *map)
{
    (void)fputs("\"type\": \"object\", \"additionalProperties\": false", writer->out);
    write_required(writer, map);
    (void)fputs(", \"properties\": ", writer->out);
    open_object(writer);
    for (size_t i = 0; i < map->count; i++) {
        write_property(writer, &map->fields[i]);
        if (i + 1 < map->count)
            (void)fputc(',', writer->out);
    }
    close_object(writer);
}

void wr_reference_json(FILE *out)
{
    struct writer writer = {out, 0};
    open_object(&writer);
    line(&writer);
    (void)fputs("\"$schema\": \"https://json-schema.org/draft/2020-12/schema\",", out);
    line(&writer);
    (void)fputs("\"title\": \"configuration of weir\",", out);
    line(&writer);
    write_map(&writer, &wr_schema_root);
    close_object(&writer);
    (void)fputc('\n', out);
}
