#include "codec/h1_websocket.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/assert.h"
#include "transport/digest.h"

#define KEY_BYTES 16
#define KEY_LENGTH WR_BASE64_LENGTH(KEY_BYTES)
#define ACCEPT_LENGTH WR_BASE64_LENGTH(WR_SHA1_BYTES)
/* RFC 6455 section 1.3 */
#define MAGIC "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

bool wr_h1_is_websocket(const struct wr_head *request)
{
    return request->tunnel == WR_TUNNEL_UPGRADE &&
           wr_str_eq(request->protocol, WR_STR("websocket"));
}

/* The one field of that id, or NULL. */
static const struct wr_field *the_one(const struct wr_fields *fields, enum wr_field_id id)
{
    const struct wr_field *found = NULL;
    uint32_t at = 0;
    for (const struct wr_field *field; (field = wr_fields_next(fields, &at)) != NULL;) {
        if (field->id != id)
            continue;
        if (found != NULL)
            return NULL;
        found = field;
    }
    return found;
}

static bool is_base64(char c)
{
    char lower = wr_lower(c);
    return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '/';
}

bool wr_h1_websocket_key(const struct wr_fields *fields, struct wr_str *key)
{
    const struct wr_field *field = the_one(fields, WR_FIELD_SEC_WEBSOCKET_KEY);
    if (field == NULL || field->value.n != KEY_LENGTH || !wr_str_ends(field->value, WR_STR("==")))
        return false;
    for (size_t i = 0; i < KEY_LENGTH - 2; i++) {
        if (!is_base64(field->value.p[i]))
            return false;
    }
    *key = field->value;
    return true;
}

struct wr_str wr_h1_websocket_new_key(struct wr_arena *arena)
{
    uint8_t random[KEY_BYTES];
    size_t got = 0;
    while (got < sizeof(random)) {
        ssize_t n = getrandom(random + got, sizeof(random) - got, 0);
        WR_ASSERT(n >= 0 || errno == EINTR);
        if (n > 0)
            got += (size_t)n;
    }
    char *key = wr_arena_alloc(arena, KEY_LENGTH + 1);
    wr_digest_base64(random, sizeof(random), key);
    return wr_str(key, KEY_LENGTH);
}

struct wr_str wr_h1_websocket_accept(struct wr_str key, struct wr_arena *arena)
{
    unsigned char digest[WR_SHA1_BYTES];
    wr_digest_sha1(wr_arena_printf(arena, "%.*s" MAGIC, WR_STR_ARG(key)), digest);
    char *accept = wr_arena_alloc(arena, ACCEPT_LENGTH + 1);
    wr_digest_base64(digest, sizeof(digest), accept);
    return wr_str(accept, ACCEPT_LENGTH);
}

bool wr_h1_websocket_is_accepted(const struct wr_fields *fields, struct wr_str value)
{
    const struct wr_field *field = the_one(fields, WR_FIELD_SEC_WEBSOCKET_ACCEPT);
    return field != NULL && wr_str_eq(field->value, value);
}
