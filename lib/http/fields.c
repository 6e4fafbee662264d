#include "http/fields.h"

#include <string.h>

#include "base/assert.h"
#include "base/compiler.h"

#define WR_FIELD_H 1u
#define WR_FIELD_T 2u

#define FIRST_CAPACITY 24 /* what browsers send fits without growing */

struct known_field {
    const char *text;
    uint8_t length;
    uint8_t flags;
};

static const struct known_field known[WR_FIELD__COUNT] = {
    [WR_FIELD_OTHER] = {"", 0, 0},
#define FIELD(name, text, flags) [WR_FIELD_##name] = {text, sizeof(text) - 1, flags},
#include "http/fields.def"
#undef FIELD
};

#define LONGEST 20
#define MOST_OF_A_LENGTH 5

/* The known fields of each length, ended by WR_FIELD_OTHER: a look-up compares five names at most. A unit test finds every
 * row of fields.def through it. */
static const uint8_t of_length[LONGEST + 1][MOST_OF_A_LENGTH + 1] = {
    [2] = {WR_FIELD_TE},
    [3] = {WR_FIELD_VIA},
    [4] = {WR_FIELD_HOST, WR_FIELD_DATE, WR_FIELD_VARY},
    [5] = {WR_FIELD_RANGE, WR_FIELD_ALLOW},
    [6] = {WR_FIELD_ACCEPT, WR_FIELD_COOKIE, WR_FIELD_SERVER, WR_FIELD_EXPECT},
    [7] = {WR_FIELD_REFERER, WR_FIELD_UPGRADE, WR_FIELD_TRAILER},
    [8] = {WR_FIELD_LOCATION},
    [9] = {WR_FIELD_FORWARDED, WR_FIELD_X_REAL_IP},
    [10] = {WR_FIELD_USER_AGENT, WR_FIELD_CONNECTION, WR_FIELD_KEEP_ALIVE, WR_FIELD_SET_COOKIE,
            WR_FIELD_EARLY_DATA},
    [11] = {WR_FIELD_RETRY_AFTER},
    [12] = {WR_FIELD_CONTENT_TYPE, WR_FIELD_X_REQUEST_ID, WR_FIELD_PROXY_STATUS,
            WR_FIELD_MAX_FORWARDS},
    [13] = {WR_FIELD_CACHE_CONTROL, WR_FIELD_AUTHORIZATION, WR_FIELD_CONTENT_RANGE,
            WR_FIELD_X_CLIENT_CERT},
    [14] = {WR_FIELD_CONTENT_LENGTH, WR_FIELD_HTTP2_SETTINGS},
    [15] = {WR_FIELD_ACCEPT_ENCODING, WR_FIELD_X_FORWARDED_FOR},
    [16] = {WR_FIELD_CONTENT_ENCODING, WR_FIELD_X_FORWARDED_HOST, WR_FIELD_PROXY_CONNECTION,
            WR_FIELD_WWW_AUTHENTICATE},
    [17] = {WR_FIELD_TRANSFER_ENCODING, WR_FIELD_X_FORWARDED_PROTO, WR_FIELD_SEC_WEBSOCKET_KEY},
    [18] = {WR_FIELD_PROXY_AUTHENTICATE},
    [19] = {WR_FIELD_PROXY_AUTHORIZATION},
    [20] = {WR_FIELD_SEC_WEBSOCKET_ACCEPT},
};

enum wr_field_id wr_field_lookup(struct wr_str name)
{
    if (name.n == 0 || name.n > LONGEST)
        return WR_FIELD_OTHER;
    for (const uint8_t *id = of_length[name.n]; *id != WR_FIELD_OTHER; id++) {
        const char *text = known[*id].text;
        /* Last bytes differ more often than first ones. */
        if (text[name.n - 1] == name.p[name.n - 1] && memcmp(text, name.p, name.n) == 0)
            return (enum wr_field_id) * id;
    }
    return WR_FIELD_OTHER;
}

struct wr_str wr_field_name(enum wr_field_id id)
{
    return wr_str(known[id].text, known[id].length);
}

bool wr_field_is_hop_by_hop(enum wr_field_id id)
{
    return (known[id].flags & WR_FIELD_H) != 0;
}

bool wr_field_may_trail(const struct wr_field *field)
{
    return (known[field->id].flags & WR_FIELD_T) == 0 &&
           !wr_str_starts(field->name, WR_STR("x-forwarded-"));
}

void wr_fields_init(struct wr_fields *fields)
{
    *fields = (struct wr_fields){0};
}

WR_RARE static void grow(struct wr_fields *fields, struct wr_arena *arena)
{
    uint32_t capacity = fields->capacity == 0 ? FIRST_CAPACITY : fields->capacity * 2;
    WR_ASSERT(capacity > fields->capacity);
    struct wr_field *v = wr_arena_alloc(arena, capacity * sizeof(*v));
    if (fields->count > 0)
        memcpy(v, fields->v, fields->count * sizeof(*v));
    fields->v = v;
    fields->capacity = capacity;
}

static void add(struct wr_fields *fields, struct wr_arena *arena, struct wr_field field)
{
    if (fields->count == fields->capacity)
        grow(fields, arena);
    fields->v[fields->count++] = field;
}

void wr_fields_add(struct wr_fields *fields, struct wr_arena *arena, struct wr_str name,
                   struct wr_str value)
{
    WR_ASSERT(name.n > 0); /* an empty name means dropped */
    add(fields, arena,
        (struct wr_field){.name = name, .value = value, .id = wr_field_lookup(name)});
}

void wr_fields_add_known(struct wr_fields *fields, struct wr_arena *arena, enum wr_field_id id,
                         struct wr_str value)
{
    WR_ASSERT(id != WR_FIELD_OTHER);
    add(fields, arena, (struct wr_field){.name = wr_field_name(id), .value = value, .id = id});
}

struct wr_field *wr_fields_find(const struct wr_fields *fields, enum wr_field_id id)
{
    for (uint32_t i = 0; i < fields->count; i++) {
        if (fields->v[i].id == id && fields->v[i].name.n > 0)
            return &fields->v[i];
    }
    return NULL;
}

struct wr_field *wr_fields_find_name(const struct wr_fields *fields, struct wr_str name)
{
    if (name.n == 0)
        return NULL;
    for (uint32_t i = 0; i < fields->count; i++) {
        if (wr_str_eq(fields->v[i].name, name))
            return &fields->v[i];
    }
    return NULL;
}

unsigned wr_fields_remove(struct wr_fields *fields, enum wr_field_id id)
{
    unsigned removed = 0;
    for (uint32_t i = 0; i < fields->count; i++) {
        if (fields->v[i].id == id && fields->v[i].name.n > 0) {
            wr_field_drop(&fields->v[i]);
            removed++;
        }
    }
    return removed;
}

unsigned wr_fields_remove_name(struct wr_fields *fields, struct wr_str name)
{
    unsigned removed = 0;
    for (struct wr_field *field; (field = wr_fields_find_name(fields, name)) != NULL; removed++)
        wr_field_drop(field);
    return removed;
}

void wr_field_drop(struct wr_field *field)
{
    field->name = WR_STR_EMPTY;
}

const struct wr_field *wr_fields_next(const struct wr_fields *fields, uint32_t *at)
{
    while (*at < fields->count) {
        const struct wr_field *field = &fields->v[(*at)++];
        if (field->name.n > 0)
            return field;
    }
    return NULL;
}
