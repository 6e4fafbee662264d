/* Throw-away certificates. */
#ifndef TEST_SUPPORT_CERTIFICATE_H
#define TEST_SUPPORT_CERTIFICATE_H

/* Writes DIR/<prefix>cert.pem and DIR/<prefix>key.pem: self-signed, ECDSA P-256, for NAMES ("DNS:localhost,IP:127.0.0.1"). */
void certificate_make(const char *dir, const char *prefix, const char *names);

#endif
