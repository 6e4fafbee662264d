/* What weir answers itself, or asks twice, through all pairings of HTTP versions (test_pairings.c has the rest). */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "support/edge.h"
#include "support/pairings.h"
#include "support/script.h"

#define SHORT "timeouts: {inactivity: 1s}"
#define LITTLE "limits: {request_body: 10}"
#define SHORT_RESPONSE ", timeouts: {response: 1s}"

static const struct own_case {
    const char *name;
    struct pairing_request request;
    int status;
    bool asked; /* the origin is, at all */
} cases[] = {
    {"too much is announced",
     {.method = "POST", .framing = PAIRING_LENGTH, .length = "11", .content = "hello, dear"},
     413,
     false},
    {"too much comes",
     {.method = "POST", .framing = PAIRING_UNKNOWN, .content = "hello, dear"},
     413,
     true},
    {"the rest of the request does not come",
     {.method = "POST", .framing = PAIRING_UNKNOWN, .content = "hello", .unfinished = true},
     408,
     true},
    {"the response does not come", {.method = "GET"}, 504, true},
};

static const char *text_of(const struct text *text)
{
    return text->p ? text->p : "";
}

static void expect_own(const struct pairings_world *world, const struct own_case *c,
                       const struct pairing *pairing)
{
    struct pairing_client client = pairing_connect(world, pairing);
    char what[128];

    (void)snprintf(what, sizeof(what), "%s, %s", c->name, pairing->name);
    pairing_ask(&client, pairing, &c->request);
    struct pairing_seen seen = pairing_see(&client, c->request.method);
    cr_expect_eq(seen.status, c->status, "%s: %d", what, seen.status);
    cr_expect(seen.whole, "%s: cut short", what);
    cr_expect_not_null(strstr(text_of(&seen.fields), "proxy-status=weir"), "%s: %s", what,
                       text_of(&seen.fields));
    pairing_seen_free(&seen);
    pairing_close(&client);
    pairings_expect_rest(world, what);
}

static void answers_itself(const struct own_case *c, const char *listener, const char *cluster)
{
    static const struct script_answer nothing = {.bytes = "", .when = SCRIPT_DEAF};

    for (size_t k = 0; k < PAIRINGS; k++) {
        struct script *script = script_new(&nothing, 1);
        struct pairings_world world;
        pairings_start_with(&world, script_serve, script, listener, cluster);
        expect_own(&world, c, &pairings[k]);
        if (!c->asked)
            cr_expect_eq(script_requests(script), 0, "%s: asked", c->name);
        script_release(script);
        pairings_stop(&world);
        script_free(script);
    }
}

Test(pairings_own, too_much_is_announced, .timeout = 120)
{
    answers_itself(&cases[0], LITTLE, "");
}

Test(pairings_own, too_much_comes, .timeout = 120)
{
    answers_itself(&cases[1], LITTLE, "");
}

Test(pairings_own, the_rest_does_not_come, .timeout = 120)
{
    answers_itself(&cases[2], SHORT, "");
}

Test(pairings_own, the_response_does_not_come, .timeout = 120)
{
    answers_itself(&cases[3], "", SHORT_RESPONSE);
}

/* The connection to the origin, which was kept, is closed just as the next request goes out on it. */
static void asks_twice(const struct pairing *pairing)
{
    static const struct script_answer answers[] = {
        {.bytes = NULL}, {.bytes = "", .then = SCRIPT_CLOSE}, {.bytes = NULL}};
    static const struct pairing_request get = {.method = "GET"};
    struct script *script = script_new(answers, 3);
    struct pairings_world world;

    pairings_start(&world, script_serve, script);
    for (unsigned i = 0; i < 2; i++) {
        struct pairing_client client = pairing_connect(&world, pairing);
        pairing_ask(&client, pairing, &get);
        struct pairing_seen seen = pairing_see(&client, "GET");
        cr_expect_eq(seen.status, 200, "%s: %d", pairing->name, seen.status);
        cr_expect_str_eq(text_of(&seen.content), "ok", "%s", pairing->name);
        pairing_seen_free(&seen);
        pairing_close(&client);
        pairings_expect_rest(&world, pairing->name);
    }
    cr_expect_eq(script_requests(script), 3, "%s: %u", pairing->name, script_requests(script));
    pairings_stop(&world);
    script_free(script);
}

Test(pairings_own, a_request_that_is_sent_again, .timeout = 120)
{
    for (size_t k = 0; k < PAIRINGS; k++)
        asks_twice(&pairings[k]);
}
