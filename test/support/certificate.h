/* Throw-away certificates. */
#ifndef TEST_SUPPORT_CERTIFICATE_H
#define TEST_SUPPORT_CERTIFICATE_H

/* Writes DIR/<prefix>cert.pem and DIR/<prefix>key.pem: self-signed, ECDSA P-256, for NAMES ("DNS:localhost,IP:127.0.0.1"). */
void certificate_make(const char *dir, const char *prefix, const char *names);
/* The same with a key of KIND, in openssl's words: "rsa:2048", "ec -pkeyopt ec_paramgen_curve:P-256". */
void certificate_make_of(const char *kind, const char *dir, const char *prefix, const char *names);

#endif
