/* TLS settings of listeners and clusters: contexts made once from files, shared by all workers, reference counted. */
#ifndef WR_TRANSPORT_TLS_H
#define WR_TRANSPORT_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/err.h"
#include "base/str.h"

struct wr_tls_server; /* settings and certificates of a listener */
struct wr_tls_client; /* settings of a cluster */

enum wr_tls_version { WR_TLS_1_2 = 0x0303, WR_TLS_1_3 = 0x0304 };

#define WR_TLS_ERROR_TEXT 256

struct wr_tls_certificate_options {
    const char *chain_path; /* PEM, leaf first */
    const char *key_path;   /* PEM */
};

struct wr_tls_server_options {
    const struct wr_tls_certificate_options
        *certificates; /* the first is the default one (behaviour row 47) */
    size_t certificate_count;
    enum wr_tls_version min_version;
    enum wr_tls_version max_version;
    const char *const
        *alpn; /* in order of preference; NULL: no ALPN. No overlap: no_application_protocol(120) */
    size_t alpn_count;
    bool tickets;
};

/* Reads the files. ERROR says what is wrong and with which file. Owner: the caller, by wr_tls_server_release(). */
WR_MUST_USE enum wr_err wr_tls_server_new(const struct wr_tls_server_options *options,
                                          char error[WR_TLS_ERROR_TEXT],
                                          struct wr_tls_server **out);
struct wr_tls_server *wr_tls_server_retain(struct wr_tls_server *server);
void wr_tls_server_release(struct wr_tls_server *server); /* NULL is fine; any thread */

/* False: it has no tickets, and a resumption that it could not grant is no claim. */
bool wr_tls_server_resumes(const struct wr_tls_server *server);
/* Whether all its certificates have RSA keys. */
bool wr_tls_server_is_rsa(const struct wr_tls_server *server);

struct wr_tls_client_options {
    bool verify;         /* chain and name */
    const char *ca_path; /* PEM bundle; NULL: the system's */
    const char
        *sni; /* name sent and verified; NULL: none sent, verified against the address's text */
    const char *const *alpn;
    size_t alpn_count;
    const char *chain_path; /* client certificate, or NULL */
    const char *key_path;
};
WR_MUST_USE enum wr_err wr_tls_client_new(const struct wr_tls_client_options *options,
                                          char error[WR_TLS_ERROR_TEXT],
                                          struct wr_tls_client **out);
struct wr_tls_client *wr_tls_client_retain(struct wr_tls_client *client);
void wr_tls_client_release(struct wr_tls_client *client);

/* What a ClientHello says, before any cryptography is spent. Slices are borrowed for the call. "Claims" is the word: a
 * ticket or PSK may turn out to be worth nothing. */
struct wr_client_hello {
    struct wr_str sni;  /* as sent; "" = none */
    struct wr_str alpn; /* the extension's list as on the wire; "" = none */
    bool claims_resumption;
};

/* Facts of a finished handshake. Text is static. */
struct wr_tls_info {
    const char *version; /* "TLSv1.3" */
    const char *cipher;
    struct wr_str alpn; /* chosen; "" = none; lives as long as the transport */
    struct wr_str sni;  /* likewise */
    bool resumed;
    uint64_t
        cpu_usec; /* spent by the handshake on the loop's thread; not what a signer spent for it */
};

/* Name and version of the TLS library as built. */
/* What the library has allocated for the calling thread and not freed: of a worker, its connections. */
size_t wr_tls_bytes(void);
const char *wr_tls_library_version(void);

#endif
