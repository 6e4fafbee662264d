/* Keys of WebSocket's opening handshake. */
#include <criterion/criterion.h>

#include "codec/h1_websocket.h"

static struct wr_arena arena;
static struct wr_fields fields;
static struct wr_str key;

static void setup(void)
{
    wr_arena_init(&arena);
    wr_fields_init(&fields);
}

static void teardown(void)
{
    wr_arena_free(&arena);
}

TestSuite(h1_websocket, .init = setup, .fini = teardown);

static void add(enum wr_field_id id, const char *value)
{
    wr_fields_add_known(&fields, &arena, id, wr_str_from(value));
}

static bool is_key(const char *value)
{
    wr_fields_init(&fields);
    add(WR_FIELD_SEC_WEBSOCKET_KEY, value);
    return wr_h1_websocket_key(&fields, &key);
}

/* RFC 6455 section 1.3 */
Test(h1_websocket, the_example)
{
    cr_assert(is_key("dGhlIHNhbXBsZSBub25jZQ=="));
    struct wr_str accept = wr_h1_websocket_accept(key, &arena);
    cr_assert(wr_str_eq(accept, WR_STR("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")));
    cr_assert_not(wr_h1_websocket_is_accepted(&fields, accept));
    add(WR_FIELD_SEC_WEBSOCKET_ACCEPT, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    cr_assert(wr_h1_websocket_is_accepted(&fields, accept));
    cr_assert_not(wr_h1_websocket_is_accepted(&fields, WR_STR("S3pPLMBiTxaQ9kYGzzhZRbK+xOo=")));
    add(WR_FIELD_SEC_WEBSOCKET_ACCEPT, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    cr_assert_not(wr_h1_websocket_is_accepted(&fields, accept), "twice");
}

Test(h1_websocket, what_is_no_key)
{
    static const char *const others[] = {"",
                                         "dGhlIHNhbXBsZSBub25jZQ",
                                         "dGhlIHNhbXBsZSBub25jZQ=",
                                         "dGhlIHNhbXBsZSBub25jZQA=",
                                         "dGhlIHNhbXBsZSBub25jZQAA",
                                         "dGhlIHNhbXBsZSBub25j ZQ==",
                                         "dGhlIHNhbXBs*SBub25jZQ==",
                                         "dGhlIHNhbXBsZSBub2==ZQ==",
                                         "dGhlIHNhbXBsZSBub25jZQ==="};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        cr_expect_not(is_key(others[i]), "%s", others[i]);
    cr_assert(is_key("++++++++++//////////AA=="));
    add(WR_FIELD_SEC_WEBSOCKET_KEY, "dGhlIHNhbXBsZSBub25jZQ==");
    cr_assert_not(wr_h1_websocket_key(&fields, &key), "twice");
}

Test(h1_websocket, our_own_are_keys_and_each_is_another)
{
    struct wr_str one = wr_h1_websocket_new_key(&arena);
    struct wr_str two = wr_h1_websocket_new_key(&arena);
    cr_assert_not(wr_str_eq(one, two));
    cr_assert(is_key(wr_arena_copy(&arena, one).p));
    cr_assert(is_key(wr_arena_copy(&arena, two).p));
}
