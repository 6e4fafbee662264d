/* From the fields llhttp has told apart to fields in neutral form, and the facts that framing and connection need. */
#ifndef WR_CODEC_H1_FIELDS_H
#define WR_CODEC_H1_FIELDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "http/fields.h"

struct wr_h1_facts {
    struct wr_str host;
    unsigned hosts;
    bool length_given;
    uint64_t length;
    bool chunked;        /* a Transfer-Encoding was there */
    bool unknown_coding; /* and names another coding than chunked */
    unsigned connection; /* WR_H1_CLOSE, ... */
    bool expects;        /* an Expect was there */
    bool expect_unknown; /* and is not one 100-continue */
    bool accepts_trailers;
    bool upgrade;           /* an Upgrade was there */
    unsigned protocols;     /* that it names */
    struct wr_str protocol; /* the first of them */
    bool malformed;
};

/* FIELDS have names and values inside one text that is the caller's to change and goes on behind each value. Names become
 * lower case, values are trimmed, ids looked up; names with underscore are dropped unless UNDERSCORES; content-length,
 * transfer-encoding, host and expect are taken out and told in *FACTS. */
void wr_h1_fields_settle(struct wr_fields *fields, bool underscores, struct wr_h1_facts *facts);

/* As above for a trailer section: what is forbidden there is dropped. False: malformed. */
WR_MUST_USE bool wr_h1_fields_settle_trailers(struct wr_fields *fields, bool underscores);

#endif
