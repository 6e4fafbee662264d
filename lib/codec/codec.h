/* What all four codecs have in common, as seen from above: the server side faces clients, the client side faces
 * upstreams. A codec owns the wire format of one connection and nothing else: no policy, no routing, no pool. */
#ifndef WR_CODEC_CODEC_H
#define WR_CODEC_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "codec/h2.h"
#include "http/exchange.h"
#include "transport/transport.h"

/* What a codec makes of being told that its idle connection may hibernate. */
enum wr_hibernation {
    WR_HIBERNATION_BUSY, /* something is unread, unsent or open: nothing was done, ask again later */
    WR_HIBERNATION_DONE, /* it has given back what it does not need, and wakes by itself (woken()) */
    /* It holds nothing that a new one would not have: the owner may close it and make another when bytes come. */
    WR_HIBERNATION_DROP,
};

/* ---- towards clients ---- */

struct wr_server_codec_options {
    size_t head_limit;     /* bytes of request line and fields: 431 */
    size_t uri_limit;      /* bytes of the request target: 414 */
    unsigned fields_limit; /* number of fields: 431 */
    size_t
        chunk_overhead; /* bytes of chunk extensions and other framing a body: 400 (behaviour row 7) */
    size_t
        discard_limit; /* request content read and thrown away to keep a connection after an early answer */
    uint64_t
        head_timeout; /* HTTP/2: microseconds for a head that begins beside other requests; see head_begun() for the rest */
    uint64_t max_requests; /* on one connection, then it is closed; UINT64_MAX = no limit */
    bool underscores; /* field names with underscore are passed on instead of dropped (row 59) */
    struct wr_h2_options h2;
};

struct wr_server_codec;

/* The codec calls its connection (downstream). */
struct wr_server_codec_events {
    /* A new exchange with a complete request head, or with `refused` set. Called from the codec; the callee hands it to
     * the proxy. The codec stays its owner. */
    void (*exchange)(void *owner, struct wr_exchange *exchange);
    /* The first byte of a head has come / no request is in flight any more. The owner keeps the deadline of the phase. */
    void (*head_begun)(void *owner);
    void (*head_complete)(void *owner);
    void (*idle)(void *owner);
    /* The codec is done with the connection. HOW WR_OK: all said is written, the FIN has been asked for with
     * wr_transport_end() and the owner lingers and closes. Else the transport is broken or must be reset: WHY. After this
     * the owner closes codec and transport. */
    void (*done)(void *owner, enum wr_err why);
    /* One that hibernates by itself is at work again, because of bytes, a call or a deadline of its own; the connection is still idle
     * unless head_begun() follows. */
    void (*woken)(void *owner);
};

/* The table each server codec fills in. */
struct wr_server_codec_ops {
    const char *name; /* "HTTP/1.1" */
    /* The deadline of the phase has passed: IDLE closes silently, in a head 408. */
    void (*timed_out)(struct wr_server_codec *codec, enum wr_err why);
    /* No new requests: idle ones end now, others after their response (`Connection: close`, GOAWAY). */
    void (*drain)(struct wr_server_codec *codec);
    /* Said while no request is in flight, when nothing has come for a while. NULL: always WR_HIBERNATION_BUSY. */
    enum wr_hibernation (*hibernate)(struct wr_server_codec *codec);
    /* Gives up exchanges in flight with WHY. Can be called twice; memory returns at the end of the turn. */
    void (*close)(struct wr_server_codec *codec, enum wr_err why);
};

struct wr_server_codec {
    const struct wr_server_codec_ops *ops;
};

/* ---- towards upstreams ---- */

struct wr_client_codec_options {
    size_t head_limit;     /* bytes of status line and fields: 502 */
    unsigned fields_limit; /* number of fields */
    size_t chunk_overhead; /* as above, for responses */
    struct wr_h2_options h2;
};

struct wr_client_codec;

/* The codec calls its connection (upstream). */
struct wr_client_codec_events {
    /* An exchange it carried is over. REUSABLE false: no other will be opened on this connection, which is to be closed once
     * the last of its exchanges is over. */
    void (*stream_closed)(void *owner, bool reusable);
    /* While no exchange is open: bytes came unasked (behaviour row 23), the peer ended, or the transport broke. */
    void (*broken)(void *owner, enum wr_err why);
    /* Only from codecs that carry several exchanges. The peer has told how many it takes at once, of which our own limit is part:
     * SETTINGS (RFC 9113 section 6.5.2), the first of which come before anything else. LIMIT 0: none for now, or none any more:
     * then leaving() was called before. capacity() agrees with it. May be NULL. */
    void (*limit_told)(void *owner, unsigned limit);
    /* The same codecs: the peer takes no more exchanges on this connection (GOAWAY); those that are open go on. May be NULL. */
    void (*leaving)(void *owner);
    /* HTTP/2: the peer has exceeded its budget of KIND; the connection ends with GOAWAY, as one that breaks the rules. May be NULL. */
    void (*flooded)(void *owner, enum wr_flood kind);
    /* As of server codecs. May be NULL. */
    void (*woken)(void *owner);
};

struct wr_client_codec_ops {
    const char *name;
    /* Attaches to EXCHANGE as sink of its request and source of its response, and lets go of both by itself. Failures reach
     * the response message (wr_message_abort()), after exchange->request_unsent was set. Taking the exchange away: stop the
     * response (wr_message_stop()) and abort the request, or rewind it. */
    void (*open)(struct wr_client_codec *codec, struct wr_exchange *exchange);
    /* How many more exchanges can be opened now. */
    unsigned (*capacity)(const struct wr_client_codec *codec);
    /* As of server codecs; open() wakes it too. */
    enum wr_hibernation (*hibernate)(struct wr_client_codec *codec);
    /* What is in flight is given up with WHY. Can be called twice; memory returns at the end of the turn. */
    void (*close)(struct wr_client_codec *codec, enum wr_err why);
};

struct wr_client_codec {
    const struct wr_client_codec_ops *ops;
};

#endif
