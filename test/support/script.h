/* What an origin (support/origin.h) says, byte by byte, and what it was asked. */
#ifndef TEST_SUPPORT_SCRIPT_H
#define TEST_SUPPORT_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>

#include "support/peer.h"

enum script_when {
    SCRIPT_WHOLE, /* answered when all of the request is there */
    SCRIPT_EARLY, /* answered when its head is there; the content is read after that */
    SCRIPT_DEAF, /* answered when its head is there; the content is not read before script_release() */
};

enum script_then {
    SCRIPT_KEEP,  /* reads the next request of the connection */
    SCRIPT_CLOSE, /* closes it */
    SCRIPT_RESET, /* with RST */
};

struct script_answer {
    const char *bytes; /* as they go out, "" none; NULL: 200 with "ok" */
    size_t n;          /* 0: a string */
    enum script_when when;
    enum script_then then;
    const char *interim; /* goes out when the head is there, whatever WHEN says; NULL: nothing */
};

struct script_request {
    char *head;
    char *raw; /* the content as on the wire, framing and trailers too; terminated */
    size_t raw_n;
    char *content; /* without framing; terminated */
    size_t content_n;
    bool whole;          /* the content came to its end */
    unsigned connection; /* 1 for the first that was accepted, ... */
};

struct script;

/* The first request gets the first answer, and so on, over all connections; what goes beyond COUNT gets the last (COUNT 0: 200
 * with "ok"). ANSWERS outlive the script. Owner: the caller. */
struct script *script_new(const struct script_answer *answers, size_t count);
void script_free(struct script *script); /* after origin_stop() */
/* From the next request on. */
void script_set(struct script *script, const struct script_answer *answers, size_t count);
/* For origin_start(), with the script as its argument. */
void script_serve(struct peer *client, void *script);
/* Lets go of connections that are SCRIPT_DEAF. */
void script_release(struct script *script);

/* Requests whose head has come; connections that are over. */
unsigned script_requests(struct script *script);
unsigned script_ended(struct script *script);
/* Waits until there are as many; false when they do not come. */
bool script_wait_requests(struct script *script, unsigned count);
bool script_wait_whole(struct script *script, unsigned count);
bool script_wait_ended(struct script *script, unsigned count);
/* One that was waited for, from 0; fails the test when there is none. */
const struct script_request *script_request(struct script *script, unsigned index);
/* Value of the field NAME of the request, "" when there is none; how many fields are called NAME. Static buffer. */
const char *script_field(struct script *script, unsigned index, const char *name);
unsigned script_fields(struct script *script, unsigned index, const char *name);

#endif
