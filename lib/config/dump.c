/* A model as YAML: what a file means once defaults and the environment are in it, in a form that can be read again. */
#include <arpa/inet.h>

#include "base/assert.h"
#include "config/snapshot_internal.h"
#include "config/values.h"

#define STEP 2

/* BEHIND_DASH: the first key stands on the line that has been begun. */
static void write_map(FILE *out, const struct wr_schema_map *map, const void *object, int indent,
                      bool behind_dash);

/* The character that TEXT begins with, and its bytes; a byte that begins none stands for itself. */
static uint32_t first_character(struct wr_str text, size_t *bytes)
{
    unsigned char first = (unsigned char)text.p[0];
    size_t more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc0 ? 1 : 0;
    uint32_t character = more == 0 ? first : first & (0x3fU >> more);
    *bytes = 1;
    if (more >= text.n)
        return first;
    for (size_t i = 1; i <= more; i++) {
        if (((unsigned char)text.p[i] & 0xc0) != 0x80)
            return first;
        character = character << 6 | ((unsigned char)text.p[i] & 0x3fU);
    }
    *bytes = more + 1;
    return character;
}

/* May stand in a document as it is, and is not folded as the end of a line (YAML 1.1 sections 5.1, 5.4). */
static bool is_plain(uint32_t character)
{
    if (character < 0x7f)
        return character >= ' ';
    return character >= 0xa0 && character != 0x2028 && character != 0x2029 && character != 0xfeff &&
           (character < 0xfffe || character > 0xffff);
}

/* In double quotes; a dollar sign would be a variable. */
static void write_text(FILE *out, struct wr_str text)
{
    (void)fputc('"', out);
    for (size_t i = 0, bytes; i < text.n; i += bytes) {
        uint32_t character = first_character(wr_str(text.p + i, text.n - i), &bytes);
        if (character == '"' || character == '\\')
            (void)fprintf(out, "\\%c", (int)character);
        else if (character == '$')
            (void)fputs("$$", out);
        else if (!is_plain(character))
            (void)fprintf(out, character < 0x100 ? "\\x%02x" : "\\U%08x", character);
        else
            (void)fwrite(text.p + i, 1, bytes, out);
    }
    (void)fputc('"', out);
}

static void write_cidr(FILE *out, const struct wr_cidr *cidr)
{
    char text[INET6_ADDRSTRLEN];
    WR_ASSERT(inet_ntop(cidr->family, cidr->bytes, text, sizeof(text)) != NULL);
    (void)fprintf(out, "\"%s/%u\"", text, cidr->bits);
}

static bool has_nothing(const struct wr_schema_map *map, const void *object);

static const void *member(const void *object, const struct wr_schema_field *field)
{
    return (const char *)object + field->offset;
}

static uint64_t number_of(const struct wr_schema_field *field, const void *object)
{
    return *(const uint64_t *)member(object, field);
}

static const char *word_of(const struct wr_schema_field *field, uint64_t value)
{
    for (size_t i = 0; field->words != NULL && field->words[i] != NULL; i++)
        if (value == WR_COUNT_WORD(i))
            return field->words[i];
    return NULL;
}

static void write_number(FILE *out, const struct wr_schema_field *field, uint64_t value)
{
    char text[WR_VALUE_TEXT];
    const char *word = word_of(field, value);
    if (word != NULL) {
        (void)fputs(word, out);
        return;
    }
    if (field->kind == WR_KIND_DURATION)
        wr_value_duration_text(value, text);
    else if (field->kind == WR_KIND_SIZE)
        wr_value_size_text(value, text);
    else if (field->kind == WR_KIND_PERCENT)
        wr_value_percent_text(value, text);
    else
        wr_value_count_text(value, text);
    (void)fputs(text, out);
}

static void write_words(FILE *out, const struct wr_schema_field *field, unsigned bits)
{
    const char *before = "[";
    for (unsigned i = 0; field->words[i] != NULL; i++) {
        if ((bits & 1u << i) == 0)
            continue;
        (void)fprintf(out, "%s%s", before, field->words[i]);
        before = ", ";
    }
    (void)fputs(bits == 0 ? "[]" : "]", out);
}

static void write_list(FILE *out, const struct wr_schema_field *field,
                       const struct wr_model_list *list)
{
    (void)fputc('[', out);
    for (size_t i = 0; i < list->count; i++) {
        (void)fputs(i > 0 ? ", " : "", out);
        if (field->kind == WR_KIND_CIDR_LIST)
            write_cidr(out, &((const struct wr_cidr *)list->items)[i]);
        else
            write_text(out, ((const struct wr_str *)list->items)[i]);
    }
    (void)fputc(']', out);
}

static void write_maps(FILE *out, const struct wr_schema_field *field,
                       const struct wr_model_list *list, int indent)
{
    for (size_t i = 0; i < list->count; i++) {
        (void)fprintf(out, "\n%*s-", indent, "");
        write_map(out, field->map, (const char *)list->items + i * field->map->size, indent + STEP,
                  true);
    }
    if (list->count == 0)
        (void)fputs(" []", out);
}

static void write_value(FILE *out, const struct wr_schema_field *field, const void *object,
                        int indent)
{
    char address[WR_ADDRESS_TEXT];
    const void *value = member(object, field);
    if (field->kind != WR_KIND_MAP && field->kind != WR_KIND_MAP_LIST)
        (void)fputc(' ', out);
    switch (field->kind) {
    case WR_KIND_DURATION:
    case WR_KIND_SIZE:
    case WR_KIND_COUNT:
    case WR_KIND_PERCENT:
        write_number(out, field, number_of(field, object));
        return;
    case WR_KIND_BOOL:
        (void)fputs(*(const bool *)value ? "true" : "false", out);
        return;
    case WR_KIND_ENUM:
        (void)fputs(field->words[*(const int *)value], out);
        return;
    case WR_KIND_ENUM_SET:
        write_words(out, field, *(const unsigned *)value);
        return;
    case WR_KIND_STRING:
        write_text(out, *(const struct wr_str *)value);
        return;
    case WR_KIND_ADDRESS:
        write_text(out, wr_address_text(value, false, address));
        return;
    case WR_KIND_STRING_LIST:
    case WR_KIND_CIDR_LIST:
        write_list(out, field, value);
        return;
    case WR_KIND_MAP:
        if (field->map->may_be_off && !((const struct wr_model_base *)value)->given)
            (void)fputs(" off", out);
        else if (has_nothing(field->map, value))
            (void)fputs(" {}", out);
        else
            write_map(out, field->map, value, indent + STEP, false);
        return;
    case WR_KIND_MAP_LIST:
        write_maps(out, field, value, indent + STEP);
        return;
    }
    WR_ASSERT(false && "a kind of value");
}

static bool is_left_out(const struct wr_schema_field *field, const void *object);

static bool has_nothing(const struct wr_schema_map *map, const void *object)
{
    for (size_t i = 0; i < map->count; i++)
        if (!is_left_out(&map->fields[i], object))
            return false;
    return true;
}

/* What was left out and has no default to be told: left out again. */
static bool is_left_out(const struct wr_schema_field *field, const void *object)
{
    const void *value = member(object, field);
    switch (field->kind) {
    case WR_KIND_DURATION:
    case WR_KIND_SIZE:
    case WR_KIND_COUNT:
    case WR_KIND_PERCENT:
        return number_of(field, object) < field->min;
    case WR_KIND_STRING:
        return ((const struct wr_str *)value)->n == 0;
    case WR_KIND_ADDRESS:
        return ((const struct wr_address *)value)->length == 0;
    case WR_KIND_STRING_LIST:
    case WR_KIND_CIDR_LIST:
    case WR_KIND_MAP_LIST:
        return ((const struct wr_model_list *)value)->items == NULL;
    case WR_KIND_MAP:
        if (((const struct wr_model_base *)value)->given || field->map->may_be_off)
            return false;
        return (field->flags & WR_SCHEMA_OPTIONAL) != 0 || has_nothing(field->map, value);
    default:
        return false;
    }
}

static void write_map(FILE *out, const struct wr_schema_map *map, const void *object, int indent,
                      bool behind_dash)
{
    for (size_t i = 0; i < map->count; i++) {
        if (is_left_out(&map->fields[i], object))
            continue;
        if (behind_dash)
            (void)fprintf(out, " %s:", map->fields[i].key);
        else
            (void)fprintf(out, "\n%*s%s:", indent, "", map->fields[i].key);
        behind_dash = false;
        write_value(out, &map->fields[i], object, indent);
    }
}

void wr_model_dump(const struct wr_model *model, FILE *out)
{
    (void)fputs("# What is in force: what was written, with all defaults.", out);
    write_map(out, &wr_schema_root, model, 0, false);
    (void)fputc('\n', out);
}

void wr_snapshot_dump(const struct wr_snapshot *snapshot, FILE *out)
{
    wr_model_dump(snapshot->owned->model, out);
}
