/* The other side of a connection, played by a test: blocking, plain or TLS, every wait bounded. */
#ifndef TEST_SUPPORT_PEER_H
#define TEST_SUPPORT_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PEER_WAIT_MS 10000

struct peer;
struct ssl_ctx_st;
struct ssl_session_st;

struct peer_tls {
    const char *sni;                /* NULL: "localhost" ; "" none */
    const char *alpn;               /* wire form, "\x08http/1.1"; NULL: none */
    uint16_t max_version;           /* 0: newest */
    struct ssl_session_st *session; /* to resume, or NULL; not consumed */
};

/* Connected to 127.0.0.1:PORT; NULL when refused. SOURCE: own address ("127.0.0.5") or NULL. */
struct peer *peer_connect(int port);
struct peer *peer_connect_from(const char *source, int port);
/* Takes over FD. */
struct peer *peer_adopt(int fd);
/* The same and a TLS handshake as a client without verification; NULL when it fails. OPTIONS may be NULL. */
struct peer *peer_connect_tls(int port, const struct peer_tls *options);
/* Handshakes on a connected plain peer; false when it fails (the peer is still there to look at). */
bool peer_start_tls(struct peer *peer, const struct peer_tls *options);
/* As a server, with the certificate of DIR (support/certificate.h). */
bool peer_accept_tls(struct peer *peer, const char *dir);
void peer_free(struct peer *peer); /* NULL is fine */

int peer_fd(const struct peer *peer);
int peer_local_port(const struct peer *peer);
void peer_set_wait(struct peer *peer, int ms);

/* ---- TLS facts ---- */
bool peer_resumed(const struct peer *peer);
/* The session for a later resumption: of the last ticket that was read; NULL none. Owner: the caller. */
struct ssl_session_st *peer_session(struct peer *peer);
void peer_session_free(struct ssl_session_st *session);
/* The fatal alert the last failure was about (e.g. 120), or 0. */
int peer_alert(const struct peer *peer);
const char *peer_alpn(const struct peer *peer, unsigned *length);

/* ---- bytes ---- */
bool peer_write(struct peer *peer, const void *p,
                size_t n); /* false: broken or the wait was over */
bool peer_say(struct peer *peer, const char *text);
enum peer_end { PEER_OPEN, PEER_EOF, PEER_RESET, PEER_WAITED, PEER_BROKEN };
/* Up to N bytes, at least one; 0 when there will be none: *END says why. */
size_t peer_read(struct peer *peer, void *p, size_t n, enum peer_end *end);
/* Sends close_notify alone. */
void peer_notify_close(struct peer *peer);
/* Sends a KeyUpdate that asks for one; false: broken. */
bool peer_update_keys(struct peer *peer);
/* Sends FIN (and close_notify). */
void peer_half_close(struct peer *peer);
/* Closes with RST. */
void peer_reset(struct peer *peer);
/* Reads and throws away until the end. */
enum peer_end peer_wait_end(struct peer *peer);

/* ---- HTTP/1.1 ---- */
struct reply {
    int status;       /* 0: none came */
    char head[16384]; /* status line and fields, terminated */
    char *body;       /* terminated as well; owner: the reply */
    size_t body_n;
    bool whole; /* all of the content came, as framed */
    enum peer_end end;
};
/* The next response; HEAD_REQUEST: without content. 1xx are returned as responses of their own. */
struct reply peer_reply(struct peer *peer, bool head_request);
void reply_free(struct reply *reply);
/* Value of the first field NAME (any case), "" when there is none; static buffer. */
const char *reply_field(const struct reply *reply, const char *name);

/* A request head up to and including the empty line, as an origin reads it; false when none came. CONTENT after it stays
 * to be read by peer_read(). */
bool peer_read_head(struct peer *peer, char *head, size_t size);
/* N bytes exactly. */
bool peer_read_exactly(struct peer *peer, void *p, size_t n);

#endif
