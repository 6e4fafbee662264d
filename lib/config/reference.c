#include "config/reference.h"

#include <string.h>

#include "base/assert.h"
#include "config/model.h"
#include "config/values.h"

#define MOST_MAPS 64
#define PATH 128

/* A mapping and where it is written: "listeners[].tls". Some are written in several places, but are one. */
struct place {
    const struct wr_schema_map *map;
    char path[PATH];
};

struct places {
    struct place of[MOST_MAPS];
    size_t count;
};

static bool is_map(const struct wr_schema_field *field)
{
    return field->kind == WR_KIND_MAP || field->kind == WR_KIND_MAP_LIST;
}

static const struct place *find(const struct places *places, const struct wr_schema_map *map)
{
    for (size_t i = 0; i < places->count; i++)
        if (places->of[i].map == map)
            return &places->of[i];
    return NULL;
}

static const struct place *add(struct places *places, const struct wr_schema_map *map,
                               const char *path)
{
    WR_ASSERT(places->count < MOST_MAPS);
    struct place *place = &places->of[places->count++];
    place->map = map;
    (void)snprintf(place->path, sizeof(place->path), "%s", path);
    return place;
}

static void path_below(char out[PATH], const char *path, const struct wr_schema_field *field)
{
    (void)snprintf(out, PATH, "%s%s%s%s", path, path[0] != '\0' ? "." : "", field->key,
                   field->kind == WR_KIND_MAP_LIST ? "[]" : "");
}

/* Every mapping once, a mapping before those within it. */
static void collect(struct places *places, const struct wr_schema_map *map, const char *path)
{
    if (find(places, map) != NULL)
        return;
    add(places, map, path);
    for (size_t i = 0; i < map->count; i++) {
        char below[PATH];
        if (!is_map(&map->fields[i]))
            continue;
        path_below(below, path, &map->fields[i]);
        collect(places, map->fields[i].map, below);
    }
}

/* ---- Markdown ---- */

static void number_text(enum wr_schema_kind kind, uint64_t value, char out[WR_VALUE_TEXT])
{
    if (kind == WR_KIND_DURATION)
        wr_value_duration_text(value, out);
    else if (kind == WR_KIND_SIZE)
        wr_value_size_text(value, out);
    else if (kind == WR_KIND_PERCENT)
        wr_value_percent_text(value, out);
    else
        wr_value_count_text(value, out);
}

static bool is_number(enum wr_schema_kind kind)
{
    return kind == WR_KIND_DURATION || kind == WR_KIND_SIZE || kind == WR_KIND_COUNT ||
           kind == WR_KIND_PERCENT;
}

static void write_words(FILE *out, const char *const *words)
{
    for (size_t i = 0; words[i] != NULL; i++)
        (void)fprintf(out, "%s`%s`", i > 0 ? ", " : "", words[i]);
}

static void write_range(FILE *out, const struct wr_schema_field *field)
{
    char least[WR_VALUE_TEXT];
    char most[WR_VALUE_TEXT];
    number_text(field->kind, field->min, least);
    number_text(field->kind, field->max, most);
    if (field->max > 0)
        (void)fprintf(out, ", %s to %s", least, most);
    else if (field->min > 0)
        (void)fprintf(out, ", %s or more", least);
    if (field->words != NULL) {
        (void)fputs(", or ", out);
        write_words(out, field->words);
    }
    if (field->flags & WR_SCHEMA_INFINITY)
        (void)fputs(", or `infinity`", out);
}

static void write_kind(FILE *out, const struct wr_schema_field *field)
{
    static const char *const names[] = {
        [WR_KIND_DURATION] = "duration",
        [WR_KIND_SIZE] = "size",
        [WR_KIND_COUNT] = "count",
        [WR_KIND_PERCENT] = "percentage",
        [WR_KIND_BOOL] = "`true`, `false`",
        [WR_KIND_ENUM] = "",
        [WR_KIND_ENUM_SET] = "list of ",
        [WR_KIND_STRING] = "text",
        [WR_KIND_STRING_LIST] = "list of texts",
        [WR_KIND_ADDRESS] = "address",
        [WR_KIND_CIDR_LIST] = "list of addresses and blocks",
        [WR_KIND_MAP] = "mapping",
        [WR_KIND_MAP_LIST] = "list of mappings",
    };
    (void)fputs(names[field->kind], out);
    if (field->kind == WR_KIND_ENUM || field->kind == WR_KIND_ENUM_SET)
        write_words(out, field->words);
    else if (is_number(field->kind))
        write_range(out, field);
    if (is_map(field) && field->map->shorthand != NULL)
        (void)fprintf(out, ", or its `%s` alone", field->map->shorthand);
    if (is_map(field) && field->map->may_be_off)
        (void)fputs(", or `off`", out);
}

static void write_default(FILE *out, const struct wr_schema_field *field)
{
    if (field->flags & WR_SCHEMA_REQUIRED)
        (void)fputs("**required**", out);
    else if (field->fallback != NULL)
        (void)fprintf(out, "`%s`", field->fallback);
}

/* Headings get their anchors by what renderers make of them: letters, digits and underscores. */
static void write_link(FILE *out, const char *path)
{
    (void)fprintf(out, ": [%s](#", path);
    for (const char *p = path; *p != '\0'; p++)
        if (strchr(".[]", *p) == NULL)
            (void)fputc(*p, out);
    (void)fputc(')', out);
}

static void write_section(FILE *out, const struct places *places, const struct place *place)
{
    (void)fprintf(out, "\n## %s\n\n| key | value | default | |\n|---|---|---|---|\n",
                  place->path[0] != '\0' ? place->path : "The file");
    for (size_t i = 0; i < place->map->count; i++) {
        const struct wr_schema_field *field = &place->map->fields[i];
        (void)fprintf(out, "| `%s` | ", field->key);
        write_kind(out, field);
        (void)fputs(" | ", out);
        write_default(out, field);
        (void)fprintf(out, " | %s", field->help);
        if (is_map(field)) {
            const struct place *below = find(places, field->map);
            WR_ASSERT(below != NULL);
            write_link(out, below->path);
        }
        (void)fputs(" |\n", out);
    }
}

void wr_reference_markdown(FILE *out)
{
    struct places places = {.count = 0};
    collect(&places, &wr_schema_root, "");
    (void)fputs("# weir: every key of the configuration\n"
                "\n"
                "Written by `weir schema`; `weir.yaml` beside it is the same as an annotated "
                "sample, `schema.json` the same for editors.\n"
                "\n"
                "Durations: `7us` `250ms` `15s` `5m` `1h` `2d`. Sizes: `512` `64KiB` `1MiB` "
                "`2GiB`. Addresses: `127.0.0.1:8443`, `[::1]:8443`,\n"
                "`unix:/path`. Blocks: `10.0.0.0/8`, `fd00::/8`. `${NAME}` and `${NAME:-default}` "
                "in values come from the environment; `$$` is a\n"
                "dollar sign. Relative paths start at the working directory. Unknown keys and keys "
                "given twice are errors.\n",
                out);
    for (size_t i = 0; i < places.count; i++)
        write_section(out, &places, &places.of[i]);
}
