/* Inside of TLS contexts, for this layer only. */
#ifndef WR_TRANSPORT_TLS_INTERNAL_H
#define WR_TRANSPORT_TLS_INTERNAL_H

#include <openssl/ssl.h>

#include "io/socket.h"
#include "transport/tls.h"

/* ---- what both sides share (tls_context.c) ---- */

/* A context with weir's versions, ciphers, groups and modes. NULL: without memory. Owner: the caller. */
SSL_CTX *wr_tls_context_new(enum wr_tls_version min_version, enum wr_tls_version max_version);
/* Chain and key into CONTEXT; they must belong together. */
WR_MUST_USE enum wr_err wr_tls_context_use(SSL_CTX *context, const char *chain_path,
                                           const char *key_path, char error[WR_TLS_ERROR_TEXT]);
/* The wire form of an ALPN list (RFC 7301 section 3.1), without the outer length; NULL with *LENGTH 0 when there is none.
 * Owner of *OUT: the caller (free()). */
WR_MUST_USE enum wr_err wr_tls_alpn_encode(const char *const *alpn, size_t count,
                                           char error[WR_TLS_ERROR_TEXT], uint8_t **out,
                                           size_t *length);
/* "<PATH>: <what the library says>"; empties its error queue. */
void wr_tls_describe(const char *path, char error[WR_TLS_ERROR_TEXT]);
/* The text of the oldest error in the library's queue, static: an alert's name or a reason. Empties the queue. */
const char *wr_tls_take_reason(void);
bool wr_tls_is_ip_literal(const char *name);

/* ---- server (tls_server.c) ---- */

/* What contexts of a server ask for each ClientHello: a certificate, in transport_tls.c. */
enum ssl_select_cert_result_t wr_tls_on_client_hello(const SSL_CLIENT_HELLO *hello);

/* How contexts of a server sign: gate 3, in transport_tls.c. */
extern const SSL_PRIVATE_KEY_METHOD wr_tls_key_method;
/* The private key of SSL's certificate; borrowed. */
EVP_PKEY *wr_tls_server_key(const SSL *ssl);

/* A new SSL of SERVER; NULL: without memory. Owner: the caller. */
SSL *wr_tls_server_ssl(struct wr_tls_server *server);
/* Gives SSL the certificate for the name it asked for; false: without memory. */
bool wr_tls_server_choose(const struct wr_tls_server *server, SSL *ssl);

/* ---- client (tls_client.c) ---- */

/* A new SSL of CLIENT for a connection on FD; NULL: without memory. Owner: the caller. */
SSL *wr_tls_client_ssl(struct wr_tls_client *client, int fd);

#endif
