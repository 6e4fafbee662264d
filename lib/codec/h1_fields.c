#include "codec/h1_fields.h"

#include <string.h>

#include "codec/h1_parse.h"

/* False: not a token, or not followed by a colon at once (behaviour row 9). The text is the caller's to change, though slices are
 * const. */
static bool settle_field(struct wr_field *field)
{
    char after = field->name.p[field->name.n];
    if (!wr_token_to_lower((char *)field->name.p, field->name.n) || after != ':')
        return false;
    field->value = wr_str_trim(field->value);
    field->id = wr_field_lookup(field->name);
    return true;
}

static bool has_underscore(struct wr_str name)
{
    return memchr(name.p, '_', name.n) != NULL;
}

static void note_length(struct wr_h1_facts *facts, struct wr_str value)
{
    if (facts->length_given || !wr_str_parse_u63(value, &facts->length))
        facts->malformed = true;
    facts->length_given = true;
}

/* Exactly "chunked" after at most one space, and once: whatever else a peer might read another way is refused (behaviour
 * row 4). */
static void note_coding(struct wr_h1_facts *facts, const struct wr_field *field)
{
    const char *raw = field->name.p + field->name.n + 1;
    bool plain = field->value.p == raw || (field->value.p == raw + 1 && raw[0] == ' ');
    if (facts->chunked || !plain || !wr_str_eq_nocase(field->value, WR_STR("chunked")) ||
        field->value.p[field->value.n] != '\r')
        facts->malformed = true;
    facts->chunked = true;

    struct wr_str rest = field->value;
    struct wr_str coding;
    while (wr_str_next_element(&rest, &coding)) {
        if (!wr_str_eq_nocase(coding, WR_STR("chunked")))
            facts->unknown_coding = true;
    }
}

static void note_expectation(struct wr_h1_facts *facts, struct wr_str value)
{
    if (facts->expects || !wr_str_eq_nocase(value, WR_STR("100-continue")))
        facts->expect_unknown = true;
    facts->expects = true;
}

static void note_upgrade(struct wr_h1_facts *facts, struct wr_str value)
{
    struct wr_str protocol;
    facts->upgrade = true;
    while (wr_str_next_element(&value, &protocol)) {
        if (facts->protocols++ == 0)
            facts->protocol = protocol;
    }
}

/* True: the field is taken out. */
static bool note(struct wr_h1_facts *facts, const struct wr_field *field)
{
    switch (field->id) {
    case WR_FIELD_HOST:
        facts->host = field->value;
        facts->hosts++;
        return true;
    case WR_FIELD_CONTENT_LENGTH:
        note_length(facts, field->value);
        return true;
    case WR_FIELD_TRANSFER_ENCODING:
        note_coding(facts, field);
        return true;
    case WR_FIELD_EXPECT:
        note_expectation(facts, field->value);
        return true;
    case WR_FIELD_CONNECTION:
        wr_h1_parse_connection(field->value, &facts->connection);
        return false;
    case WR_FIELD_TE:
        facts->accepts_trailers |= wr_h1_list_has(field->value, WR_STR("trailers"));
        return false;
    case WR_FIELD_UPGRADE:
        note_upgrade(facts, field->value);
        return false;
    default:
        return false;
    }
}

void wr_h1_fields_settle(struct wr_fields *fields, bool underscores, struct wr_h1_facts *facts)
{
    *facts = (struct wr_h1_facts){.host = WR_STR_EMPTY, .protocol = WR_STR_EMPTY};
    uint32_t kept = 0;
    for (uint32_t i = 0; i < fields->count; i++) {
        struct wr_field *field = &fields->v[i];
        if (!settle_field(field)) {
            facts->malformed = true;
            break;
        }
        if (note(facts, field) || (!underscores && has_underscore(field->name)))
            continue;
        fields->v[kept++] = *field;
    }
    fields->count = kept;
}

bool wr_h1_fields_settle_trailers(struct wr_fields *fields, bool underscores)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < fields->count; i++) {
        struct wr_field *field = &fields->v[i];
        if (!settle_field(field))
            return false;
        if (!wr_field_may_trail(field) || (!underscores && has_underscore(field->name)))
            continue;
        fields->v[kept++] = *field;
    }
    fields->count = kept;
    return true;
}
