/* What is said of requests that are refused, as it is read. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "server/requests_signs.h"
#include "server/requests_words.h"

static struct wr_requests_options options;
static struct wr_route routes[3];
static const struct wr_route_table table = {.routes = routes, .count = 3};
static struct wr_requests_view view;

static void start(void)
{
    memset(routes, 0, sizeof(routes));
    options = (struct wr_requests_options){.mode = WR_REQUESTS_FIXED,
                                           .max = 20,
                                           .max_wait = 2 * WR_SEC,
                                           .max_waiting = 50,
                                           .share = {100, 100, 70}};
    view = (struct wr_requests_view){
        .name = "edge",
        .options = &options,
        .routes = &table,
        .workers = 2,
        .last = {.usec = WR_SEC, .admitted = 400},
        .ten = {.usec = 10 * WR_SEC, .admitted = 4000},
        .now = {.in_flight = 10, .limit = 40},
    };
}

TestSuite(requests_words, .init = start);

static const char *words(bool condition, size_t i)
{
    static char *text;
    size_t length;
    free(text);
    FILE *out = open_memstream(&text, &length);
    if (condition)
        wr_requests_say_condition(out, &view);
    else
        wr_requests_explain(out, i, &view);
    (void)fclose(out);
    return text;
}

static const char *explained(const char *cause)
{
    for (size_t i = 0; i < wr_requests_causes(); i++) {
        if (strcmp(wr_requests_finding(i, &view).cause, cause) == 0)
            return words(false, i);
    }
    return "(no such cause)";
}

static void expect_condition(const char *label, const char *text)
{
    cr_expect_str_eq(wr_requests_condition_label(wr_requests_condition(&view)), label);
    cr_expect_str_eq(words(true, 0), text);
}

static void expect_says(const char *cause, const char *text)
{
    const char *said = explained(cause);
    cr_expect(strstr(said, text), "\"%s\" is not in: %s", text, said);
}

static void expect_silence(const char *cause, const char *text)
{
    const char *said = explained(cause);
    cr_expect_not(strstr(said, text), "\"%s\" is in: %s", text, said);
}

static void refuse(enum wr_shed cause, uint64_t n)
{
    view.last.refused[cause] += n;
    view.ten.refused[cause] += 10 * n;
}

/* ---- how it is ---- */

Test(requests_words, conditions)
{
    expect_condition("letting_in", "letting in everything, 400 a second");
    view.now.waiting = 3;
    expect_condition("waiting", "letting in everything, 400 a second; 3 wait for a place");
    refuse(WR_SHED_QUEUE, 100);
    expect_condition("refusing", "refusing 100 of 500 requests a second: queue");
    view.last.rate_limited = 300;
    expect_condition("refusing", "refusing 400 of 800 requests a second: most often rate");
    view.last.rate_limited = view.last.refused[WR_SHED_QUEUE] = 0;
    expect_condition("refused", "letting in everything again: of 1,000 refused in the last 10 s "
                                "none was in the last 1 s");
    view = (struct wr_requests_view){.options = &options, .ten = {.usec = 10 * WR_SEC}};
    expect_condition("at_rest", "none in the last 10 s");
    view.now.in_flight = 1; /* for longer than that */
    expect_condition("letting_in", "letting in everything, 0 a second");
}

/* ---- causes ---- */

Test(requests_words, every_cause_is_explained_once)
{
    for (unsigned i = 0; i < WR_SHED__COUNT; i++)
        cr_expect_str_neq(explained(wr_shed_label((enum wr_shed)i)), "(no such cause)");
    cr_expect_str_neq(explained("rate"), "(no such cause)");
    cr_expect_eq(wr_requests_causes(), WR_SHED__COUNT + 1);
    refuse(WR_SHED_WAIT, 3);
    view.ten.rate_limited = 7;
    for (size_t i = 0; i < wr_requests_causes(); i++) {
        struct wr_requests_finding finding = wr_requests_finding(i, &view);
        uint64_t expected = strcmp(finding.cause, "wait") == 0   ? 30
                            : strcmp(finding.cause, "rate") == 0 ? 7
                                                                 : 0;
        cr_expect_eq(finding.ten, expected, "%s", finding.cause);
        cr_expect_eq(finding.last, expected == 30 ? 3 : 0);
    }
}

/* They stand in JSON as they are. */
Test(requests_words, nothing_needs_escaping)
{
    options.mode = WR_REQUESTS_ADAPTIVE;
    options.share[WR_PRIORITY_NORMAL] = 90;
    view.now = (struct wr_requests_now){.in_flight = 40, .limit = 40, .full = 2};
    routes[1].rate.rate.per_second = 5;
    for (size_t i = 0; i < wr_requests_causes(); i++) {
        const char *said = words(false, i);
        cr_expect_gt(strlen(said), 20);
        cr_expect_eq(said[strlen(said) - 1], '.', "%s", said);
        for (const char *p = said; *p != '\0'; p++)
            cr_expect(*p >= ' ' && *p < 0x7f && *p != '"' && *p != '\\', "%s", said);
    }
}

Test(requests_words, limit)
{
    expect_says("limit", "requests do not wait here. Where requests.max_wait and "
                         "requests.max_waiting are not 0, bursts wait");
    expect_says("limit", "requests.max lets 20 be in flight in a worker.");
    expect_silence("limit", "Just now");
    expect_silence("limit", "Little");
    expect_silence("limit", "priority");
    options.share[WR_PRIORITY_NORMAL] = 90;
    expect_says("limit", "normal priority may bring what is in flight to 90 % of the limit "
                         "(requests.normal_share), sheddable ones to 70 %");
}

/* 40 in flight, 400 a second: each has its place for 100 ms; 1,000 a second would take 100 places, 50 a worker. */
Test(requests_words, how_many_places_would_do)
{
    refuse(WR_SHED_QUEUE, 600);
    view.now = (struct wr_requests_now){.in_flight = 40, .limit = 40, .waiting = 9, .full = 1};
    view.last.rate_limited = 5000; /* want no place */
    expect_says("queue", "requests.max_waiting lets 50 wait in a worker.");
    expect_says("queue", "Just now there is no place in 1 of 2 workers. A request holds its place "
                         "for some 100 ms; for all that are asked for that makes some 50 places a "
                         "worker (Little's law). If what is behind can");
    options.max = 50;
    expect_says("queue", "some 50 places");
    expect_silence("queue", "If what is behind");
    view.now.in_flight = 19; /* whoever was here is gone: what is so now says nothing */
    expect_silence("queue", "Little");
    view.now.in_flight = 40;
    view.last.admitted = 9;
    expect_silence("queue", "Little");
}

Test(requests_words, wait_and_priority)
{
    expect_says("wait", "They waited for requests.max_wait (2 s) and got no place.");
    expect_says("wait", "requests.max lets 20");
    expect_says("priority", "gave way to requests of higher priority (priority of the route).");
    expect_says("priority", "requests.max lets 20");
    expect_silence("closed", "requests.max");
}

Test(requests_words, adaptive)
{
    options.mode = WR_REQUESTS_ADAPTIVE;
    options.max = 0;
    expect_says("wait", "the limit follows the latency of responses, 40 over all workers");
    expect_silence("wait", "ceiling");
    expect_silence("wait", "requests.max lets");
    options.max = 30;
    expect_says("wait", "Its ceiling is requests.max, 30 in a worker.");
    expect_silence("wait", "It is there");
    view.now.limit = 60;
    expect_says("wait", "It is there: a higher one would let in more.");
    /* It finds itself: no number is to be raised for it. */
    refuse(WR_SHED_WAIT, 60000);
    view.now.in_flight = 60;
    expect_says("wait", "Little");
    expect_silence("wait", "If what is behind");
}

Test(requests_words, rates_of_routes)
{
    routes[0].rate = (struct wr_route_rate){.rate = {50, 50}, .key = WR_RATE_CLIENT};
    expect_says("rate", "allows a worker; they were answered 429. Routes with a rate: 1, "
                        "50 a second. For a load that lasts raise rate.per_second");
    expect_silence("rate", "one client can");
    routes[2].rate = (struct wr_route_rate){.rate = {2000, 1}, .key = WR_RATE_ROUTE};
    expect_says("rate", "Routes with a rate: 2, of 50 to 2,000 a second.");
    expect_says("rate", "In 1 of them all clients share one rate, which one client can use up");
    view.routes = NULL;
    cr_expect_eq(wr_requests_rates(&view).routes, 0);
}
