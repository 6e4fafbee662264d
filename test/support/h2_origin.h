/* An HTTP/2 upstream played by a test, frame by frame, over any number of plain connections: it remembers every request that reached it, and
 * what it has said of it. */
#ifndef TEST_SUPPORT_H2_ORIGIN_H
#define TEST_SUPPORT_H2_ORIGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/h2_wire.h"
#include "support/peer.h"

struct h2_origin;

struct h2_asked {
    unsigned connection; /* 1 for the first */
    uint32_t id;
    char method[16];
    char path[64];
    unsigned times; /* that this path has come, with this one */
    bool whole;     /* END_STREAM has come */
    size_t content; /* bytes of it */
    bool disowned;  /* the origin says that it did not look at it */
    bool over;      /* answered or reset by the origin, or reset by weir */
    int reset;      /* by weir, with this code; -1: it is not */
};

/* A connection, within a rule or between h2_origin_enter() and h2_origin_leave(). */
struct h2_visit {
    struct h2_origin *origin;
    unsigned number; /* 1 for the first */
    struct text out; /* what goes out when the rule returns */
    struct text log; /* what has come (h2_reader_read()) */
    unsigned open;   /* requests that are not over */
    unsigned most;   /* of them at once, so far */
    struct peer *peer;
    bool gone;
};

/* Called in the thread of the connection. */
struct h2_origin_rules {
    const uint32_t *settings; /* the first ones: "id=value" pairs ended by id 0; NULL: nothing */
    /* The head of a request has come; NULL: nothing is done. */
    void (*asked)(struct h2_visit *visit, struct h2_asked *asked);
    /* All of it has; NULL: h2_origin_answer(). */
    void (*whole)(struct h2_visit *visit, struct h2_asked *asked);
    bool hung; /* PING is not answered */
};

struct h2_origin *h2_origin_new(const struct h2_origin_rules *rules);
void h2_origin_free(struct h2_origin *origin); /* after origin_stop() */
/* For origin_start(), with the h2_origin as its argument. SETTINGS and PING are acknowledged, windows left as they are. */
void h2_origin_serve(struct peer *client, void *origin);
/* From the next frame on. */
void h2_origin_set(struct h2_origin *origin, const struct h2_origin_rules *rules);

/* ---- what a rule does: appended to `out` ---- */

/* 200 with "ok". */
void h2_origin_answer(struct h2_visit *visit, struct h2_asked *asked);
void h2_origin_reset(struct h2_visit *visit, struct h2_asked *asked, uint32_t code);
/* REFUSED_STREAM. */
void h2_origin_refuse(struct h2_visit *visit, struct h2_asked *asked);
void h2_origin_hold(struct h2_visit *visit, struct h2_asked *asked);
/* Requests of the connection above LAST are disowned. */
void h2_origin_goaway(struct h2_visit *visit, uint32_t last, uint32_t code);
/* Answers every request of the connection that is whole and not over. */
void h2_origin_answer_all(struct h2_visit *visit);

/* ---- for the test's own thread ---- */

/* Waits for connection NUMBER. The second writes `out`. */
struct h2_visit *h2_origin_enter(struct h2_origin *origin, unsigned number);
void h2_origin_leave(struct h2_visit *visit);
/* Instead of h2_origin_leave(): the connection ends without another word; RESET: with RST. */
void h2_origin_end(struct h2_visit *visit, bool reset);
/* Waits until so many requests have come, or have come whole; false: they do not come. */
bool h2_origin_wait(struct h2_origin *origin, unsigned requests);
bool h2_origin_wait_whole(struct h2_origin *origin, unsigned requests);
/* Waits until what came on connection NUMBER has TEXT in it, or until it has ended. */
bool h2_origin_hears(struct h2_origin *origin, unsigned number, const char *text);
bool h2_origin_wait_gone(struct h2_origin *origin, unsigned number);
unsigned h2_origin_connections(struct h2_origin *origin);
unsigned h2_origin_requests(struct h2_origin *origin);
/* How often PATH has come. */
unsigned h2_origin_times(struct h2_origin *origin, const char *path);
/* A copy. */
struct h2_asked h2_origin_request(struct h2_origin *origin, unsigned index);
/* Expects that no request but a GET has come again after one that was not disowned, and no GET more than once. */
void h2_origin_expect_once(struct h2_origin *origin);

#endif
