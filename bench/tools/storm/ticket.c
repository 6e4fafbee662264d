#include "storm/ticket.h"

#include <openssl/ssl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/net.h"

#define PATIENCE_MS 10000

static int remember_session(SSL *ssl, SSL_SESSION *session)
{
    SSL_SESSION **newest = SSL_get_app_data(ssl);

    SSL_SESSION_free(*newest);
    *newest = session;
    return 1;
}

/* False: that failed, or took too long. */
static bool wait_for(const SSL *ssl, int result)
{
    int why = SSL_get_error(ssl, result);
    short events = why == SSL_ERROR_WANT_WRITE ? POLLOUT : POLLIN;
    struct pollfd ready = {.fd = SSL_get_fd(ssl), .events = events};

    return (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) &&
           poll(&ready, 1, PATIENCE_MS) == 1;
}

/* The callback brings the session while something is read; whether there is anything to return is another matter. */
static void talk(SSL *ssl, SSL_SESSION *const *session, const char *path)
{
    char text[2048];
    int length = snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
    int n;

    do
        n = SSL_connect(ssl);
    while (n != 1 && wait_for(ssl, n));
    if (n != 1 || SSL_write(ssl, text, length) != length)
        return;
    do
        n = SSL_read(ssl, text, sizeof(text));
    while (!*session && (n > 0 || wait_for(ssl, n)));
}

static SSL_CTX *client_context(void)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());

    if (!context)
        die("SSL_CTX_new");
    (void)SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
    (void)SSL_CTX_set_alpn_protos(context, (const uint8_t *)"\x08http/1.1", 9);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(context, remember_session);
    return context;
}

static void use(const SSL_SESSION *session, struct resumption *out)
{
    const uint8_t *ticket;
    size_t length;

    SSL_SESSION_get0_ticket(session, &ticket, &length);
    if (length == 0 || length > sizeof(out->ticket) ||
        SSL_SESSION_get_master_key(session, NULL, 0) != SECRET) {
        (void)fprintf(stderr, "storm: the server's ticket is of another kind\n");
        exit(1);
    }
    memcpy(out->ticket, ticket, length);
    out->length = length;
    (void)SSL_SESSION_get_master_key(session, out->secret, SECRET);
}

void ticket_fetch(uint16_t port, const char *path, struct resumption *out)
{
    SSL_SESSION *session = NULL;
    SSL_CTX *context = client_context();
    SSL *ssl = SSL_new(context);
    int fd = connect_from(0, port);

    if (fd < 0)
        die("connecting for a ticket");
    if (!ssl || !SSL_set_fd(ssl, fd))
        die("SSL_new");
    SSL_set_app_data(ssl, &session);
    (void)SSL_set_tlsext_host_name(ssl, "localhost");
    talk(ssl, &session, path);
    if (!session) {
        (void)fprintf(stderr, "storm: no ticket from the server\n");
        exit(1);
    }
    use(session, out);
    SSL_SESSION_free(session);
    SSL_free(ssl);
    SSL_CTX_free(context);
    close_with_reset(fd);
}
