/* What differs between versions of BoringSSL. tls_compat.c is the only file of the layer with `#if`. */
#ifndef WR_TRANSPORT_TLS_COMPAT_H
#define WR_TRANSPORT_TLS_COMPAT_H

/* Key exchange groups in order of preference, as SSL_CTX_set1_curves_list() reads them. */
extern const char wr_tls_groups[];

#endif
