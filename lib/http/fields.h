/* Field names and values in the neutral form between codecs: names in lower case, order kept, duplicates kept. */
#ifndef WR_HTTP_FIELDS_H
#define WR_HTTP_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

/* Fields weir itself looks at; all others are WR_FIELD_OTHER. */
enum wr_field_id {
    WR_FIELD_OTHER,
#define FIELD(name, text, flags) WR_FIELD_##name,
#include "http/fields.def"
#undef FIELD
    WR_FIELD__COUNT
};

struct wr_field {
    struct wr_str name; /* lower case */
    struct wr_str value;
    enum wr_field_id id;
    bool
        sensitive; /* its sender wants it in no compression table (RFC 7541 section 7.1.3); HTTP/2 codecs heed it */
};

/* Removed fields stay in the array with name.n == 0 and are skipped by everyone. */
struct wr_fields {
    struct wr_field *v;
    uint32_t count;
    uint32_t capacity;
};

/* What weir adds to a head it passes on, at most: who makes the array leaves room for it. */
#define WR_FIELDS_ADDED 6

/* NAME in lower case. */
enum wr_field_id wr_field_lookup(struct wr_str name);
struct wr_str wr_field_name(enum wr_field_id id);
/* Connection-specific (RFC 9110 section 7.6.1): never forwarded, whether nominated or not. */
bool wr_field_is_hop_by_hop(enum wr_field_id id);
/* False: not allowed in a trailer section. Framing, routing, authentication (RFC 9110 section 6.5.1), and whatever is called
 * X-Forwarded-: who reads a trailer section into the head would believe what it says of the client (behaviour row 59). */
bool wr_field_may_trail(const struct wr_field *field);

void wr_fields_init(struct wr_fields *fields);
/* Slices are kept, not copied. NAME in lower case. */
void wr_fields_add(struct wr_fields *fields, struct wr_arena *arena, struct wr_str name,
                   struct wr_str value);
void wr_fields_add_known(struct wr_fields *fields, struct wr_arena *arena, enum wr_field_id id,
                         struct wr_str value);
/* The first of that id, or NULL. */
struct wr_field *wr_fields_find(const struct wr_fields *fields, enum wr_field_id id);
struct wr_field *wr_fields_find_name(const struct wr_fields *fields, struct wr_str name);
/* Returns how many were removed. */
unsigned wr_fields_remove(struct wr_fields *fields, enum wr_field_id id);
unsigned wr_fields_remove_name(struct wr_fields *fields, struct wr_str name);
void wr_field_drop(struct wr_field *field);

/* The next field that is not dropped, from *AT on; NULL at the end. */
const struct wr_field *wr_fields_next(const struct wr_fields *fields, uint32_t *at);

#endif
